"""Fronts: by which a list of messages that somebody else owns is found again in a log.

The mark of a message is a digest over its role and blocks that ignores what owners change without
meaning anything by it: cache marks, ids of items, a text as a string or as a list, lines that
differ at every call, blocks that are nothing but a reminder. A front is a mark chained to the front
before it, so one front stands for a whole beginning. It is the key of the message that ends it, and
so it outlives the process, also where the log keeps a message in another form. Neighbours: `keys`
keeps a key from being written twice, `engine.mirror` compares fronts, `conversations.recognition`
looks for them in all logs of a store.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, assert_never

import msgspec

from refold.core.call_arguments import canonical_arguments
from refold.core.codec import artifact_id, content_hasher, decode
from refold.core.model import (
    MIRRORED,
    Block,
    Event,
    Media,
    Message,
    Opaque,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from refold.core.switches import REACHING, switches
from refold.log.trace import pages_of
from refold.stores.protocol import Store

BEGINNING = b""  # the front of an empty list
DIGEST_BYTES = 16
# Who writes messages that the owner of a history does not know of.
OWN_AUTHORS = frozenset({"memory", "refold"})
_VOLATILE = re.compile(r"^.*\bcch=[0-9A-Za-z]+.*$\n?", re.MULTILINE)
_REMINDER = re.compile(
    r"\s*<system-reminder>((?!<system-reminder>).)*</system-reminder>\s*", re.DOTALL
)
_REMINDERS = re.compile(r"<system-reminder>.*?</system-reminder>", re.DOTALL)
_UNMEANT = frozenset({"cache_control", "id"})

Part = tuple[str, ...]


# --- marks ---


def mark_of(message: Message) -> bytes:
    """The digest of what a message says."""
    parts = [part for block in message.blocks for part in _parts(block)]
    only_results = bool(parts) and all(isinstance(block, ToolResult) for block in message.blocks)
    role = "tool" if only_results else message.role
    return _digest(msgspec.json.encode([role, parts]))


def front_of(before: bytes, parsed: Iterable[Message]) -> bytes:
    """The front that goes on from another with one message of a list, as it was parsed."""
    return _digest(before + b"".join(map(mark_of, parsed)))


def key_of(front: bytes) -> str:
    """The key of the message that ends a front."""
    return MIRRORED + front.hex()


def is_same_text(one: Any, other: Any) -> bool:
    """Whether two system prompts say the same but for lines that differ at every call."""
    return bool(one == other or _steady(one) == _steady(other))


def _digest(encoded: bytes) -> bytes:
    return hashlib.blake2b(encoded, digest_size=DIGEST_BYTES).digest()


def _parts(block: Block) -> list[Part]:
    """What counts of a block; nothing of one that says nothing of its own."""
    match block:
        case Text(text):
            said = _said(text)
            return [("text", said)] if said else []
        case Thinking():
            return [("thinking", block.text, block.signature, block.data)]
        case ToolCall():
            return [("call", block.id, block.name, canonical_arguments(block))]
        case ToolResult():
            return [_result_part(block)]
        case Media():
            return [_media_part(block)]
        case Opaque():
            raw = msgspec.json.encode(_meant(block.raw), order="deterministic").decode()
            return [("opaque", raw, block.data.hex())]
        case _:
            assert_never(block)


def _result_part(result: ToolResult) -> Part:
    """A result by the digest of its text, which an artifact in its place has, too."""
    media = [part for one in result.content if not isinstance(one, Text) for part in _parts(one)]
    artifact = result.artifact or _artifact_of(result)
    return ("result", result.call, str(result.is_error), artifact, *("".join(one) for one in media))


def _artifact_of(result: ToolResult) -> str:
    """The name that the text of a result would have as an artifact."""
    texts = [part.text for part in result.content if isinstance(part, Text)]
    said = "\n".join(text for text in texts if not _is_reminder(text))
    return artifact_id(content_hasher(said.encode("utf-8", "surrogatepass")).hexdigest())


def _media_part(media: Media) -> Part:
    content = content_hasher(media.data.encode()).hexdigest() if media.data else ""
    return ("media", media.media, media.mime, content, media.url, media.file)


def _said(text: str) -> str:
    """A text without what differs at every call; empty if it is a reminder."""
    if _is_reminder(text):
        return ""
    return _VOLATILE.sub("", text) if "cch=" in text else text


def without_reminders(text: str) -> str:
    """A text without what a program put into it for the model alone."""
    return _REMINDERS.sub("", text) if "</system-reminder>" in text else text


def _is_reminder(text: str) -> bool:
    return "</system-reminder>" in text and _REMINDER.fullmatch(text) is not None


def _meant(value: Any) -> Any:
    """A provider's object without cache marks and ids of items."""
    if isinstance(value, dict):
        return {key: _meant(held) for key, held in value.items() if key not in _UNMEANT}
    if isinstance(value, list):
        return [_meant(held) for held in value]
    return value


