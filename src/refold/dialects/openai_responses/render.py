"""OpenAI Responses, the way out: messages and blocks as items.

An answer becomes its items in their order: words, calls, reasoning. The output of a call has the
type that the call's type demands; where a shortened output has no form there (a screenshot that
became a notice), the pair goes out as a function call. An answer that lost its reasoning also loses
the ids of its items: by an id the provider would miss what belongs to it. Neighbours: `parse` is
the way in, `items` has the forms, `usual` what stands where there is none.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import Any

from msgspec.structs import replace

from refold.core.fold import GAP
from refold.core.model import Media, Message, Role, Text, ToolCall, ToolResult
from refold.dialects.foreign import Accepts, Translation, media_as_note, with_file_name
from refold.dialects.form import Misfit, filled
from refold.dialects.openai_responses.items import (
    NAME,
    OPEN_CALLS,
    call_of,
    filled_result,
    kind_of,
    without_id,
)
from refold.dialects.openai_responses.usual import (
    TEXT_OUTPUTS,
    argument_text,
    is_sayable,
    own_part,
    usual,
    usual_call,
    usual_output,
)
from refold.dialects.wire import EMPTY, is_gone, is_text, only_text, plain_id, report

ID_LENGTH_MAX = NAME_LENGTH_MAX = 64
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_TEXT_PARTS = ("input_text", "output_text")
# Only these are known to the provider by nothing but their id.
_NAMED_BY_ID = ("item_reference", "mcp_approval_request")
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
    `noted` are the calls whose result is not as it came; `own` are ids that the provider gave
    out itself, and so must see again."""

    def __init__(self, messages: Sequence[Message], lost: list[str]) -> None:
        self.lost, self.out = lost, list[Item]()
        self.kinds: dict[str, str] = {}
        self.own: set[str] = set()
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
        if message.dialect == NAME and message.role == "assistant":
            self.own.update(call.id for call in calls)
        by_id = {self._id(call.id): call for call in calls}
        for item in map(_with_content, self._items(message)):
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
            return {**item, "arguments": argument_text(arguments)} if is_object else item
        is_noted = call.id in self.noted and kind not in TEXT_OUTPUTS
        is_shortened = isinstance(call.arguments, dict) and call.arguments.keys() == {GAP}
        return usual_call(call, call_of(item)) if is_noted or is_shortened else item

    def _output(self, message: Message, result: ToolResult) -> Item:
        id = self._id(result.call)
        kind = self.kinds.get(id)
        came = self._output_as_it_came(message, result)
        if came is not None and (kind is None or kind_of(came) == f"{kind}_output"):
            return came
        return usual_output(result, id, kind or "function_call")

    def _output_as_it_came(self, message: Message, result: ToolResult) -> Item | None:
        if message.form is None:
            return None
        try:
            return _with_output(filled_result(message.form, result, own_part, self._id))
        except Misfit:
            return None

    def _id(self, id: str) -> str:
        if 0 < len(id) <= ID_LENGTH_MAX or id in self.own:
            return id
        return plain_id(id, ID_LENGTH_MAX)


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
    return item if kind_of(item) in _NAMED_BY_ID else without_id(item)


def _with_content(item: Item) -> Item | None:
    """A message without empty parts; None for an answer that says nothing, a note for anybody
    else's."""
    if kind_of(item) != "message":
        return item
    content = item.get("content")
    if type(content) is list:
        content = item["content"] = _without_empty(content)
    if content:
        return item
    return None if item.get("role") == "assistant" else {**item, "content": EMPTY}


def _with_output(item: Item) -> Item:
    """An output without empty parts; an empty list is nothing, in words."""
    is_open = kind_of(item).removesuffix("_output") in OPEN_CALLS
    if is_open and type(item.get("output")) is list:
        item["output"] = _without_empty(item["output"]) or ""
    return item


def _without_empty(parts: list[Any]) -> list[Any]:
    return [part for part in parts if part.get("type") not in _TEXT_PARTS or part.get("text")]


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


def _translated_call(call: ToolCall, lost: list[str]) -> ToolCall:
    if _NAME.fullmatch(call.name):
        return call
    fit = plain_id(call.name, NAME_LENGTH_MAX)
    report(lost, f"the tool {call.name!r:.80} is called {fit} here: {NAME} takes no such name")
    return replace(call, name=fit)


_ACCEPTS = Accepts(name=NAME, media=_translated_media, call=_translated_call, marks_errors=False)
