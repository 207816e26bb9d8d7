"""Gemini contents, the way out: messages and blocks as this provider has them.

All results of a turn go back in one user content, directly after the calls, in their order, and
what else is said follows them. Ids go back only where Gemini gave them. Calls that another model
made carry the signature that Google documents for them, because newer models refuse the first call
of a step without one. Neighbours: `parse` is the way in, `form` fills in what is unusual.

Gemini contents, repaired: a part that came in a shape that the provider refuses goes out in one
that it takes.

A part holds one thing; what is not whole is said as a note or left out; only the model thinks and
signs. Neighbours: `render` sends every content through here, `dialects.repair` has what the
dialects share.

What the Gemini modules share: field names in either spelling, and ids for calls that come
without one.

REST writes `functionCall`, the SDK's objects have `function_call`; both come in, and the API takes
both. An id is optional there: calls and responses belong together by name and order. Ours need one,
so the second unnamed call of `read` in a content is `gemini:read:2`, and so is the second unnamed
response of `read`. Such an id is never sent. Neighbours: `parse` makes these ids, `render` and
`check` read fields by their names.
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
from refold.dialects.form import HOLE, beside_text, filled, words_of
from refold.dialects.input import text_in
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
# What Google documents as the signature of a call that has none.
UNSIGNED = "skip_thought_signature_validator"
# What a part holds; exactly one of these per part.
HELD = (
    "text", "inlineData", "fileData", "functionCall", "functionResponse", "executableCode",
    "codeExecutionResult", "toolCall", "toolResponse",
)  # fmt: skip


@lru_cache(256)
def snake(name: str) -> str:
    """The SDK's spelling of a REST name."""
    return re.sub(r"[A-Z]", lambda capital: f"_{capital[0].lower()}", name)


def value_in(fields: Any, name: str) -> Any:
    """The field of that REST name, in either spelling; None if it is not there, or null."""
    if not isinstance(fields, Mapping):
        return None
    value = fields.get(name)
    return fields.get(snake(name)) if value is None else value


def text_at(fields: Any, name: str) -> str:
    """The text in the field of that REST name, or nothing."""
    value = value_in(fields, name)
    return value if isinstance(value, str) else ""


def made_id(tool: str, number: int) -> str:
    """The id of the n-th call of a tool that came without one, and of the n-th result that did."""
    return f"{_MADE}{tool}:{number}"


def is_made(id: str) -> bool:
    """Whether we made the id, so that it must not be sent."""
    return id.startswith(_MADE)


class Numbering:
    """Makes the ids of one content's calls and results."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}

    def id(self, fields: Mapping[str, Any], tool: str) -> str:
        """The id that came, or the next one for this tool."""
        return text_in(fields, "id") or self.next(tool)

    def next(self, tool: str) -> str:
        """The next id for a call of this tool that came without one."""
        self.counts[tool] = self.counts.get(tool, 0) + 1
        return made_id(tool, self.counts[tool])


# --- results under the ids of their calls ---


def answering(message: Message, find_calls: FindCalls) -> Message:
    """The message with results that came without an id under the ids of the calls they answer,
    by name and order."""
    calling = find_calls()
    if calling is None:
        return message
    waiting = _ids_by_name(calling)
    return replace(message, blocks=tuple(_fields_named(block, waiting) for block in message.blocks))


def _ids_by_name(calling: Message) -> dict[str, list[str]]:
    """The ids of a message's calls by the names of their tools, in order."""
    ids: dict[str, list[str]] = {}
    for call in calling.blocks:
        if isinstance(call, ToolCall):
            ids.setdefault(call.name, []).append(call.id)
    return ids


def _fields_named(block: Block, waiting: dict[str, list[str]]) -> Block:
    """A result under the id of the next call that waits for it."""
    if not isinstance(block, ToolResult) or not is_made(block.call):
        return block
    ids = waiting.get(block.name)
    return replace(block, call=ids.pop(0)) if ids else block


Wire = dict[str, Any]


