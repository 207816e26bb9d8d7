"""Rendering of Gemini contents: messages and blocks as the provider accepts them.

All results of a turn go into one user content, directly after the calls, in their order, before any
other part. Calls of other models carry the signature that Google documents for them, because newer
models refuse the first call of a step without one. Ids are optional in Gemini: calls and responses
match by name and order. The log needs ids, so the second call of `read` without an id becomes
`gemini:read:2`, as does its response; such an id is never sent. Every part is repaired: it has one
value, and incomplete values become notes. Neighbours: `parse` is the way in, `original_form`
restores unusual shapes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from mimetypes import guess_type
from typing import Any

from msgspec.structs import replace

from refold.checked import quoted
from refold.core.model import Block, Media, Message, Opaque, Text, Thinking, ToolCall, ToolResult
from refold.dialects.input import text_in
from refold.dialects.original_form import HOLE, beside_text, filled, words_of
from refold.dialects.protocol import FindCalls
from refold.dialects.wire import (
    EMPTY,
    Accepts,
    Translation,
    at,
    copied,
    is_base64,
    is_gone,
    media_as_note,
    objects_in,
    plain_id,
    present,
    refused_text,
    report,
    system_text,
    with_object,
)

NAME = "gemini"
_MADE = f"{NAME}:"
# Documented by Google as the signature of a call that has none.
UNSIGNED = "skip_thought_signature_validator"
# Names of a part's content; a part has exactly one of them.
HELD = (
    "text", "inlineData", "fileData", "functionCall", "functionResponse", "executableCode",
    "codeExecutionResult", "toolCall", "toolResponse",
)  # fmt: skip

Wire = dict[str, Any]


# --- fields in either spelling, and ids ---


@lru_cache(256)
def snake(name: str) -> str:
    """The SDK's spelling of a REST name."""
    return re.sub(r"[A-Z]", lambda capital: f"_{capital[0].lower()}", name)


def value_in(fields: Any, name: str) -> Any:
    """The field of that REST name, in either spelling; None if it is missing or null."""
    if not isinstance(fields, Mapping):
        return None
    value = fields.get(name)
    return fields.get(snake(name)) if value is None else value


def text_at(fields: Any, name: str) -> str:
    """The text in the field of that REST name; empty if there is none."""
    value = value_in(fields, name)
    return value if isinstance(value, str) else ""


def made_id(tool: str, number: int) -> str:
    """The generated id of a tool's n-th call, or n-th result, without an id."""
    return f"{_MADE}{tool}:{number}"


def is_made(id: str) -> bool:
    """Whether the id was generated here, so that it must not be sent."""
    return id.startswith(_MADE)


class Numbering:
    """Generates the ids of one content's calls and results."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}

    def id(self, fields: Mapping[str, Any], tool: str) -> str:
        """The sender's id, or the next generated one for this tool."""
        return text_in(fields, "id") or self.next(tool)

    def next(self, tool: str) -> str:
        """The next generated id for a call of this tool."""
        self.counts[tool] = self.counts.get(tool, 0) + 1
        return made_id(tool, self.counts[tool])


def answering(message: Message, find_calls: FindCalls) -> Message:
    """The message, its results without an id under the ids of the calls they answer, by name and
    order."""
    calling = find_calls()
    if calling is None:
        return message
    pending: dict[str, list[str]] = {}  # ids of the calls, by tool
    for call in calling.blocks:
        if isinstance(call, ToolCall):
            pending.setdefault(call.name, []).append(call.id)
    blocks: list[Block] = []
    for block in message.blocks:
        if isinstance(block, ToolResult) and is_made(block.call) and pending.get(block.name):
            block = replace(block, call=pending[block.name].pop(0))
        blocks.append(block)
    return replace(message, blocks=tuple(blocks))


# --- messages ---


def render(messages: Sequence[Message], lost: list[str]) -> list[Wire]:
    """Lawful messages in this wire format. Content that it cannot express is added to `lost`."""
    rendering = _Rendering(lost)
    for message in messages:
        rendering.add(message)
    return rendering.out


