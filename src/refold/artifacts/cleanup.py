"""Removal of unneeded artifacts: by age, by size, by number, the oldest first.

Contents are kept once for all conversations, so all of them are checked first. Protected in any
case: artifacts on a page (its slots, its system prompt, its pins), of another conversation, stored
by a user, or put just now. Pages of conversations without artifacts are read only if something
would be removed. The log of each conversation records the removal before the bytes go: a crash in
between leaves unneeded bytes, never a handle without an explanation. Neighbours: `listing` lists
artifacts, `Store.drop` deletes.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from typing import Any

import msgspec
from msgspec import Struct

from refold.artifacts.listing import StoredArtifact, listed
from refold.checked import quoted
from refold.core.fold import Fold
from refold.core.ids import ARTIFACT_ID
from refold.core.model import CLEANER, Artifact, Conversation, ToolResult
from refold.core.shortened import text_of
from refold.display import number
from refold.errors import Conflict, Corrupt, Denied, Invalid, NotFound
from refold.log.draft import Draft
from refold.log.log import Log
from refold.log.stored_logs import conversations, named_by
from refold.stores.protocol import Store

# Content is put before its event: until then it looks unneeded.
GRACE_S = 60.0
_MAY_BE_NEEDED = "another conversation is damaged, and may have it"


class Quota(Struct, frozen=True, kw_only=True):
    """The limits of kept artifacts: their age, their bytes, their number."""

    older_than_s: float | None = None
    keep_bytes: int | None = None
    keep_count: int | None = None


class CleanupItem(Struct, frozen=True, kw_only=True):
    """One artifact that was removed, or could not be, with the reason."""

    artifact: Artifact
    conversations: tuple[str, ...]
    at_ms: int
    why: str


class Cleanup(Struct, frozen=True, kw_only=True):
    """The artifacts that were (or would be) removed, and those over the bounds that had to stay.
    `damaged` are the conversations with unreadable logs, each with the reason: artifacts that they
    name or may name stay."""

    removed: tuple[CleanupItem, ...] = ()
    kept: tuple[CleanupItem, ...] = ()
    damaged: dict[str, str] = {}

    @property
    def size_bytes(self) -> int:
        return sum(item.artifact.size_bytes for item in self.removed)


class _Content:
    """One content, and its use in all conversations."""

    def __init__(self, artifact: Artifact) -> None:
        self.artifact = artifact
        self.at_ms = 0
        self.conversations: set[str] = set()
        self.needed = ""  # why it must stay

    def learn(self, conversation: str, stored: StoredArtifact, named: set[str]) -> None:
        """Adds the use by one conversation; `named` are the ids on its page."""
        self.at_ms = max(self.at_ms, stored.at_ms)
        self.conversations.add(conversation)
        if stored.id in named:
            self.needed = f"the page of {conversation} names it"
        if not stored.by.startswith("tool"):
            self.need(f"it was stored by {stored.by} and is not a tool's output")

    def need(self, why: str) -> None:
        """Sets the reason why it must stay, unless there is one."""
        self.needed = self.needed or why

    def item(self, why: str) -> CleanupItem:
        names = tuple(sorted(self.conversations))
        return CleanupItem(artifact=self.artifact, conversations=names, at_ms=self.at_ms, why=why)


_Excess = tuple[_Content, str]  # a content, and the bound that it exceeds


def clean(
    store: Store,
    quota: Quota,
    *,
    now_ms: int,
    conversation: str | None = None,
    dry_run: bool = False,
    among: Collection[str] | None = None,
    grace_s: float = GRACE_S,
) -> Cleanup:
    """Removes artifacts of one conversation, or of all, until they are within the quota; with
    `among`, only content with these digests. Raises NotFound if there is no such conversation."""
    bounds = [bound for bound in msgspec.structs.astuple(quota) if bound is not None]
    if not bounds:
        raise Invalid(
            "no bound is given", hint="set how old, how many bytes or how many artifacts may stay"
        )
    if not all(bound >= 0 for bound in bounds):
        raise Invalid(f"a bound is negative: {quota}", hint="pass numbers that are not negative")
    if conversation is not None:
        store.conversation(conversation)
    before_ms = now_ms - round(grace_s * 1000)
    contents = _contents_of(store)
    scope = sorted(contents.by_digest.values(), key=lambda content: content.at_ms)
    if conversation is not None:
        scope = [content for content in scope if conversation in content.conversations]
    for content in scope:
        if conversation is not None and (others := content.conversations - {conversation}):
            content.need(f"{min(others)} also has it")
        content.need(contents.doubt)
        if content.at_ms >= before_ms:
            seconds = number(max(1, math.ceil(grace_s)), "second")
            content.need(f"it was kept less than {seconds} ago")
    excess = list(_excess(scope, quota, now_ms))
    if any(not content.needed for content, _ in excess):
        contents.ask_the_rest(store, scope)
        excess = list(_excess(scope, quota, now_ms))
    removed = [(content, why) for content, why in excess if not content.needed]
    kept = [(content, f"{why}, but {content.needed}") for content, why in excess if content.needed]
    if among is not None:
        removed = [(content, why) for content, why in removed if content.artifact.digest in among]
    if not dry_run:
        removed = _delete(store, removed, before_ms)
    return Cleanup(removed=_items(removed), kept=_items(kept), damaged=contents.damaged)


def drop_before_ms(now_ms: int, named_ms: int) -> int:
    """Unnamed content that was put before this time may be dropped. Content that was put after its
    newest event (at `named_ms`) may be about to be named again, so it has the grace time."""
    return max(now_ms - round(GRACE_S * 1000), min(named_ms, now_ms) + 1)


def _items(contents: Iterable[_Excess]) -> tuple[CleanupItem, ...]:
    return tuple(content.item(why) for content, why in contents)


# --- contents in use ---


class _Contents:
    """All contents of a store by digest, with their use in its conversations."""

    def __init__(self) -> None:
        self.by_digest: dict[str, _Content] = {}
        self.damaged: dict[str, str] = {}  # conversations with unreadable logs, and why
        self.doubt = ""  # why any content may be needed
        self._namers: dict[str, str] = {}  # ids on a page, and the conversation of that page
        self._unasked: list[Conversation] = []  # conversations with unread pages

    def take_in(self, store: Store, about: Conversation) -> None:
        """Adds one conversation; artifacts named by a damaged one are spared."""
        try:
            log = Log(store, about.id)
            if not log.state.artifacts:
                self._unasked.append(about)
                return
            named = self._named(log, about)
            for stored in list(listed(log)):
                if not stored.cleaned_ms:
                    self._content(stored.artifact).learn(about.id, stored, named)
        except Corrupt as error:
            self._spare(store, about, error)
        except Denied:
            return  # encrypted: so are its contents, which have other digests

    def _named(self, log: Log, about: Conversation) -> set[str]:
        """The ids on the page of a conversation, which are remembered as named by it."""
        named = named_in(log.state)
        for id in named:
            self._namers.setdefault(id, about.id)
        return named

    def ask_the_rest(self, store: Store, scope: Iterable[_Content]) -> None:
        """Reads the pages of conversations without artifacts: an artifact on one must stay."""
        for about in self._unasked:
            with suppress(NotFound):
                try:
                    self._named(Log(store, about.id), about)
                except Corrupt as error:
                    self._spare(store, about, error)
        for content in scope:
            namer = self._namers.get(content.artifact.id)
            content.need(f"the page of {namer} names it" if namer else self.doubt)

    def _spare(self, store: Store, about: Conversation, error: Corrupt) -> None:
        """Keeps the artifacts that a damaged log still names: it may need them."""
        self.damaged[about.id] = error.message
        artifacts, is_all = named_by(store, about)
        for artifact in artifacts:
            content = self._content(artifact)
            content.conversations.add(about.id)
            content.need(f"{about.id} is damaged and names it")
        if not is_all:
            self.doubt = f"{about.id} is damaged and may name it"

    def _content(self, artifact: Artifact) -> _Content:
        return self.by_digest.setdefault(artifact.digest, _Content(artifact))


def _contents_of(store: Store) -> _Contents:
    """All contents, with their use in every conversation; contents named by a damaged one are
    spared."""
    contents = _Contents()
    for about in conversations(store):
        # Another process may delete the conversation while it is read.
        with suppress(NotFound):
            contents.take_in(store, about)
    return contents


def named_in(state: Fold) -> set[str]:
    """The ids of the artifacts on a page: in its results, and anywhere in its text."""
    system: Any = state.meta.system
    if not isinstance(system, str):
        system = msgspec.json.encode(system).decode("utf-8", "replace")
    ids = set(ARTIFACT_ID.findall(system))
    for slot in state.slots:
        for block in slot.message.blocks:
            if isinstance(block, ToolResult) and block.artifact:
                ids.add(block.artifact)
            ids.update(ARTIFACT_ID.findall(text_of(block)))
    return ids


# --- removal ---


def _excess(contents: list[_Content], quota: Quota, now_ms: int) -> Iterator[_Excess]:
    """The contents over the bounds, oldest first, each with the first bound it exceeds. Needed ones
    count as well, so younger ones go instead."""
    size = sum(content.artifact.size_bytes for content in contents)
    count = len(contents)
    for content in contents:
        age_ms = now_ms - content.at_ms
        if quota.older_than_s is not None and age_ms > quota.older_than_s * 1000:
            why = "it is too old"
        elif quota.keep_bytes is not None and size > quota.keep_bytes:
            why = "there are too many bytes"
        elif quota.keep_count is not None and count > quota.keep_count:
            why = "there are too many artifacts"
        else:
            continue
        yield content, why
        if not content.needed:
            size -= content.artifact.size_bytes
            count -= 1


def _delete(store: Store, chosen: list[_Excess], before_ms: int) -> list[_Excess]:
    """Records the removal, then deletes; returns the deleted contents. Content that was put again
    meanwhile is recorded again."""
    _record(store, [content for content, _ in chosen], CLEANER)
    gone = []
    for content, why in chosen:
        if store.drop(content.artifact.digest, before_ms=before_ms):
            gone.append((content, why))
        else:
            _record(store, [content], "tool")
    return gone


def _record(store: Store, contents: Iterable[_Content], by: str) -> None:
    """Names the artifacts in the logs of their conversations: as removed if `by` is the cleaner,
    as present otherwise."""
    artifacts: defaultdict[str, list[Artifact]] = defaultdict(list)
    for content in contents:
        for id in content.conversations:
            artifacts[id].append(content.artifact)
    for id, named in sorted(artifacts.items()):
        log = Log(store, id)
        # A conversation that another process deleted meanwhile must not be created again.
        with suppress(NotFound):
            if log.state.head:
                log.append([Draft(body=artifact, by=by) for artifact in named])
    store.flush()


# --- one by hand ---


def remove(store: Store, conversation: str, id: str, *, now_ms: int) -> CleanupItem:
    """Removes one artifact from a conversation, whatever the page shows; its bytes as well, unless
    another conversation has it. NotFound if it does not exist or was removed before."""
    newest_first = reversed(listed(Log(store, conversation)))
    stored = next((stored for stored in newest_first if stored.id == id), None)
    if stored is None or stored.cleaned_ms:
        state = "was removed already" if stored else f"is not in {conversation}"
        hint = f"refold artifact list {conversation} shows the existing ones"
        raise NotFound(f"{quoted(id, 200)} {state}", hint=hint)
    content = _Content(stored.artifact)
    content.learn(conversation, stored, set())
    contents = _contents_of(store)
    held = contents.by_digest.get(stored.artifact.digest)
    others = held.conversations - {conversation} if held else set()
    if others or contents.doubt:
        _record(store, [content], CLEANER)
        why = f"{min(others)} also has it" if others else _MAY_BE_NEEDED
        return content.item(f"its bytes stay: {why}")
    if not _delete(store, [(content, "")], drop_before_ms(now_ms, stored.at_ms)):
        raise Conflict(f"{id} was put again just now", hint="try again")
    return content.item("its bytes are gone")
