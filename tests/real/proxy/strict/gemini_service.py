"""generateContent: shapes (A2), calls and responses (P8), signatures of the turn under way (P9), and
its answers.

Both spellings of a field are taken. Signatures are demanded from Gemini 3 on; the two values that
the documents give for foreign history are taken as well.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from tests.real.proxy.strict.replies import Call, Reply, streamed, whole
from tests.real.proxy.strict.script import Answer
from tests.real.proxy.strict.seals import seal, unseal
from tests.real.proxy.strict.settings import Settings
from tests.real.proxy.strict.wire import Json, Refusal, digest, is_text, need, objects, tokens_in

_DEFAULT = [{"text": "Done."}]
_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}")
_MODEL = re.compile(r".*/models/(?P<model>[^:/?]+):(?P<method>\w+)")
_DATA = re.compile(r"[A-Za-z0-9+/_-]+={0,2}")
_BYPASSES = ("skip_thought_signature_validator", "context_engineering_is_the_way_to_go")
_HELD = ("text", "functionCall", "functionResponse", "inlineData", "fileData", "executableCode",
         "codeExecutionResult", "toolCall", "toolResponse")  # fmt: skip
_STATUSES = {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 404: "NOT_FOUND",
             429: "RESOURCE_EXHAUSTED", 500: "INTERNAL", 503: "UNAVAILABLE"}  # fmt: skip


def error_body(refusal: Refusal) -> Json:
    status = _STATUSES.get(refusal.status, "UNKNOWN")
    return {"error": {"code": refusal.status, "message": refusal.message, "status": status}}


def overflow(tokens: int, window: int) -> Refusal:
    message = f"The input token count ({tokens}) exceeds the maximum number of tokens allowed "
    return Refusal(message + f"({window}).")


def value_in(fields: Json, name: str) -> Any:
    """A field by either of its spellings."""
    snake = re.sub(r"([A-Z])", lambda found: "_" + found[1].lower(), name)
    value = fields.get(name)
    return fields.get(snake) if value is None else value


def create(call: Call, settings: Settings) -> Reply:
    found = _MODEL.match(call.path.partition("?")[0])
    need(found, "no such route", status=404)
    assert found is not None
    model, method = found["model"], found["method"]
    need(call.account or "key=" in call.path, "API key not valid.", status=401)
    contents = call.body.get("contents")
    check(call.body, model)
    units = [call.body.get("tools"), value_in(call.body, "systemInstruction"), *(contents or [])]
    tokens = sum(map(tokens_in, units))
    if method == "countTokens":
        return whole({"totalTokens": tokens})
    if tokens > settings.window:
        raise overflow(tokens, settings.window)
    answer = settings.script.answer(call.queue, call.body, _DEFAULT, overflow)
    parts = _signed(answer.said, model)
    cached = settings.cache.automatic(f"{model} {call.account}", units)
    said = tokens_in(parts)
    usage = {"promptTokenCount": tokens, "candidatesTokenCount": said}
    usage |= {"cachedContentTokenCount": cached.read, "totalTokenCount": tokens + said}
    head = {"modelVersion": model, "responseId": settings.id("g")}
    if method == "streamGenerateContent":
        return _stream(call, parts, {**head, "usageMetadata": usage}, answer)
    return whole(
        {"candidates": [_candidate(parts, "STOP")], "usageMetadata": usage, **head}, answer
    )


def _candidate(parts: list[Json], reason: str | None) -> Json:
    ended = {"finishReason": reason} if reason else {}
    return {"content": {"parts": parts, "role": "model"}, "index": 0, **ended}


def _stream(call: Call, parts: list[Json], end: Json, answer: Answer) -> Reply:
    last = len(parts) - 1
    chunks = [
        {"candidates": [_candidate([part], "STOP" if at == last else None)], **end}
        for at, part in enumerate(parts)
    ]
    if "alt=sse" in call.path:
        return streamed(chunks, answer, named=False)
    return whole(chunks, answer)


def _signed(parts: list[Json], model: str) -> list[Json]:
    """The parts, the first call of them signed, as parallel calls are."""
    made, is_signed = [], False
    for part in parts:
        call = value_in(part, "functionCall")
        if call is not None and not is_signed:
            note = {"model": model, "call": digest(call.get("name"), call.get("args"))}
            part, is_signed = {**part, "thoughtSignature": seal(note)}, True
        made.append(part)
    return made


# --- what is refused ---


def check(request: Json, model: str) -> None:
    contents = request.get("contents")
    need(isinstance(contents, list) and contents, "contents is not specified")
    assert isinstance(contents, list)
    for index, content in enumerate(contents):
        _check_content(f"contents[{index}]", content)
    is_user = contents[0]["role"] == "user"
    need(is_user, "Please ensure that multiturn requests start with a user turn.")
    _check_calls(contents)
    is_users = contents[-1]["role"] == "user"
    need(is_users, "Requests ending with a model turn are not supported.")
    _check_signatures(contents, model)
    _check_system(value_in(request, "systemInstruction"))
    for tool in request.get("tools") or []:
        need(isinstance(tool, dict) and tool and "name" not in tool, "Invalid tool.")


def _check_content(place: str, content: object) -> None:
    need(isinstance(content, dict), f"Invalid value at '{place}'.")
    assert isinstance(content, dict)
    role, parts = content.get("role"), content.get("parts")
    need(role in ("user", "model"), "Please use a valid role: user, model.")
    is_list = isinstance(parts, list) and bool(parts)
    need(is_list, f"{place}.parts must not be empty.")
    assert isinstance(parts, list)
    for index, part in enumerate(parts):
        _check_part(f"{place}.parts[{index}]", str(role), part)


def _check_part(place: str, role: str, part: object) -> None:
    need(isinstance(part, dict), f"Invalid value at '{place}'.")
    assert isinstance(part, dict)
    held = [name for name in _HELD if value_in(part, name) is not None]
    signature = value_in(part, "thoughtSignature")
    need(len(held) < 2, f"{place}: oneof field 'data' is already set.")
    message = f"{place}.data: required oneof field 'data' must have one initialized field"
    need(held or signature is not None, message)
    is_bytes = signature is None or (isinstance(signature, str) and _DATA.fullmatch(signature))
    need(
        is_bytes,
        f"Invalid value at '{place}.thought_signature' (TYPE_BYTES), Base64 decoding failed",
    )
    is_thought = bool(part.get("thought")) or signature is not None
    need(not is_thought or role == "model", f"{place}: a thought in a {role} turn.")
    for name in held:
        _check_held(place, role, name, value_in(part, name), is_signed=signature is not None)


def _check_held(place: str, role: str, name: str, value: Any, *, is_signed: bool) -> None:
    if name == "text":
        is_said = isinstance(value, str) and (bool(value) or is_signed)
        need(is_said, f"{place}.text: must not be empty.")
        return
    need(isinstance(value, dict), f"Invalid value at '{place}.{name}'.")
    roles = {"functionCall": "model", "functionResponse": "user", "executableCode": "model"}
    need(roles.get(name, role) == role, f"{place}: a {name} in a {role} turn.")
    if name in ("functionCall", "functionResponse"):
        is_name = isinstance(value.get("name"), str) and _NAME.fullmatch(value["name"])
        need(is_name, f"{place}.{name}.name: Name cannot be empty or is invalid.")
        need(isinstance(value.get("id"), str | None), f"Invalid value at '{place}.{name}.id'.")
    if name == "functionCall":
        need(isinstance(value.get("args"), dict | None), f"Invalid value at '{place}.args'.")
    if name == "functionResponse":
        need(isinstance(value.get("response"), dict), f"Invalid value at '{place}.response'.")
    if name == "inlineData":
        is_data = isinstance(value.get("data"), str) and _DATA.fullmatch(value["data"])
        need(is_data and "/" in str(value_in(value, "mimeType")), f"Invalid value at '{place}'.")
    if name == "fileData":
        need(is_text(value_in(value, "fileUri")), f"{place}.file_data.file_uri is required.")


def _held_in(content: Json, name: str) -> list[Json]:
    values = (value_in(part, name) for part in objects(content["parts"]))
    return [value for value in values if value is not None]


def _check_calls(contents: list[Json]) -> None:
    """P8: as many responses as calls, in the turn behind them; calls come after a user's turn."""
    calls: list[Json] = []
    before = "user"
    for content in [*contents, {"role": "end", "parts": []}]:
        answers = _held_in(content, "functionResponse")
        message = "Please ensure that the number of function response parts is equal to the number "
        message += "of function call parts of the function call turn."
        need(len(answers) == len(calls), message)
        _check_answers(calls, answers)
        calls = _held_in(content, "functionCall")
        message = "Please ensure that function call turn comes immediately after a user turn or "
        need(not calls or before == "user", message + "after a function response turn.")
        before = content["role"]


