"""What generateContent would refuse, read from the provider's side and written apart from `render`
and the laws.

Each fault names its place: "contents[3].parts[0]: …". Both spellings of a field are read; null
means absent. Only Gemini 3 and newer demand signatures: they are asked for where the conversation
has any on a call.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from refold.dialects.gemini.fields import HELD, snake, value_in

_TOOL_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}")
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]+={0,2}")
_BESIDE = (
    "thought", "thoughtSignature", "videoMetadata", "mediaResolution", "partMetadata", "audioTranscription",
    "mediaProcessing", "speechMetadata",
)  # fmt: skip
_KNOWN = frozenset(spelling for name in (*HELD, *_BESIDE) for spelling in (name, snake(name)))


def check(request: Mapping[str, Any]) -> list[str]:
    """Every fault that the provider would refuse the request for."""
    contents = request.get("contents")
    if not isinstance(contents, list) or not contents:
        return ["contents: not a list with at least one content"]
    faults = [
        f"contents[{i}]{fault}"
        for i, content in enumerate(contents)
        for fault in _content_faults(content)
    ]
    if not faults:
        faults += _order_faults(contents)
        faults += _pair_faults(contents)
        faults += _signature_faults(contents)
    config = request.get("config", {})
    if not isinstance(config, Mapping):
        return [*faults, "config: not an object"]
    return [
        *faults,
        *_system_faults(value_in(config, "systemInstruction")),
        *_tool_faults(config.get("tools")),
    ]


# --- one content ---


def _content_faults(content: Any) -> Iterator[str]:
    if not isinstance(content, dict):
        yield ": not an object"
        return
    role, parts = content.get("role"), content.get("parts")
    if role not in ("user", "model"):
        yield f": unknown role {role!r}"
    elif not isinstance(parts, list) or not parts:
        yield ": no parts"
    else:
        for index, part in enumerate(parts):
            yield from (f".parts[{index}]: {fault}" for fault in _part_faults(role, part))


def _part_faults(role: str, part: Any) -> Iterator[str]:
    if not isinstance(part, dict):
        yield "not an object"
        return
    given = {key: value for key, value in part.items() if value is not None}
    yield from (f"unknown field {key!r}" for key in given if key not in _KNOWN)
    held = [name for name in HELD for key in dict.fromkeys((name, snake(name))) if key in given]
    signature = value_in(part, "thoughtSignature")
    if len(held) > 1:
        yield f"holds {' and '.join(held)}, only one is allowed"
    elif not held and signature is None:
        yield "holds nothing"
    yield from _thought_faults(role, part, signature)
    for name in held:
        yield from _held_faults(role, name, value_in(part, name), signed=signature is not None)


def _thought_faults(role: str, part: dict[str, Any], signature: Any) -> Iterator[str]:
    if signature is not None and (
        not isinstance(signature, str) or not _BASE64.fullmatch(signature)
    ):
        yield "thoughtSignature is not base64"
    if role != "model" and (part.get("thought") or signature is not None):
        yield f"a thought in a {role} content"


def _held_faults(role: str, name: str, value: Any, *, signed: bool) -> Iterator[str]:
    if name == "text":
        if not isinstance(value, str) or not (value or signed):
            yield f"text is {value!r:.40}"
    elif not isinstance(value, dict):
        yield f"{name} is {type(value).__name__}"
    elif name in _ROLE_OF and role != _ROLE_OF[name]:
        yield f"a {name} in a {role} content"
    elif name in _FAULTS:
        yield from _FAULTS[name](value)


def _call_faults(call: dict[str, Any]) -> Iterator[str]:
    yield from _named_faults(call)
    if not isinstance(call.get("args"), dict | None):
        yield f"args is {type(call['args']).__name__}"


def _response_faults(answer: dict[str, Any]) -> Iterator[str]:
    yield from _named_faults(answer)
    if not isinstance(answer.get("response"), dict):
        yield f"response is {type(answer.get('response')).__name__}"


def _named_faults(called: dict[str, Any]) -> Iterator[str]:
    if not isinstance(called.get("name"), str) or not called["name"]:
        yield f"name is {called.get('name')!r}"
    if not isinstance(called.get("id"), str | None):
        yield f"id is {called['id']!r}"


def _inline_faults(inline: dict[str, Any]) -> Iterator[str]:
    content, mime = inline.get("data"), value_in(inline, "mimeType")
    if not isinstance(content, str) or not _BASE64.fullmatch(content):
        yield "inlineData without base64"
    if not isinstance(mime, str) or "/" not in mime:
        yield f"mimeType is {mime!r}"


def _file_faults(file: dict[str, Any]) -> Iterator[str]:
    if not isinstance(value_in(file, "fileUri"), str) or not value_in(file, "fileUri"):
        yield "fileData without fileUri"


_ROLE_OF = {"functionCall": "model", "functionResponse": "user", "executableCode": "model"}
_FAULTS: dict[str, Callable[[dict[str, Any]], Iterator[str]]] = {
    "functionCall": _call_faults, "functionResponse": _response_faults, "inlineData": _inline_faults,
    "fileData": _file_faults,
}  # fmt: skip


# --- the list ---


def _order_faults(contents: list[dict[str, Any]]) -> Iterator[str]:
    if contents[0]["role"] != "user":
        yield "contents[0]: the first content is the model's, not the user's"
    for index in range(1, len(contents)):
        if contents[index]["role"] == "model" == contents[index - 1]["role"]:
            yield f"contents[{index}]: the model speaks twice in a row"


def _pair_faults(contents: list[dict[str, Any]]) -> Iterator[str]:
    """The calls of a content are answered in the next one, as many as they are; nothing else is
    answered."""
    calls: list[dict[str, Any]] = []
    for index, content in enumerate(contents):
        yield from (
            f"contents[{index}]: {fault}"
            for fault in _answer_faults(calls, _all(content, "functionResponse"))
        )
        calls = _all(content, "functionCall")
    yield from (f"contents: the call of {call['name']!r} has no response" for call in calls)


def _answer_faults(calls: list[dict[str, Any]], answers: list[dict[str, Any]]) -> Iterator[str]:
    if len(calls) != len(answers):
        yield f"{len(answers)} function responses for {len(calls)} calls before it"
        return
    named, answered = (
        Counter(call["name"] for call in calls),
        Counter(answer["name"] for answer in answers),
    )
    yield from (f"no response for the call of {name!r}" for name in named - answered)
    ids = {call["id"]: call["name"] for call in calls if call.get("id")}
    for answer in answers:
        if answer.get("id") and ids.get(answer["id"]) != answer["name"]:
            yield f"a response of {answer['name']!r} for {answer['id']!r}, which is no such call"
    repeated = Counter(answer["id"] for answer in answers if answer.get("id"))
    yield from (f"a second response for {id!r}" for id, count in repeated.items() if count > 1)


def _signature_faults(contents: list[dict[str, Any]]) -> Iterator[str]:
    """In the turn under way every step's first call is signed, if this model signs calls at all."""
    if not any(_is_signed(part) for content in contents for part in _calling(content)):
        return
    begin = max((index for index, content in enumerate(contents) if _is_turn(content)), default=0)
    for index in range(begin, len(contents)):
        calling = _calling(contents[index])
        if calling and not _is_signed(calling[0]):
            yield f"contents[{index}]: the first call has no thoughtSignature"


