"""The conversations of a store, newest first: finding one again, and clearing away those that
nobody needs.

A conversation is named by its id, or by its place in that order: `@1` (or `@`) is the one that was
written to last. A sweep removes whole conversations by age and number; one that others were forked
from stays for as long as they are there. Neighbours: a store below, `purging` removes, the command
line and `opening` above.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from refold.core import bookmark
from refold.core.codec import decode
from refold.core.fold import text_of
from refold.core.model import Conversation, Message, ToolResult
from refold.display import cut, one_line
from refold.errors import Corrupt, Invalid, NotFound, RefoldError
from refold.log.reading import conversations
from refold.stores.protocol import Store

PREVIEW_CHARS = 80
PREVIEW_EVENTS = 20
DAY_MS = 24 * 60 * 60 * 1_000


class Swept(Struct, frozen=True, kw_only=True):
    """What was removed, or would be, and what had to stay, with the reason; how many contents
    went with it, and what somebody should know."""

    removed: tuple[str, ...] = ()
    left: dict[str, str] = {}
    contents: int = 0
    notes: tuple[str, ...] = ()


def newest(store: Store, *, tag: str = "") -> list[Conversation]:
    """All conversations, the one that was written to last first; with a tag, those that carry
    it."""
    found = sorted(conversations(store), key=lambda about: (-about.updated_ms, about.id))
    return [about for about in found if tag in tags(store, about.id)] if tag else found


def tags(store: Store, conversation: str) -> tuple[str, ...]:
    """The tags of a conversation, as its bookmark knows them; none if it cannot be read."""
    try:
        mark = bookmark.read(store.bookmark(conversation))
    except Corrupt:
        return ()
    return (mark.meta.tags or ()) if mark is not None else ()


def found(store: Store, name: str) -> str:
    """The id that a name stands for: itself, or `@n` for the n-th newest."""
    if not name.startswith("@"):
        return name
    place = name[1:] or "1"
    if not place.isdecimal() or int(place) < 1:
        raise Invalid(
            f"{name!r} is no place in the list",
            hint="@1 is the newest conversation, @2 the one before",
        )
    there = newest(store)
    if int(place) > len(there):
        raise NotFound(f"there is no conversation {name}", hint=f"{store.url} holds {len(there)}")
    return there[int(place) - 1].id


def preview(store: Store, conversation: str) -> str:
    """How the conversation began: the first words of a user, on one line."""
    try:
        for event in store.read(conversation, limit=PREVIEW_EVENTS):
            body = decode(event)
            if isinstance(body, Message) and body.role == "user" and (words := _words(body)):
                return cut(words, PREVIEW_CHARS)
    except RefoldError as error:
        # A list shows what it can; `refold verify` says what is wrong.
        return f"[{error.code}]"
    return ""


def _words(message: Message) -> str:
    said = (text_of(block) for block in message.blocks if not isinstance(block, ToolResult))
    return one_line(" ".join(said))


def swept(
    store: Store,
    *,
    now_ms: int,
    older_than_days: float | None = None,
    keep: int | None = None,
    dry_run: bool = False,
) -> Swept:
    """Removes conversations that were not written to for so many days, and all but the newest
    `keep`."""
    going = _stale(newest(store), now_ms=now_ms, older_than_days=older_than_days, keep=keep)
    ids = [about.id for about in going]
    if dry_run:
        return Swept(removed=tuple(ids))
    from refold.conversations.delete import purged  # it asks us for the conversations

    return purged(store, ids)


def _stale(
    there: Sequence[Conversation], *, now_ms: int, older_than_days: float | None, keep: int | None
) -> list[Conversation]:
    if older_than_days is None and keep is None:
        raise Invalid(
            "a sweep needs a limit", hint="say how old a conversation may be, or how many may stay"
        )
    if (older_than_days or 0) < 0 or (keep or 0) < 0:
        raise Invalid(
            "a limit of a sweep is negative", hint="give a number of days, or of conversations"
        )
    oldest = now_ms - (older_than_days or 0) * DAY_MS
    return [
        about
        for place, about in enumerate(there)
        if (older_than_days is not None and about.updated_ms < oldest)
        or (keep is not None and place >= keep)
    ]