def render(messages: Sequence[Message], lost: list[str]) -> list[Wire]:
    """Lawful messages in this wire format. What it cannot say is described in `lost`."""
    rendering = _Rendering(lost)
    for message in messages:
        rendering.add(message)
    return rendering.out


class _Rendering:
    """One rendering under way. `calls` are those of the last answer as they are shown, by the
    ids of the log, in order; `answers` are the results of them that the last content out holds."""

    def __init__(self, lost: list[str]) -> None:
        self.lost, self.out = lost, list[Wire]()
        self.calls: dict[str, ToolCall] = {}
        self.answers: list[tuple[str, Wire]] = []

    def add(self, message: Message) -> None:
        if message.role == "system":  # `request` sees the whole page and gives it its place
            self._add_wire({"role": "system", "parts": [{"text": system_text(message)}]})
            return
        own = message.dialect == NAME
        if message.role == "assistant":
            self.calls = _shown_calls(message, own)
        answered = [block.call for block in message.blocks if type(block) is ToolResult]
        wire = self._wire(message, own)
        if own and answered:
            self._name_answers(answered, wire)
        wire = repaired(wire, self.lost)
        if answered and message.role != "assistant":
            self._add_results(answered, wire, own)
        else:
            self._add_wire(wire)

    def _add_wire(self, wire: Wire) -> None:
        self.answers = []
        self.out.append(wire)

    def _add_results(self, answered: list[str], wire: Wire, own: bool) -> None:
        """Puts results out, joined with those that are out already. What this provider's own user
        sent in one content stays as it is."""
        answers = list(zip(answered, filter(_is_answer, wire["parts"])))
        if self.answers or not own:
            before = self.out.pop() if self.answers else None
            answers = self._in_order([*self.answers, *answers])
            wire = _joined(before, wire, [part for _, part in answers])
        self.out.append(wire)
        self.answers = answers

    def _in_order(self, answers: list[tuple[str, Wire]]) -> list[tuple[str, Wire]]:
        """Results in the order of their calls."""
        order = {id: index for index, id in enumerate(self.calls)}
        return sorted(answers, key=lambda answer: order.get(answer[0], 0))

    # --- names and ids ---

    def _wire(self, message: Message, own: bool) -> Wire:
        blocks = tuple(self._named(block, own) for block in message.blocks)
        message = replace(message, blocks=blocks)
        return _own_wire(message) if own else _foreign_wire(message, self.lost)

    def _name_answers(self, answered: list[str], wire: Wire) -> None:
        """Puts each response under the name of its call, and under its id if it has one: a form
        keeps what the caller wrote there."""
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
        if own:
            return block
        return replace(block, call=made_id(block.name, 1), name=block.name or "tool")


def _shown_calls(message: Message, own: bool) -> dict[str, ToolCall]:
    """The calls of an answer by their ids in the log; another provider's under ids of ours."""
    calls = [block for block in message.blocks if type(block) is ToolCall]
    if own:
        return {call.id: call for call in calls}
    numbering = Numbering()
    return {call.id: replace(call, id=numbering.next(call.name)) for call in calls}


def _joined(before: Wire | None, wire: Wire, answers: list[Wire]) -> Wire:
    """One content of results, what else is said after them; `before` is out already."""
    contents = [wire] if before is None else [before, wire]
    parts = (part for content in contents for part in content["parts"])
    rest = [part for part in parts if not _is_answer(part)]
    return {**contents[0], "parts": answers + rest}


# --- from other providers ---


def _foreign_wire(message: Message, lost: list[str]) -> Wire:
    translation = Translation(message, _ACCEPTS, lost)
    blocks: list[Block] = []
    for block in message.blocks:
        if type(block) is ToolResult:
            blocks += _translated_result(block, translation)
        else:
            blocks += translation.blocks([block])
    wire = usual(Message(role=message.role, blocks=tuple(blocks)))
    return _signed(wire, UNSIGNED) if message.role == "assistant" else wire


