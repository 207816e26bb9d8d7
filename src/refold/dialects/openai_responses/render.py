"""Rendering of OpenAI Responses: messages and blocks become items.

The output of a call has the type of its call; if a shortened output cannot have it (a screenshot
that became a notice), the pair is sent as a function call. An answer without its reasoning loses
the ids of its items, because an id would make the provider look for the reasoning. Items other than
plain text are repaired: a foreign id is left out, a refused part becomes text, and an incomplete
call becomes a function call. Neighbours: `parse` is the way in, `items` has the forms and the usual
rendering.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import Any

from msgspec.structs import replace

from refold.core.model import Media, Message, Text, ToolCall, ToolResult
from refold.core.shortened import GAP
from refold.dialects import REASONED
from refold.dialects.openai_responses.items import (
    INPUT_PARTS,
    NAME,
    OPEN_CALLS,
    OUTPUT_PARTS,
    TEXT_CALLS,
    call_of,
    filled_result,
    is_sendable,
    json_text,
    kind_of,
    own_part,
    usual,
    usual_call,
    usual_output,
    without_id,
)
from refold.dialects.original_form import UNREADABLE, Misfit, filled
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
    object_text,
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
    """Lawful messages in this wire format. Content that it cannot express is added to `lost`."""
    rendering = _Rendering(messages, lost)
    for message in messages:
        text = only_text(message)
        if text is not None and text.text and message.role != "tool":
            rendering.out.append({"role": message.role, "content": text.text})
        else:
            rendering.add(message)
    return rendering.out


class _Rendering:
    """One rendering. `kinds` are the types of the rendered calls by their ids; `rewritten` are the
    calls whose results were rewritten as text, and so cannot have the provider's own shape."""

    def __init__(self, messages: Sequence[Message], lost: list[str]) -> None:
        self.lost, self.out = lost, list[Item]()
        self.kinds: dict[str, str] = {}
        self.rewritten: set[str] = set()
        for message in messages:
            has_form = message.form is not None and message.dialect == NAME
            for block in message.blocks:
                if type(block) is not ToolResult:
                    continue
                if not has_form or any(map(is_text, block.content)):
                    self.rewritten.add(block.call)

    def add(self, message: Message) -> None:
        if message.dialect != NAME:
            translation = Translation(message, _ACCEPTS, self.lost)
            blocks = translation.blocks(message.blocks)
            if message.role == "assistant":  # an answer accepts no media
                source = translation.source
                blocks = [
                    media_as_note(block, source, NAME, self.lost) if type(block) is Media else block
                    for block in blocks
                ]
            message = Message(role=message.role, blocks=tuple(blocks))
        results = [block for block in message.blocks if type(block) is ToolResult]
        if results:
            self._add_results(message, results)
        else:
            self._add_items(message)

    def _add_results(self, message: Message, results: list[ToolResult]) -> None:
        """Adds each result as a separate item, and the other blocks after them."""
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
        for rendered in self._items(message):
            item = repaired(rendered, self.lost)
            if item is None:
                continue
            if message.metadata.get(REASONED):
                item = {**item, REASONED: True}
            call = by_id.get(call_of(item))
            if call is not None:
                item = self._sendable_call(item, call)
            if id := call_of(item):
                self.kinds[id] = item["type"]
            self.out.append(item)

    def _items(self, message: Message) -> list[Item]:
        """The items of a message in their own form if it has one, else in the usual form."""
        if message.form is None:
            return usual(message, self._id)
        own = filled(message, partial(own_part, role=message.role), self._id)
        lost_thinking = any(map(is_gone, message.blocks))
        items: list[Item] = []
        for item in usual(message, self._id) if own is None else own:
            if item.get("type") in _TEXT_PARTS:  # text that replaced an item
                item = {"role": message.role, "content": item["text"]}
            if lost_thinking and kind_of(item) not in NAMED_BY_ID:
                item = without_id(item)
            items.append(item)
        return items

    def _sendable_call(self, item: Item, call: ToolCall) -> Item:
        """The item of a call, or a function call if its output or its arguments became a notice."""
        kind = kind_of(item)
        if kind in OPEN_CALLS:
            arguments = item.get("arguments")
            is_object = isinstance(arguments, dict)
            return {**item, "arguments": json_text(arguments)} if is_object else item
        is_rewritten = call.id in self.rewritten and kind not in TEXT_CALLS
        is_shortened = isinstance(call.arguments, dict) and call.arguments.keys() == {GAP}
        return usual_call(call, call_of(item)) if is_rewritten or is_shortened else item

    def _output(self, message: Message, result: ToolResult) -> Item:
        """The output of a call in its own form if that has the type of the call, else the usual
        one."""
        id = self._id(result.call)
        kind = self.kinds.get(id)
        item: Item | None = None
        if message.form is not None:
            try:
                item = filled_result(message.form, result, own_part, self._id)
            except (Misfit, *UNREADABLE):
                item = None
        if item is None or (kind is not None and kind_of(item) != f"{kind}_output"):
            item = usual_output(result, id, kind or "function_call")
        return repaired_output(item, self.lost)

    def _id(self, id: str) -> str:
        return id if 0 < len(id) <= ID_LENGTH_MAX else plain_id(id, ID_LENGTH_MAX)