def _is_turn(content: dict[str, Any]) -> bool:
    """Whether a turn begins here: the user says something that is not a response."""
    return content["role"] == "user" and len(_all(content, "functionResponse")) < len(
        content["parts"]
    )


def _calling(content: dict[str, Any]) -> list[dict[str, Any]]:
    return [part for part in content["parts"] if value_in(part, "functionCall") is not None]


def _is_signed(part: dict[str, Any]) -> bool:
    return value_in(part, "thoughtSignature") is not None


def _all(content: dict[str, Any], name: str) -> list[dict[str, Any]]:
    return [value for part in content["parts"] if (value := value_in(part, name)) is not None]


# --- beside the contents ---


def _system_faults(system: Any) -> Iterator[str]:
    if system is None or (isinstance(system, str) and system):
        return
    parts = system.get("parts") if isinstance(system, Mapping) else None
    if not isinstance(parts, list) or not parts:
        yield "system_instruction: neither text nor a content"
        return
    for index, part in enumerate(parts):
        if not isinstance(part, dict) or not isinstance(part.get("text"), str) or not part["text"]:
            yield f"system_instruction.parts[{index}]: not a text"


def _tool_faults(tools: Any) -> Iterator[str]:
    if tools is None:
        return
    if not isinstance(tools, list) or not tools:
        yield "tools: not a list with at least one tool"
        return
    for index, tool in enumerate(tools):
        if not isinstance(tool, Mapping) or not tool or "name" in tool or "type" in tool:
            yield f"tools[{index}]: not a tool of this provider"
        else:
            declared = value_in(tool, "functionDeclarations")
            yield from (f"tools[{index}]: {fault}" for fault in _declaration_faults(declared))


def _declaration_faults(declared: Any) -> Iterator[str]:
    if declared is None:
        return
    if not isinstance(declared, list) or not declared:
        yield "functionDeclarations is not a list with at least one"
        return
    for declaration in declared:
        name = declaration.get("name") if isinstance(declaration, Mapping) else None
        if not isinstance(name, str) or not _TOOL_NAME.fullmatch(name):
            yield f"name is {name!r}"
        elif (
            value_in(declaration, "parametersJsonSchema") is not None
            and declaration.get("parameters") is not None
        ):
            yield f"{name} has both parameters and parametersJsonSchema"