def _translated_result(result: ToolResult, translation: Translation) -> list[Block]:
    """The result, and its media after it: older models take none inside."""
    content = translation.result(result).content
    media = [part for part in content if type(part) is Media]
    said = replace(result, content=tuple(part for part in content if type(part) is Text))
    if not media:
        return [said]
    report(translation.lost, f"media in a result of {result.name} follows it")
    return [said, Text(f"From the result of {result.name}:"), *media]


def _translated_media(media: Media, source: str, lost: list[str]) -> Media | Text:
    """Media with its type, which this provider must know. A file id is known only to the
    provider that gave it."""
    mime = media.mime or guess_type(media.url.partition("?")[0])[0] or ""
    if mime and (media.data or media.url):
        return replace(media, mime=mime)
    return media_as_note(media, source, NAME, lost)


_ACCEPTS = Accepts(name=NAME, media=_translated_media, call=with_object, marks_errors=True)


# --- own contents ---


def _own_wire(message: Message) -> Wire:
    """The content in its own form, or else in the usual one."""
    if message.form is None:
        return usual(message)
    own: Wire | None = filled(message, own_part, str)
    wire = usual(message) if own is None else own
    if message.role == "assistant":
        _signed(wire, _first_signature(message.form))
    if message.role == "tool":  # whoever the caller said gave the results
        wire["role"] = "user"
    return wire


def _first_signature(form: Any) -> Any:
    """The signature of the first call in a form; it must come back, whatever became of the
    call's arguments."""
    for part in objects_in(at(form, (1, "parts"))):
        reference = part.get(HOLE)
        if type(reference) is int:
            return None
        kept = reference[1] if type(reference) is list else None
        if value_in(kept, "functionCall") is not None:
            return value_in(kept, "thoughtSignature")
    return None


def _signed(wire: Wire, signature: Any) -> Wire:
    """The content with a signature on its first call, if that has none."""
    calls = (part for part in wire["parts"] if value_in(part, "functionCall") is not None)
    first = next(calls, None)
    if first is not None and signature and value_in(first, "thoughtSignature") is None:
        first["thoughtSignature"] = signature
    return wire


def _is_answer(part: Wire) -> bool:
    return value_in(part, "functionResponse") is not None


# --- the usual form ---


def usual(message: Message) -> Wire:
    """The message as this provider usually has it."""
    role = "model" if message.role == "assistant" else "user"
    parts = [own_part(block) for block in message.blocks if not is_gone(block)]
    return {"role": role, "parts": parts}


def own_part(block: Any) -> Any:
    """A block as a part of this provider's content."""
    match block:
        case Text():
            return {"text": block.text}
        case ToolCall():
            return {"functionCall": _call(block)}
        case ToolResult():
            return {"functionResponse": _answer(block)}
        case Thinking():
            return _thought(block)
        case Media():
            return _media_part(block)
        case Opaque():
            return {"text": block.text} if block.raw is None else copied(block.raw)


def _thought(thinking: Thinking) -> Wire:
    """A thought with its signature, or nothing but a signature."""
    part: Wire = {"text": thinking.text, "thought": True} if thinking.text else {}
    if thinking.signature:
        part["thoughtSignature"] = thinking.signature
    return part


def _identity(id: str) -> Wire:
    return {} if is_made(id) else {"id": id}


def _call(call: ToolCall) -> Wire:
    return {**_identity(call.id), "name": call.name, "args": copied(call.arguments)}


def _answer(result: ToolResult) -> Wire:
    response = {"error" if result.is_error else "output": words_of(result)}
    answer = {**_identity(result.call), "name": result.name, "response": response}
    beside = [own_part(part) for part in beside_text(result)]
    return {**answer, "parts": beside} if beside else answer


def _media_part(media: Media) -> Wire:
    """Media with what is known of it: its bytes, or its address."""
    name = {"displayName": media.name} if media.name else {}
    mime = {"mimeType": media.mime} if media.mime else {}
    if media.data:
        return {"inlineData": {**mime, "data": media.data, **name}}
    return {"fileData": {**mime, "fileUri": media.url or media.file, **name}}


