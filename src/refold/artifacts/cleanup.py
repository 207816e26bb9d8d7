"""Outputs that nobody needs any more are removed: by age, by size, by number, the oldest first.

Contents are kept once for all conversations, so all of them are asked first. What stays in any
case: what a page shows or names (its slots, its system prompt, its pins), what another conversation
names, what a user stored, and what was put just now. First the log of each conversation says that
the bytes are gone, then they go: a crash in between leaves bytes that nobody misses, never a handle
without an explanation. Neighbours: `outputs` lists, `Store.drop` removes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Struct

from refold.artifacts.listing import Output, listed
from refold.core.codec import ARTIFACT_ID
from refold.core.fold import Fold, text_of
from refold.core.model import CLEANER, Artifact, Block, Conversation, ToolResult
from refold.errors import Conflict, Corrupt, Invalid, NotFound
from refold.log.log import Draft, Log
from refold.log.reading import conversations, named_by
from refold.stores.protocol import Store

# A content is put before the event that names it: for so long it may look as if nobody needed it
GRACE_S = 60.0


class Quota(Struct, frozen=True, kw_only=True):
    """What may stay: nothing older than this, at most so many bytes, at most so many outputs."""

    older_than_s: float | None = None
    keep_bytes: int | None = None
    keep_count: int | None = None


class CleanupItem(Struct, frozen=True, kw_only=True):
    """One output that was removed, or could not be; `why` says so."""

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


class _Holding:
    """One content, and all that the conversations say about it."""

    def __init__(self, artifact: Artifact) -> None:
        self.artifact = artifact
        self.at_ms = 0
        self.conversations: set[str] = set()
        self.needed = ""

    def learn(self, conversation: str, output: Output, named: set[str]) -> None:
        self.at_ms = max(self.at_ms, output.at_ms)
        self.conversations.add(conversation)
        if output.artifact.id in named:
            self.needed = f"the page of {conversation} names it"
        elif not output.by.startswith("tool"):
            self.needed = self.needed or f"it was stored by {output.by} and is no tool's output"

    def item(self, why: str) -> CleanupItem:
        names = tuple(sorted(self.conversations))
        return CleanupItem(artifact=self.artifact, conversations=names, at_ms=self.at_ms, why=why)


def cleaned(
    store: Store,
    quota: Quota,
    *,
    now_ms: int,
    conversation: str | None = None,
    dry_run: bool = False,
    grace_s: float = GRACE_S,
) -> Cleanup:
    """Removes outputs of one conversation, or of all, until they are within the quota. NotFound
    if there is no such conversation."""
    _check(quota)
    if conversation is not None:
        store.conversation(conversation)
    before_ms = now_ms - round(grace_s * 1000)
    removed: list[tuple[_Holding, str]] = []
    kept: list[CleanupItem] = []
    scope, damaged = _survey(store, conversation, before_ms)
    for holding, why in _excess(scope, quota, now_ms):
        if holding.needed:
            kept.append(holding.item(f"{why}, but {holding.needed}"))
        else:
            removed.append((holding, why))
    if not dry_run:
        removed = _removed(store, removed, before_ms)
    gone = tuple(holding.item(why) for holding, why in removed)
    return Cleanup(removed=gone, kept=tuple(kept), damaged=damaged)


def _check(quota: Quota) -> None:
    bounds = [getattr(quota, name) for name in quota.__struct_fields__]
    if all(bound is None for bound in bounds):
        raise Invalid(
            "no bound is given", hint="say how old, how many bytes or how many outputs may stay"
        )
    if any(bound is not None and not bound >= 0 for bound in bounds):
        raise Invalid(f"a bound is negative: {quota}", hint="give numbers that are not negative")


# --- what there is ---


def _survey(
    store: Store, conversation: str | None, before_ms: int
) -> tuple[list[_Holding], dict[str, str]]:
    """The contents in question, oldest first, with what every conversation of the store says
    about them; and which conversations could not be asked."""
    holdings: dict[str, _Holding] = {}
    damaged: dict[str, str] = {}
    doubt = ""
    for about in conversations(store):
        try:
            _ask(store, about, holdings)
        except Corrupt as error:
            damaged[about.id] = str(error)
            doubt = (
                doubt
                if _spare(store, about, holdings)
                else f"{about.id} is damaged and may name it"
            )
    scope = [
        one
        for one in holdings.values()
        if conversation is None or conversation in one.conversations
    ]
    for one in scope:
        others = one.conversations - {conversation}
        if conversation is not None and others:
            one.needed = one.needed or f"{min(others)} has it, too"
        elif one.at_ms >= before_ms:
            one.needed = one.needed or "it is new"
        one.needed = one.needed or doubt
    return sorted(scope, key=lambda one: one.at_ms), damaged


def _ask(store: Store, about: Conversation, holdings: dict[str, _Holding]) -> None:
    log = Log(store, about.id)
    named = named_in(log.state) if log.state.artifacts else set()
    for output in list(listed(log)):
        if not output.cleaned_ms:
            holdings.setdefault(output.artifact.digest, _Holding(output.artifact)).learn(
                about.id, output, named
            )


def _spare(store: Store, about: Conversation, holdings: dict[str, _Holding]) -> bool:
    """Keeps what a damaged log still names: whether it needs it cannot be known. False if it may
    name more."""
    found, is_all = named_by(store, about)
    for artifact in found:
        holding = holdings.setdefault(artifact.digest, _Holding(artifact))
        holding.conversations.add(about.id)
        holding.needed = holding.needed or f"{about.id} is damaged and names it"
    return is_all


def named_in(state: Fold) -> set[str]:
    """The ids of the artifacts that a page names: by a result, or anywhere in a text that the
    model sees."""
    found = set(ARTIFACT_ID.findall(_plain(state.meta.system)))
    for slot in state.slots:
        for block in slot.message.blocks:
            found.update(_named(block))
    return found


def _named(block: Block) -> Iterator[str]:
    if isinstance(block, ToolResult) and block.artifact:
        yield block.artifact
    yield from ARTIFACT_ID.findall(text_of(block))


def _plain(system: Any) -> str:
    return (
        system
        if isinstance(system, str)
        else msgspec.json.encode(system).decode("utf-8", "replace")
    )


# --- what goes ---


def _excess(holdings: list[_Holding], quota: Quota, now_ms: int) -> Iterator[tuple[_Holding, str]]:
    """What is over the bounds, oldest first, and which bound. What must stay takes its room all
    the same, so younger ones go in its place."""
    size, count = sum(one.artifact.size_bytes for one in holdings), len(holdings)
    for one in holdings:
        if quota.older_than_s is not None and now_ms - one.at_ms > quota.older_than_s * 1000:
            why = "it is too old"
        elif quota.keep_bytes is not None and size > quota.keep_bytes:
            why = "there are too many bytes"
        elif quota.keep_count is not None and count > quota.keep_count:
            why = "there are too many outputs"
        else:
            continue
        if not one.needed:
            size, count = size - one.artifact.size_bytes, count - 1
        yield one, why


def _removed(
    store: Store, chosen: list[tuple[_Holding, str]], before_ms: int
) -> list[tuple[_Holding, str]]:
    """Writes down that they are gone, then removes them. One that was put again meanwhile is
    named again."""
    for id in sorted({id for holding, _ in chosen for id in holding.conversations}):
        _write(store, id, [one.artifact for one, _ in chosen if id in one.conversations], CLEANER)
    store.flush()
    gone: list[tuple[_Holding, str]] = []
    for holding, why in chosen:
        if store.drop(holding.artifact.digest, before_ms=before_ms):
            gone.append((holding, why))
            continue
        for id in sorted(holding.conversations):
            _write(store, id, [holding.artifact], "tool")
    store.flush()
    return gone


def _write(store: Store, conversation: str, artifacts: list[Artifact], by: str) -> None:
    Log(store, conversation).append([Draft(body=artifact, by=by) for artifact in artifacts])


# --- one by hand ---


def removed_by_hand(store: Store, conversation: str, id: str, *, now_ms: int) -> CleanupItem:
    """Removes one artifact from a conversation, whatever the page shows; its bytes too, unless
    another conversation has it. NotFound if there is none, or none any more."""
    found = next((one for one in reversed(listed(Log(store, conversation))) if one.id == id), None)
    if found is None or found.cleaned_ms:
        state = "was removed already" if found else f"is not in {conversation}"
        raise NotFound(
            f"{id!r:.200} {state}",
            hint=f"refold artifacts list {conversation} names those there are",
        )
    holding = _Holding(found.artifact)
    holding.learn(conversation, found, set())
    others, doubt = _others(store, conversation, found.artifact.digest)
    if others or doubt:
        _write(store, conversation, [found.artifact], CLEANER)
        store.flush()
        return holding.item(f"its bytes stay: {min(others)} has it, too" if others else _UNKNOWN)
    # One more: what was put in this very moment is meant, too.
    if not _removed(store, [(holding, "")], now_ms + 1):
        raise Conflict(f"{id} was put again just now", hint="try again")
    return holding.item("its bytes are gone")


def _others(store: Store, conversation: str, digest: str) -> tuple[set[str], bool]:
    """Which other conversations have a content, and whether one that is damaged may have it."""
    found: dict[str, _Holding] = {}
    doubt = False
    for about in conversations(store):
        try:
            _ask(store, about, found)
        except Corrupt:
            doubt |= not _spare(store, about, found)
    return (found[digest].conversations if digest in found else set()) - {conversation}, doubt


_UNKNOWN = "its bytes stay: another conversation is damaged, and may have it"
