"""The wire formats of the providers, by name: which one a message, a response or a model speaks.

A dialect is a package that satisfies `protocol.Dialect`; it is imported when it is first asked for.
A plain text is nobody's in particular, and nobody is asked about it. Neighbours: `page` renders a
view in a dialect, `engine.context` parses by the dialect of its model.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeGuard

from msgspec.structs import replace

from refold.checked import shown
from refold.core.call_arguments import arguments_object
from refold.core.model import Message, Role, Text, Thinking, ToolCall, ToolResult
from refold.dialects.input import not_a_message, plain, refuse_langchain
from refold.dialects.protocol import Dialect, FindCalls, Reply
from refold.dialects.streams import CUT_OFF, assemble, is_async_stream, is_stream
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
RESPONSES = "openai_responses"
# Stands in the metadata of an answer that came alone, directly after reasoning or what followed
# it, and on its items until the whole page is seen.
REASONED = "$reasoned"
# Stands in the metadata of a message that came with cache marks: each with the place of its block.
MARKED = "$marks"
_PLAIN_ROLES: tuple[Role, ...] = ("user", "assistant", "system")
_loaded: dict[str, Dialect] = {}


__all__ = [
    "DEFAULT", "DIALECTS", "answering", "assemble", "dialect", "dialect_of", "parse",
    "reply", "tool_calls",
]  # fmt: skip


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
        asked = _loaded.get(name) or dialect(name)
        if asked.speaks(message) or asked.is_response(message):
            return name
    return preferred


@cache
def _in_order(preferred: str | None) -> tuple[str, ...]:
    """The names of all dialects, the preferred one first."""
    if not preferred:
        return tuple(DIALECTS)
    return (preferred, *(name for name in DIALECTS if name != preferred))


def parse(message: Any, preferred: str = DEFAULT) -> list[Message]:
    """A wire message of any provider (or an SDK's object) as messages."""
    if _is_plain(message):
        return _parse_plain(message, dialect(preferred))
    value = message if is_json(message) else _plain_object(message)
    refuse_langchain(value)
    try:
        return dialect(dialect_of(value, preferred) or preferred).parse(message)
    except _UNREADABLE as error:
        raise _not_readable(message, error) from error


# What a value of the wrong type raises where a dialect reads it.
_UNREADABLE = (LookupError, TypeError, ValueError, AttributeError)


def _not_readable(value: Any, error: Exception) -> Invalid:
    """The error for what has the shape of a message or response, but not its types."""
    what = f"{shown(value)} has a value of the wrong type ({type(error).__name__})"
    return Invalid(what, hint="pass a message or a response as the provider's SDK has it")


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


def following(message: Message, before: Message | None) -> Message:
    """The message, marked if it is an answer that came alone after the reasoning that led to it."""
    if before is None or message.dialect != before.dialect or message.dialect != RESPONSES:
        return message
    if message.role != "assistant" or before.role != "assistant":
        return message
    thinks = Thinking in map(type, message.blocks)
    if thinks or not (Thinking in map(type, before.blocks) or before.metadata.get(REASONED)):
        return message
    return replace(message, metadata={**message.metadata, REASONED: True})


def reply(response: Any, preferred: str) -> Reply:
    """A provider's response taken apart, by the dialect whose response it is."""
    if is_stream(response):
        return _reply_of_stream(response, preferred)
    wire = _response_object(response)
    try:
        known = map(dialect, _in_order(preferred))
        asked = next((each for each in known if each.is_response(wire)), None)
        if asked is not None:
            return asked.reply(response)
        return dialect(dialect_of(wire, preferred) or preferred).reply(response)
    except _UNREADABLE as error:
        raise _not_readable(response, error) from error


def _reply_of_stream(chunks: Any, preferred: str) -> Reply:
    """The reply that a stream gave; `cut_off` is the reason where it did not come to its end."""
    response = assemble(chunks)
    is_cut_off = response.pop(CUT_OFF, False)
    made = reply(response, preferred)
    return (
        replace(made, finished=CUT_OFF, is_stream=True)
        if is_cut_off
        else replace(made, is_stream=True)
    )


def _response_object(response: Any) -> Mapping[str, Any]:
    if is_async_stream(response):
        hint = "await it: refold.aio has the same Context for async callers"
        raise Invalid(f"{shown(response)} is an asynchronous stream", hint=hint)
    wire = _plain_object(response)
    refuse_langchain(wire)
    return wire


def tool_calls(response: Any) -> list[ToolCall]:
    """The tool calls of any provider's response or message; arguments are an object wherever
    they can be read so. A call in which the answer was cut off is not complete."""
    answer = _answer(response)
    if answer is None:
        return []
    blocks = answer.message.blocks
    calls = [_with_arguments(block) for block in blocks if isinstance(block, ToolCall)]
    if answer.finished in _CUT and calls and isinstance(blocks[-1], ToolCall):
        calls[-1] = _cut(calls[-1])
    return calls


# Why an answer ended before it was complete, in the words of the providers.
_CUT = frozenset({
    CUT_OFF, "length", "max_tokens", "MAX_TOKENS", "max_output_tokens",
    "model_context_window_exceeded",
})  # fmt: skip


def _cut(call: ToolCall) -> ToolCall:
    """The last call of an answer that was cut off: complete only if it has whole arguments."""
    has_arguments = isinstance(call.arguments, dict) and bool(call.arguments)
    return call if has_arguments else replace(call, is_complete=False)


def _answer(response: Any) -> Reply | None:
    """The reply that a response, the list of its chunks, or a message is; None for what is
    nobody's."""
    if isinstance(response, list | tuple):
        return reply(response, DEFAULT)
    if is_stream(response):
        hint = "walk it once: chunks = list(stream); record(chunks); tool_calls(chunks)"
        raise Invalid(f"{shown(response)} is a stream that was not read", hint=hint)
    value = _response_object(response)
    if dialect_of(value) is None:
        return None
    return reply(response, DEFAULT)


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
