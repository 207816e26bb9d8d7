"""OpenAI Responses, the way out: messages and blocks as items.

An answer becomes its items in their order: words, calls, reasoning. The output of a call has the
type that the call's type demands; where a shortened output has no form there (a screenshot that
became a notice), the pair goes out as a function call. An answer that lost its reasoning also loses
the ids of its items: by an id the provider would miss what belongs to it. Neighbours: `parse` is
the way in, `items` has the forms, `usual` what stands where there is none.

OpenAI Responses, repaired: an item that came in a shape that the provider refuses goes out in
one that it takes.

An id that the provider cannot have given is left out; a part that it takes nowhere is said as text;
a call that lacks what its type needs is said as a function call. Neighbours: `render` sends every
item through here that is not plain text, `dialects.repair` has what the dialects share.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import Any

from msgspec.structs import replace

from refold.core.model import Media, Message, Role, Text, ToolCall, ToolResult
from refold.core.shortened import GAP
from refold.dialects.form import UNREADABLE, Misfit, filled
from refold.dialects.openai_responses.items import (
    INPUT_PARTS,
    NAME,
    OPEN_CALLS,
    OUTPUT_PARTS,
    REASONED,
    TEXT_OUTPUTS,
    call_of,
    filled_result,
    is_sayable,
    kind_of,
    own_part,
    usual,
    usual_call,
    usual_output,
    without_id,
)
from refold.dialects.openai_responses.items import argument_text as usual_argument_text
from refold.dialects.wire import (
    EMPTY,
    KNOWN_PARTS,
    Accepts,
    Translation,
    argument_text,
    as_it_is,
    fitting_name,
    is_data_url,
    is_gone,
    is_text,
    media_as_note,
    only_text,
    plain_id,
    present,
    refused_text,
    report,
    with_file_name,
)

ID_LENGTH_MAX = 64
_TEXT_PARTS = ("input_text", "output_text")
_FILES_SHARED_WITH = "openai_chat"

Item = dict[str, Any]


def render(messages: Sequence[Message], lost: list[str]) -> list[Item]:
    """Lawful messages in this wire format. What it cannot say is described in `lost`."""
    rendering = _Rendering(messages, lost)
    for message in messages:
        text = only_text(message)
        if text is not None and text.text and message.role != "tool":
            rendering.out.append({"role": message.role, "content": text.text})
        else:
            rendering.add(message)
    return rendering.out


class _Rendering:
    """One rendering under way. `kinds` are the types of the calls that are out, by their ids;
    `noted` are the calls whose result is not as it came."""

    def __init__(self, messages: Sequence[Message], lost: list[str]) -> None:
        self.lost, self.out = lost, list[Item]()
        self.kinds: dict[str, str] = {}
        self.noted = _noted_calls(messages)

    def add(self, message: Message) -> None:
        if message.dialect != NAME:
            message = _translated(message, self.lost)
        results = [block for block in message.blocks if type(block) is ToolResult]
        if results:
            self._add_results(message, results)
        else:
            self._add_items(message)

    def _add_results(self, message: Message, results: list[ToolResult]) -> None:
        """Puts out each result as an item of its own, and what else is said after them."""
        if len(message.blocks) == 1:
            self.out.append(self._output(message, results[0]))
            return
        for result in results:
            alone = replace(message, blocks=(result,), form=None)
            self.out.append(self._output(alone, result))
        rest = tuple(block for block in message.blocks if type(block) is not ToolResult)
        if rest:
            self._add_items(Message(role="user", blocks=rest, dialect=message.dialect))

    def _add_items(self, message: Message) -> None:
        calls = [block for block in message.blocks if type(block) is ToolCall]
        by_id = {self._id(call.id): call for call in calls}
        for made in self._items(message):
            item = repaired(made, self.lost)
            if item is not None and message.metadata.get(REASONED):
                item = {**item, REASONED: True}
            if item is not None:
                self._add_item(item, by_id.get(call_of(item)))

    def _add_item(self, item: Item, call: ToolCall | None) -> None:
        if call is not None:
            item = self._sayable_call(item, call)
        id = call_of(item)
        if id:
            self.kinds[id] = item["type"]
        self.out.append(item)

    def _items(self, message: Message) -> list[Item]:
        """The items of a message in their own form, or else in the usual one."""
        if message.form is None:
            return usual(message, self._id)
        own = filled(message, partial(own_part, role=message.role), self._id)
        made = usual(message, self._id) if own is None else own
        items = [_as_item(item, message.role) for item in made]
        if any(map(is_gone, message.blocks)):
            return [_unnamed(item) for item in items]
        return items

    def _sayable_call(self, item: Item, call: ToolCall) -> Item:
        """The item of a call, or a function call in its place if its output or its arguments
        became a notice."""
        kind = kind_of(item)
        if kind in OPEN_CALLS:
            arguments = item.get("arguments")
            is_object = isinstance(arguments, dict)
            return {**item, "arguments": usual_argument_text(arguments)} if is_object else item
        is_noted = call.id in self.noted and kind not in TEXT_OUTPUTS
        is_shortened = isinstance(call.arguments, dict) and call.arguments.keys() == {GAP}
        return usual_call(call, call_of(item)) if is_noted or is_shortened else item

    def _output(self, message: Message, result: ToolResult) -> Item:
        id = self._id(result.call)
        kind = self.kinds.get(id)
        came = self._output_as_it_came(message, result)
        if came is None or (kind is not None and kind_of(came) != f"{kind}_output"):
            came = usual_output(result, id, kind or "function_call")
        return repaired_output(came, self.lost)

    def _output_as_it_came(self, message: Message, result: ToolResult) -> Item | None:
        if message.form is None:
            return None
        try:
            item = filled_result(message.form, result, own_part, self._id)
        except (Misfit, *UNREADABLE):
            return None
        return item

    def _id(self, id: str) -> str:
        return id if 0 < len(id) <= ID_LENGTH_MAX else plain_id(id, ID_LENGTH_MAX)


def _noted_calls(messages: Sequence[Message]) -> set[str]:
    """The calls whose results have words of ours in them, and so are no longer in the provider's
    own shape."""
    noted: set[str] = set()
    for message in messages:
        came = message.form is not None and message.dialect == NAME
        results = (block for block in message.blocks if type(block) is ToolResult)
        for result in results:
            if not came or any(map(is_text, result.content)):
                noted.add(result.call)
    return noted


def _as_item(made: Item, role: Role) -> Item:
    """A text that took the place of an item becomes a message."""
    return {"role": role, "content": made["text"]} if made.get("type") in _TEXT_PARTS else made


def _unnamed(item: Item) -> Item:
    return item if kind_of(item) in NAMED_BY_ID else without_id(item)


# --- from other providers ---


def _translated(message: Message, lost: list[str]) -> Message:
    """Another provider's message in blocks that can be said here; an answer takes no media."""
    translation = Translation(message, _ACCEPTS, lost)
    blocks = translation.blocks(message.blocks)
    if message.role == "assistant":
        source = translation.source
        blocks = [
            media_as_note(block, source, NAME, lost) if type(block) is Media else block
            for block in blocks
        ]
    return Message(role=message.role, blocks=tuple(blocks))


