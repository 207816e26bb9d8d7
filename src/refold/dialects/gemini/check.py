"""Faults for which generateContent would refuse a request, from the provider's documentation.

The rules are independent of `render` and the laws, which they test. Each fault names its position:
"contents[3].parts[0]: …". Both spellings of a field are read; null means absent. Only Gemini 3 and
newer demand signatures, so they are required only if the request names such a model, or a call in
the conversation has one. Neighbour: `wire` has the checks that validators share.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from refold.checked import quoted
from refold.dialects.faults import (
    Faults,
    faults_in,
    is_name,
    matches,
    option_faults,
    pattern_faults,
    takes_object,
    tool_faults,
    type_faults,
)
from refold.dialects.gemini.render import HELD, snake, value_in
from refold.dialects.wire import is_taken, objects_in, present

_TOOL_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}")
_VERSION, _SIGNING_SINCE = re.compile(r"gemini-(\d{1,3})", re.IGNORECASE), 3
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]+={0,2}")
_BESIDE = (
    "thought", "thoughtSignature", "videoMetadata", "mediaResolution", "partMetadata",
    "audioTranscription", "mediaProcessing", "speechMetadata",
)  # fmt: skip
_KNOWN = frozenset(spelling for name in (*HELD, *_BESIDE) for spelling in (name, snake(name)))
# Names of a part's content, in both spellings if they differ.
_SPELLINGS = [(name, key) for name in HELD for key in dict.fromkeys((name, snake(name)))]

Content = dict[str, Any]


def check(request: Mapping[str, Any]) -> list[str]:
    """All faults for which the provider would refuse the request."""
    contents = request.get("contents")
    if not isinstance(contents, list) or not contents:
        return ["contents: not a list with at least one content"]
    faults = list(faults_in("contents", contents, _content_faults, between=""))
    if not faults:
        faults += _order_faults(contents)
        faults += _pair_faults(contents)
        faults += _signature_faults(contents, request.get("model"))
    return [*faults, *_config_faults(request.get("config", {}))]


# --- one content ---


def _content_faults(content: Any) -> Faults:
    if not isinstance(content, dict):
        yield ": not an object"
        return
    role, parts = content.get("role"), content.get("parts")
    if role not in ("user", "model"):
        yield f": unknown role {role!r}"
    elif not isinstance(parts, list) or not parts:
        yield ": no parts"
    else:
        yield from faults_in(".parts", parts, lambda part: _part_faults(role, part))


def _part_faults(role: str, part: Any) -> Faults:
    if not isinstance(part, dict):
        yield "not an object"
        return
    keys = [key for key, value in part.items() if value is not None]
    held = [name for name, spelling in _SPELLINGS if spelling in keys]
    yield from (f"unknown field {key!r}" for key in keys if key not in _KNOWN)
    signature = value_in(part, "thoughtSignature")
    is_signed = signature is not None
    if len(held) > 1:
        yield f"holds {' and '.join(held)}, only one is allowed"
    elif not held and not is_signed:
        yield "holds nothing"
    if is_signed and not matches(_BASE64, signature):
        yield "thoughtSignature is not base64"
    if role != "model" and (part.get("thought") or is_signed):
        yield f"a thought in a {role} content"
    for name in held:
        yield from _value_faults(role, name, value_in(part, name), signed=is_signed)


def _value_faults(role: str, name: str, value: Any, *, signed: bool) -> Faults:
    if name == "text":
        if not isinstance(value, str) or not (value or signed):
            yield f"text is {quoted(value, 40)}"
    elif not isinstance(value, dict):
        yield f"{name} is {type(value).__name__}"
    elif role != _ROLE_OF.get(name, role):
        yield f"a {name} in a {role} content"
    elif name in _FAULTS:
        yield from _FAULTS[name](value)


def _call_faults(call: dict[str, Any]) -> Faults:
    yield from _named_faults(call)
    yield from type_faults(call, "args", dict, type(None))


def _response_faults(answer: dict[str, Any]) -> Faults:
    yield from _named_faults(answer)
    yield from type_faults(answer, "response", dict)


def _named_faults(called: dict[str, Any]) -> Faults:
    yield from pattern_faults(called, "name", _TOOL_NAME)
    id = called.get("id")
    if not isinstance(id, str | None):
        yield f"id is {id!r}"


def _inline_faults(inline: dict[str, Any]) -> Faults:
    mime = value_in(inline, "mimeType")
    if not matches(_BASE64, inline.get("data")):
        yield "inlineData without base64"
    if not isinstance(mime, str) or "/" not in mime:
        yield f"mimeType is {mime!r}"
    elif not is_taken("gemini", mime.partition("/")[0], mime):
        yield f"mimeType is {quoted(mime, 40)}"


def _file_faults(file: dict[str, Any]) -> Faults:
    if not is_name(value_in(file, "fileUri")):
        yield "fileData without fileUri"


_ROLE_OF = {"functionCall": "model", "functionResponse": "user", "executableCode": "model"}
_FAULTS: dict[str, Callable[[dict[str, Any]], Faults]] = {
    "functionCall": _call_faults,
    "functionResponse": _response_faults,
    "inlineData": _inline_faults,
    "fileData": _file_faults,
}


# --- the list ---


def _order_faults(contents: list[Content]) -> Faults:
    if contents[0]["role"] != "user":
        yield "contents[0]: the first content is the model's, not the user's"
    if contents[-1]["role"] == "model":
        yield f"contents[{len(contents) - 1}]: the request ends with the model"
    for index in range(1, len(contents)):
        if contents[index]["role"] == "model" == contents[index - 1]["role"]:
            yield f"contents[{index}]: the model speaks twice in a row"


def _pair_faults(contents: list[Content]) -> Faults:
    """Requires that the next content has exactly one response per call."""
    calls: list[dict[str, Any]] = []
    for index, content in enumerate(contents):
        faults = _answer_faults(calls, _values(content, "functionResponse"))
        yield from (f"contents[{index}]: {fault}" for fault in faults)
        calls = _values(content, "functionCall")
    yield from (f"contents: the call of {call['name']!r} has no response" for call in calls)


def _answer_faults(calls: list[dict[str, Any]], answers: list[dict[str, Any]]) -> Faults:
    if len(calls) != len(answers):
        yield f"{len(answers)} function responses for {len(calls)} calls before it"
        return
    named = Counter(call["name"] for call in calls)
    answered = Counter(answer["name"] for answer in answers)
    yield from (f"no response for the call of {name!r}" for name in named - answered)
    # Responses with an id name distinct calls of their own tool.
    names = {call["id"]: call["name"] for call in calls if call.get("id")}
    identified = [answer for answer in answers if answer.get("id")]
    for answer in identified:
        if names.get(answer["id"]) != answer["name"]:
            yield f"a response of {answer['name']!r} for {answer['id']!r}, which is no such call"
    counts = Counter(answer["id"] for answer in identified)
    yield from (f"a second response for {id!r}" for id, count in counts.items() if count > 1)


def _signature_faults(contents: list[Content], model: Any) -> Faults:
    """Requires a signature on the first call of every step in the open turn, if the model demands
    it or any call has one. A turn begins where the user says something other than a response."""
    version = _VERSION.search(model) if isinstance(model, str) else None
    is_demanded = version is not None and int(version[1]) >= _SIGNING_SINCE
    if not is_demanded and not any(
        _is_signed(part) for content in contents for part in _calling_parts(content)
    ):
        return
    turn = 0
    for index, content in enumerate(contents):
        responses = _values(content, "functionResponse")
        if content["role"] == "user" and len(responses) < len(content["parts"]):
            turn = index
    for index in range(turn, len(contents)):
        calling = _calling_parts(contents[index])
        if calling and not _is_signed(calling[0]):
            yield f"contents[{index}]: the first call has no thoughtSignature"


def _calling_parts(content: Content) -> list[dict[str, Any]]:
    return [part for part in content["parts"] if value_in(part, "functionCall") is not None]


def _is_signed(part: dict[str, Any]) -> bool:
    return value_in(part, "thoughtSignature") is not None


def _values(content: Content, name: str) -> list[dict[str, Any]]:
    """The values of that name in the parts of a content."""
    return present(value_in(part, name) for part in content["parts"])


# --- the config ---


def _config_faults(config: Any) -> Faults:
    if not isinstance(config, Mapping):
        yield "config: not an object"
        return
    system = value_in(config, "systemInstruction")
    parts = system.get("parts") if isinstance(system, Mapping) else None
    if isinstance(parts, list) and parts:
        yield from faults_in("system_instruction.parts", parts, _prompt_faults)
    elif system is not None and not is_name(system):
        yield "system_instruction: neither text nor a content"
    if config.get("tools") is not None:
        yield from tool_faults(config["tools"], _tool_faults)
    tools = objects_in(config.get("tools"))
    declared = [one for tool in tools for one in objects_in(value_in(tool, "functionDeclarations"))]
    names = [one.get("name") for one in declared]
    yield from option_faults("gemini", _snaked(config), names)


def _snaked(value: Any) -> Any:
    """Nested options in the SDK's spelling."""
    if not isinstance(value, Mapping):
        return value
    return {snake(str(key)): _snaked(item) for key, item in value.items() if key != "tools"}


def _prompt_faults(part: Any) -> Faults:
    if not isinstance(part, dict) or not is_name(part.get("text")):
        yield "not a text"


def _tool_faults(tool: Any) -> Faults:
    if not isinstance(tool, Mapping) or not tool or "name" in tool or "type" in tool:
        yield "not a tool of this provider"
        return
    declared = value_in(tool, "functionDeclarations")
    if declared is None:
        return
    if not isinstance(declared, list) or not declared:
        yield "functionDeclarations is not a list with at least one"
        return
    for declaration in declared:
        name = declaration.get("name") if isinstance(declaration, Mapping) else None
        if not matches(_TOOL_NAME, name):
            yield f"name is {name!r}"
            continue
        schemas = (declaration.get("parameters"), value_in(declaration, "parametersJsonSchema"))
        if None not in schemas:
            yield f"{name} has both parameters and parametersJsonSchema"
        if not all(map(takes_object, schemas)):
            yield f"the schema of {name} is not the schema of an object"
