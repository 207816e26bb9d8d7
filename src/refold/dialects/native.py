"""Native summaries: compactions written by the provider itself, and their place on the page.

A native summary is opaque; it goes back to the provider unaltered and replaces the messages it
covers. Only its own wire format can carry it; other dialects show the text of the same edit.
Neighbours: the `native` module of each dialect that offers one; `page` shows it, and
`compaction.native` requests it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from itertools import pairwise
from typing import Any, Protocol, cast

from msgspec import Struct

from refold import dialects
from refold.core.laws import OPENING
from refold.core.model import Message, Native, Opaque, Slot, Text, Usage
from refold.dialects.wire import objects_in
from refold.errors import Invalid

# Whether a native summary can be sent on this page.
Takes = Callable[[Native], bool]
OFFERING = ("anthropic", "openai_responses")


class Written(Struct, frozen=True, kw_only=True):
    """A provider's native summary: its messages as they are sent back, their readable text, the
    token count of the encrypted rest, and the usage."""

    messages: list[Any]
    text: str = ""
    sealed_tokens: int = 0
    usage: Usage | None = None


class NativeWire(Protocol):
    """How to request a native summary. `headers` are needed by requests that ask for one or
    contain one; `path` is appended to the path of a usual call."""

    headers: Mapping[str, str]
    path: str

    def compacts(self, model: str) -> bool:
        """Whether the model accepts and writes native summaries, judged by its name."""
        ...

    def body(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """The body of a request to compact all messages of a usual request."""
        ...

    def call(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """The same as keyword arguments of the SDK's call."""
        ...

    def written(self, response: Any) -> Written:
        """The native summary in a response. Invalid if there is none."""
        ...


def takes_none(native: Native) -> bool:
    """For pages that show no native summaries."""
    return False


def native_wire(dialect: str) -> NativeWire | None:
    """The dialect's way to request native summaries; None if its provider offers none."""
    if dialect not in OFFERING:
        return None
    return cast(NativeWire, import_module(f"{dialects.DIALECTS[dialect]}.native"))


def without_opening(slots: Sequence[Slot], dialect: str) -> Sequence[Slot]:
    """The slots, without an opening before a caller's own compaction: the provider accepts a
    compaction only as the first message."""
    for index, (slot, following) in enumerate(pairwise(slots)):
        is_opening = slot.message.blocks == (Text(OPENING),)
        if is_opening and begins_compacted(following.message, dialect):
            return [*slots[:index], *slots[index + 1 :]]
    return slots


def begins_compacted(message: Message, dialect: str = "") -> bool:
    """Whether a message arrived beginning with a compaction, in this dialect or in any."""
    first = message.blocks[0] if message.blocks else None
    if dialect not in ("", message.dialect) or not isinstance(first, Opaque):
        return False
    return isinstance(first.raw, dict) and first.raw.get("type") == "compaction"


def readable(native: Native) -> tuple[str, int]:
    """The readable text of a native summary, and its number of encrypted characters."""
    blocks: list[dict[str, Any]] = []
    for message in objects_in(native.messages):
        blocks += objects_in(message.get("content")) or [message]
    texts = [block.get("content") or block.get("text") for block in blocks]
    sealed = [block.get("encrypted_content") for block in blocks]
    readable_text = "\n".join(text for text in texts if isinstance(text, str))
    return readable_text, sum(len(content) for content in sealed if isinstance(content, str))


def is_shown(slots: Iterable[Slot], takes: Takes) -> bool:
    """Whether the page shows a native summary."""
    return any(_written_messages(slot, takes) is not None for slot in slots)


def slot_messages(slot: Slot, takes: Takes) -> Sequence[Message]:
    """The messages of a slot: its native summary if the page can show it, else its message."""
    if slot.summary is None:
        return (slot.message,)
    return _written_messages(slot, takes) or (slot.message,)


def _written_messages(slot: Slot, takes: Takes) -> list[Message] | None:
    """The messages of a slot's native summary; None if there is none, or it is malformed."""
    native = slot.summary.native if slot.summary is not None else None
    if native is None or not native.messages or not takes(native):
        return None
    dialect = dialects.dialect(native.dialect)
    try:
        return [message for wire in native.messages for message in dialect.parse(wire)]
    except Invalid:
        return None
