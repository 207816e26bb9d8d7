"""Gemini contents: the keyword arguments of `client.models.generate_content`.

Neighbours: `render` made the contents, `tools` the definitions.

Gemini contents: tool definitions, all functions declared in one list.

Neighbours: `dialects.tools` reads definitions of every shape; `request` sends them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from refold.dialects.gemini.render import NAME, UNSIGNED, value_in
from refold.dialects.protocol import REFOLDS, CacheMarks
from refold.dialects.tools import (
    definition_of,
    function_in,
    is_declared,
    is_declaring,
    named,
    plain_tool,
    report_left_out,
)
from refold.dialects.wire import as_system, leading, report, text_blocks

Wire = dict[str, Any]


def request(
    messages: list[Wire],
    *,
    system: Any,
    tools: list[Any] | None,
    marks: Sequence[int],
    lost: list[str],
    caching: CacheMarks = REFOLDS,
) -> Wire:
    """The keyword arguments of the call. The provider finds what it can cache automatically: no
    marks. System messages that lead the page follow the system prompt."""
    if messages and messages[-1].get("role") == "model":
        report(lost, "the conversation ends with the model: some Gemini models refuse that")
    lead = leading(messages, ("system",))
    prompt = text_blocks([system, *map(_system_text, messages[:lead])])
    config: Wire = {}
    if prompt:
        parts = [{"text": block["text"]} for block in prompt]
        config["system_instruction"] = {"parts": parts}
    defined = definitions(tools, lost)
    if defined:
        config["tools"] = defined
    contents = {"contents": _signed(_alternating(messages[lead:]))}
    return {**contents, "config": config} if config else contents


def _system_text(message: Wire) -> str:
    """What a system message says, which `render` left as one text."""
    text: str = message["parts"][0]["text"]
    return text


def _alternating(messages: list[Wire]) -> list[Wire]:
    """Contents of the model that follow each other as one: a call must come directly after the
    user's turn. What the system says in the middle of a conversation is said by the user."""
    out: list[Wire] = []
    for message in messages:
        if message["role"] == "system":
            said = as_system(_system_text(message))
            out.append({"role": "user", "parts": [{"text": said}]})
        elif out and message["role"] == "model" == out[-1]["role"]:
            out[-1] = {**out[-1], "parts": [*out[-1]["parts"], *message["parts"]]}
        else:
            out.append(message)
    return out


# --- signatures ---


def _signed(contents: list[Wire]) -> list[Wire]:
    """The contents; where one call is signed, the first of every step is: a model that signs its
    calls refuses a step without a signature, whoever made the calls."""
    if not any(_is_signed(part) for content in contents for part in content["parts"]):
        return contents
    return list(map(_signed_step, contents))


def _is_signed(part: Wire) -> bool:
    is_call = "functionCall" in part or "function_call" in part
    return is_call and value_in(part, "thoughtSignature") is not None


def _signed_step(content: Wire) -> Wire:
    parts = content["parts"]
    for index, part in enumerate(parts):
        if value_in(part, "functionCall") is None:
            continue
        if value_in(part, "thoughtSignature") is not None:
            return content
        signed = {**part, "thoughtSignature": UNSIGNED}
        return {**content, "parts": [*parts[:index], signed, *parts[index + 1 :]]}
    return content


def definitions(tools: list[Any] | None, lost: list[str]) -> list[dict[str, Any]]:
    """The tools as generateContent takes them: its own as they are, all functions of other shapes
    declared in one."""
    own: list[dict[str, Any]] = []
    declared: list[dict[str, Any]] = []
    for tool in map(plain_tool, tools or ()):
        if is_declaring(tool):
            own.append(tool)
        elif (function := _declared(tool, lost)) is not None:
            declared.append(function)
    return [{"functionDeclarations": declared}, *own] if declared else own


def _declared(tool: dict[str, Any], lost: list[str]) -> dict[str, Any] | None:
    """A function of any other shape, as it stands in a list; None for what is not a function."""
    function = _function(tool)
    if function is None:
        report_left_out(tool, NAME, lost)
        return None
    if is_declared(function):
        return function
    definition = definition_of(function)
    return {**named(definition), "parametersJsonSchema": definition.schema}


def _function(tool: dict[str, Any]) -> dict[str, Any] | None:
    """The function that a tool is or wraps; None if it is something else."""
    if "custom" in tool:
        return None
    wrapped = function_in(tool)
    if wrapped is None and tool.get("type", "custom") in ("custom", "function"):
        return tool
    return wrapped