_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}")
_NAME_LENGTH_MAX = 127
_BLANK: tuple[Any, ...] = (None, "", False)
_NAMED = ("functionCall", "functionResponse")
_SIGNED = ("thought", "thoughtSignature", "thought_signature")
_ROLE_OF = {"functionCall": "model", "functionResponse": "user", "executableCode": "model"}
# What is read of a part that holds several things, in this order.
_FIRST = (*_NAMED, *HELD)

RepairWire = dict[str, Any]


def repaired(wire: RepairWire, lost: list[str]) -> RepairWire:
    """The content without empty parts, and never empty, in a role that this provider knows."""
    role = wire.get("role")
    if role not in ("user", "model"):
        wire = {"role": "user", **{key: wire[key] for key in wire if key != "role"}}
    parts = wire["parts"] if type(wire.get("parts")) is list else []
    kept = present(_part(part, wire["role"], lost) for part in parts)
    return {**wire, "parts": kept or [{"text": EMPTY}]}


def _part(part: Any, role: str, lost: list[str]) -> RepairWire | None:
    """A part as the provider takes it; None for nothing."""
    if type(part) is not dict:
        return _as_text(part, lost)
    if all(value in _BLANK for key, value in part.items() if key != "thought"):
        return None
    part = _with_fitting_signature(part, role)
    held = [name for name in _FIRST if value_in(part, name) is not None]
    if not held:
        return part or None
    return _holding(part, held[0], role, lost)


def _holding(part: RepairWire, name: str, role: str, lost: list[str]) -> RepairWire | None:
    """A part that holds one thing, and that whole."""
    part = _with_one(part, name)
    value = value_in(part, name)
    is_signed = value_in(part, "thoughtSignature") is not None
    if name == "text":
        return part if type(value) is str and (value or is_signed) else None
    if type(value) is not dict or role != _ROLE_OF.get(name, role):
        return _as_text(value, lost)
    if name in _NAMED:
        return _named(part, name, value, lost)
    return part if _is_whole(name, value) else _as_text({"type": name}, lost)


def _as_text(value: Any, lost: list[str]) -> RepairWire | None:
    text = refused_text(value, NAME, lost)
    return {"text": text} if text else None


def _with_one(part: RepairWire, name: str) -> RepairWire:
    """The part with nothing else in it than the thing of that name."""
    others = {spelling for other in HELD if other != name for spelling in (other, snake(other))}
    is_alone = all(part.get(other) is None for other in others)
    return part if is_alone else _without(part, others)


def _without(part: RepairWire, keys: set[str] | tuple[str, ...]) -> RepairWire:
    return {key: value for key, value in part.items() if key not in keys}


def _with_fitting_signature(part: RepairWire, role: str) -> RepairWire:
    """The part without what only the model may say, and without a signature that is none."""
    if role != "model":
        return part if all(key not in part for key in _SIGNED) else _without(part, _SIGNED)
    signature = value_in(part, "thoughtSignature")
    if signature is None or is_base64(signature):
        return part
    return _without(part, _SIGNED[1:])


def _is_whole(name: str, value: RepairWire) -> bool:
    """Whether media has what the provider needs of it."""
    if name == "inlineData":
        return is_base64(value.get("data")) and "/" in text_at(value, "mimeType")
    return name != "fileData" or bool(text_at(value, "fileUri"))


# --- calls and answers ---


def _named(part: RepairWire, name: str, value: RepairWire, lost: list[str]) -> RepairWire:
    """A call or an answer under a name that the provider takes, with an object in it."""
    made = {**value, "name": _fitting_name(value.get("name"), lost)}
    if name == "functionResponse" and type(value.get("response")) is not dict:
        made["response"] = {}
    if type(made.get("id", "")) not in (str, type(None)):
        made.pop("id")
    if made == value:
        return part
    key = name if name in part else snake(name)
    return {**part, key: made}


def _fitting_name(name: Any, lost: list[str]) -> str:
    if type(name) is str and _NAME.fullmatch(name):
        return name
    fit = f"_{plain_id(str(name), _NAME_LENGTH_MAX - 1)}"
    report(lost, f"the tool {quoted(name, 80)} is called {fit} here: {NAME} takes no such name")
    return fit