class _Rendering:
    """One rendering. `calls` are the rendered calls of the last answer by their ids in the log, in
    order; `answers` are their results in the last content of `out`, with those ids."""

    def __init__(self, lost: list[str]) -> None:
        self.lost, self.out = lost, list[Wire]()
        self.calls: dict[str, ToolCall] = {}
        self.answers: list[tuple[str, Wire]] = []

    def add(self, message: Message) -> None:
        if message.role == "system":  # `request` sees the whole page and moves it
            self._append({"role": "system", "parts": [{"text": system_text(message)}]})
            return
        own = message.dialect == NAME
        if message.role == "assistant":
            numbering = Numbering()
            self.calls = {
                call.id: call if own else replace(call, id=numbering.next(call.name))
                for call in message.blocks
                if type(call) is ToolCall
            }
        answered = [block.call for block in message.blocks if type(block) is ToolResult]
        blocks = tuple(self._identified(block, own) for block in message.blocks)
        message = replace(message, blocks=blocks)
        wire = _own_wire(message) if own else _foreign_wire(message, self.lost)
        if own and answered:
            self._name_answers(answered, wire)
        wire = repaired(wire, self.lost)
        if answered and message.role != "assistant":
            self._add_results(answered, wire, own)
        else:
            self._append(wire)

    def _append(self, wire: Wire) -> None:
        self.answers = []
        self.out.append(wire)

    def _add_results(self, answered: list[str], wire: Wire, own: bool) -> None:
        """Adds results, joined with those of the last content, in the order of their calls. A
        single content of this provider's own user keeps its order."""
        answers = list(zip(answered, filter(_is_answer, wire["parts"])))
        if self.answers or not own:
            contents = [self.out.pop(), wire] if self.answers else [wire]
            order = {id: index for index, id in enumerate(self.calls)}
            answers = [*self.answers, *answers]
            answers.sort(key=lambda answer: order.get(answer[0], 0))
            parts = (part for content in contents for part in content["parts"])
            rest = [part for part in parts if not _is_answer(part)]
            wire = {**contents[0], "parts": [part for _, part in answers] + rest}
        self.out.append(wire)
        self.answers = answers

    def _name_answers(self, answered: list[str], wire: Wire) -> None:
        """Puts each response under the name of its call, and under its id if it has one: a form
        keeps the values of the caller."""
        for id, part in zip(answered, filter(_is_answer, wire["parts"])):
            call = self.calls.get(id)
            answer = value_in(part, "functionResponse")
            if call is None or type(answer) is not dict:
                continue
            answer["name"] = call.name
            if is_made(call.id):
                answer.pop("id", None)
            elif answer.get("id") is not None:
                answer["id"] = call.id

    def _identified(self, block: Block, own: bool) -> Block:
        """A result under the name and id of its call; another provider's call under a generated
        id."""
        if type(block) is ToolCall:
            return self.calls.get(block.id, block)
        if type(block) is not ToolResult:
            return block
        call = self.calls.get(block.call)
        if call is not None:
            return replace(block, call=call.id, name=call.name)
        if own:
            return block
        return replace(block, call=made_id(block.name, 1), name=block.name or "tool")


# --- from other providers ---


def _foreign_wire(message: Message, lost: list[str]) -> Wire:
    translation = Translation(message, _ACCEPTS, lost)
    blocks: list[Block] = []
    for block in message.blocks:
        if type(block) is not ToolResult:
            blocks += translation.blocks([block])
            continue
        # Media follows its result, because older models accept none inside.
        content = translation.result(block).content
        media = [part for part in content if type(part) is Media]
        blocks.append(replace(block, content=tuple(part for part in content if type(part) is Text)))
        if media:
            report(lost, f"media in a result of {block.name} follows it")
            blocks += [Text(f"From the result of {block.name}:"), *media]
    wire = usual(Message(role=message.role, blocks=tuple(blocks)))
    if message.role == "assistant":
        _sign(wire, UNSIGNED)
    return wire


def _translated_media(media: Media, source: str, lost: list[str]) -> Media | Text:
    """Media with its type, which this provider requires. A file id means nothing here."""
    mime = media.mime or guess_type(media.url.partition("?")[0])[0] or ""
    if mime and (media.data or media.url):
        return replace(media, mime=mime)
    return media_as_note(media, source, NAME, lost)


_ACCEPTS = Accepts(name=NAME, media=_translated_media, call=with_object, marks_errors=True)


# --- own contents ---


def _own_wire(message: Message) -> Wire:
    """The content in its own form if it has one, else in the usual form."""
    if message.form is None:
        return usual(message)
    own: Wire | None = filled(message, own_part, str)
    wire = usual(message) if own is None else own
    if message.role == "assistant":
        _sign(wire, _first_signature(message.form))
    if message.role == "tool":  # results belong to the user, whatever role the caller set
        wire["role"] = "user"
    return wire


def _first_signature(form: Any) -> Any:
    """The signature of the first call in a form. It must be sent back even if the call's arguments
    were edited."""
    for part in objects_in(at(form, (1, "parts"))):
        reference = part.get(HOLE)
        if type(reference) is int:
            return None
        own_form = reference[1] if type(reference) is list else None
        if value_in(own_form, "functionCall") is not None:
            return value_in(own_form, "thoughtSignature")
    return None


def _sign(wire: Wire, signature: Any) -> None:
    """Puts a signature on the first call of a content, if that has none."""
    calls = (part for part in wire["parts"] if value_in(part, "functionCall") is not None)
    first = next(calls, None)
    if first is not None and signature and value_in(first, "thoughtSignature") is None:
        first["thoughtSignature"] = signature


def _is_answer(part: Wire) -> bool:
    return value_in(part, "functionResponse") is not None


# --- the usual form ---


def usual(message: Message) -> Wire:
    """The message in the provider's usual form."""
    role = "model" if message.role == "assistant" else "user"
    parts = [own_part(block) for block in message.blocks if not is_gone(block)]
    return {"role": role, "parts": parts}


