"""What every dialect does alike with another provider's blocks, and says alike when something is
lost on the way.

Neighbours: the render modules, which know what their own provider can say; `wire` reads values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import assert_never

from msgspec import Struct
from msgspec.structs import replace

from refold.core.arguments import arguments_object
from refold.core.model import (
    Block,
    Media,
    Message,
    Opaque,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from refold.dialects.wire import is_gone, present, report, shown_text


class Accepts(Struct, frozen=True, kw_only=True):
    """What a dialect takes of other providers: how it wants their media and calls, and whether it
    can mark a result as an error. `media` and `call` report what they lose."""

    name: str
    media: Callable[[Media, str, list[str]], Text | Media]
    call: Callable[[ToolCall, list[str]], ToolCall]
    marks_errors: bool


def translated(message: Message, accepts: Accepts, lost: list[str]) -> Message:
    """Another provider's message in blocks that can be said here."""
    blocks = Translation(message, accepts, lost).blocks(message.blocks)
    return Message(role=message.role, blocks=tuple(blocks))


class Translation:
    """One message of another provider on its way into a dialect."""

    def __init__(self, message: Message, accepts: Accepts, lost: list[str]) -> None:
        self.source = message.dialect or "elsewhere"
        self.accepts, self.lost = accepts, lost

    def blocks(self, blocks: Iterable[Block]) -> list[Block]:
        """The blocks that can be said, in their order."""
        return present(map(self.block, blocks))

    def block(self, block: Block) -> Block | None:
        """The block in a form that can be said; None if there is none."""
        match block:
            case Text():
                return block
            case ToolCall():
                return self.accepts.call(block, self.lost)
            case ToolResult():
                return self.result(block)
            case Media():
                return self.accepts.media(block, self.source, self.lost)
            case Opaque():
                return self.opaque(block)
            case Thinking():
                self.report_thinking(block)
                return None
            case _:
                assert_never(block)

    def result(self, result: ToolResult) -> ToolResult:
        """The result with what can be said of its content."""
        name = self.accepts.name
        if result.is_error and not self.accepts.marks_errors:
            report(self.lost, f"{name} has no mark for a tool result that is an error")
        parts = self.blocks(result.content)
        said = tuple(part for part in parts if isinstance(part, Text | Media))
        return replace(result, content=said)

    def opaque(self, block: Opaque) -> Text | None:
        """A block that only its own provider understands, as the text in it."""
        text = shown_text(block)
        if block.raw is not None:
            kind = block.raw.get("type") if isinstance(block.raw, dict) else None
            fate = "sent as text" if text else "not sent"
            report(self.lost, f"a block of type {kind!r} from {self.source} is {fate}")
        return Text(text) if text else None

    def report_thinking(self, thinking: Thinking) -> None:
        """Says that thinking is left out: only the provider whose model thought it takes it."""
        if not is_gone(thinking):
            name = self.accepts.name
            report(self.lost, f"thinking from {self.source} is not sent to {name}")


def media_as_note(media: Media, source: str, name: str, lost: list[str]) -> Text:
    """Media that the dialect `name` has no form for, as a note in its place."""
    note = shown_text(media)
    report(lost, f"{note} from {source} is sent as a note: {name} has no form for it")
    return Text(note)


def with_file_name(media: Media) -> Media:
    """A document with a name, for providers that need one."""
    if media.media != "document" or media.name:
        return media
    return replace(media, name=f"document.{media.mime.rpartition('/')[2]}")


def with_object(call: ToolCall, lost: list[str]) -> ToolCall:
    """The call with its arguments as an object, for providers that take no text there."""
    arguments = arguments_object(call)
    if arguments is None:
        report(
            lost, f"the arguments of call {call.id} are not a JSON object: sent as text under _raw"
        )
        arguments = {"_raw": call.arguments}
    return replace(call, arguments=arguments)


def as_it_is(call: ToolCall, lost: list[str]) -> ToolCall:
    """The call unchanged, for providers that take any."""
    return call
