"""Gemini contents, the way out: messages and blocks as this provider has them.

All results of a turn go back in one user content, directly after the calls, in their order, and
what else is said stands behind them. Ids go back only where Gemini gave them. Calls that another
model made carry the signature that Google documents for them, because newer models refuse the first
call of a step without one. Neighbours: `gemini` is the way in, `form` fills in what is unusual.
"""

from __future__ import annotations

from collections.abc import Sequence
from mimetypes import guess_type
from typing import Any, assert_never

from msgspec.structs import replace

from refold.core.model import Block, Media, Message, Opaque, Text, Thinking, ToolCall, ToolResult
from refold.dialects.foreign import media_as_note, opaque_as_text, said_by_system, with_object
from refold.dialects.form import HOLE, Misfit, beside_text, fill, words_of
from refold.dialects.gemini.fields import NAME, Numbering, is_made, value_in
from refold.dialects.wire import EMPTY, copied, is_gone, report

UNSIGNED = "skip_thought_signature_validator"
_BLANK: tuple[Any, ...] = (None, "", False)


def render(messages: Sequence[Message], lost: list[str]) -> list[dict[str, Any]]:
    """Lawful messages in this wire format. What it cannot say is described in `lost`."""
    rendering = _Rendering(lost)
    for message in messages:
        rendering.add(message)
    return rendering.out


class _Rendering:
    """One rendering under way. `calls` are those of the last answer as they are shown, by the
    ids of the log, in order; `answers` are the results of them that the last content out holds."""

    def __init__(self, lost: list[str]) -> None:
        self.lost, self.out = lost, list[dict[str, Any]]()
        self.calls: dict[str, ToolCall] = {}
        self.answers: list[tuple[str, dict[str, Any]]] = []

    def add(self, message: Message) -> None:
        own = message.dialect == NAME
        if message.role == "system":  # `request` sees the whole page and gives it its place
            self.answers = []
            self.out.append({"role": "system", "parts": [{"text": said_by_system(message)}]})
            return
        if message.role == "assistant":
            self.calls = _shown_calls(message, own)
        asked = [block.call for block in message.blocks if type(block) is ToolResult]
        message = replace(
            message, blocks=tuple(self._named(block, own) for block in message.blocks)
        )
        wire = _with_parts(_own_wire(message) if own else self._foreign_wire(message))
        if asked and message.role != "assistant":
            self._answer(asked, wire, own)
        else:
            self.answers = []
            self.out.append(wire)

    def _named(self, block: Block, own: bool) -> Block:
        """A result under the name and id of its call, and another provider's call under an id
        that is not sent."""
        if type(block) is ToolCall:
            return self.calls.get(block.id, block)
        if type(block) is not ToolResult:
            return block
        call = self.calls.get(block.call)
        if call is not None:
            return replace(block, call=call.id, name=call.name)
        return (
            block
            if own
            else replace(block, call=Numbering().id({}, block.name), name=block.name or "tool")
        )

    def _answer(self, asked: list[str], wire: dict[str, Any], own: bool) -> None:
        """Puts results out, joined with those that are out already: in the order of the calls,
        what else is said behind them. What this provider's own user sent in one content stays as
        it is."""
        answers = list(zip(asked, filter(_is_answer, wire["parts"])))
        if self.answers or not own:
            before = self.out.pop() if self.answers else wire
            rest = (
                [part for part in before["parts"] if not _is_answer(part)] if self.answers else []
            )
            rest += [part for part in wire["parts"] if not _is_answer(part)]
            order = list(self.calls)
            answers = sorted(
                [*self.answers, *answers],
                key=lambda one: order.index(one[0]) if one[0] in order else 0,
            )
            wire = {**before, "parts": [part for _, part in answers] + rest}
        self.out.append(wire)
        self.answers = answers

    # --- from other providers ---

    def _foreign_wire(self, message: Message) -> dict[str, Any]:
        source = message.dialect or "elsewhere"
        blocks: list[Block] = []
        for block in message.blocks:
            blocks += self._translated(block, source)
        wire = usual(Message(role=message.role, blocks=tuple(blocks)))
        return _signed(wire, UNSIGNED) if message.role == "assistant" else wire

    def _translated(self, block: Block, source: str) -> list[Any]:
        """Another provider's block in blocks that can be said here."""
        match block:
            case Text():
                return [block]
            case ToolCall():
                return [with_object(block, self.lost)]
            case ToolResult():
                return self._translated_result(block, source)
            case Thinking():
                if not is_gone(block):
                    report(self.lost, f"thinking from {source} is not sent to {NAME}")
                return []
            case Opaque():
                text = opaque_as_text(block, source, self.lost)
                return [text] if text is not None else []
            case Media():
                return [_translated_media(block, source, self.lost)]
            case _:
                assert_never(block)

    def _translated_result(self, result: ToolResult, source: str) -> list[Any]:
        """The result, and its media behind it: older models take none inside."""
        parts = [made for part in result.content for made in self._translated(part, source)]
        media = [part for part in parts if type(part) is Media]
        said = replace(result, content=tuple(part for part in parts if type(part) is Text))
        if not media:
            return [said]
        report(self.lost, f"media in a result of {result.name} stands behind it")
        return [said, Text(f"From the result of {result.name}:"), *media]