def _steady(system: Any) -> Any:
    if isinstance(system, str):
        return _VOLATILE.sub("", system) if "cch=" in system else system
    if isinstance(system, list):
        return [_steady(part) for part in system]
    if isinstance(system, dict):
        held = {key: value for key, value in system.items() if key != "cache_control"}
        return {key: _steady(value) if key == "text" else value for key, value in held.items()}
    return system


# --- the fronts of a log ---

ReadLog = Callable[[int, int], Iterable[Event]]  # events after a seq, up to another


class Fronts:
    """The fronts of one log, oldest first, as far as it was read: a place for each message that an
    owner of the history knows of. One that begins in the middle is given the front there."""

    def __init__(self, begun: bytes = BEGINNING, head: int = 0) -> None:
        self.begun, self.head = begun, head  # the front before the first place, the seq read last
        self.fronts: list[bytes] = []
        self.seqs: list[tuple[int, ...]] = []
        self._places: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self.fronts)

    def follow(self, read: ReadLog, head: int) -> None:
        """Reads on up to the head. What a restore or a revert switched off has no place."""
        for event in read(self.head, head) if self.head < head else ():
            if event.kind in REACHING:
                self._read_again(read, head)
                return
            if event.kind == "message":
                self._add(event)
        self.head = head

    def _read_again(self, read: ReadLog, head: int) -> None:
        self.forget()
        off = switches(read(0, head)).off
        for event in read(0, head):
            if event.kind == "message" and event.seq not in off:
                self._add(event)
        self.head = head

    def follow_stored(self, store: Store, id: str) -> None:
        """The same for a log that is not held open; nothing if there is none any more."""
        head = store.head(id)
        if head is None:
            self.forget()
            return
        self.follow(reader(store, id), head)

    def forget(self) -> None:
        """Nothing was read yet."""
        self.begun, self.head = BEGINNING, 0
        self.fronts.clear()
        self.seqs.clear()
        self._places.clear()

    def _add(self, event: Event) -> None:
        message = None if event.erased or event.by in OWN_AUTHORS else decode(event)
        if not isinstance(message, Message):
            return
        front = _front_in(message.key)
        if front is None:
            before = self.fronts[-1] if self.fronts else self.begun
            front = front_of(before, [message])
        if self.fronts and self.fronts[-1] == front:
            self.seqs[-1] += (event.seq,)  # another part of the same message
            return
        self._places[front] = len(self.fronts)
        self.fronts.append(front)
        self.seqs.append((event.seq,))

    def longest(self, fronts: Sequence[bytes]) -> tuple[int, int]:
        """How many messages of a list the log has, and how many places they take in it. These may
        differ: a page of ours that comes back is shorter than the log."""
        for known in range(len(fronts), 0, -1):
            place = self._places.get(fronts[known - 1])
            if place is not None:
                return known, place + 1
        return 0, 0

    def seqs_of(self, front: bytes) -> tuple[int, ...]:
        """The seqs of the message that ends a front; none if it has no place here."""
        place = self._places.get(front)
        return () if place is None else self.seqs[place]


def reader(store: Store, id: str) -> ReadLog:
    """Reads a stored log page by page."""

    def read(after: int, last: int) -> Iterator[Event]:
        pages = pages_of(store, id, after=after, last=last)
        return (event for page in pages for event in page)

    return read


def _front_in(key: str) -> bytes | None:
    """The front that a key names, if it names one."""
    if not key.startswith(MIRRORED):
        return None
    try:
        return bytes.fromhex(key[len(MIRRORED) :])
    except ValueError:
        return None
