"""Fronts: fingerprints that find an external list of messages in a log again.

The mark of a message is a digest over its role and blocks that ignores meaningless differences:
cache marks, item ids, text as a string or as a list, lines that change with every call, blocks that
only contain a reminder. A front is a mark chained to the front before it, so one front identifies
all messages up to its own. The log keeps it as the key of the last of these messages, so it
outlives the process, even if the message is stored in another form. Neighbours: `notes` prevents
duplicate keys, `engine.mirror` compares fronts, `conversations.recognition` searches all logs of a
store.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, assert_never

import msgspec

from refold.core.active_events import REACHING, switches
from refold.core.call_arguments import canonical_arguments
from refold.core.codec import decode
from refold.core.ids import artifact_id, content_hasher
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
from refold.log.stored_logs import pages_of
from refold.patterns import regex
from refold.stores.protocol import Store

BEGINNING = b""  # the front of an empty list
DIGEST_BYTES = 16
# Authors of messages that the owner of a history does not know.
OWN_AUTHORS = frozenset({"memory", "refold"})
_VOLATILE = regex(r"^.*\bcch=[0-9A-Za-z]+.*$\n?", re.MULTILINE)
_REMINDER = regex(r"\s*<system-reminder>((?!<system-reminder>).)*</system-reminder>\s*", re.DOTALL)
_REMINDERS = regex(r"<system-reminder>.*?</system-reminder>", re.DOTALL)
_MEANINGLESS = frozenset({"cache_control", "id"})

Part = tuple[str, ...]


# --- marks ---


def mark_of(message: Message) -> bytes:
    """The digest of a message's content."""
    parts = [part for block in message.blocks for part in _parts(block)]
    only_results = bool(parts) and all(isinstance(block, ToolResult) for block in message.blocks)
    role = "tool" if only_results else message.role
    return _digest(msgspec.json.encode([role, parts]))


def front_of(before: bytes, parsed: Iterable[Message]) -> bytes:
    """The front after `before` and one message of a list, which may parse into several."""
    return _digest(before + b"".join(map(mark_of, parsed)))


def key_of(front: bytes) -> str:
    """The key of the last message of a front."""
    return MIRRORED + front.hex()


def is_same_text(one: Any, other: Any) -> bool:
    """Whether two system prompts are equal, except for lines that change with every call."""
    return bool(one == other or _without_volatile(one) == _without_volatile(other))


def _digest(encoded: bytes) -> bytes:
    return hashlib.blake2b(encoded, digest_size=DIGEST_BYTES).digest()


def _parts(block: Block) -> list[Part]:
    """The meaningful values of a block; empty for a reminder."""
    match block:
        case Text(text):
            text = "" if _is_reminder(text) else _without_volatile(text)
            return [("text", text)] if text else []
        case Thinking():
            return [("thinking", block.text, block.signature, block.data)]
        case ToolCall():
            return [("call", block.id, block.name, canonical_arguments(block))]
        case ToolResult():
            return [_result_part(block)]
        case Media():
            content = content_hasher(block.data.encode()).hexdigest() if block.data else ""
            return [("media", block.media, block.mime, content, block.url, block.file)]
        case Opaque():
            raw = msgspec.json.encode(_meaningful(block.raw), order="deterministic").decode()
            return [("opaque", raw, block.data.hex())]
        case _:
            assert_never(block)


def _result_part(result: ToolResult) -> Part:
    """A result by the digest of its text, which equals the name of an artifact that replaced it."""
    others = [part for block in result.content if type(block) is not Text for part in _parts(block)]
    artifact = result.artifact
    if not artifact:
        texts = [block.text for block in result.content if isinstance(block, Text)]
        text = "\n".join(text for text in texts if not _is_reminder(text))
        artifact = artifact_id(content_hasher(text.encode("utf-8", "surrogatepass")).hexdigest())
    return ("result", result.call, str(result.is_error), artifact, *map("".join, others))


def without_reminders(text: str) -> str:
    """The text without the reminders that a program added for the model."""
    return _REMINDERS.sub("", text) if "</system-reminder>" in text else text


def _is_reminder(text: str) -> bool:
    return "</system-reminder>" in text and _REMINDER.fullmatch(text) is not None


def _meaningful(value: Any) -> Any:
    """A provider's object without cache marks and item ids."""
    if isinstance(value, dict):
        return {key: _meaningful(item) for key, item in value.items() if key not in _MEANINGLESS}
    if isinstance(value, list):
        return [_meaningful(item) for item in value]
    return value


def _without_volatile(value: Any) -> Any:
    """Text or a system prompt, without cache marks and without lines that change with every
    call."""
    if isinstance(value, str):
        return _VOLATILE.sub("", value) if "cch=" in value else value
    if isinstance(value, list):
        return [_without_volatile(item) for item in value]
    if isinstance(value, dict):
        return {
            key: _without_volatile(item) if key == "text" else item
            for key, item in value.items()
            if key != "cache_control"
        }
    return value


# --- the fronts of a log ---

ReadLog = Callable[[int, int], Iterable[Event]]  # events after a seq, up to another


class Fronts:
    """The fronts of one log read so far, oldest first: one for each message that the owner of the
    history knows. To begin in the middle, pass the front there."""

    def __init__(self, begun: bytes = BEGINNING, head: int = 0) -> None:
        self.begun, self.head = begun, head  # the front before the first one, the last seq read
        self.fronts: list[bytes] = []
        self.seqs: list[tuple[int, ...]] = []
        self._indexes: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self.fronts)

    def follow(self, read: ReadLog, head: int) -> None:
        """Reads on up to the head; starts over after a restore or revert, without the messages that
        it switched off."""
        for event in read(self.head, head) if self.head < head else ():
            if event.kind in REACHING:
                self.forget()
                off = switches(read(0, head)).off
                for earlier in read(0, head):
                    if earlier.kind == "message" and earlier.seq not in off:
                        self._add(earlier)
                break
            if event.kind == "message":
                self._add(event)
        self.head = head

    def follow_stored(self, store: Store, id: str) -> None:
        """Like `follow`, for a log that is not open; empty if it no longer exists."""
        head = store.head(id)
        if head is None:
            self.forget()
            return
        self.follow(reader(store, id), head)

    def forget(self) -> None:
        """Starts over."""
        self.begun, self.head = BEGINNING, 0
        self.fronts.clear()
        self.seqs.clear()
        self._indexes.clear()

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
        self._indexes[front] = len(self.fronts)
        self.fronts.append(front)
        self.seqs.append((event.seq,))

    def longest(self, fronts: Sequence[bytes]) -> tuple[int, int]:
        """The number of messages of a list that the log has, and the number of its own messages up
        to there. These may differ: a compacted page that comes back is shorter than the log."""
        for count in range(len(fronts), 0, -1):
            index = self._indexes.get(fronts[count - 1])
            if index is not None:
                return count, index + 1
        return 0, 0

    def seqs_of(self, front: bytes) -> tuple[int, ...]:
        """The seqs of the last message of a front; empty if it is not in this log."""
        index = self._indexes.get(front)
        return () if index is None else self.seqs[index]


def reader(store: Store, id: str) -> ReadLog:
    """A function that reads a stored log page by page."""

    def read(after: int, last: int) -> Iterator[Event]:
        pages = pages_of(store, id, after=after, last=last)
        return (event for page in pages for event in page)

    return read


def _front_in(key: str) -> bytes | None:
    """The front in a key, if it has one."""
    if not key.startswith(MIRRORED):
        return None
    try:
        return bytes.fromhex(key[len(MIRRORED) :])
    except ValueError:
        return None
