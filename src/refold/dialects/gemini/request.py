"""Requests to Gemini: the keyword arguments of `client.models.generate_content`.

This sees the whole page: system messages get their place, consecutive contents of the model become
one, the first call of every step is signed if any call is, and a user speaks last, because newer
models refuse a request that ends with the model. All functions are declared in one list.
Neighbours: `render` builds the contents, `dialects.tools` reads definitions of every shape.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from refold.dialects.gemini.render import NAME, UNSIGNED, snake, value_in
from refold.dialects.input import refused
from refold.dialects.protocol import GO_ON, REFOLDS, Arranged, CacheMarks
from refold.dialects.tools import (
    definition_of,
    function_in,
    is_declared,
    is_declaring,
    named,
    plain_tool,
    report_left_out,
)
from refold.dialects.wire import as_system, at, leading, text_blocks
from refold.errors import Invalid

_SIGNING = re.compile(r"gemini-(?:[3-9]|[1-9]\d)(?!\d)", re.IGNORECASE)  # these require signatures

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
    """The keyword arguments of the call. There are no marks: the provider caches automatically.
    Leading system messages follow the system prompt."""
    messages = arranged(messages, lost).messages
    lead = leading(messages, ("system",))
    prompt = text_blocks([system, *map(_system_text, messages[:lead])])
    config: Wire = {}
    if prompt:
        parts = [{"text": block["text"]} for block in prompt]
        config["system_instruction"] = {"parts": parts}
    defined = definitions(tools, lost)
    if defined:
        config["tools"] = defined
    contents = {"contents": messages[lead:]}
    return {**contents, "config": config} if config else contents


def _system_text(message: Wire) -> str:
    """The text of a system message, which `render` leaves as one part."""
    text: str = message["parts"][0]["text"]
    return text


def arranged(messages: list[Wire], lost: list[str]) -> Arranged:
    """The page with consecutive contents of the model joined, because a call must come directly
    after the user's turn, with steps signed, and with a user speaking last. System messages after
    the beginning become the user's."""
    lead = leading(messages, ("system",))
    contents: list[Wire] = []
    places = list(range(lead))
    for message in messages[lead:]:
        if message["role"] == "system":
            text = as_system(_system_text(message))
            contents.append({"role": "user", "parts": [{"text": text}]})
        elif contents and message["role"] == "model" == contents[-1]["role"]:
            parts = [*contents[-1]["parts"], *message["parts"]]
            contents[-1] = {**contents[-1], "parts": parts}
        else:
            contents.append(message)
        places.append(lead + len(contents) - 1)
    if contents and contents[-1]["role"] == "model":
        contents.append({"role": "user", "parts": [{"text": GO_ON}]})
    return Arranged([*messages[:lead], *_signed(contents)], places)


def with_keywords(request: Wire, keywords: Mapping[str, Any]) -> Wire:
    """The request with the caller's own keywords. The caller's config joins ours, which has the
    system prompt and the tools. Invalid if both have one of these."""
    given = keywords.get("config")
    own = request.get("config")
    if given is None or not own:
        rest = {key: value for key, value in keywords.items() if key != "config"}
        return {**request, **(keywords if given is not None else rest)}
    if not isinstance(given, Mapping):
        names = getattr(given, "model_fields_set", None)
        if names is None:
            raise refused("the config", given, "a dict or a GenerateContentConfig")
        given = {name: getattr(given, name) for name in names}
    fields = {key: value for key, value in given.items() if value is not None}
    names = {*map(snake, fields)}
    if "cached_content" in names:
        hint = "the cache has its own: open the conversation without system and tools"
        raise Invalid("cached_content beside the conversation's system prompt or tools", hint=hint)
    for key in own:
        if key in names:
            what = "the system prompt" if key == "system_instruction" else key
            name = "system" if key == "system_instruction" else key
            hint = f"leave {key} out of config, or replace it for good: context.update({name}=…)"
            raise Invalid(f"config has {key}, but the conversation has {what}", hint=hint)
    return {**request, **keywords, "config": {**own, **fields}}


def finished(request: Wire, *, output_max: int | None = None) -> Wire:
    """The complete call: for a model that requires signatures, the calls of older ones get them,
    too."""
    model, contents = request.get("model"), request.get("contents")
    if not isinstance(model, str) or not _SIGNING.search(model) or not isinstance(contents, list):
        return request
    if not all(isinstance(at(content, ("parts",)), list) for content in contents):
        return request  # the caller's own, in another shape
    return {**request, "contents": list(map(_signed_step, contents))}


def _signed(contents: list[Wire]) -> list[Wire]:
    """The contents, with the first call of every step signed if any call is: a model that signs its
    calls refuses a step without a signature, even one by another model."""
    for content in contents:
        for part in content["parts"]:
            is_call = "functionCall" in part or "function_call" in part
            if is_call and value_in(part, "thoughtSignature") is not None:
                return list(map(_signed_step, contents))
    return contents


def _signed_step(content: Wire) -> Wire:
    """The content with a signature on its first call."""
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
    """The tools as generateContent accepts them: its own unchanged, all functions of other shapes
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
    """The declaration of a function that a tool is or wraps; None if it is something else."""
    function = function_in(tool)
    if function is None and tool.get("type", "custom") in ("custom", "function"):
        function = tool
    if function is None or "custom" in tool:
        report_left_out(tool, NAME, lost)
        return None
    if is_declared(function):
        return function
    definition = definition_of(function)
    return {**named(definition), "parametersJsonSchema": definition.schema}