def _check_answers(calls: list[Json], answers: list[Json]) -> None:
    named = Counter(call["name"] for call in calls)
    is_same = named == Counter(answer["name"] for answer in answers)
    need(is_same, "Please ensure that function responses have the names of their calls.")
    names = {call["id"]: call["name"] for call in calls if call.get("id")}
    ids = [answer["id"] for answer in answers if answer.get("id")]
    for answer in answers:
        is_its = not answer.get("id") or names.get(answer["id"]) == answer["name"]
        need(is_its, f"Function response {answer.get('id')!r} matches no function call.")
    need(len(set(ids)) == len(ids), "Function responses repeat an id.")


def _check_signatures(contents: list[Json], model: str) -> None:
    """P9: in the turn under way the first call of each step is signed by this model; whatever is
    signed elsewhere is whole."""
    version = re.match(r"gemini-(\d+)", model)
    is_newer = version is not None and int(version[1]) >= 3
    start = max((at for at, content in enumerate(contents) if _is_turn(content)), default=0)
    for index, content in enumerate(contents):
        parts = [part for part in content["parts"] if value_in(part, "functionCall") is not None]
        for position, part in enumerate(parts):
            signature = value_in(part, "thoughtSignature")
            is_needed = is_newer and index >= start and position == 0
            message = "Function call is missing a thought_signature in functionCall parts. This is "
            message += "required for tools to work correctly."
            need(signature is not None or not is_needed, message)
            if is_newer and signature is not None and index >= start:
                _check_signature(signature, value_in(part, "functionCall"), model)


def _check_signature(signature: str, call: Json, model: str) -> None:
    if signature in _BYPASSES:
        return
    note = unseal(signature) or {}
    is_its = note.get("call") == digest(call.get("name"), call.get("args"))
    need(is_its and note.get("model") == model, "Corrupted thought signature.")


def _is_turn(content: Json) -> bool:
    """Whether a turn begins here: the user says something that is not a response."""
    answers = _held_in(content, "functionResponse")
    return content["role"] == "user" and len(answers) < len(content["parts"])


def _check_system(system: Any) -> None:
    if system is None:
        return
    parts = system.get("parts") if isinstance(system, dict) else None
    is_list = isinstance(parts, list) and bool(parts)
    need(is_list, "Invalid value at 'system_instruction'.")
    assert isinstance(parts, list)
    for part in parts:
        need(isinstance(part, dict) and is_text(part.get("text")), "system_instruction: not a text")
