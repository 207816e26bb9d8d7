"""OpenAI Responses, the way out: messages and blocks as items.

An answer becomes its items in their order: words, calls, reasoning. The output of a call has the
type that the call's type demands; where a shortened output has no form there (a screenshot that
became a notice), the pair goes out as a function call. An answer that lost its reasoning also loses
the ids of its items: by an id the provider would miss what belongs to it. Neighbours: `parse` is
the way in, `items` has the forms, `usual` what stands where there is none.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from msgspec.structs import replace

from refold.core.model import Media, Message, Role, Text, ToolCall, ToolResult
from refold.core.shortened import GAP
from refold.dialects.foreign import Accepts, Translation, as_it_is, media_as_note, with_file_name
from refold.dialects.form import UNREADABLE, Misfit, filled
from refold.dialects.openai_responses.items import (
    NAME,
    OPEN_CALLS,
    REASONED,
    call_of,
    filled_result,
    kind_of,
    without_id,
)
from refold.dialects.openai_responses.repair import NAMED_BY_ID, repaired, repaired_output
from refold.dialects.openai_responses.usual import (
    TEXT_OUTPUTS,
    argument_text,
    is_sayable,
    own_part,
    usual,
    usual_call,
    usual_output,
)
from refold.dialects.wire import is_gone, is_text, only_text, plain_id

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
            return {**item, "arguments": argument_text(arguments)} if is_object else item
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
