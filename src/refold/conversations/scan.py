"""Walks conversations and says where secrets stand: every event of the log, also what no page
shows, and artifacts.

Nothing is changed, no finding holds a secret, only its masked form, and damage does not end the
walk. A content that several artifacts share is read once. Of a fork only its own events are walked
when its parent is walked too. Memory is bounded: contents are streamed, and beyond `FINDINGS_MAX`
findings are only counted. Neighbours: `redaction` finds, `edges.cli.scanning` prints.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec

from refold.core import codec
from refold.core.model import CLEANER, Artifact, Conversation, Event
from refold.errors import Corrupt, NotFound
from refold.log.reading import READ_EVENTS, readable
from refold.redaction import found, masked, pieces
from refold.stores.protocol import Store

LIST_CONVERSATIONS = 100
FINDINGS_MAX = 10_000
NAMED_CHARS = 400
ENCODED = (
    "data",
    "signature",
    "digest",
    "arguments_hash",
)  # fields whose texts are bytes in base64, or hashes

Listener = Callable[
    [str, int, int], None
]  # the conversation, how many of its events are done, how many it has


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One secret and its place: the line, from 1, is that of the content if `artifact` is set,
    else that of the text in the event. Not `sure`: it may be a fixture."""

    kind: str
    conversation: str
    seq: int
    line: int
    masked: str
    artifact: str = ""
    sure: bool = True


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What was walked and what was found. `kinds` counts all; `unread` are artifacts whose
    content is missing or damaged, `damaged` the conversations that have events which cannot be
    read, each with the first reason."""

    conversations: int
    events: int
    artifacts: int
    kinds: dict[str, int]
    findings: tuple[Finding, ...]
    unread: tuple[str, ...] = ()
    damaged: dict[str, str] = {}

    @property
    def total(self) -> int:
        return sum(self.kinds.values())


def scanned(
    store: Store,
    ids: Sequence[str] = (),
    *,
    doubtful: bool = False,
    progress: Listener | None = None,
) -> Report:
    """The report on these conversations, or on all that the store has. `doubtful` adds what is
    not sure."""
    walk = _Walk(store, doubtful, progress or (lambda *_: None))
    for about, after in _wanted(store, ids):
        walk.conversation(about, after)
    return walk.report()


def _wanted(store: Store, ids: Sequence[str]) -> Iterator[tuple[Conversation, int]]:
    """The conversations, and the event behind which each is to be read: if all are, a fork's
    parent is among them."""
    if ids:
        yield from ((store.conversation(id), 0) for id in dict.fromkeys(ids))
        return
    after = ""
    while page := store.conversations(after=after, limit=LIST_CONVERSATIONS):
        yield from ((about, about.parent_seq if about.parent else 0) for about in page)
        after = page[-1].id


class _Walk:
    """What is remembered between events: the findings, the counts, and which contents were read."""

    def __init__(self, store: Store, doubtful: bool, progress: Listener) -> None:
        self.store, self.doubtful, self.progress = store, doubtful, progress
        self.findings: list[Finding] = []
        self.kinds: Tally[str] = Tally()
        self.unread: list[str] = []
        self.damaged: dict[str, str] = {}
        self.contents: set[str] = set()
        self.conversations = self.events = 0

    def conversation(self, about: Conversation, after: int) -> None:
        self.conversations += 1
        for event in readable(self.store, about, after):
            try:
                self._event(about.id, event)
            except Corrupt as error:
                self.damaged.setdefault(about.id, str(error))
            if not isinstance(event, Corrupt) and (
                event.seq % READ_EVENTS == 0 or event.seq == about.head
            ):
                self.progress(about.id, event.seq, about.head)

    def _event(self, id: str, event: Event | Corrupt) -> None:
        if isinstance(event, Corrupt):
            raise event
        self.events += 1
        if event.erased:
            return
        for text in texts(_decoded(id, event)):
            self._search([text], id, event.seq)
        if (
            event.kind == "artifact"
            and event.by != CLEANER
            and isinstance(body := codec.decode(event), Artifact)
        ):
            self._content(id, event.seq, body)

    def _content(self, id: str, seq: int, artifact: Artifact) -> None:
        if artifact.digest in self.contents:
            return
        self.contents.add(artifact.digest)
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
                        one.kind,
                        masked(text[one.start : one.end]),
                        one.sure,
                        id,
                        seq,
                        line,
                        artifact,
                    )
            line += text.count("\n", done)

    def _add(
        self, kind: str, shown: str, sure: bool, id: str, seq: int, line: int, artifact: str
    ) -> None:
        self.kinds[kind] += 1
        if len(self.findings) < FINDINGS_MAX:
            self.findings.append(
                Finding(
                    kind=kind,
                    conversation=id,
                    seq=seq,
                    line=line,
                    masked=shown,
                    artifact=artifact,
                    sure=sure,
                )
            )

    def report(self) -> Report:
        return Report(
            conversations=self.conversations,
            events=self.events,
            artifacts=len(self.contents) - len(self.unread),
            kinds=dict(self.kinds.most_common()),
            findings=tuple(self.findings),
            unread=tuple(self.unread),
            damaged=self.damaged,
        )


def _decoded(id: str, event: Event) -> Any:
    try:
        return msgspec.json.decode(event.body)
    except (msgspec.DecodeError, ValueError) as error:
        raise Corrupt(
            f"{id}: event {event.seq} is not JSON: {error}", hint="refold verify"
        ) from error


def texts(value: Any, name: str = "") -> Iterator[str]:
    """Every text in a decoded body. A short one comes with the name of its field, which may be a
    telling one."""
    stack = [(name, value)]
    while stack:
        name, value = stack.pop()
        if isinstance(value, dict):
            stack.extend(
                (field, inner) for field, inner in reversed(value.items()) if field not in ENCODED
            )
        elif isinstance(value, list):
            stack.extend((name, inner) for inner in reversed(value))
        elif isinstance(value, str) and value:
            is_short = (
                len(value) <= NAMED_CHARS and name and not any(sign.isspace() for sign in value)
            )
            yield f'{name}: "{value}"' if is_short else value
