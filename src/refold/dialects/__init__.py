"""Dialects, the wire formats of the providers, by name; and the dialect of a message or response.

A dialect is a package that satisfies `protocol.Dialect`, imported on first use. A message of plain
text belongs to no dialect in particular and is parsed without asking any of them. Neighbours:
`page` renders a view in a dialect, `engine.context` parses by the dialect of its model.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeGuard

from msgspec.structs import replace

from refold.checked import shown
from refold.core.call_arguments import arguments_object
from refold.core.laws import CUT_OFF
from refold.core.model import Message, Role, Text, Thinking, ToolCall, ToolResult
from refold.dialects.input import not_a_message, plain, refuse_langchain
from refold.dialects.mixed_messages import MIXED, joined, owner_of
from refold.dialects.protocol import Dialect, FindCalls, Reply
from refold.dialects.streams import assemble, is_async_stream, is_stream
from refold.dialects.wire import at, is_json
from refold.display import suggestion
from refold.errors import Invalid

if TYPE_CHECKING:
    from refold.dialects import anthropic, gemini, openai_chat, openai_responses

    # Makes the type checker verify that they satisfy the protocol.
    _CHECKED: tuple[Dialect, ...] = (openai_responses, openai_chat, anthropic, gemini)

# In order of recognition: an item in the first format may look like a message in the others.
DIALECTS: dict[str, str] = {
    "openai_responses": "refold.dialects.openai_responses",
    "openai_chat": "refold.dialects.openai_chat",
    "anthropic": "refold.dialects.anthropic",
    "gemini": "refold.dialects.gemini",
}
# The format of most servers, and so the choice for messages that could be in any format.
DEFAULT = "openai_chat"
RESPONSES = "openai_responses"
# Metadata of an answer that arrived as a separate message after its reasoning; rendering keeps it
# on the items until the whole page is known.
REASONED = "$reasoned"
# Metadata of a message that arrived with cache marks: each mark with the index of its block.
MARKED = "$marks"
_PLAIN_ROLES: tuple[Role, ...] = ("user", "assistant", "system")
_loaded: dict[str, Dialect] = {}


__all__ = [
    "DEFAULT", "DIALECTS", "answering", "assemble", "dialect", "dialect_of", "parse",
    "reply", "tool_calls",
]  # fmt: skip


def dialect(name: str) -> Dialect:
    """The dialect of that name. Invalid, with the nearest name, if there is none."""
    module = _loaded.get(name)
    if module is None:
        if name not in DIALECTS:
            hint = suggestion(name, DIALECTS)
            raise Invalid(f"{name!r} is not a dialect", hint=hint)
        module = _loaded[name] = import_module(DIALECTS[name])
    return module


def dialect_of(message: Mapping[str, Any], preferred: str | None = None) -> str | None:
    """The dialect of a message or response; the preferred one if it could be any."""
    for name in _in_order(preferred):
        candidate = _loaded.get(name) or dialect(name)
        if candidate.recognizes(message) or candidate.is_response(message):
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
        reader, role = dialect(preferred), message["role"]
        stored_as = reader.plain_text.get(role)
        if stored_as is None:
            return reader.parse(message)
        return [Message(role=role, blocks=(Text(message["content"]),), dialect=stored_as)]
    value = message if is_json(message) else _plain_object(message)
    refuse_langchain(value)
    try:
        owner = owner_of(value) or dialect_of(value, preferred) or preferred
        return joined(value) if owner == MIXED else dialect(owner).parse(message)
    except _UNREADABLE as error:
        raise _not_readable(message, error) from error


# Errors that a dialect raises when it reads a value of the wrong type.
_UNREADABLE = (LookupError, TypeError, ValueError, AttributeError)


def _not_readable(value: Any, error: Exception) -> Invalid:
    """The error for a value with the shape of a message or response, but the wrong types."""
    what = f"{shown(value)} has a value of the wrong type ({type(error).__name__})"
    return Invalid(what, hint="pass a message or a response as the provider's SDK has it")


def _is_plain(message: Any) -> TypeGuard[dict[str, Any]]:
    """Whether this is a role and plain text, in this order, and nothing else."""
    if type(message) is not dict or len(message) != 2 or next(iter(message)) != "role":
        return False
    return type(message.get("content")) is str and message["role"] in _PLAIN_ROLES


def answering(message: Message, find_calls: FindCalls) -> Message:
    """The message with its results under the ids of the calls they answer, for senders without
    ids."""
    if message.dialect not in DIALECTS or ToolResult not in map(type, message.blocks):
        return message
    return dialect(message.dialect).answering(message, find_calls)


def following(message: Message, before: Message | None) -> Message:
    """The message, marked if it is an answer that arrived separately after its reasoning."""
    if before is None or message.dialect != before.dialect or message.dialect != RESPONSES:
        return message
    if message.role != "assistant" or before.role != "assistant":
        return message
    thinks = Thinking in map(type, message.blocks)
    if thinks or not (Thinking in map(type, before.blocks) or before.metadata.get(REASONED)):
        return message
    return replace(message, metadata={**message.metadata, REASONED: True})


def reply(response: Any, preferred: str) -> Reply:
    """The reply in a provider's response or stream, read by the dialect of the response. A stream
    that did not end finishes with `cut_off`."""
    if is_stream(response):
        assembled = assemble(response)
        is_cut_off = assembled.pop(CUT_OFF, False)
        streamed = reply(assembled, preferred)
        finished = CUT_OFF if is_cut_off else streamed.finished
        return replace(streamed, finished=finished, is_stream=True)
    wire = _response_object(response)
    try:
        for reader in map(dialect, _in_order(preferred)):
            if reader.is_response(wire):
                return _with_answer(reader.reply(response), at(wire, _ANSWER))
        owner = owner_of(wire) or dialect_of(wire, preferred) or preferred
        if owner == MIXED:
            message, *results = joined(wire)
            return Reply(message=message, usage=None, results=tuple(results))
        return dialect(owner).reply(response)
    except _UNREADABLE as error:
        raise _not_readable(response, error) from error


_ANSWER = ("choices", 0, "message")


def _with_answer(reply: Reply, answer: Any) -> Reply:
    """The reply; its answer is parsed again if its calls are spelled another provider's way."""
    if not isinstance(answer, Mapping) or owner_of(answer) in (None, DEFAULT):
        return reply
    message, *results = parse({"role": "assistant", **answer})
    return replace(reply, message=message, results=tuple(results))


