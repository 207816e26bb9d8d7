"""The wire formats of the providers, by name: which one a message, a response or a model speaks.

A dialect is a module that satisfies `protocol.Dialect`; it is imported when it is first asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from refold.core.model import Message, ToolCall, ToolResult
from refold.dialects.protocol import Dialect, Reply
from refold.display import suggestion
from refold.errors import Invalid

if TYPE_CHECKING:
    from refold.dialects import anthropic, gemini, openai_chat, openai_responses

    # That they satisfy the protocol.
    _CHECKED: tuple[Dialect, ...] = (openai_responses, openai_chat, anthropic, gemini)

# In the order in which they are asked: an item of Responses also looks like something of Chat's or
# Anthropic's.
DIALECTS: dict[str, str] = {
    "openai_responses": "refold.dialects.openai_responses",
    "openai_chat": "refold.dialects.openai_chat",
    "anthropic": "refold.dialects.anthropic",
    "gemini": "refold.dialects.gemini",
}
_loaded: dict[str, Dialect] = {}


def dialect(name: str) -> Dialect:
    """The dialect of that name. Invalid, with the nearest, if there is none."""
    found = _loaded.get(name)
    if found is None:
        if name not in DIALECTS:
            raise Invalid(f"{name!r} is not a dialect", hint=suggestion(name, DIALECTS))
        found = _loaded[name] = import_module(DIALECTS[name])
    return found


def dialect_of(message: Mapping[str, Any], preferred: str | None = None) -> str | None:
    """The dialect that a message or response is written in; the preferred one where it could be
    any."""
    for name in (preferred, *DIALECTS) if preferred else DIALECTS:
        if dialect(name).speaks(message) or dialect(name).is_response(message):
            return name
    return preferred


def parse(message: Any, preferred: str = "openai_chat") -> list[Message]:
    """A wire message of any provider (or an SDK's object) as messages."""
    from refold.dialects.wire import is_json

    value = message if is_json(message) else _opened(message)
    return dialect(dialect_of(value, preferred) or preferred).parse(message)


def answering(message: Message, asked: Callable[[], Message | None]) -> Message:
    """The message with its results under the ids of the calls they answer, where its sender
    gives none. `asked` finds the newest message that calls tools."""
    if message.dialect != "gemini" or not any(
        isinstance(block, ToolResult) for block in message.blocks
    ):
        return message
    from refold.dialects.gemini import fields as gemini_fields

    calling = asked()
    return gemini_fields.answering(message, calling) if calling is not None else message


def reply(response: Any, preferred: str) -> Reply:
    """A provider's response taken apart, by the dialect whose response it is."""
    from refold.dialects.wire import plain

    wire = plain(response)
    names = [preferred, *(name for name in DIALECTS if name != preferred)]
    found = next((name for name in names if dialect(name).is_response(wire)), preferred)
    return dialect(found).reply(response)


def tool_calls(response: Any) -> list[ToolCall]:
    """The tool calls of any provider's response or message; arguments are an object wherever
    they can be read so."""
    from refold.core.arguments import arguments_object

    value = _opened(response)
    name = dialect_of(value)
    if name is None:
        return []
    calls = [
        block for block in dialect(name).reply(value).message.blocks if isinstance(block, ToolCall)
    ]
    read = [arguments_object(call) for call in calls]
    return [
        call if given is None else replace(call, arguments=given)
        for call, given in zip(calls, read)
    ]


def _opened(message: Any) -> Mapping[str, Any]:
    from refold.dialects.wire import plain

    value = plain(message)
    if not isinstance(value, dict):
        raise Invalid(
            f"{message!r:.80} is not a message", hint='pass {"role": "user", "content": "…"}'
        )
    return value
