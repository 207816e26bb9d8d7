"""The conversations of a store, newest first, and finding one of them again.

A conversation is named by its id, by a name of its own, or by its place in that order: `@1` (or
`@`) is the one that was written to last. What a log says of itself (`meta_of`) is read from the
bookmark and the events after it; nothing is folded unless an event reaches back. Neighbours: a
store below, `names` knows names, `deleter` sweeps in this order, the command line above.
"""

from __future__ import annotations

from os.path import normpath
from pathlib import PurePath

from msgspec.structs import replace

from refold.checked import quoted
from refold.core import bookmark
from refold.core.bookmark import Bookmark
from refold.core.codec import decode
from refold.core.fold import merged
from refold.core.model import Conversation, Message, Meta, ToolResult
from refold.core.shortened import text_of
from refold.core.switches import REACHING
from refold.display import cut, one_line, plain_text
from refold.errors import Corrupt, Invalid, NotFound, RefoldError
from refold.log.log import Log
from refold.log.reading import chain_at, conversations, pages_of
from refold.stores.protocol import Store

FOLDER = "cwd"  # in the metadata: the folder that a conversation was held in
PREVIEW_CHARS = 80
PREVIEW_EVENTS = 40
REDACTED_CHARS = 2_000
UNTITLED = "Untitled"
POSITION_DIGITS = 18
POSITION_HINT = "@1 is the newest conversation, @2 the one before"


def newest(store: Store, *, tag: str = "", folder: str = "") -> list[Conversation]:
    """All conversations, the one that was written to last first; with a tag, those that carry
    it, with a folder, those that were held in it or below it."""
    ordered = sorted(conversations(store), key=_newest_first)
    if not tag and not folder:
        return ordered
    return [about for about in ordered if _fits(meta_of(store, about), tag, folder)]


def _fits(meta: Meta, tag: str, folder: str) -> bool:
    if tag and tag not in (meta.tags or ()):
        return False
    return not folder or _is_below((meta.metadata or {}).get(FOLDER), folder)


def _is_below(path: object, folder: str) -> bool:
    """Whether a path is the folder or below it; by its words, for it may be another machine's."""
    if not isinstance(path, str) or not path:
        return False
    place, wanted = PurePath(normpath(path)), PurePath(normpath(folder))
    return place == wanted or wanted in place.parents


def _newest_first(about: Conversation) -> tuple[int, str]:
    """What conversations are sorted by."""
    return -about.updated_ms, about.id


def described(store: Store, about: Conversation) -> Conversation:
    """The conversation, with the tags, the metadata and the names that it was given."""
    meta = meta_of(store, about)
    return replace(
        about, tags=meta.tags or (), metadata=meta.metadata or {}, names=meta.names or ()
    )


def meta_of(store: Store, about: Conversation) -> Meta:
    """The model, tags, metadata and names of a conversation: from its bookmark and what its log
    says since. Of a log that cannot be read, what the bookmark knows."""
    mark = _bookmark(store, about.id)
    known = mark.meta if mark else Meta()
    if mark and (mark.head, mark.chain) == (about.head, about.chain):
        return known
    try:
        since = _meta_since(store, about, mark)
        return Log(store, about.id).state.meta if since is None else since
    except RefoldError:
        return known


def _meta_since(store: Store, about: Conversation, mark: Bookmark | None) -> Meta | None:
    """What the bookmark knows, with what the events after it say; None if that needs a fold."""
    known, after = (mark.meta, mark.head) if mark else (Meta(), 0)
    if mark and (after > about.head or chain_at(store, about, after) != mark.chain):
        return None
    for events in pages_of(store, about.id, after=after, last=about.head):
        for event in events:
            if event.kind in REACHING:
                return None
            body = decode(event) if event.kind == "meta" else None
            if isinstance(body, Meta):
                known = merged(known, body)
    return known


def _bookmark(store: Store, conversation: str) -> Bookmark | None:
    """The bookmark of a conversation; None if it has none that can be read."""
    try:
        return bookmark.read(store.bookmark(conversation))
    except Corrupt:
        return None


def id_of(store: Store, name: str) -> str:
    """The id that a name stands for: `@n` for the n-th newest, itself, or the one conversation
    that has this name."""
    if not name.startswith("@"):
        return _id_by_name(store, plain_text(name))
    position = _position(name)
    there = newest(store)
    if position > len(there):
        raise NotFound(f"there is no conversation {name}", hint=f"{store.url} holds {len(there)}")
    return there[position - 1].id


def _id_by_name(store: Store, name: str) -> str:
    from refold.conversations.names import id_of_named

    try:
        return store.conversation(name).id
    except Corrupt:
        return name
    except (NotFound, Invalid):
        return id_of_named(store, name)


def _position(name: str) -> int:
    digits = name[1:] or "1"
    if not digits.isdecimal() or len(digits) > POSITION_DIGITS or int(digits) < 1:
        raise Invalid(f"{quoted(name)} is not a valid position", hint=POSITION_HINT)
    return int(digits)


def title_of(store: Store, conversation: str, given: str) -> str:
    """What a conversation is called, wherever it is shown: by the title it was given, else by how
    it began."""
    return given or preview(store, conversation) or UNTITLED


def preview(store: Store, conversation: str, *, after: int = 0) -> str:
    """How the conversation began, or went on after a seq: the first words that a user typed, on
    one line, without secrets. Taken out before the cut: half of a secret is not recognized any
    more."""
    try:
        words = _first_words(store, conversation, after)
    except NotFound:
        return ""  # nothing was written yet
    except RefoldError as error:
        # A list shows what it can; `refold verify` says what is wrong.
        return f"[{error.code}]"
    if not words:
        return ""
    from refold.redaction import redacted

    return cut(redacted(words[:REDACTED_CHARS]), PREVIEW_CHARS)


def _first_words(store: Store, conversation: str, after: int) -> str:
    """The first words that a user typed; where nobody typed any, the first that a program said
    for him."""
    # Late: a status line, which needs nobody's words, loads this module.
    from refold.conversations.typed import typed

    first = ""
    for event in store.read(conversation, after=after, limit=PREVIEW_EVENTS):
        said = _user_texts(decode(event))
        if words := one_line(" ".join(filter(None, map(typed, said)))):
            return words
        first = first or one_line(" ".join(said))
    return first


def _user_texts(body: object) -> list[str]:
    """What a user says in an event, without his program's reminders; nothing if it is not a
    user's."""
    if not isinstance(body, Message) or body.role != "user":
        return []
    from refold.log.front import without_reminders

    said = (block for block in body.blocks if not isinstance(block, ToolResult))
    return [without_reminders(text_of(block)) for block in said]
