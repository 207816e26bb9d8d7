"""Finding secrets in conversations: in every event of the log, on the page or not, and in
artifacts.

Nothing is changed, a finding has only the masked form of a secret, and damage does not end the
walk. Shared content is read once. If the parent of a fork is walked too, only the fork's own events
are walked. Memory is bounded: contents are streamed, and findings beyond `FINDINGS_MAX` are only
counted. Neighbours: `redaction` finds, the command line prints.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec

from refold.core.model import Conversation, Event, is_cleanup
from refold.errors import Corrupt, NotFound
from refold.log.stored_logs import READ_EVENTS, artifact_of, conversations, readable
from refold.redaction import masked, pieces, secrets_in
from refold.redaction.redact import ENCODED, KEY_CHARS, is_token
from refold.stores.protocol import Store

FINDINGS_MAX = 10_000

# Receives the conversation, the number of finished events, and its total.
ScanListener = Callable[[str, int, int], None]


class FoundSecret(msgspec.Struct, frozen=True, kw_only=True):
    """One secret and its position: a line, from 1, in the content if `artifact` is set, else in the
    text of the event. If not `sure`, it may be a fixture."""

    kind: str
    conversation: str
    seq: int
    line: int
    masked: str
    artifact: str = ""
    sure: bool = True


class Scan(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a scan. `kinds` counts all findings; `unread` are artifacts with a missing or
    damaged content, `damaged` the conversations with unreadable events, each with the first
    reason."""

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
    """Scans these conversations, or all. `doubtful` adds uncertain findings."""
    walk = _SecretWalk(store, doubtful, progress or (lambda *_: None))
    for id in dict.fromkeys(ids):
        walk.conversation(store.conversation(id), 0)
    # If all are scanned, a fork's parent is among them.
    for about in conversations(store) if not ids else ():
        walk.conversation(about, about.parent_seq)
    return walk.report()


class _SecretWalk:
    """The state between events: findings, counts, and the contents read so far."""

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
        """Searches a conversation after an event."""
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
            try:
                self._search(pieces(self.store.get(artifact.digest)), id, event.seq, artifact.id)
            except (NotFound, Corrupt):
                # Cleaned up, lost or damaged: `refold verify` says which.
                self.unread.append(artifact.id)

    def _search(self, parts: Iterable[str], id: str, seq: int, artifact: str = "") -> None:
        line = 1
        for text in parts:
            done = 0
            for one in secrets_in(text):
                line += text.count("\n", done, one.start)
                done = one.start
                if not one.sure and not self.doubtful:
                    continue
                self.kinds[one.kind] += 1
                if len(self.findings) < FINDINGS_MAX:
                    finding = FoundSecret(
                        kind=one.kind,
                        conversation=id,
                        seq=seq,
                        line=line,
                        masked=masked(text[one.start : one.end]),
                        artifact=artifact,
                        sure=one.sure,
                    )
                    self.findings.append(finding)
            line += text.count("\n", done)


def json_body(event: Event) -> Any:
    """The body of an event as plain JSON; Corrupt if it is not."""
    try:
        return msgspec.json.decode(event.body)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise Corrupt(f"event {event.seq} is not JSON: {error}", hint="refold verify") from error


def texts(value: Any, name: str = "") -> Iterator[str]:
    """Every string in a decoded body, including long field names. A short string comes with the
    name of its field, which may reveal its kind."""
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
