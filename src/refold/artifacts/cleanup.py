"""Artifacts that nobody needs any more are removed: by age, by size, by number, the oldest first.

Contents are kept once for all conversations, so all of them are asked first. What stays in any
case: what any page of the store shows or names (its slots, its system prompt, its pins), what
another conversation has, what a user stored, and what was put just now. Pages of conversations that
have no artifact are read only if something would go. First the log of each conversation says that
the bytes are gone, then they go: a crash in between leaves bytes that nobody misses, never a handle
without an explanation. Neighbours: `listing` says what there is, `Store.drop` deletes.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

import msgspec
from msgspec import Struct

from refold.artifacts.listing import StoredArtifact, listed
from refold.checked import quoted
from refold.core.codec import ARTIFACT_ID
from refold.core.fold import Fold
from refold.core.model import CLEANER, Artifact, Block, Conversation, ToolResult
from refold.core.shortened import text_of
from refold.display import number
from refold.errors import Conflict, Corrupt, Denied, Invalid, NotFound
from refold.log.draft import Draft
from refold.log.log import Log
from refold.log.trace import conversations, named_by
from refold.stores.protocol import Store

# A content is put before the event that names it: for so long it may look as if nobody needed it.
GRACE_S = 60.0
_MAY_BE_NEEDED = "another conversation is damaged, and may have it"


class Quota(Struct, frozen=True, kw_only=True):
    """What may stay: nothing older than this, at most so many bytes, at most so many artifacts."""

    older_than_s: float | None = None
    keep_bytes: int | None = None
    keep_count: int | None = None


class CleanupItem(Struct, frozen=True, kw_only=True):
    """One artifact that was removed, or could not be; `why` says so."""

    artifact: Artifact
    conversations: tuple[str, ...]
    at_ms: int
    why: str


class Cleanup(Struct, frozen=True, kw_only=True):
    """What was removed (or would be), and what was over the bounds but had to stay. `damaged`
    are the conversations whose logs could not be read, each with the reason: what they name or
    may name stays."""

    removed: tuple[CleanupItem, ...] = ()
    kept: tuple[CleanupItem, ...] = ()
    damaged: dict[str, str] = {}

    @property
    def size_bytes(self) -> int:
        return sum(item.artifact.size_bytes for item in self.removed)


class _Content:
    """One content, and all that the conversations say about it."""

    def __init__(self, artifact: Artifact) -> None:
        self.artifact = artifact
        self.at_ms = 0
        self.conversations: set[str] = set()
        self.needed = ""  # why it must stay

    def learn(self, conversation: str, stored: StoredArtifact, named: set[str]) -> None:
        """Takes in what one conversation says; `named` are the ids that its page names."""
        self.at_ms = max(self.at_ms, stored.at_ms)
        self.conversations.add(conversation)
        if stored.id in named:
            self.needed = f"the page of {conversation} names it"
        if not stored.by.startswith("tool"):
            self.need(f"it was stored by {stored.by} and is not a tool's output")

    def need(self, why: str) -> None:
        """Says why it must stay, unless something else has said so before."""
        self.needed = self.needed or why

    def spare_for(self, damaged: str) -> None:
        """Says that a damaged conversation names it."""
        self.conversations.add(damaged)
        self.need(f"{damaged} is damaged and names it")

    def need_for_others(self, conversation: str) -> None:
        """Says that it must stay if a conversation other than this one has it."""
        others = self.conversations - {conversation}
        if others:
            self.need(f"{min(others)} also has it")

    def item(self, why: str) -> CleanupItem:
        names = tuple(sorted(self.conversations))
        return CleanupItem(artifact=self.artifact, conversations=names, at_ms=self.at_ms, why=why)


_Excess = tuple[_Content, str]  # a content, and which bound it is over


def clean(
    store: Store,
    quota: Quota,
    *,
    now_ms: int,
    conversation: str | None = None,
    dry_run: bool = False,
    grace_s: float = GRACE_S,
) -> Cleanup:
    """Removes artifacts of one conversation, or of all, until they are within the quota. NotFound
    if there is no such conversation."""
    _check(quota)
    if conversation is not None:
        store.conversation(conversation)
    before_ms = now_ms - round(grace_s * 1000)
    contents = _contents_of(store)
    scope = _scope(contents, conversation)
    for one in scope:
        if one.at_ms >= before_ms:
            one.need(f"it was kept less than {number(max(1, math.ceil(grace_s)), 'second')} ago")
    excess = list(_excess(scope, quota, now_ms))
    if any(not content.needed for content, _ in excess):
        contents.ask_the_rest(store, scope)
        excess = list(_excess(scope, quota, now_ms))
    removed = [(content, why) for content, why in excess if not content.needed]
    kept = [(content, f"{why}, but {content.needed}") for content, why in excess if content.needed]
    if not dry_run:
        removed = _delete(store, removed, before_ms)
    return Cleanup(removed=_items(removed), kept=_items(kept), damaged=contents.damaged)


def drop_before_ms(now_ms: int, named_ms: int) -> int:
    """Content that was put before this time may be dropped, if nobody names it. One that was put
    after its newest event (at `named_ms`) may be about to be named again: it has the grace time."""
    return max(now_ms - round(GRACE_S * 1000), min(named_ms, now_ms) + 1)


def _items(contents: Iterable[_Excess]) -> tuple[CleanupItem, ...]:
    return tuple(content.item(why) for content, why in contents)


def _check(quota: Quota) -> None:
    bounds = [bound for bound in msgspec.structs.astuple(quota) if bound is not None]
    if not bounds:
        raise Invalid(
            "no bound is given", hint="say how old, how many bytes or how many artifacts may stay"
        )
    if not all(bound >= 0 for bound in bounds):
        raise Invalid(f"a bound is negative: {quota}", hint="give numbers that are not negative")


# --- what there is ---


class _Contents:
    """All contents of a store by digest, with what its conversations say about them."""

    def __init__(self) -> None:
        self.by_digest: dict[str, _Content] = {}
        self.damaged: dict[str, str] = {}  # conversations whose logs cannot be read, and why
        self.doubt = ""  # why any content may be needed
        self._namers: dict[str, str] = {}  # ids that a page names, and whose page that is
        self._unasked: list[Conversation] = []  # those whose pages were not looked at

    def holders(self, digest: str) -> set[str]:
        """The conversations that have a content."""
        content = self.by_digest.get(digest)
        return content.conversations if content else set()

    def take_in(self, store: Store, about: Conversation) -> None:
        """Takes in what one conversation says; what a damaged one names is spared."""
        try:
            self._ask(store, about)
        except Corrupt as error:
            self._spare(store, about, error)
        except Denied:
            return  # encrypted there: its contents are, too, and go by other digests

    def _ask(self, store: Store, about: Conversation) -> None:
        log = Log(store, about.id)
        if not log.state.artifacts:
            self._unasked.append(about)
            return
        named = self._named(log, about)
        for stored in list(listed(log)):
            if not stored.cleaned_ms:
                self._content(stored.artifact).learn(about.id, stored, named)

    def _named(self, log: Log, about: Conversation) -> set[str]:
        """The ids that the page of a conversation names, which are remembered as named by it."""
        named = named_in(log.state)
        for id in named:
            self._namers.setdefault(id, about.id)
        return named

    def ask_the_rest(self, store: Store, scope: Iterable[_Content]) -> None:
        """Looks at the pages of conversations that have no artifact themselves: what one of them
        names must stay."""
        for about in self._unasked:
            with suppress(NotFound):
                try:
                    self._named(Log(store, about.id), about)
                except Corrupt as error:
                    self._spare(store, about, error)
        for content in scope:
            content.need(self._naming(content.artifact.id) or self.doubt)

    def _naming(self, id: str) -> str:
        namer = self._namers.get(id)
        return f"the page of {namer} names it" if namer else ""

    def _spare(self, store: Store, about: Conversation, error: Corrupt) -> None:
        """Keeps what a damaged log still names: whether it needs it cannot be known."""
        self.damaged[about.id] = error.message
        found, is_all = named_by(store, about)
        for artifact in found:
            self._content(artifact).spare_for(about.id)
        if not is_all:
            self.doubt = f"{about.id} is damaged and may name it"

    def _content(self, artifact: Artifact) -> _Content:
        return self.by_digest.setdefault(artifact.digest, _Content(artifact))


def _contents_of(store: Store) -> _Contents:
    """All contents, with what every conversation says; what a damaged one names is spared."""
    contents = _Contents()
    for about in conversations(store):
        # Another process may delete the conversation while it is read.
        with suppress(NotFound):
            contents.take_in(store, about)
    return contents


def _scope(contents: _Contents, conversation: str | None) -> list[_Content]:
    """The contents in question, oldest first, with what the conversations that have them say about
    them."""
    scope = list(contents.by_digest.values())
    if conversation is not None:
        scope = [one for one in scope if conversation in one.conversations]
    for one in scope:
        if conversation is not None:
            one.need_for_others(conversation)
        one.need(contents.doubt)
    return sorted(scope, key=lambda one: one.at_ms)


def named_in(state: Fold) -> set[str]:
    """The ids of the artifacts that a page names: by a result, or anywhere in a text that the
    model sees."""
    found = set(ARTIFACT_ID.findall(_system_text(state)))
    for slot in state.slots:
        found.update(*map(_ids_in, slot.message.blocks))
    return found


def _ids_in(block: Block) -> Iterator[str]:
    if isinstance(block, ToolResult) and block.artifact:
        yield block.artifact
    yield from ARTIFACT_ID.findall(text_of(block))


def _system_text(state: Fold) -> str:
    """The system prompt as one text, whatever its shape."""
    system: Any = state.meta.system
    if isinstance(system, str):
        return system
    return msgspec.json.encode(system).decode("utf-8", "replace")


# --- what goes ---


def _excess(contents: list[_Content], quota: Quota, now_ms: int) -> Iterator[_Excess]:
    """What is over the bounds, oldest first, and which bound. What must stay takes its room all
    the same, so younger ones go in its place."""
    size = sum(one.artifact.size_bytes for one in contents)
    count = len(contents)
    for one in contents:
        why = _bound_exceeded(quota, now_ms - one.at_ms, size, count)
        if why:
            yield one, why
        if why and not one.needed:
            size -= one.artifact.size_bytes
            count -= 1


def _bound_exceeded(quota: Quota, age_ms: int, size: int, count: int) -> str:
    """The first bound that is passed by an age, or by all that is kept now; nothing if none is."""
    if quota.older_than_s is not None and age_ms > quota.older_than_s * 1000:
        return "it is too old"
    if quota.keep_bytes is not None and size > quota.keep_bytes:
        return "there are too many bytes"
    if quota.keep_count is not None and count > quota.keep_count:
        return "there are too many artifacts"
    return ""


def _delete(store: Store, chosen: list[_Excess], before_ms: int) -> list[_Excess]:
    """Records that they are gone, then deletes them; gives those that went. One that was put again
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
    """Names the artifacts in the logs of their conversations: gone if it is by the cleaner, there
    if by anybody else."""
    for id, artifacts in _by_conversation(contents):
        log = Log(store, id)
        # One that another process has deleted meanwhile must not begin again.
        with suppress(NotFound):
            if log.state.head:
                log.append([Draft(body=artifact, by=by) for artifact in artifacts])
    store.flush()