def _translated_media(media: Media, source: str, lost: list[str]) -> Text | Media:
    # A file id is known only to the provider that gave it; a document needs a file name here.
    is_known = bool(media.file) and source == _FILES_SHARED_WITH
    if not is_sayable(media) or not (media.data or media.url or is_known):
        return media_as_note(media, source, NAME, lost)
    return with_file_name(media) if media.data else media


_ACCEPTS = Accepts(name=NAME, media=_translated_media, call=as_it_is, marks_errors=False)


_NAME_LENGTH_MAX = 64
_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_PREFIXES = {"message": "msg", "reasoning": "rs", "function_call": "fc"}
# Only these are known to the provider by nothing but their id.
NAMED_BY_ID = ("item_reference", "mcp_approval_request")
# Where the text or the address of a part stands.
_HELD: dict[str, tuple[str, ...]] = {
    "input_text": ("text",), "output_text": ("text",), "refusal": ("refusal",),
    "input_image": ("image_url", "file_id"), "input_file": ("file_data", "file_url", "file_id"),
}  # fmt: skip
_SHAPED = {"shell_call": "action", "local_shell_call": "action", "apply_patch_call": "operation"}

RepairItem = dict[str, Any]


def repaired(item: RepairItem, lost: list[str]) -> RepairItem | None:
    """The item as the provider takes it; None for one that says nothing."""
    kind = kind_of(item)
    item = _with_fitting_id(item, kind)
    if kind == "message":
        return _message(item, lost)
    if kind == "reasoning":
        return _reasoning(item, lost)
    if kind == "compaction" and not _is_text(item.get("encrypted_content")):
        report(lost, "a compaction without its encrypted_content is not sent")
        return None
    if kind in OPEN_CALLS:
        return _call(item, kind, lost)
    return _function_call(item, kind, lost) if _lacks_shape(item, kind) else item