def _shown_calls(message: Message, own: bool) -> dict[str, ToolCall]:
    calls = [block for block in message.blocks if type(block) is ToolCall]
    if own:
        return {call.id: call for call in calls}
    numbering = Numbering()
    return {call.id: replace(call, id=numbering.id({}, call.name)) for call in calls}


def _translated_media(media: Media, source: str, lost: list[str]) -> Media | Text:
    """Media with its type, which this provider must know. A file id is known only to the
    provider that gave it."""
    mime = media.mime or guess_type(media.url.partition("?")[0])[0] or ""
    if mime and (media.data or media.url):
        return replace(media, mime=mime)
    return media_as_note(media, source, NAME, lost)


# --- own contents ---


def _own_wire(message: Message) -> dict[str, Any]:
    if message.form is None:
        return usual(message)
    try:
        wire: dict[str, Any] = fill(message.form, message.blocks, own_part, str)
    except Misfit:
        wire = usual(message)
    return _signed(wire, _first_signature(message.form[1])) if message.role == "assistant" else wire


def _first_signature(form: dict[str, Any]) -> Any:
    """The signature of the first call in a form; it must come back, whatever became of the
    call's arguments."""
    for part in form.get("parts", ()):
        reference = part.get(HOLE) if type(part) is dict else None
        kept = reference[1] if type(reference) is list else None
        if value_in(kept, "functionCall") is not None:
            return value_in(kept, "thoughtSignature")
        if type(reference) is int:
            return None
    return None


def _signed(wire: dict[str, Any], signature: Any) -> dict[str, Any]:
    """The content with a signature on its first call, if that has none."""
    first = next(
        (part for part in wire["parts"] if value_in(part, "functionCall") is not None), None
    )
    if first is not None and signature and value_in(first, "thoughtSignature") is None:
        first["thoughtSignature"] = signature
    return wire


def _with_parts(wire: dict[str, Any]) -> dict[str, Any]:
    """The content without empty parts, and never empty, in a role that this provider knows."""
    if wire.get("role") not in ("user", "model"):
        wire = {"role": "user"} | {key: value for key, value in wire.items() if key != "role"}
    wire["parts"] = [part for part in wire["parts"] if not _is_blank(part)] or [{"text": EMPTY}]
    return wire


def _is_blank(part: dict[str, Any]) -> bool:
    return all(value in _BLANK for key, value in part.items() if key != "thought")


def _is_answer(part: dict[str, Any]) -> bool:
    return value_in(part, "functionResponse") is not None


# --- the usual form ---


def usual(message: Message) -> dict[str, Any]:
    """The message as this provider usually has it."""
    role = "model" if message.role == "assistant" else "user"
    return {
        "role": role,
        "parts": [own_part(block) for block in message.blocks if not is_gone(block)],
    }


def own_part(block: Any) -> Any:
    """A block as a part of this provider's content."""
    match block:
        case Text():
            return {"text": block.text}
        case ToolCall():
            return {
                "functionCall": _identity(block.id)
                | {"name": block.name, "args": copied(block.arguments)}
            }
        case ToolResult():
            return {"functionResponse": _answer_of(block)}
        case Thinking():
            signature = {"thoughtSignature": block.signature} if block.signature else {}
            return {"text": block.text, "thought": True, **signature} if block.text else signature
        case Media():
            return _media_part(block)
        case Opaque():
            return copied(block.raw) if block.raw is not None else {"text": block.text}


def _identity(id: str) -> dict[str, Any]:
    return {} if is_made(id) else {"id": id}


def _answer_of(result: ToolResult) -> dict[str, Any]:
    response = {"error" if result.is_error else "output": words_of(result)}
    answer = _identity(result.call) | {"name": result.name, "response": response}
    beside = [own_part(part) for part in beside_text(result)]
    return answer | {"parts": beside} if beside else answer


def _media_part(media: Media) -> dict[str, Any]:
    name = {"displayName": media.name} if media.name else {}
    mime = {"mimeType": media.mime} if media.mime else {}
    if media.data:
        return {"inlineData": {**mime, "data": media.data, **name}}
    return {"fileData": {**mime, "fileUri": media.url or media.file, **name}}
