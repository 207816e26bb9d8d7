"""Copies of conversations: byte for byte into another store, or as a new log without secrets.

A copy compares both sides first, and writes nothing while any log there differs from the one here.
Parents come before forks, contents before the events that name them, and every log is read again on
the other side and compared. An interrupted copy continues, and a repeated one changes nothing.

A redacted copy can be imported, verified and continued. All text in events and contents is
redacted, and a secret found anywhere is removed everywhere, even from names and cut lines. A
changed content has another digest and id, and all references follow. Events keep their ids and
seqs; salts, digests and chain are new, derived from the log alone, so two exports of the same log
have the same bytes. Hashes of secrets, and signatures of changed thinking, are removed. Neighbours:
`exporter` writes it, `redaction` finds secrets, `scanner` walks the same text.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from refold.artifacts.intake import suffix_of
from refold.conversations.listing import id_of
from refold.conversations.markdown import is_text
from refold.conversations.scanner import json_body, texts
from refold.core import codec
from refold.core.ids import (
    ARTIFACT_ID,
    artifact_id,
    content_hasher,
)
from refold.core.model import Artifact, Conversation, Event, is_cleanup
from refold.errors import Conflict, Corrupt, Invalid, NotFound
from refold.log.stored_logs import artifact_of, chain_at, complete_pages, conversations, events_of
from refold.redaction import KnownSecrets, Redact, pieces, redacted
from refold.redaction.redact import PlainRedactor
from refold.stores import is_same_place
from refold.stores.protocol import Store

PAGE_EVENTS = 200
NAMES_MAX = 5

CopyState = Literal["copied", "continued", "same", "ahead"]


class Copied(Struct, frozen=True, kw_only=True):
    """The result for one conversation. `ahead`: the target has all of it, and more. `events` and
    `artifacts` count what was written; `problems` names contents that the source has lost."""

    id: str
    state: CopyState
    head: int
    events: int = 0
    artifacts: int = 0
    problems: tuple[str, ...] = ()


class CopyProgress(Struct, frozen=True, kw_only=True):
    """Progress of a copy, in events written and read again."""

    conversation: str
    done: int
    total: int


CopyListener = Callable[[CopyProgress], None]


class _Move(Struct, frozen=True, kw_only=True):
    """A conversation here, and its common head with the target: -1 if it is unknown there."""

    about: Conversation
    there: int
    is_ahead: bool = False

    @property
    def first(self) -> int:
        """The last event that need not be written."""
        return max(self.there, self.about.parent_seq)

    @property
    def steps(self) -> int:
        """The number of events to write and to read again."""
        return 2 * self.about.head - self.about.parent_seq - self.first

    @property
    def state(self) -> CopyState:
        if self.is_ahead:
            return "ahead"
        if self.there < 0:
            return "copied"
        return "same" if self.there == self.about.head else "continued"


def copy(
    source: Store, target: Store, names: Sequence[str] = (), *, progress: CopyListener | None = None
) -> list[Copied]:
    """Copies these conversations, or all, with the parents of forks. Conflict, before anything is
    written, if the target has another log under one of the ids."""
    if is_same_place(source, target):
        raise Invalid(f"{source.url} cannot be copied to itself", hint="name two stores")
    moves = _planned(source, target, _chosen(source, names))
    total = sum(move.steps for move in moves)
    copier = _Copier(source, target, progress or (lambda _: None), total)
    return [copier.move(move) for move in moves]


# --- planning ---


def _chosen(source: Store, names: Sequence[str]) -> list[Conversation]:
    """The conversations with their ancestors, each after its parent."""
    ids = [id_of(source, name) for name in names]
    chosen: dict[str, Conversation] = {}
    for id in ids or [about.id for about in conversations(source)]:
        line: list[Conversation] = []
        while id and id not in chosen:
            # Read one by one: damage may not show in a list.
            line.append(source.conversation(id))
            id = line[-1].parent
        chosen.update((about.id, about) for about in reversed(line))
    return list(chosen.values())


def _planned(source: Store, target: Store, chosen: list[Conversation]) -> list[_Move]:
    moves: list[_Move] = []
    clashes: list[str] = []
    for about in chosen:
        move = _move(source, target, about)
        if isinstance(move, _Move):
            moves.append(move)
        else:
            clashes.append(move)
    if clashes:
        more = f" and {len(clashes) - NAMES_MAX} more" if len(clashes) > NAMES_MAX else ""
        named = "; ".join(clashes[:NAMES_MAX]) + more
        hint = "copy the others by their ids, or into another store"
        raise Conflict(f"{target.url} has another log: {named}; nothing was written", hint=hint)
    return moves


def _move(source: Store, target: Store, about: Conversation) -> _Move | str:
    """The step for a conversation, or the reason why the two logs are incompatible."""
    try:
        there = target.conversation(about.id)
    except NotFound:
        return _Move(about=about, there=-1)
    if (there.parent, there.parent_seq) != (about.parent, about.parent_seq):
        return f"{about.id!r} {_descent(there)} there, and {_descent(about)} here"
    common = min(about.head, there.head)
    if chain_at(source, about, common) != chain_at(target, there, common):
        return f"{about.id!r} differs at or before event {common}"
    return _Move(about=about, there=common, is_ahead=there.head > about.head)


def _descent(about: Conversation) -> str:
    if about.parent:
        return f"left {about.parent!r} at event {about.parent_seq}"
    return "is not a fork"


# --- copying ---


class _Copier:
    """Copies one conversation after the other. `present` are digests known to be in the target."""

    def __init__(self, source: Store, target: Store, progress: CopyListener, total: int) -> None:
        self.source, self.target = source, target
        self.progress, self.total = progress, total
        self.done = self.put = 0
        self.present: set[str] = set()

    def move(self, move: _Move) -> Copied:
        """Writes the missing events, and compares the whole log with the one here."""
        about, put_before = move.about, self.put
        if move.there < 0 and about.parent:
            self.target.fork(about.parent, about.parent_seq, about.id)
        for events in complete_pages(self.source, about, move.first, PAGE_EVENTS):
            for artifact, _ in _artifacts(events):
                self._put_content(artifact)
            self.target.append(about.id, events, expect=events[0].seq - 1)
            self._tell(about.id, len(events))
        lost = self._verify(about)
        self.target.flush()
        return Copied(
            id=about.id,
            state=move.state,
            head=about.head,
            events=about.head - move.first,
            artifacts=self.put - put_before,
            problems=tuple(lost.values()),
        )

    def _tell(self, id: str, count: int) -> None:
        self.done += count
        self.progress(CopyProgress(conversation=id, done=self.done, total=self.total))

    # --- verification ---

    def _verify(self, about: Conversation) -> dict[str, str]:
        """Reads the log in the target from its own first event on, and checks events, chain and
        contents. Returns the contents that the source has lost, by digest."""
        lost: dict[str, str] = {}
        after = about.parent_seq
        before = chain_at(self.source, about, after)
        for here in complete_pages(self.source, about, after, PAGE_EVENTS):
            last = here[-1]
            there = self.target.read(about.id, after=after, last=last.seq, limit=len(here))
            for place, (ours, theirs) in enumerate(zip(here, there)):
                if ours.erased and not theirs.erased:
                    self.target.erase(about.id, theirs.seq)
                    [there[place]] = self.target.read(
                        about.id, after=theirs.seq - 1, last=theirs.seq, limit=1
                    )
            fault = self._fault(here, there, before)
            if fault:
                raise Corrupt(
                    f"{self.target.url}: {about.id} was not copied correctly: {fault}",
                    hint="verify both stores: refold verify --store URL",
                )
            for artifact, event in _artifacts(here):
                lost.pop(artifact.digest, None)
                problem = self._put_content(artifact)
                if problem and not is_cleanup(event):
                    lost[artifact.digest] = f"{artifact.id}: {problem}"
            after, before = last.seq, last.chain
            self._tell(about.id, len(here))
        return lost

    def _fault(self, here: list[Event], there: list[Event], before: bytes) -> str:
        """The first fault in the copied events; empty if there is none."""
        first, last = here[0].seq, here[-1].seq
        for fault in codec.check(there, after=first - 1, before=before):
            return fault
        if len(here) == len(there) and all(map(_agree, here, there)):
            return ""
        return f"events {first} to {last} are not those of {self.source.url}"

    # --- contents ---

    def _put_content(self, artifact: Artifact) -> str:
        """Copies the content unless the target has it; returns the problem if the source cannot
        provide it."""
        digest = artifact.digest
        if digest not in self.present and not _holds(self.target, digest):
            try:
                path = self.source.location(digest)
                suffix = os.path.splitext(path)[1] if path else suffix_of(artifact)
                self.target.put(self.source.get(digest), suffix=suffix)
                self.put += 1
            except NotFound:
                return "its content is missing"
            except (Corrupt, Invalid) as error:
                return f"its content is damaged: {error.message}"
        self.present.add(digest)
        return ""


def _agree(ours: Event, theirs: Event) -> bool:
    """Whether two events are the same. An event erased in the target stays erased, and only its
    envelope must agree."""
    if theirs.erased:
        ours = replace(ours, body=b"", salt=b"")
    return ours == theirs


def _artifacts(events: list[Event]) -> Iterator[tuple[Artifact, Event]]:
    """The artifacts of events, each with its event."""
    for event in events:
        try:
            artifact = artifact_of(event)
        except Corrupt:
            # It is copied unchanged; `refold verify` reports it.
            continue
        if artifact is not None:
            yield artifact, event


def _holds(store: Store, digest: str) -> bool:
    """Whether the store has the intact content."""
    try:
        for _ in store.get(digest):
            pass
    except (NotFound, Corrupt, Invalid):
        return False
    return True


# --- without secrets ---

GIST, NAMES = "gist", "names"  # fields of a summary, and of its notes
MEASURES = ("id", "digest", "size_bytes", "size_chars", "lines")


class _Values(PlainRedactor):
    """Redacts the values of one log: a secret known anywhere is one everywhere, and artifacts get
    their new ids."""

    def __init__(self, redact: Redact, known: KnownSecrets, ids: Mapping[str, str]) -> None:
        super().__init__(redact)
        self._known, self._ids = known, ids

    def object(self, value: dict[str, Any]) -> dict[str, Any]:
        clean = super().object(value)
        notes = clean.get(GIST)
        names = notes.get(NAMES) if isinstance(notes, dict) else None
        if not isinstance(notes, dict) or not isinstance(names, dict):
            return clean
        # A name may be part of a secret.
        kept = {name: row for name, row in names.items() if not self._known.is_part(name)}
        return {**clean, GIST: {**notes, NAMES: kept}}

    def string(self, text: str, name: str) -> str:
        renamed = ARTIFACT_ID.sub(lambda match: self._ids.get(match[0], match[0]), text)
        return super().string(renamed, name)

    def unsure(self, text: str) -> str:
        return self._known.redacted(text)


class RedactedCopy:
    """A conversation without its secrets. Contents are streamed; only their new measures are kept
    in memory."""

    def __init__(self, store: Store, conversation: str, *, emails: bool = False) -> None:
        self._store = store
        # An edit may refer to lines of a result by number, so lines are kept.
        self._by_rules = partial(redacted, emails=emails, keep_lines=True)
        self._about = store.conversation(conversation)
        self._known = known_secrets(store, self._about)
        # New artifacts by old digest.
        self._artifacts: dict[str, Artifact] = {}
        # Old digests by new digest.
        self._digests: dict[str, str] = {}
        self._ids: dict[str, str] = {}
        self._values = _Values(self._redact, self._known, self._ids)
        # Needed before anything is written: text may name an artifact before the artifact's own
        # event.
        for event in events_of(store, self._about):
            artifact = artifact_of(event)
            if artifact is not None and artifact.digest not in self._artifacts:
                self._learn(artifact)

    def _redact(self, text: str) -> str:
        return self._known.redacted(self._by_rules(text))

    def about(self) -> Conversation:
        """The conversation for a list. Its chain is known only after reading all events."""
        chain = codec.ZERO
        for event in self.events():
            chain = event.chain
        return replace(self._about, title=self._redact(self._about.title), chain=chain)

    def events(self) -> Iterator[Event]:
        """The events without secrets, sealed again into a chain of their own."""
        before = codec.ZERO
        for event in events_of(self._store, self._about):
            if event.erased:
                sealed = codec.resealed(event, before, event.seq)
            else:
                sealed = codec.seal(
                    before,
                    event.seq,
                    id=event.id,
                    at_ms=event.at_ms,
                    by=self._redact(event.by),
                    kind=event.kind,
                    body=self._body(event),
                    # The old salt stays unknown, so the new one reveals nothing about the secrets.
                    salt=hashlib.blake2b(
                        b"withheld", key=event.salt, digest_size=codec.SALT_BYTES
                    ).digest(),
                    tokens=event.tokens,
                    counter=self._redact(event.counter),
                )
            before = sealed.chain
            yield sealed

    def content(self, digest: str) -> Iterator[bytes]:
        """The bytes of the content, by its new digest."""
        old = self._digests.get(digest, digest)
        return (text.encode(coding) for text, coding in self._pieces(old))

    # --- events ---

    def _body(self, event: Event) -> bytes:
        """The body of an event without secrets; the same bytes if it has none."""
        body = json_body(event)
        clean = self._artifact(body) if event.kind == "artifact" else self._values.value(body)
        return event.body if clean == body else msgspec.json.encode(clean)

    # --- artifacts ---

    def _artifact(self, body: dict[str, Any]) -> dict[str, Any]:
        """The body of an artifact's event, with the measures of its new content."""
        new = self._artifacts[body["digest"]]
        rest = {name: value for name, value in body.items() if name not in MEASURES}
        clean = {**body, **self._values.value(rest)}
        for name in MEASURES:
            if name in body:
                clean[name] = getattr(new, name)
        return clean

    def _learn(self, artifact: Artifact) -> None:
        """Records the new form of an artifact."""
        try:
            new = self._measured(artifact)
        except NotFound:
            # Content that was cleaned up or lost has nothing to hide.
            new = artifact
        self._artifacts[artifact.digest] = new
        self._digests[new.digest] = artifact.digest
        self._ids[artifact.id] = new.id

    def _measured(self, artifact: Artifact) -> Artifact:
        """The artifact with the digest and size of its content without secrets."""
        hasher = content_hasher()
        size = chars = lines = 0
        last = ""
        for text, coding in self._pieces(artifact.digest):
            encoded = text.encode(coding)
            hasher.update(encoded)
            size += len(encoded)
            chars += len(text)
            lines += text.count("\n")
            last = text[-1:] or last
        digest = hasher.hexdigest()
        if digest == artifact.digest:
            return artifact
        id = artifact_id(digest)
        changed = replace(artifact, id=id, digest=digest, size_bytes=size)
        if not artifact.size_chars:
            return changed
        return replace(changed, size_chars=chars, lines=lines + (last not in ("", "\n")))

    def _pieces(self, digest: str) -> Iterator[tuple[str, str]]:
        """The content in redacted pieces, each with its encoding."""
        return ((self._redact(text), coding) for text, coding in _texts(self._store, digest))


def known_secrets(store: Store, about: Conversation) -> KnownSecrets:
    """The secrets of all events and contents. Some text may contain a secret, or part of one, that
    is only recognizable elsewhere."""
    known = KnownSecrets()
    contents: set[str] = set()
    for event in events_of(store, about):
        if event.erased:
            continue
        for text in (event.by, *texts(json_body(event))):
            known.learn(text)
        artifact = artifact_of(event)
        if artifact is not None and artifact.digest not in contents:
            contents.add(artifact.digest)
            with suppress(NotFound):  # content that was cleaned up or lost shows nothing
                for text, _ in _texts(store, artifact.digest):
                    known.learn(text)
    return known


def _texts(store: Store, digest: str) -> Iterator[tuple[str, str]]:
    """The content in pieces, each with its encoding. Binary data is read as Latin-1: a damaged byte
    costs less than a secret."""
    coding = "utf-8" if is_text(store.get(digest)) else "latin-1"
    chunks = store.get(digest)
    if coding == "latin-1":
        chunks = (chunk.decode("latin-1").encode() for chunk in chunks)
    for piece in pieces(chunks):
        yield piece, coding
