"""Conversations move from one store to another, byte for byte: events with their ids and chain,
forks, artifacts.

First both sides are compared, and nothing is written while any log there differs from the one here.
Then parents come before their forks, contents before the events that name them, and every log is
read again on the other side and compared with the one here. What is there already is not written
twice: a copy that was interrupted goes on where it was, and the same copy again changes nothing.
Neighbours: two stores below, `refold export --to` above.

A copy of a conversation without its secrets: a log of its own that can be imported, verified
and continued.

Every text of every event is redacted, field by field, also where no page shows it, and so are the
contents. What was found as a secret anywhere is taken out everywhere: of a list of names, of a line
that was cut, of the author of an event. A content that changes has another digest, and so another
id, and everything that names it is changed with it. Events keep their ids and places; their salts,
digests and chain are new, so the copy is another log. It follows from the log alone: the same
export twice gives the same bytes. What a hash said about a secret goes, and so does the signature
of a thought that was changed.
Neighbours: `exporter` writes it, `redaction` finds secrets, `scanner` walks the same texts.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
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
from refold.core.model import Artifact, Conversation, Event, is_cleanup
from refold.errors import Conflict, Corrupt, Invalid, NotFound
from refold.log.trace import artifact_of, chain_at, conversations, events_of, whole_pages
from refold.redaction import KnownSecrets, Redact, pieces, redacted
from refold.redaction.redact import PlainRedactor
from refold.stores import is_same_place
from refold.stores.protocol import Store

PAGE_EVENTS = 200
NAMES_MAX = 5

CopyState = Literal["copied", "continued", "same", "ahead"]


class Copied(Struct, frozen=True, kw_only=True):
    """What became of one conversation. `ahead`: the other side has all of it, and went on.
    `events` and `artifacts` are those that were written; `problems` names contents that this
    side itself has lost."""

    id: str
    state: CopyState
    head: int
    events: int = 0
    artifacts: int = 0
    problems: tuple[str, ...] = ()


class CopyProgress(Struct, frozen=True, kw_only=True):
    """How far a copy is: events written and read again, of all."""

    conversation: str
    done: int
    total: int


CopyListener = Callable[[CopyProgress], None]


class _Move(Struct, frozen=True, kw_only=True):
    """A conversation here, and how much of it is there: -1 if it is unknown there."""

    about: Conversation
    there: int
    is_ahead: bool = False

    @property
    def first(self) -> int:
        """The event after which there is something to write."""
        return max(self.there, self.about.parent_seq)

    @property
    def steps(self) -> int:
        """How many events are written and read again."""
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
    """Copies these conversations, or all, and the parents of forks with them. Conflict, and
    nothing is written, if the target has another log under one of the ids."""
    if is_same_place(source, target):
        raise Invalid(f"{source.url} cannot be copied to itself", hint="name two stores")
    moves = _planned(source, target, _chosen(source, names))
    total = sum(move.steps for move in moves)
    copier = _Copier(source, target, progress or (lambda _: None), total)
    return [copier.move(move) for move in moves]


# --- what there is to do ---


def _chosen(source: Store, names: Sequence[str]) -> list[Conversation]:
    """The conversations, each after the one it was forked from."""
    chosen: dict[str, Conversation] = {}
    for id in _ids(source, names):
        for ancestor in reversed(_line_of(source, id, chosen)):
            chosen[ancestor.id] = ancestor
    return list(chosen.values())


def _ids(source: Store, names: Sequence[str]) -> list[str]:
    if names:
        return [id_of(source, name) for name in names]
    return [about.id for about in conversations(source)]


def _line_of(source: Store, id: str, known: dict[str, Conversation]) -> list[Conversation]:
    """A conversation and what it was forked from, as far as that is not known yet."""
    line: list[Conversation] = []
    while id and id not in known:
        # Each is asked for by itself: a list may show what reading finds to be damaged.
        line.append(source.conversation(id))
        id = line[-1].parent
    return line


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
    """What is to be done for a conversation; a sentence if the two logs cannot be one."""
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


# --- doing it ---


class _Copier:
    """Copies one conversation after the other. `present` are the contents that are known to be
    there."""

    def __init__(self, source: Store, target: Store, progress: CopyListener, total: int) -> None:
        self.source, self.target = source, target
        self.progress, self.total = progress, total
        self.done = self.put = 0
        self.present: set[str] = set()

    def move(self, move: _Move) -> Copied:
        """Writes what is missing there, and compares all of it with the log here."""
        about, put_before = move.about, self.put
        if move.there < 0 and about.parent:
            self.target.fork(about.parent, about.parent_seq, about.id)
        for events in self._pages(about, move.first):
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

    def _pages(self, about: Conversation, after: int) -> Iterator[list[Event]]:
        """The log here, up to its head."""
        return whole_pages(self.source, about, after, PAGE_EVENTS)

    def _tell(self, id: str, count: int) -> None:
        self.done += count
        self.progress(CopyProgress(conversation=id, done=self.done, total=self.total))

    # --- what was written is read again ---

    def _verify(self, about: Conversation) -> dict[str, str]:
        """Reads the log there from its own first event on: the same events, in one chain, with
        their contents. Gives the contents that are lost here, by digest."""
        lost: dict[str, str] = {}
        after = about.parent_seq
        before = chain_at(self.source, about, after)
        for here in self._pages(about, after):
            last = here[-1]
            there = self.target.read(about.id, after=after, last=last.seq, limit=len(here))
            self._erase(about.id, here, there)
            self._check(about.id, here, there, before)
            self._note_lost(here, lost)
            after, before = last.seq, last.chain
            self._tell(about.id, len(here))
        return lost

    def _erase(self, id: str, here: list[Event], there: list[Event]) -> None:
        """Erases there what is erased here, in the store and among the events read from it."""
        for place, (ours, theirs) in enumerate(zip(here, there)):
            if ours.erased and not theirs.erased:
                there[place] = self._erase_there(id, theirs.seq)

    def _erase_there(self, id: str, seq: int) -> Event:
        """Erases one event in the target, and gives it back as it is now."""
        self.target.erase(id, seq)
        [event] = self.target.read(id, after=seq - 1, last=seq, limit=1)
        return event

    def _check(self, id: str, here: list[Event], there: list[Event], before: bytes) -> None:
        fault = self._fault(here, there, before)
        if fault:
            raise Corrupt(
                f"{self.target.url}: {id} was not copied correctly: {fault}",
                hint="verify both stores: refold verify --store URL",
            )

    def _fault(self, here: list[Event], there: list[Event], before: bytes) -> str:
        """The first thing that is wrong with the events there."""
        first, last = here[0].seq, here[-1].seq
        for fault in codec.check(there, after=first - 1, before=before):
            return fault
        if len(here) == len(there) and all(map(_agree, here, there)):
            return ""
        return f"events {first} to {last} are not those of {self.source.url}"

    # --- contents ---

    def _note_lost(self, events: list[Event], lost: dict[str, str]) -> None:
        for artifact, event in _artifacts(events):
            lost.pop(artifact.digest, None)
            fault = self._put_content(artifact)
            if fault and not is_cleanup(event):
                lost[artifact.digest] = f"{artifact.id}: {fault}"

    def _put_content(self, artifact: Artifact) -> str:
        """Makes sure that the content is there; says what is wrong with it here if that cannot
        be."""
        digest = artifact.digest
        if digest not in self.present and not _holds(self.target, digest):
            try:
                self._copy_content(artifact)
            except NotFound:
                return "its content is missing"
            except (Corrupt, Invalid) as error:
                return f"its content is damaged: {error.message}"
        self.present.add(digest)
        return ""

    def _copy_content(self, artifact: Artifact) -> None:
        path = self.source.location(artifact.digest)
        suffix = os.path.splitext(path)[1] if path else suffix_of(artifact)
        self.target.put(self.source.get(artifact.digest), suffix=suffix)
        self.put += 1


def _agree(ours: Event, theirs: Event) -> bool:
    """Whether two events are the same. What was erased there stays erased: then the envelope is
    all that must agree."""
    if theirs.erased:
        ours = replace(ours, body=b"", salt=b"")
    return ours == theirs


def _artifacts(events: list[Event]) -> Iterator[tuple[Artifact, Event]]:
    """The artifacts that events name, each with its event."""
    for event in events:
        try:
            artifact = artifact_of(event)
        except Corrupt:
            # It is carried as it is; `refold verify` says what is wrong with it.
            continue
        if artifact is not None:
            yield artifact, event


def _holds(store: Store, digest: str) -> bool:
    """Whether the store has the content, whole and unchanged."""
    try:
        for _ in store.get(digest):
            pass
    except (NotFound, Corrupt, Invalid):
        return False
    return True


GIST, NAMES = "gist", "names"  # fields of a summary, and of its notes
MEASURES = ("id", "digest", "size_bytes", "size_chars", "lines")


class _Values(PlainRedactor):
    """The values of one log: what is known as a secret is one everywhere, and artifacts have the
    ids of what they became."""

    def __init__(self, redact: Redact, known: KnownSecrets, ids: Mapping[str, str]) -> None:
        super().__init__(redact)
        self._known, self._ids = known, ids

    def object(self, value: dict[str, Any]) -> dict[str, Any]:
        clean = super().object(value)
        if isinstance(clean.get(GIST), dict):
            return {**clean, GIST: self._gist_notes(clean[GIST])}
        return clean

    def _gist_notes(self, notes: dict[str, Any]) -> dict[str, Any]:
        """The notes of a gist, without names that were part of a secret."""
        names = notes.get(NAMES)
        if not isinstance(names, dict):
            return notes
        kept = {name: row for name, row in names.items() if not self._known.is_part(name)}
        return {**notes, NAMES: kept}

    def string(self, text: str, name: str) -> str:
        renamed = codec.ARTIFACT_ID.sub(lambda match: self._ids.get(match[0], match[0]), text)
        return super().string(renamed, name)

    def unsure(self, text: str) -> str:
        return self._known.redacted(text)


class RedactedCopy:
    """A conversation without its secrets. Contents are streamed; of each, only what it became is
    held."""

    def __init__(self, store: Store, conversation: str, *, emails: bool = False) -> None:
        self._store = store
        # An edit may say which lines of a result stay.
        self._by_rules = partial(redacted, emails=emails, keep_lines=True)
        self._about = store.conversation(conversation)
        self._known = known_secrets(store, self._about)
        # What became of an artifact, by the digest that it had.
        self._artifacts: dict[str, Artifact] = {}
        # The digest that a content had, by the one it has now.
        self._digests: dict[str, str] = {}
        self._ids: dict[str, str] = {}
        self._values = _Values(self._redact, self._known, self._ids)
        # Needed before anything is written, as the secrets are: a text may name an artifact before
        # the event that makes it known.
        for event in events_of(store, self._about):
            artifact = artifact_of(event)
            if artifact is not None and artifact.digest not in self._artifacts:
                self._learn(artifact)

    def _redact(self, text: str) -> str:
        return self._known.redacted(self._by_rules(text))

    def about(self) -> Conversation:
        """The conversation as a list shows it. Its chain is known only after the whole walk."""
        chain = codec.ZERO
        for event in self.events():
            chain = event.chain
        return replace(self._about, title=self._redact(self._about.title), chain=chain)

    def events(self) -> Iterator[Event]:
        """The events without secrets, sealed again into a chain of their own."""
        before = codec.ZERO
        for event in events_of(self._store, self._about):
            sealed = self._sealed(event, before)
            before = sealed.chain
            yield sealed

    def content(self, digest: str) -> Iterator[bytes]:
        """The bytes of a content by its new digest."""
        old = self._digests.get(digest, digest)
        return (text.encode(coding) for text, coding in self._pieces(old))

    # --- events ---

    def _sealed(self, event: Event, before: bytes) -> Event:
        """An event without secrets, sealed on top of the chain value before it."""
        if event.erased:
            return codec.resealed(event, before, event.seq)
        return codec.seal(
            before,
            event.seq,
            id=event.id,
            at_ms=event.at_ms,
            by=self._redact(event.by),
            kind=event.kind,
            body=self._body(event),
            salt=_new_salt(event.salt),
            tokens=event.tokens,
            counter=self._redact(event.counter),
        )

    def _body(self, event: Event) -> bytes:
        """The body of an event without secrets; the very same bytes if it has none."""
        body = json_body(event)
        clean = self._artifact(body) if event.kind == "artifact" else self._values.value(body)
        return event.body if clean == body else msgspec.json.encode(clean)

    # --- artifacts ---

    def _artifact(self, body: dict[str, Any]) -> dict[str, Any]:
        """What an artifact's event says, with the measures of the content that it has now."""
        new = self._artifacts[body["digest"]]
        rest = {name: value for name, value in body.items() if name not in MEASURES}
        clean = {**body, **self._values.value(rest)}
        for name in MEASURES:
            if name in body:
                clean[name] = getattr(new, name)
        return clean

    def _learn(self, artifact: Artifact) -> None:
        """Remembers what becomes of an artifact."""
        try:
            new = self._measured(artifact)
        except NotFound:
            # It was cleaned up, or is lost; then there is nothing to hide.
            new = artifact
        self._artifacts[artifact.digest] = new
        self._digests[new.digest] = artifact.digest
        self._ids[artifact.id] = new.id

    def _measured(self, artifact: Artifact) -> Artifact:
        """The artifact with the digest and size of its content without secrets."""
        hasher = codec.content_hasher()
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
        id = codec.artifact_id(digest)
        changed = replace(artifact, id=id, digest=digest, size_bytes=size)
        if not artifact.size_chars:
            return changed
        return replace(changed, size_chars=chars, lines=lines + (last not in ("", "\n")))

    def _pieces(self, digest: str) -> Iterator[tuple[str, str]]:
        """A content in pieces without secrets, and how they become bytes."""
        return ((self._redact(text), coding) for text, coding in _texts(self._store, digest))


def known_secrets(store: Store, about: Conversation) -> KnownSecrets:
    """The secrets of all events and contents. A text may hold one that only another shows to be
    one, or a part of one where it was cut."""
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
            _learn_content(known, store, artifact.digest)
    return known


def _learn_content(known: KnownSecrets, store: Store, digest: str) -> None:
    try:
        for text, _ in _texts(store, digest):
            known.learn(text)
    except NotFound:
        return  # cleaned up, or lost: then it shows nothing either


def _texts(store: Store, digest: str) -> Iterator[tuple[str, str]]:
    """A content in pieces as it is, and how they become bytes. What is not text is read character
    by character: a note in the middle of it costs less than a secret."""
    coding = "utf-8" if is_text(store.get(digest)) else "latin-1"
    chunks = store.get(digest)
    if coding == "latin-1":
        chunks = (chunk.decode("latin-1").encode() for chunk in chunks)
    for piece in pieces(chunks):
        yield piece, coding


def _new_salt(salt: bytes) -> bytes:
    """The salt of a changed event. The old one stays unknown, so the new one says nothing about
    what was taken out."""
    return hashlib.blake2b(b"withheld", key=salt, digest_size=codec.SALT_BYTES).digest()