def _with_fitting_id(item: RepairItem, kind: str) -> RepairItem:
    """The item without an id that the provider cannot have given it."""
    id = item.get("id")
    if "id" not in item or kind in NAMED_BY_ID or kind == "local_shell_call_output":
        return item
    if type(id) is str and _ID.fullmatch(id) and id.startswith(_PREFIXES.get(kind, "")):
        return item
    return item if id is None and kind != "reasoning" else without_id(item)


def _is_text(value: Any) -> bool:
    return type(value) is str and bool(value)


# --- messages ---


def _message(item: RepairItem, lost: list[str]) -> RepairItem | None:
    """A message without empty parts; None for an answer that says nothing, a note for anybody
    else's."""
    content, role = item.get("content"), item.get("role")
    if type(content) is list:
        content = item["content"] = _parts(content, role == "assistant", lost)
    elif type(content) is not str:
        content = item["content"] = refused_text(content, NAME, lost)
    if content:
        return item
    return None if role == "assistant" else {**item, "content": EMPTY}


def _parts(parts: list[Any], answers: bool, lost: list[str]) -> list[RepairItem]:
    return present(_valid_part(part, answers, lost) for part in parts)


def _valid_part(part: Any, answers: bool, lost: list[str]) -> RepairItem | None:
    """A part that may stand there, else the text in it; None for nothing."""
    kind = part.get("type") if type(part) is dict else None
    known = OUTPUT_PARTS if answers else INPUT_PARTS
    if kind is not None and kind in known:
        held = [part.get(key) for key in _HELD[kind]]
        if any(map(_is_sound, held)):
            return {key: value for key, value in part.items() if key != "parsed"}
        if kind not in ("input_image", "input_file"):
            return None
    elif type(kind) is str and kind not in KNOWN_PARTS:
        return part  # type: ignore[no-any-return]
    text = refused_text(part, NAME, lost)
    return {"type": "output_text" if answers else "input_text", "text": text} if text else None


def _is_sound(value: Any) -> bool:
    """Whether this is a text; a URL with its content in it must have content."""
    return _is_text(value) and (not value.startswith("data:") or is_data_url(value))


# --- other items ---


def _reasoning(item: RepairItem, lost: list[str]) -> RepairItem | None:
    """Reasoning with a summary and without a status; None if nothing says which it is."""
    if not _is_text(item.get("id")) and not _is_text(item.get("encrypted_content")):
        report(lost, "reasoning is not sent with neither id nor encrypted_content")
        return None
    kept = {key: value for key, value in item.items() if key != "status"}
    return kept if type(kept.get("summary")) is list else {**kept, "summary": []}


def _call(item: RepairItem, kind: str, lost: list[str]) -> RepairItem:
    """A call with a name and arguments that the provider takes."""
    key = "arguments" if kind == "function_call" else "input"
    name = fitting_name(item.get("name"), NAME, _NAME_LENGTH_MAX, lost)
    kept = {key: value for key, value in item.items() if key != "parsed_arguments"}
    return {**kept, "name": name, key: argument_text(item.get(key))}


def _lacks_shape(item: RepairItem, kind: str) -> bool:
    """Whether a call of a type with a shape of its own came without it."""
    return kind in _SHAPED and type(item.get(_SHAPED[kind])) is not dict


def _function_call(item: RepairItem, kind: str, lost: list[str]) -> RepairItem:
    arguments = argument_text(item.get(_SHAPED[kind]))
    name = kind.removesuffix("_call")
    call = {"type": "function_call", "call_id": item.get("call_id"), "name": name}
    return {**call, "arguments": arguments}


def repaired_output(item: RepairItem, lost: list[str]) -> RepairItem:
    """An output without empty parts; an empty list is nothing, in words."""
    item = _with_fitting_id(item, kind_of(item))
    output = item.get("output")
    if kind_of(item).removesuffix("_output") not in OPEN_CALLS:
        return item
    if type(output) is list:
        item["output"] = _parts(output, False, lost) or ""
    elif type(output) is not str:
        item["output"] = refused_text(output, NAME, lost)
    return item
