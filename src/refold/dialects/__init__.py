"""The wire formats of the providers, by name: which one a message, a response or a model speaks.

A dialect is a package that satisfies `protocol.Dialect`; it is imported when it is first asked for.
A plain text is nobody's in particular, and nobody is asked about it. Neighbours: `page` renders a
view in a dialect, `engine.context` parses by the dialect of its model.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeGuard

from msgspec.structs import replace

from refold.core.arguments import arguments_object
from refold.core.model import Message, Role, Text, ToolCall, ToolResult
from refold.dialects.outside import not_a_message, plain
from refold.dialects.protocol import Dialect, FindCalls, Reply
from refold.dialects.wire import is_json
from refold.display import suggestion
from refold.errors import Invalid

if TYPE_CHECKING:
    from refold.dialects import anthropic, gemini, openai_chat, openai_responses

    # That they satisfy the protocol.
    _CHECKED: tuple[Dialect, ...] = (openai_responses, openai_chat, anthropic, gemini)

# In the order in which they are asked: an item of the first may look like a message of the others.
DIALECTS: dict[str, str] = {
    "openai_responses": "refold.dialects.openai_responses",
    "openai_chat": "refold.dialects.openai_chat",
    "anthropic": "refold.dialects.anthropic",
    "gemini": "refold.dialects.gemini",
}
# What most servers speak, and so who reads what could be anybody's.
DEFAULT = "openai_chat"
_PLAIN_ROLES: tuple[Role, ...] = ("user", "assistant", "system")
_loaded: dict[str, Dialect] = {}


def dialect(name: str) -> Dialect:
    """The dialect of that name. Invalid, with the nearest, if there is none."""
    found = _loaded.get(name)
    if found is None:
        if name not in DIALECTS:
            hint = suggestion(name, DIALECTS)
            raise Invalid(f"{name!r} is not a dialect", hint=hint)
        found = _loaded[name] = import_module(DIALECTS[name])
    return found


def dialect_of(message: Mapping[str, Any], preferred: str | None = None) -> str | None:
    """The dialect that a message or response is written in; the preferred one where it could be
    any."""
    for name in _in_order(preferred):
        asked = dialect(name)
        if asked.speaks(message) or asked.is_response(message):
            return name
    return preferred


def _in_order(preferred: str | None) -> list[str]:
    """The names of all dialects, the preferred one first."""
    if not preferred:
        return list(DIALECTS)
    return [preferred, *(name for name in DIALECTS if name != preferred)]


def parse(message: Any, preferred: str = DEFAULT) -> list[Message]:
    """A wire message of any provider (or an SDK's object) as messages."""
    if _is_plain(message):
        return _parse_plain(message, dialect(preferred))
    value = message if is_json(message) else _plain_object(message)
    return dialect(dialect_of(value, preferred) or preferred).parse(message)


def _is_plain(message: Any) -> TypeGuard[dict[str, Any]]:
    """Whether this is a role and a text, in this order, and nothing else."""
    if type(message) is not dict or len(message) != 2 or next(iter(message)) != "role":
        return False
    return type(message.get("content")) is str and message["role"] in _PLAIN_ROLES


def _parse_plain(message: dict[str, Any], preferred: Dialect) -> list[Message]:
    """A plain text as the dialect would parse it."""
    role, content = message["role"], message["content"]
    kept_by = preferred.plain_text.get(role)
    if kept_by is None:
        return preferred.parse(message)
    return [Message(role=role, blocks=(Text(content),), dialect=kept_by)]


def answering(message: Message, find_calls: FindCalls) -> Message:
    """The message with its results under the ids of the calls they answer, where its sender
    gives none."""
    if message.dialect not in DIALECTS or ToolResult not in map(type, message.blocks):
        return message
    return dialect(message.dialect).answering(message, find_calls)


def reply(response: Any, preferred: str) -> Reply:
    """A provider's response taken apart, by the dialect whose response it is."""
    wire = plain(response)
    for asked in map(dialect, _in_order(preferred)):
        if asked.is_response(wire):
            return asked.reply(response)
    return dialect(preferred).reply(response)


def tool_calls(response: Any) -> list[ToolCall]:
    """The tool calls of any provider's response or message; arguments are an object wherever
    they can be read so."""
    value = _plain_object(response)
    name = dialect_of(value)
    if name is None:
        return []
    message = dialect(name).reply(value).message
    return [_with_arguments(block) for block in message.blocks if isinstance(block, ToolCall)]


def _with_arguments(call: ToolCall) -> ToolCall:
    """The call with its arguments as an object, if they are one."""
    arguments = arguments_object(call)
    return call if arguments is None else replace(call, arguments=arguments)


def _plain_object(message: Any) -> Mapping[str, Any]:
    """The message as a plain object. Invalid if it is something else."""
    value = plain(message)
    if not isinstance(value, dict):
        raise not_a_message(message)
    return value
