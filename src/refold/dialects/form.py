"""The form of a message: what brings it back exactly as it came, and carries its unknown keys
through every edit.

A wire message is parsed into blocks. If the dialect's usual rendering of these blocks is the
message again, nothing more is kept. Else its form is kept: the message with everything a block
holds carved out, so no text is stored twice, and an edited block still fills its place among keys
we do not know. A hole is an object with the one key "$":

    {"$": 2}            block 2, as the dialect usually writes it
    {"$": [2, {…}]}     block 2, in a form of its own, with holes for its fields: {"$": "text"}
    {"$": {"$": …}}     no hole: the sender's own object that looks like one

Neighbours: `wire` compares and copies; the dialects say where their blocks stand.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeGuard

from msgspec import Struct

from refold.core.model import (
    Block,
    Media,
    Message,
    Opaque,
    Role,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from refold.dialects.wire import MISSING, Path, at, copied, is_gone, text_within

HOLE = "$"

Found = list[tuple[Path, Block]]
Same = Callable[[Any, Any], bool]
Show = Callable[[Any], Any]


class Speech(Struct, frozen=True):
    """How a dialect writes: its name, a message and a block as it usually has them."""

    name: str
    usual: Callable[[Message], Any]
    part: Show


def message_of(
    role: Role, wire: dict[str, Any], found: Found, speech: Speech, same: Same
) -> Message:
    """The parsed message; its form is kept only if the dialect's usual rendering is not the
    message again."""
    metadata = wire.pop("metadata") if isinstance(wire.get("metadata"), dict) else {}
    blocks = tuple([block for _, block in found])
    message = Message(role=role, blocks=blocks, dialect=speech.name, metadata=metadata)
    if same(wire, speech.usual(message)):
        return message
    form = form_of(wire, found, speech.part, same)
    return Message(role=role, blocks=blocks, dialect=speech.name, metadata=metadata, form=form)


# --- carving ---

# Gemini names these in either spelling, and a result's text by one of these keys.
_CALLED = ("functionCall", "function_call")
_ANSWERED = ("functionResponse", "function_response")
ANSWER_KEYS = ("output", "result", "content", "error")

# Where a block's fields may stand in its part. A place counts only if the very value stands there.
_PLACES: dict[type, tuple[tuple[Path, str], ...]] = {
    Text: ((("text",), "text"), (("refusal",), "text")),
    Thinking: (
        (("thinking",), "text"), (("text",), "text"), (("signature",), "signature"), (("data",), "data"),
        (("thoughtSignature",), "signature"), (("thought_signature",), "signature"),
    ),
    ToolCall: (
        (("id",), "id"), (("input",), "arguments"), (("arguments",), "arguments"),
        (("function", "arguments"), "arguments"), (("custom", "input"), "arguments"),
        *(((call, "id"), "id") for call in _CALLED), *(((call, "args"), "arguments") for call in _CALLED),
    ),
    ToolResult: (
        (("tool_use_id",), "call"), (("tool_call_id",), "call"), (("content",), "content"),
        *(((answer, "id"), "call") for answer in _ANSWERED),
        *(((answer, "response"), "response") for answer in _ANSWERED),
        *(((answer, "response", key), "words") for answer in _ANSWERED for key in ANSWER_KEYS),
    ),
    Media: (
        (("source", "data"), "data"), (("source", "url"), "url"), (("image_url", "url"), "url"),
        (("image_url", "url"), "data_url"), (("input_audio", "data"), "data"),
        (("file", "file_id"), "file"), (("source", "file_id"), "file"), (("file", "file_data"), "data_url"),
        (("inlineData", "data"), "data"), (("inline_data", "data"), "data"),
        (("fileData", "fileUri"), "url"), (("file_data", "file_uri"), "url"),
        (("fileData", "fileUri"), "file"), (("file_data", "file_uri"), "file"),
    ),
    Opaque: (),
}  # fmt: skip

_GONE: Any = object()


def form_of(wire: dict[str, Any], found: Found, show: Show, same: Same) -> Any:
    """The message with its blocks carved out, behind their count: `[count, message]`."""
    holes = {
        path: _reference(index, at(wire, path), block, show, same)
        for index, (path, block) in enumerate(found)
    }
    return [len(found), carve(wire, holes)]


def _reference(index: int, value: Any, block: Any, show: Show, same: Same) -> Any:
    if type(value) is str:
        return [index, {HOLE: "text"}]
    if same(value, show(block)):
        return index
    return [index, carve(value, _fields_in(value, block, show, same))]


def _fields_in(value: Any, block: Block, show: Show, same: Same) -> dict[Path, Any]:
    holes: dict[Path, Any] = {
        path: name
        for path, name in _PLACES[type(block)]
        if (item := at(value, path)) is not MISSING and same(item, field_of(block, name))
    }
    if isinstance(block, ToolResult) and isinstance(value.get("content"), list):
        parts = zip(value["content"], block.content)
        holes["content",] = [
            "content",
            [{HOLE: _reference(i, *part, show, same)} for i, part in enumerate(parts)],
        ]
    for answer in _ANSWERED:
        if isinstance(block, ToolResult) and isinstance(
            listed := at(value, (answer, "parts")), list
        ):
            parts = zip(listed, beside_text(block))
            forms = [{HOLE: _reference(i, *part, show, same)} for i, part in enumerate(parts)]
            holes[answer, "parts"] = ["beside", forms]
    return holes


def carve(value: Any, holes: Mapping[Path, Any], path: Path = ()) -> Any:
    """The value with a hole at every given path. What only looks like a hole is kept as it is,
    behind a hole."""
    if path in holes:
        return {HOLE: holes[path]}
    if type(value) is dict:
        if len(value) == 1 and HOLE in value:
            return {HOLE: value}
        return {key: carve(item, holes, (*path, key)) for key, item in value.items()}
    if type(value) is list:
        return [carve(item, holes, (*path, index)) for index, item in enumerate(value)]
    return value


def field_of(block: Any, name: str) -> Any:
    """A block's field as it stands on the wire. AttributeError if an edit made another kind of
    block of it."""
    if name == "content":
        return text_within(block.content)
    if name == "data_url":
        return f"data:{block.mime};base64,{block.data}"
    if name == "words":
        return words_of(block)
    if name == "response":
        return response_of(block)
    return getattr(block, name)


def response_of(result: ToolResult) -> dict[str, Any]:
    """A result as an object: the one its text is the JSON of, else its text by the key that
    tells what it is."""
    text = words_of(result)
    try:
        value = json.loads(text) if text.startswith("{") else None
    except (ValueError, RecursionError):
        value = None  # the text only begins like an object
    return value if type(value) is dict else {"error" if result.is_error else "output": text}


def words_of(result: ToolResult) -> str:
    """The text of a result, without what stands beside it."""
    return text_within([part for part in result.content if not _is_beside(part)])


def beside_text(result: ToolResult) -> list[Media | Opaque]:
    """What a result holds beside its text."""
    return [part for part in result.content if _is_beside(part)]


def _is_beside(part: Text | Media | Opaque) -> TypeGuard[Media | Opaque]:
    return type(part) is Media or (type(part) is Opaque and part.raw is not None)


# --- filling ---


class Misfit(Exception):
    """An edited message no longer fits its form."""


def fill(form: Any, blocks: Sequence[Block], show: Show, name: Callable[[str], str]) -> Any:
    """The wire message that a form and its blocks make, all copies. Ids go through `name`.
    Misfit if a block is gone or became something that its place cannot hold."""
    count, wire = form
    if count != len(blocks):
        raise Misfit
    return _Filling(show, name).value(wire, blocks, None)


def _fits(form: Any, block: Any) -> bool:
    """Whether a form has a place for the text or arguments that its block came without and may
    have now."""
    if type(block) is ToolResult:
        return not words_of(block) or _holds(form, ("content", "words", "response"))
    return type(block) is not ToolCall or not block.arguments or _holds(form, ("arguments",))


def _holds(form: Any, names: tuple[str, ...]) -> bool:
    if type(form) is not dict:
        return False
    if form.keys() != {HOLE}:
        return any(_holds(item, names) for item in form.values())
    reference = form[HOLE]
    return (reference[0] if type(reference) is list else reference) in names


class _Filling:
    """One walk over a form. `parts` are what numbers refer to, `owner` is the block whose fields
    names refer to."""

    def __init__(self, show: Show, name: Callable[[str], str]) -> None:
        self.show, self.name = show, name

    def value(self, form: Any, parts: Sequence[Any], owner: Any) -> Any:
        if type(form) is dict:
            if HOLE in form and len(form) == 1:
                return self.hole(form[HOLE], parts, owner)
            pairs = ((key, self.value(item, parts, owner)) for key, item in form.items())
            return {key: item for key, item in pairs if item is not _GONE}
        if type(form) is list:
            return [
                item
                for item in (self.item(item, parts, owner) for item in form)
                if item is not _GONE
            ]
        return form

    def item(self, form: Any, parts: Sequence[Any], owner: Any) -> Any:
        """A list's item: where the block became another kind, its usual rendering may stand as
        well."""
        try:
            return self.value(form, parts, owner)
        except Misfit:
            if not isinstance(form, dict) or form.keys() != {HOLE}:
                raise
            return self.usual(parts[form[HOLE][0]])

    def hole(self, reference: Any, parts: Sequence[Any], owner: Any) -> Any:
        if type(reference) is int:
            return self.usual(parts[reference])
        if type(reference) is str:
            return self.field(owner, reference)
        if type(reference) is dict:
            return copied(reference)
        index, form = reference
        if index == "content":
            return self.content(form, owner.content, owner)
        if index == "beside":
            return self.content(form, beside_text(owner), owner) or _GONE
        return self.own(form, parts[index])

    def own(self, form: Any, block: Any) -> Any:
        if is_gone(block):
            return _GONE
        if not _fits(form, block):
            raise Misfit
        try:
            return self.value(form, getattr(block, "content", ()), block)
        except AttributeError:
            raise Misfit from None

    def field(self, owner: Any, name: str) -> Any:
        value = field_of(owner, name)
        return self.name(value) if name in ("id", "call") else copied(value)

    def content(self, forms: list[Any], parts: Sequence[Any], owner: ToolResult) -> list[Any]:
        if len(forms) == len(parts):
            return self.value(forms, parts, owner)  # type: ignore[no-any-return]
        return [part for part in map(self.usual, parts) if part is not _GONE]

    def usual(self, block: Any) -> Any:
        shown = None if is_gone(block) else self.show(block)
        return _GONE if shown is None else shown