def own_part(block: Any) -> Any:
    """A block as a part of this provider's content."""
    match block:
        case Text():
            return {"text": block.text}
        case ToolCall(name=name):
            arguments = copied(block.arguments)
            return {"functionCall": {**_identity(block.id), "name": name, "args": arguments}}
        case ToolResult(name=name):
            response = {"error" if block.is_error else "output": words_of(block)}
            answer = {**_identity(block.call), "name": name, "response": response}
            media = [own_part(part) for part in beside_text(block)]
            return {"functionResponse": {**answer, "parts": media} if media else answer}
        case Thinking():
            part: Wire = {"text": block.text, "thought": True} if block.text else {}
            if block.signature:
                part["thoughtSignature"] = block.signature
            return part
        case Media():
            return _media_part(block)
        case Opaque():
            return {"text": block.text} if block.raw is None else copied(block.raw)


def _identity(id: str) -> Wire:
    return {} if is_made(id) else {"id": id}


def _media_part(media: Media) -> Wire:
    """Media with its bytes, or its address."""
    name = {"displayName": media.name} if media.name else {}
    mime = {"mimeType": media.mime} if media.mime else {}
    if media.data:
        return {"inlineData": {**mime, "data": media.data, **name}}
    return {"fileData": {**mime, "fileUri": media.url or media.file, **name}}


# --- repair ---

_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}")
_NAME_LENGTH_MAX = 127
_BLANK: tuple[Any, ...] = (None, "", False)
_NAMED = ("functionCall", "functionResponse")
_SIGNED = ("thought", "thoughtSignature", "thought_signature")
_ROLE_OF = {"functionCall": "model", "functionResponse": "user", "executableCode": "model"}
# If a part has several values, the first in this order counts.
_FIRST = (*_NAMED, *HELD)


def repaired(wire: Wire, lost: list[str]) -> Wire:
    """The content without empty parts, but never empty, in a role that this provider has."""
    role = wire.get("role")
    if role not in ("user", "model"):
        wire = {"role": "user", **{key: wire[key] for key in wire if key != "role"}}
    parts = wire["parts"] if type(wire.get("parts")) is list else []
    valid = present(_part(part, wire["role"], lost) for part in parts)
    return {**wire, "parts": valid or [{"text": EMPTY}]}


def _part(part: Any, role: str, lost: list[str]) -> Wire | None:
    """A part as the provider accepts it, or None."""
    if type(part) is not dict:
        return _as_text(part, lost)
    if all(value in _BLANK for key, value in part.items() if key != "thought"):
        return None
    signature = value_in(part, "thoughtSignature")
    if role != "model":  # only the model thinks and signs
        part = _without(part, _SIGNED)
    elif signature is not None and not is_base64(signature):
        part = _without(part, _SIGNED[1:])
    name = next((name for name in _FIRST if value_in(part, name) is not None), None)
    if name is None:
        return part or None
    others = {spelling for other in HELD if other != name for spelling in (other, snake(other))}
    if any(part.get(other) is not None for other in others):
        part = _without(part, others)
    value = value_in(part, name)
    is_signed = value_in(part, "thoughtSignature") is not None
    if name == "text":
        return part if type(value) is str and (value or is_signed) else None
    if type(value) is not dict or role != _ROLE_OF.get(name, role):
        return _as_text(value, lost)
    if name in _NAMED:
        return _with_fitting_fields(part, name, value, lost)
    return part if _is_complete(name, value) else _as_text({"type": name}, lost)


def _as_text(value: Any, lost: list[str]) -> Wire | None:
    text = refused_text(value, NAME, lost)
    return {"text": text} if text else None


def _without(part: Wire, keys: set[str] | tuple[str, ...]) -> Wire:
    return {key: value for key, value in part.items() if key not in keys}


def _is_complete(name: str, value: Wire) -> bool:
    """Whether media has the fields that the provider requires."""
    if name == "inlineData":
        return is_base64(value.get("data")) and "/" in text_at(value, "mimeType")
    return name != "fileData" or bool(text_at(value, "fileUri"))


def _with_fitting_fields(part: Wire, name: str, value: Wire, lost: list[str]) -> Wire:
    """A call or a response with a name, an id and a response that the provider accepts."""
    tool = value.get("name")
    if type(tool) is not str or not _NAME.fullmatch(tool):
        tool = f"_{plain_id(str(tool), _NAME_LENGTH_MAX - 1)}"
        called = f"the tool {quoted(value.get('name'), 80)} is called {tool} here"
        report(lost, f"{called}: {NAME} takes no such name")
    fitting = {**value, "name": tool}
    if name == "functionResponse" and type(value.get("response")) is not dict:
        fitting["response"] = {}
    if type(fitting.get("id", "")) not in (str, type(None)):
        fitting.pop("id")
    if fitting == value:
        return part
    key = name if name in part else snake(name)
    return {**part, key: fitting}
