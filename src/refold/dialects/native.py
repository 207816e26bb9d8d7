"""A compaction that the provider writes itself: which dialects offer one, how it is asked for, and
what stands on the page afterwards.

What comes back is opaque and goes back unaltered, in the place of the messages it was made of. Only
the wire format it came in can say it; for any other the text of the same edit stands. Neighbours:
a module `native` of each dialect that offers one; `page` and `messages` show it, and
`compaction.native` asks for it.
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

# Whether what a provider wrote can be said on this page.
Takes = Callable[[Native], bool]
OFFERING = ("anthropic", "openai_responses")


class Written(Struct, frozen=True, kw_only=True):
    """What a provider wrote: its messages as they go back to it, what of them can be read, the
    tokens of what cannot, and what was billed."""

    messages: list[Any]
    text: str = ""
    sealed_tokens: int = 0
    usage: Usage | None = None


class NativeWire(Protocol):
    """How one provider is asked. `headers` are those that a request needs which asks for a
    compaction, or holds one; `path` is where that is asked, after the path of a usual call."""

    headers: Mapping[str, str]
    path: str

    def compacts(self, model: str) -> bool:
        """Whether the model takes and writes compactions, as far as its name tells."""
        ...

    def body(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """A usual request as one for a compaction of all its messages."""
        ...

    def call(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """The same as keyword arguments of the SDK's call."""
        ...

    def written(self, response: Any) -> Written:
        """What the provider wrote. Invalid if it is not there."""
        ...


def takes_none(native: Native) -> bool:
    """For a page that nothing opaque stands on."""
    return False


def native_wire(dialect: str) -> NativeWire | None:
    """How the provider of this dialect is asked; None if it offers no compaction."""
    if dialect not in OFFERING:
        return None
    return cast(NativeWire, import_module(f"{dialects.DIALECTS[dialect]}.native"))


def without_opening(slots: Sequence[Slot], dialect: str) -> Sequence[Slot]:
    """The slots; where a caller's own compaction begins the page, no opening stands before it: the
    provider takes it as the first only."""
    for at, (one, other) in enumerate(pairwise(slots)):
        if one.message.blocks == (Text(OPENING),) and begins_compacted(other.message, dialect):
            return [*slots[:at], *slots[at + 1 :]]
    return slots


def begins_compacted(message: Message, dialect: str = "") -> bool:
    """Whether a message begins with a compaction that came with it, in this dialect or any."""
    first = message.blocks[0] if message.blocks else None
    if dialect not in ("", message.dialect) or not isinstance(first, Opaque):
        return False
    return isinstance(first.raw, dict) and first.raw.get("type") == "compaction"


def readable(native: Native) -> tuple[str, int]:
    """What people can read of what a provider wrote, and how many characters are sealed."""
    messages = objects_in(native.messages)
    blocks = [block for one in messages for block in (objects_in(one.get("content")) or [one])]
    texts = [one.get("content") or one.get("text") for one in blocks]
    sealed = [one.get("encrypted_content") for one in blocks]
    said = "\n".join(text for text in texts if isinstance(text, str))
    return said, sum(len(one) for one in sealed if isinstance(one, str))


def is_shown(slots: Iterable[Slot], takes: Takes) -> bool:
    """Whether something that a provider wrote stands on the page."""
    return any(_written_messages(slot, takes) is not None for slot in slots)


def slot_messages(slot: Slot, takes: Takes) -> Sequence[Message]:
    """What a slot says: its message, or what the provider wrote."""
    if slot.summary is None:
        return (slot.message,)
    return _written_messages(slot, takes) or (slot.message,)


def _written_messages(slot: Slot, takes: Takes) -> list[Message] | None:
    """What the provider wrote; None if nothing, or nothing that can be said: a log may hold
    anything."""
    native = slot.summary.native if slot.summary is not None else None
    if native is None or not native.messages or not takes(native):
        return None
    spoken = dialects.dialect(native.dialect)
    try:
        return [message for wire in native.messages for message in spoken.parse(wire)]
    except Invalid:
        return None
