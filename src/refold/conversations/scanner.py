"""Walks conversations and reports where secrets are: every event of the log, also what no page
shows, and artifacts.

Nothing is changed, no finding holds a secret, only its masked form, and damage does not end the
walk. A content that several artifacts share is read once. Of a fork only its own events are walked
when its parent is walked as well. Memory is bounded: contents are streamed, and beyond
`FINDINGS_MAX` findings are only counted. Neighbours: `redaction` finds, `edges.cli.scanning`
prints.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec

from refold.core.model import Artifact, Conversation, Event, is_cleanup
from refold.errors import Corrupt, NotFound
from refold.log.trace import READ_EVENTS, artifact_of, conversations, readable
from refold.redaction import found, masked, pieces
from refold.redaction.redact import ENCODED, KEY_CHARS, is_token
from refold.stores.protocol import Store

FINDINGS_MAX = 10_000

# Hears the conversation, how many of its events are done, and how many it has.
ScanListener = Callable[[str, int, int], None]


class FoundSecret(msgspec.Struct, frozen=True, kw_only=True):
    """One secret and its place: the line, from 1, is that of the content if `artifact` is set,
    else that of the text in the event. Not `sure`: it may be a fixture."""

    kind: str
    conversation: str
    seq: int
    line: int
    masked: str
    artifact: str = ""
    sure: bool = True


class Scan(msgspec.Struct, frozen=True, kw_only=True):
    """What was walked and what was found. `kinds` counts all; `unread` are artifacts whose
    content is missing or damaged, `damaged` the conversations that have events which cannot be
    read, each with the first reason."""

    conversations: int
    events: int
    artifacts: int
    kinds: dict[str, int]
    findings: tuple[FoundSecret, ...]
    unread: tuple[str, ...] = ()
    damaged: dict[str, str] = {}

    @property
    def total(self) -> int:
        return sum(self.kinds.values())


def scan(
    store: Store,
    ids: Sequence[str] = (),
    *,
    doubtful: bool = False,
    progress: ScanListener | None = None,
) -> Scan:
    """The report on these conversations, or on all that the store has. `doubtful` adds what is
    not sure."""
    walk = _SecretWalk(store, doubtful, progress or (lambda *_: None))
    for about, after in _scan_starts(store, ids):
        walk.conversation(about, after)
    return walk.report()


def _scan_starts(store: Store, ids: Sequence[str]) -> Iterator[tuple[Conversation, int]]:
    """The conversations, and the event after which each is to be read: if all are, a fork's
    parent is among them."""
    for id in dict.fromkeys(ids):
        yield store.conversation(id), 0
    if ids:
        return
    for about in conversations(store):
        yield about, about.parent_seq


class _SecretWalk:
    """What is remembered between events: the findings, the counts, and which contents were read."""

    def __init__(self, store: Store, doubtful: bool, progress: ScanListener) -> None:
        self.store, self.doubtful, self.progress = store, doubtful, progress
        self.findings: list[FoundSecret] = []
        self.kinds: Tally[str] = Tally()
        self.unread: list[str] = []
        self.damaged: dict[str, str] = {}
        self.contents: set[str] = set()
        self.conversations = self.events = 0

    def report(self) -> Scan:
        return Scan(
            conversations=self.conversations,
            events=self.events,
            artifacts=len(self.contents) - len(self.unread),
            kinds=dict(self.kinds.most_common()),
            findings=tuple(self.findings),
            unread=tuple(self.unread),
            damaged=self.damaged,
        )

    def conversation(self, about: Conversation, after: int) -> None:
        """Searches a conversation, from an event on."""
        self.conversations += 1
        for event in readable(self.store, about, after):
            if isinstance(event, Corrupt):
                self.damaged.setdefault(about.id, event.message)
                continue
            try:
                self._search_event(about.id, event)
            except Corrupt as error:
                self.damaged.setdefault(about.id, error.message)
            if event.seq % READ_EVENTS == 0 or event.seq == about.head:
                self.progress(about.id, event.seq, about.head)

    def _search_event(self, id: str, event: Event) -> None:
        self.events += 1
        if event.erased:
            return
        for text in (event.by, *texts(json_body(event))):
            self._search([text], id, event.seq)
        artifact = None if is_cleanup(event) else artifact_of(event)
        if artifact is not None and artifact.digest not in self.contents:
            self.contents.add(artifact.digest)
            self._search_content(id, event.seq, artifact)

    def _search_content(self, id: str, seq: int, artifact: Artifact) -> None:
        try:
            self._search(pieces(self.store.get(artifact.digest)), id, seq, artifact.id)
        except (NotFound, Corrupt):
            # It was cleaned up, is lost or damaged: which of these is for `refold verify` to say.
            self.unread.append(artifact.id)

    def _search(self, parts: Iterable[str], id: str, seq: int, artifact: str = "") -> None:
        line = 1
        for text in parts:
            done = 0
            for one in found(text):
                line += text.count("\n", done, one.start)
                done = one.start
                if one.sure or self.doubtful:
                    self._add(
                        FoundSecret(
                            kind=one.kind,
                            conversation=id,
                            seq=seq,
                            line=line,
                            masked=masked(text[one.start : one.end]),
                            artifact=artifact,
                            sure=one.sure,
                        )
                    )
            line += text.count("\n", done)

    def _add(self, finding: FoundSecret) -> None:
        self.kinds[finding.kind] += 1
        if len(self.findings) < FINDINGS_MAX:
            self.findings.append(finding)


def json_body(event: Event) -> Any:
    """The body of an event as plain JSON; Corrupt if it is not."""
    try:
        return msgspec.json.decode(event.body)
    except (msgspec.DecodeError, ValueError) as error:
        raise Corrupt(f"event {event.seq} is not JSON: {error}", hint="refold verify") from error


def texts(value: Any, name: str = "") -> Iterator[str]:
    """Every text in a decoded body, long names of fields included. A short text comes with the name
    of its field, which may tell what it is."""
    stack = [(name, value)]
    while stack:
        name, value = stack.pop()
        if isinstance(value, dict):
            yield from (field for field in value if len(field) >= KEY_CHARS)
            fields = reversed(value.items())
            stack.extend((field, inner) for field, inner in fields if field not in ENCODED)
        elif isinstance(value, list):
            stack.extend((name, inner) for inner in reversed(value))
        elif isinstance(value, str) and value:
            yield f'{name}: "{value}"' if name and is_token(value) else value
