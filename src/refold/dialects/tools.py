"""Tool definitions: reads any provider's shape, and checks tools, system prompts and parts on
arrival.

A tool that a provider runs or defines itself (`memory_20250818`, `custom`) means something only
there: other dialects leave it out and report it in `lost`. Tools and system prompts are checked
early, because no dialect could render a page with a malformed one; only the shape is checked, by
the readers that rendering uses. Neighbours: the dialects' `definitions`, `Context.update`, and
`Context.append`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from refold import dialects
from refold.checked import check, quoted
from refold.core.model import Media, Message, Opaque, Text, Thinking, ToolCall
from refold.dialects.faults import is_object_schema
from refold.dialects.input import plain, plain_value, refused, without_marks
from refold.dialects.original_form import HOLE
from refold.dialects.wire import at, is_base64, is_speaker, present, report, shown_text, text_blocks
from refold.errors import Invalid

# Keys of ordinary tools. Gemini's have none of them: they list functions, or are named by a key.
_KEYS = ("name", "type", "function", "custom", "description", "parameters", "input_schema")
_LISTS = ("functionDeclarations", "function_declarations")
_SCHEMAS = ("parametersJsonSchema", "parameters_json_schema")
_SCHEMA_KEYS = ("parameters", "input_schema", *_SCHEMAS)
_ANY_INPUT = {"type": "object", "properties": {}}


class Definition(Struct, frozen=True):
    """The name, description and schema of a function."""

    name: str
    description: str
    schema: Any


def plain_tool(tool: Any, *, unmarked: bool = True) -> dict[str, Any]:
    """A shallow copy of the tool, without cache marks if `unmarked`. Schemas can be large and are
    shared with the original."""
    fields = tool if isinstance(tool, Mapping) else plain(tool)
    if not isinstance(fields, Mapping):
        raise refused("a tool", tool, "a definition with a name and a schema")
    copy = without_marks(fields) if unmarked else dict(fields)
    inner = copy.get("function")
    if isinstance(inner, Mapping):
        copy["function"] = typed(inner)
    return typed(copy)


def typed(function: Mapping[str, Any]) -> dict[str, Any]:
    """The function with the type of its schemas, which some providers demand and some callers leave
    out: arguments are always an object."""
    fields = dict(function)
    for key in _SCHEMA_KEYS:
        schema = fields.get(key)
        if isinstance(schema, Mapping) and "type" not in schema:
            is_demanded = bool(schema) or key == "input_schema"
            fields[key] = {**_ANY_INPUT, **schema} if is_demanded else schema
    return fields


def is_declaring(tool: Mapping[str, Any]) -> bool:
    """Whether a tool declares functions in a list, or is named by its key."""
    return bool(tool) and not any(key in tool for key in _KEYS)


def is_declared(function: Mapping[str, Any]) -> bool:
    """Whether a function has the shape of a list entry with a JSON schema."""
    return any(key in function for key in _SCHEMAS)


def one_by_one(tools: list[Any] | None, lost: list[str]) -> Iterator[Any]:
    """The tools; each function declared in a list becomes a separate tool."""
    for tool in tools or ():
        if not isinstance(tool, Mapping) or not is_declaring(tool):
            yield tool
            continue
        for key, value in tool.items():
            if key in _LISTS and isinstance(value, list):
                yield from map(_simple, value)
            else:
                report(lost, f"the tool {key!r} is run by another provider and not sent")


def _simple(declaration: Any) -> Any:
    """A declared function as a simple tool, with its JSON schema, or the provider's own kind of
    schema with its capitalized types lowered."""
    if not isinstance(declaration, Mapping):
        return declaration
    schema = next((declaration[key] for key in _SCHEMAS if declaration.get(key)), None)
    simple = {key: declaration[key] for key in ("name", "description") if key in declaration}
    return {**simple, "parameters": schema or _lowered(declaration.get("parameters"))}


def _lowered(schema: Any) -> Any:
    """The schema with its types in lower case."""
    if isinstance(schema, list):
        return [_lowered(item) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    lowered = {key: _lowered(value) for key, value in schema.items()}
    if isinstance(lowered.get("type"), str):
        lowered["type"] = lowered["type"].lower()
    return lowered


def definition_of(tool: Mapping[str, Any]) -> Definition:
    """The definition of a simple tool. Invalid if it has no name."""
    name = tool.get("name")
    if not isinstance(name, str) or not name:
        raise refused("the name of a tool", name, "a text")
    schema = tool.get("parameters") or tool.get("input_schema") or dict(_ANY_INPUT)
    return Definition(name, tool.get("description") or "", schema)


def named(definition: Definition) -> dict[str, Any]:
    """The name of a function, and its description if there is one."""
    if definition.description:
        return {"name": definition.name, "description": definition.description}
    return {"name": definition.name}


def strictness(tool: Mapping[str, Any]) -> dict[str, Any]:
    """The `strict` field of a tool, if it has one."""
    return {"strict": tool["strict"]} if isinstance(tool.get("strict"), bool) else {}


def function_in(tool: Mapping[str, Any]) -> dict[str, Any] | None:
    """The function inside a tool, or None."""
    inner = tool.get("function")
    return dict(inner) if isinstance(inner, Mapping) else None


def functions(tools: list[Any] | None, name: str, lost: list[str]) -> list[dict[str, Any]]:
    """The tools as most servers accept them: `{"type": "function", "function": {…}}`. Tools that
    the dialect `name` cannot send are reported."""
    simple_tools = map(plain_tool, one_by_one(tools, lost))
    return present(_function(tool, name, lost) for tool in simple_tools)


def _function(tool: dict[str, Any], dialect: str, lost: list[str]) -> dict[str, Any] | None:
    kind = tool.get("type", "custom")
    wrapped = function_in(tool)
    if wrapped is not None:
        return {**tool, "function": wrapped}
    if kind == "custom" and isinstance(tool.get("custom"), Mapping):
        return tool
    if kind not in ("custom", "function"):
        report_left_out(tool, dialect, lost)
        return None
    definition = definition_of(tool)
    schema = {"parameters": definition.schema}
    return {"type": "function", "function": named(definition) | schema | strictness(tool)}


def report_left_out(tool: Mapping[str, Any], dialect: str, lost: list[str]) -> None:
    """Reports a tool that a dialect cannot send."""
    custom = tool.get("custom")
    inner = custom.get("name") if isinstance(custom, Mapping) else None
    called = tool.get("name") or inner
    report(lost, f"the tool {called!r} of type {tool.get('type')!r} is not sent to {dialect}")


def plain_system(system: Any) -> Any:
    """The system prompt as plain JSON. Invalid unless it is text, text blocks or system
    messages."""
    if isinstance(system, bytes | bytearray | memoryview):
        raise refused("the system prompt", system, "text, text blocks or system messages")
    prompt = plain_value(system)
    if prompt == {}:
        raise refused("the system prompt", prompt, "text, text blocks or system messages")
    text_blocks(prompt)
    return prompt


def plain_tools(tools: list[Any] | None) -> list[Any] | None:
    """The tools as plain JSON. Invalid unless each is a definition with a name, or a tool that a
    provider runs itself."""
    plain_list: list[Any] | None = plain_value(tools)
    for tool in plain_list or ():
        if not isinstance(tool, Mapping) or not is_declaring(tool):
            continue
        for key, value in tool.items():
            if not isinstance(value, Mapping | list) or value == []:
                accepted = "an object, or a list of functions"
                raise refused(f"the tool {quoted(key, 60)}", value, accepted)
    for tool in one_by_one(plain_list, []):
        _check_tool(plain_tool(tool))
    return plain_list


def distinct(tools: list[Any] | None) -> list[Any] | None:
    """The tools. Invalid if two have the same name: a call could not be assigned to one of them,
    and providers refuse the request."""
    names: set[str] = set()
    for tool in one_by_one(tools, []):
        inner = (at(tool, (key, "name")) for key in ("function", "custom"))
        named = (name for name in (*inner, at(tool, ("name",))) if isinstance(name, str))
        name = next(named, "")
        if name in names:
            hint = "rename one of them, or pass only one"
            raise Invalid(f"two tools are called {quoted(name, 60)}", hint=hint)
        names.update([name] if name else [])
    return tools


_URL = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:[^\s]+")


def check_parts(message: Message) -> None:
    """Checks a caller's words, not those of a model or a tool. Invalid for a part that could be
    sent to no provider: its own does not accept it, and it has no text for the others."""
    if message.dialect == dialects.DEFAULT:
        _check_fields(message)
    if message.role not in ("user", "system"):
        return
    for block in message.blocks:
        if isinstance(block, ToolCall):
            raise _misplaced(message, f"a call of {quoted(block.name, 60)}")
        if isinstance(block, Thinking):
            raise _misplaced(message, "thinking")
        if isinstance(block, Media):
            if not (block.url or block.file or is_base64(block.data)):
                accepted = "base64, a URL or a file id"
                raise refused(f"the content of {shown_text(block)}", block.data, accepted)
            if block.url and not _URL.fullmatch(block.url):
                accepted = "a URL with its scheme (https://…), or a data URL with base64,"
                raise refused(f"the address of the {block.media}", block.url, accepted)
        elif isinstance(block, Opaque) and not shown_text(block) and not _is_sent(block, message):
            raise refused("a part of the message", block.raw, "a part with its content")


def _check_fields(message: Message) -> None:
    """Checks the fields of a Chat Completions message other than its content."""
    form = at(message.form, (1,))
    own = at(form, (HOLE, 1))  # a message that is one result
    fields = own if isinstance(own, dict) else form
    if not isinstance(fields, dict):
        return
    if message.role != "assistant" and (fields.get("tool_calls") or fields.get("function_call")):
        raise _misplaced(message, "a call of a tool")
    name = fields.get("name")
    if message.role != "tool" and name is not None and not is_speaker(name):
        accepted = "a name of at most 64 characters, without spaces and < | \\ / >,"
        raise refused(f"the name of a {message.role} message", name, accepted)


def _misplaced(message: Message, what: str) -> Invalid:
    hint = "put it into an assistant message, or describe it as text"
    return Invalid(f"a {message.role} message has {what}, which only a model makes", hint=hint)


_TEXTS = ("text", "input_text")


def _is_sent(part: Opaque, message: Message) -> bool:
    """Whether a part is sent to its own provider as it is. A part of an unknown type may be new;
    without any type, it must have a known field."""
    if type(part.raw) is not dict or message.dialect not in dialects.DIALECTS:
        return True
    if part.raw.get("type") in _TEXTS and part.raw.get("text") is None:
        return True  # an SDK's text part that is empty
    wire = dialects.dialect(message.dialect)
    messages = wire.render([replace(message, blocks=(part,), form=None)], [])
    contents = [one.get(key) for one in messages for key in ("content", "parts")]
    if not any(part.raw in content for content in (messages, *contents) if type(content) is list):
        return False
    request = wire.request(messages, system=None, tools=None, marks=(), lost=[])
    return bool(part.raw.get("type")) or not wire.check(request)


_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_-]{0,63}")  # accepted by every provider


def _is_accepted(dialect: str, tool: dict[str, Any]) -> bool:
    """Whether a provider accepts a request with this tool."""
    wire, lost = dialects.dialect(dialect), list[str]()
    messages = wire.render([Message(role="user", blocks=(Text("."),))], [])
    request = wire.request(messages, system=None, tools=[tool], marks=(), lost=lost)
    return not lost and not wire.check(request)


def _check_tool(tool: dict[str, Any]) -> None:
    """Checks the definition of a tool that the caller runs; a provider checks its own tools."""
    function = function_in(tool)
    if function is None and tool.get("type", "custom") not in ("custom", "function"):
        return
    custom = tool.get("custom")
    definition = definition_of(function or (custom if isinstance(custom, Mapping) else tool))
    if not _NAME.fullmatch(definition.name) and not any(
        _is_accepted(name, tool) for name in dialects.DIALECTS
    ):
        accepted = "a name of letters, digits, _ and -, with at most 64 characters,"
        raise refused("the name of a tool", definition.name, accepted)
    name = quoted(definition.name, 60)
    for key in _SCHEMA_KEYS:
        for holder in (tool, function or {}):
            schema = holder.get(key)
            is_untyped = isinstance(schema, Mapping) and "type" not in schema
            if schema is not None and not is_untyped and not is_object_schema(schema):
                accepted = 'the JSON schema of an object ({"type": "object", "properties": {…}})'
                raise refused(f"{key} of the tool {name}", schema, accepted)
    check(f"the description of the tool {name}", definition.description, str)