def _response_object(response: Any) -> Mapping[str, Any]:
    if is_async_stream(response):
        hint = "await it: refold.aio has the same Context for async callers"
        raise Invalid(f"{shown(response)} is an asynchronous stream", hint=hint)
    wire = _plain_object(response)
    refuse_langchain(wire)
    return wire


def tool_calls(response: Any) -> list[ToolCall]:
    """The tool calls in any provider's response, list of chunks or message. Arguments are an object
    if they can be read as one. The last call of a truncated answer is complete only if it has
    arguments that parse."""
    if not isinstance(response, list | tuple):
        if is_stream(response):
            hint = "walk it once: chunks = list(stream); record(chunks); tool_calls(chunks)"
            raise Invalid(f"{shown(response)} is a stream that was not read", hint=hint)
        if dialect_of(_response_object(response)) is None:
            return []
    answer = reply(response, DEFAULT)
    blocks = answer.message.blocks
    calls = []
    for call in (block for block in blocks if isinstance(block, ToolCall)):
        arguments = arguments_object(call)
        calls.append(call if arguments is None else replace(call, arguments=arguments))
    if answer.finished in _TRUNCATED and calls and isinstance(blocks[-1], ToolCall):
        last = calls[-1]
        if not isinstance(last.arguments, dict) or not last.arguments:
            calls[-1] = replace(last, is_complete=False)
    return calls


# Finish reasons of answers that ended early, as the providers spell them.
_TRUNCATED = frozenset({
    CUT_OFF, "length", "max_tokens", "MAX_TOKENS", "max_output_tokens",
    "model_context_window_exceeded",
})  # fmt: skip


def _plain_object(message: Any) -> Mapping[str, Any]:
    """The message as a plain object. Invalid if it is anything else."""
    value = plain(message)
    if not isinstance(value, dict):
        raise not_a_message(message)
    return value