def _translated_media(media: Media, source: str, lost: list[str]) -> Text | Media:
    # File ids are shared with the provider's other interface; a document needs a file name.
    is_shared = bool(media.file) and source == _FILES_SHARED_WITH
    if not is_sendable(media) or not (media.data or media.url or is_shared):
        return media_as_note(media, source, NAME, lost)
    return with_file_name(media) if media.data else media


_ACCEPTS = Accepts(name=NAME, media=_translated_media, call=as_it_is, marks_errors=False)


# --- repair ---

_NAME_LENGTH_MAX = 64
_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_PREFIXES = {"message": "msg", "reasoning": "rs", "function_call": "fc"}
# The provider identifies only these by their id alone.
NAMED_BY_ID = ("item_reference", "mcp_approval_request")
# Fields of a part's text or address.
_VALUES: dict[str, tuple[str, ...]] = {
    "input_text": ("text",), "output_text": ("text",), "refusal": ("refusal",),
    "input_image": ("image_url", "file_id"), "input_file": ("file_data", "file_url", "file_id"),
}  # fmt: skip
_SHAPED = {"shell_call": "action", "local_shell_call": "action", "apply_patch_call": "operation"}


def repaired(item: Item, lost: list[str]) -> Item | None:
    """The item as the provider accepts it; None if it would be empty or is refused."""
    kind = kind_of(item)
    item = _with_fitting_id(item, kind)
    is_sealed = _is_text(item.get("encrypted_content"))
    if kind == "message":
        return _message(item, lost)
    if kind == "reasoning":
        if not is_sealed and not _is_text(item.get("id")):
            report(lost, "reasoning is not sent with neither id nor encrypted_content")
            return None
        fields = {key: value for key, value in item.items() if key != "status"}
        return fields if type(fields.get("summary")) is list else {**fields, "summary": []}
    if kind == "compaction" and not is_sealed:
        report(lost, "a compaction without its encrypted_content is not sent")
        return None
    if kind in OPEN_CALLS:
        name = fitting_name(item.get("name"), NAME, _NAME_LENGTH_MAX, lost)
        fields = {field: value for field, value in item.items() if field != "parsed_arguments"}
        if kind == "custom_tool_call":
            return {**fields, "name": name, "input": argument_text(item.get("input"))}
        arguments = object_text(item.get("arguments"), item.get("call_id"), lost)
        return {**fields, "name": name, "arguments": arguments}
    if kind in _SHAPED and type(item.get(_SHAPED[kind])) is not dict:
        return {
            "type": "function_call",
            "call_id": item.get("call_id"),
            "name": kind.removesuffix("_call"),
            "arguments": object_text(item.get(_SHAPED[kind]), item.get("call_id"), lost),
        }
    return item


def _with_fitting_id(item: Item, kind: str) -> Item:
    """The item without an id that the provider cannot have issued."""
    id = item.get("id")
    if "id" not in item or kind in NAMED_BY_ID or kind == "local_shell_call_output":
        return item
    if type(id) is str and _ID.fullmatch(id) and id.startswith(_PREFIXES.get(kind, "")):
        return item
    return item if id is None and kind != "reasoning" else without_id(item)


def _is_text(value: Any) -> bool:
    return type(value) is str and bool(value)


def _message(item: Item, lost: list[str]) -> Item | None:
    """A message without empty parts; None for an empty answer, a note for any other empty
    message."""
    content, role = item.get("content"), item.get("role")
    if type(content) is list:
        content = item["content"] = _parts(content, role == "assistant", lost)
    elif type(content) is not str:
        content = item["content"] = refused_text(content, NAME, lost)
    if content:
        return item
    return None if role == "assistant" else {**item, "content": EMPTY}


def _parts(parts: list[Any], answers: bool, lost: list[str]) -> list[Item]:
    return present(_valid_part(part, answers, lost) for part in parts)


def _valid_part(part: Any, answers: bool, lost: list[str]) -> Item | None:
    """A part that the provider accepts there, else its text; None if it has none."""
    kind = part.get("type") if type(part) is dict else None
    accepted = OUTPUT_PARTS if answers else INPUT_PARTS
    if kind is not None and kind in accepted:
        values = [part.get(key) for key in _VALUES[kind]]
        texts = [value for value in values if _is_text(value)]
        if any(not text.startswith("data:") or is_data_url(text) for text in texts):
            return {key: value for key, value in part.items() if key != "parsed"}
        if kind not in ("input_image", "input_file"):
            return None
    elif type(kind) is str and kind not in KNOWN_PARTS:
        return part  # type: ignore[no-any-return]
    text = refused_text(part, NAME, lost)
    return {"type": "output_text" if answers else "input_text", "text": text} if text else None


def repaired_output(item: Item, lost: list[str]) -> Item:
    """An output without empty parts; an empty list becomes empty text."""
    item = _with_fitting_id(item, kind_of(item))
    output = item.get("output")
    if kind_of(item).removesuffix("_output") not in OPEN_CALLS:
        return item
    if type(output) is list:
        item["output"] = _parts(output, False, lost) or ""
    elif type(output) is not str:
        item["output"] = refused_text(output, NAME, lost)
    return item
