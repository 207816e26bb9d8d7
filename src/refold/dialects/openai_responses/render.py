"""OpenAI Responses, the way out: messages and blocks as items.

An answer becomes its items in their order: words, calls, reasoning. The output of a call has the
type that the call's type demands; where a shortened output has no form there (a screenshot that
became a notice), the pair goes out as a function call. An answer that lost its reasoning loses the
ids of its items, too: by an id the provider would miss what belongs to it. Neighbours:
`openai_responses` is the way in, `openai_responses_items` has the forms.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, assert_never

from msgspec.structs import replace

from refold.core.fold import GAP
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
from refold.dialects.foreign import media_as_note, opaque_as_text
from refold.dialects.form import Misfit, fill
from refold.dialects.openai_responses.items import NAME, OPEN_CALLS, call_of, filled_result, kind_of
from refold.dialects.openai_responses.usual import (
    TEXT_OUTPUTS,
    argument_text,
    is_sayable,
    own_part,
    usual,
    usual_call,
    usual_output,
)
from refold.dialects.wire import EMPTY, is_gone, is_text, plain_id, report

ID_LENGTH_MAX = NAME_LENGTH_MAX = 64
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
# Only these are known to the provider by nothing but their id.
_NAMED_BY_ID = ("item_reference", "mcp_approval_request")
_FILES_SHARED_WITH = "openai_chat"


def render(messages: Sequence[Message], lost: list[str]) -> list[dict[str, Any]]:
    """Lawful messages in this wire format. What it cannot say is described in `lost`."""
    rendering = _Rendering(messages, lost)
    out = rendering.out
    for message in messages:
        blocks = message.blocks
        if (
            len(blocks) == 1
            and message.form is None
            and type(blocks[0]) is Text
            and _is_plain(message, blocks[0])
        ):
            out.append({"role": message.role, "content": blocks[0].text})
        else:
            rendering.add(message)
    return out


def _is_plain(message: Message, said: Text) -> bool:
    return bool(said.text) and message.role != "tool"


class _Rendering:
    """One rendering under way. `kinds` are the types of the calls that are out, by their ids;
    `noted` are the calls whose result is not as it came; `own` are ids that the provider gave
    out itself, and so must see again."""

    def __init__(self, messages: Sequence[Message], lost: list[str]) -> None:
        self.lost, self.out = lost, list[dict[str, Any]]()
        self.kinds: dict[str, str] = {}
        self.own: set[str] = set()
        self.noted = _noted_calls(messages)

    def add(self, message: Message) -> None:
        if message.dialect != NAME:
            message = _translated(message, self.lost)
        results = [block for block in message.blocks if type(block) is ToolResult]
        if not results:
            self._add_items(message)
            return
        for result in results:
            alone = len(message.blocks) == 1
            self.out.append(
                self._output(
                    message if alone else replace(message, blocks=(result,), form=None), result
                )
            )
        rest = tuple(block for block in message.blocks if type(block) is not ToolResult)
        if rest:
            self._add_items(Message(role="user", blocks=rest, dialect=message.dialect))

    def _add_items(self, message: Message) -> None:
        if message.dialect == NAME and message.role == "assistant":
            self.own.update(block.id for block in message.blocks if type(block) is ToolCall)
        items = [made for item in self._items(message) if (made := _with_content(item)) is not None]
        calls = {self._id(block.id): block for block in message.blocks if type(block) is ToolCall}
        items = [self._sayable(item, calls) for item in items]
        self.kinds.update({call_of(item): item["type"] for item in items if call_of(item)})
        self.out.extend(items)

    def _items(self, message: Message) -> list[dict[str, Any]]:
        if message.form is None or message.dialect != NAME:
            return usual(message, self._id)
        try:
            filled = fill(
                message.form, message.blocks, lambda block: own_part(block, message.role), self._id
            )
        except Misfit:
            filled = usual(message, self._id)
        items = [_as_item(item, message.role) for item in filled]
        return list(map(_unnamed, items)) if any(map(is_gone, message.blocks)) else items

    def _sayable(self, item: dict[str, Any], calls: dict[str, ToolCall]) -> dict[str, Any]:
        """The item, or a function call in its place if its output or its arguments became a
        notice."""
        call = calls.get(call_of(item))
        if call is None or kind_of(item) in OPEN_CALLS:
            arguments = item.get("arguments")
            return (
                {**item, "arguments": argument_text(arguments)}
                if call and isinstance(arguments, dict)
                else item
            )
        is_shortened = isinstance(call.arguments, dict) and call.arguments.keys() == {GAP}
        if not is_shortened and (call.id not in self.noted or kind_of(item) in TEXT_OUTPUTS):
            return item
        return usual_call(call, call_of(item))

    def _output(self, message: Message, result: ToolResult) -> dict[str, Any]:
        kind = self.kinds.get(self._id(result.call))
        came = self._output_as_it_came(message, result)
        if came is not None and (kind is None or kind_of(came) == f"{kind}_output"):
            return came
        return usual_output(result, self._id(result.call), kind or "function_call")

    def _output_as_it_came(self, message: Message, result: ToolResult) -> dict[str, Any] | None:
        if message.form is None or message.dialect != NAME:
            return None
        try:
            return _with_output(filled_result(message.form, result, own_part, self._id))
        except Misfit:
            return None

    def _id(self, id: str) -> str:
        return id if 0 < len(id) <= ID_LENGTH_MAX or id in self.own else plain_id(id, ID_LENGTH_MAX)


def _noted_calls(messages: Sequence[Message]) -> set[str]:
    """The calls whose results have words of ours in them, and so are no longer in the provider's
    own shape."""
    noted: set[str] = set()
    for message in messages:
        for block in message.blocks:
            if type(block) is ToolResult:
                came = (
                    message.form is not None
                    and message.dialect == NAME
                    and not any(map(is_text, block.content))
                )
                noted.update(() if came else (block.call,))
    return noted


def _as_item(made: dict[str, Any], role: Role) -> dict[str, Any]:
    """A text that took the place of an item becomes a message."""
    return (
        {"role": role, "content": made["text"]}
        if made.get("type") in ("input_text", "output_text")
        else made
    )


def _unnamed(item: dict[str, Any]) -> dict[str, Any]:
    return (
        item
        if kind_of(item) in _NAMED_BY_ID
        else {key: value for key, value in item.items() if key != "id"}
    )


def _with_content(item: dict[str, Any]) -> dict[str, Any] | None:
    """A message without empty parts; None for an answer that says nothing, a note for anybody
    else's."""
    content = item.get("content")
    if kind_of(item) != "message":
        return item
    if type(content) is list:
        content = item["content"] = _without_empty(content)
    if content:
        return item
    return None if item.get("role") == "assistant" else {**item, "content": EMPTY}