def _by_conversation(contents: Iterable[_Content]) -> list[tuple[str, list[Artifact]]]:
    """The artifacts of each conversation, by its id."""
    artifacts = defaultdict(list)
    for content in contents:
        for id in content.conversations:
            artifacts[id].append(content.artifact)
    return sorted(artifacts.items())


# --- one by hand ---


def remove(store: Store, conversation: str, id: str, *, now_ms: int) -> CleanupItem:
    """Removes one artifact from a conversation, whatever the page shows; its bytes as well, unless
    another conversation has it. NotFound if there is none, or none any more."""
    stored = _stored(store, conversation, id)
    content = _Content(stored.artifact)
    content.learn(conversation, stored, set())
    contents = _contents_of(store)
    others = contents.holders(stored.artifact.digest) - {conversation}
    if others or contents.doubt:
        _record(store, [content], CLEANER)
        why = f"{min(others)} also has it" if others else _MAY_BE_NEEDED
        return content.item(f"its bytes stay: {why}")
    if not _delete(store, [(content, "")], drop_before_ms(now_ms, stored.at_ms)):
        raise Conflict(f"{id} was put again just now", hint="try again")
    return content.item("its bytes are gone")


def _stored(store: Store, conversation: str, id: str) -> StoredArtifact:
    """The newest artifact of that id whose bytes are there."""
    newest_first = reversed(listed(Log(store, conversation)))
    found = next((one for one in newest_first if one.id == id), None)
    if found is not None and not found.cleaned_ms:
        return found
    state = "was removed already" if found else f"is not in {conversation}"
    hint = f"refold artifact list {conversation} names those there are"
    raise NotFound(f"{quoted(id, 200)} {state}", hint=hint)