def _with_output(item: dict[str, Any]) -> dict[str, Any]:
    """An output without empty parts; an empty list is nothing, in words."""
    if type(item.get("output")) is list and kind_of(item).removesuffix("_output") in OPEN_CALLS:
        item["output"] = _without_empty(item["output"]) or ""
    return item


def _without_empty(parts: list[Any]) -> list[Any]:
    return [
        part
        for part in parts
        if part.get("type") not in ("input_text", "output_text") or part.get("text")
    ]


# --- from other providers ---


def _translated(message: Message, lost: list[str]) -> Message:
    """Another provider's message in blocks that can be said here."""
    source = message.dialect or "elsewhere"
    made = [
        block
        for given in message.blocks
        if (block := _translated_block(given, source, lost)) is not None
    ]
    if message.role == "assistant":
        made = [
            media_as_note(block, source, NAME, lost) if type(block) is Media else block
            for block in made
        ]
    return Message(role=message.role, blocks=tuple(made))


def _translated_block(block: Block, source: str, lost: list[str]) -> Block | None:
    match block:
        case Thinking():
            if not is_gone(block):
                report(lost, f"thinking from {source} is not sent to {NAME}")
            return None
        case Opaque():
            return opaque_as_text(block, source, lost)
        case Media():
            return _translated_media(block, source, lost)
        case ToolCall():
            return _translated_call(block, lost)
        case ToolResult():
            if block.is_error:
                report(lost, f"{NAME} has no mark for a tool result that is an error")
            parts = (_translated_block(part, source, lost) for part in block.content)
            return replace(
                block, content=tuple(part for part in parts if isinstance(part, Text | Media))
            )
        case Text():
            return block
        case _:
            assert_never(block)


def _translated_media(media: Media, source: str, lost: list[str]) -> Text | Media:
    # A file id is known only to the provider that gave it; a document needs a file name here.
    is_known = bool(media.file) and source == _FILES_SHARED_WITH
    if not is_sayable(media) or not (media.data or media.url or is_known):
        return media_as_note(media, source, NAME, lost)
    if media.media == "document" and media.data and not media.name:
        return replace(media, name=f"document.{media.mime.rpartition('/')[2]}")
    return media


def _translated_call(call: ToolCall, lost: list[str]) -> ToolCall:
    if _NAME.fullmatch(call.name):
        return call
    fit = plain_id(call.name, NAME_LENGTH_MAX)
    report(lost, f"the tool {call.name!r:.80} is called {fit} here: {NAME} takes no such name")
    return replace(call, name=fit)
