"""The three wire formats a writer's endpoint can speak: where to post, what to send, what came
back.

Only text goes out, never a tool. Whatever is not the shape that was promised is `Unavailable`, in
words that name the shape and nothing of the content. Neighbour: `writer` does the posting.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal
from urllib.parse import quote

from msgspec import Struct

from refold.core.model import Usage
from refold.errors import Unavailable
from refold.writer.asker import Answer, Request

Kind = Literal["openai", "anthropic", "gemini"]

_STOPS = {
    # what providers say, in our words
    "stop": "stop", "end_turn": "stop", "stop_sequence": "stop", "STOP": "stop",
    "length": "length", "max_tokens": "length", "MAX_TOKENS": "length", "model_context_window_exceeded": "length",
    "tool_calls": "tool", "function_call": "tool", "tool_use": "tool",
    "content_filter": "refusal", "refusal": "refusal", "SAFETY": "refusal",
}  # fmt: skip


class Wire(Struct, frozen=True, kw_only=True):
    """One format. `host` is the provider's own, `key_env` the variable in which its users keep
    their key."""

    host: str
    key_env: str
    path: Callable[[str, str], str]
    headers: Callable[[str], dict[str, str]]
    payload: Callable[[Request, str, str], dict[str, Any]]
    answer: Callable[[dict[str, Any]], Answer]


def _finished(said: object) -> str:
    return _STOPS.get(said, said) if isinstance(said, str) and said else "nothing"


def _shape(what: str) -> Unavailable:
    return Unavailable(
        f"the writer's endpoint gave no {what}",
        hint="check the address and the kind of the endpoint",
    )


def _table(value: object, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _shape(what)
    return value


def _maybe(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _first(value: object, what: str) -> dict[str, Any]:
    if not isinstance(value, list) or not value:
        raise _shape(what)
    return _table(value[0], what)


def _number(value: object) -> int:
    return value if isinstance(value, int) and value > 0 else 0


def _joined(parts: object, wanted: Callable[[dict[str, Any]], object]) -> str:
    """The texts of a list of parts."""
    texts = (
        [wanted(part) for part in parts if isinstance(part, dict)]
        if isinstance(parts, list)
        else []
    )
    return "".join(text for text in texts if isinstance(text, str))


# --- OpenAI-compatible chat completions ---


def _chat_path(base: str, model: str) -> str:
    return base if base.endswith("/chat/completions") else f"{base}/chat/completions"


def _chat_payload(request: Request, model: str, host: str) -> dict[str, Any]:
    # OpenAI's own newer models refuse the old name of the limit; other servers know only that one.
    limit = "max_completion_tokens" if host == "api.openai.com" else "max_tokens"
    messages = [
        {"role": "system", "content": request.system},
        {"role": "user", "content": request.prompt},
    ]
    return {"model": model, "messages": messages, limit: request.max_tokens, "stream": False}


def _chat_answer(body: dict[str, Any]) -> Answer:
    choice = _first(body.get("choices"), "choices")
    message = _table(choice.get("message"), "message")
    content = message.get("content")
    text = content if isinstance(content, str) else _joined(content, lambda part: part.get("text"))
    reasoning = message.get("reasoning_content") or message.get("reasoning") or ""
    finished = "tool" if message.get("tool_calls") else _finished(choice.get("finish_reason"))
    finished = "refusal" if message.get("refusal") else finished
    used = _maybe(body.get("usage"))
    usage = Usage(
        input=_number(used.get("prompt_tokens")), output=_number(used.get("completion_tokens"))
    )
    return Answer(text=text, finished=finished, reasoning=str(reasoning), usage=usage)


# --- Anthropic messages ---


def _messages_path(base: str, model: str) -> str:
    return base if base.endswith("/messages") else f"{base.removesuffix('/v1')}/v1/messages"


def _messages_payload(request: Request, model: str, host: str) -> dict[str, Any]:
    messages = [{"role": "user", "content": request.prompt}]
    return {
        "model": model,
        "system": request.system,
        "messages": messages,
        "max_tokens": request.max_tokens,
    }


def _messages_answer(body: dict[str, Any]) -> Answer:
    content = body.get("content")
    if not isinstance(content, list):
        raise _shape("content")
    used = _maybe(body.get("usage"))
    return Answer(
        text=_joined(content, lambda part: part.get("text") if part.get("type") == "text" else ""),
        finished=_finished(body.get("stop_reason")),
        reasoning=_joined(content, lambda part: part.get("thinking")),
        usage=Usage(
            input=_number(used.get("input_tokens")), output=_number(used.get("output_tokens"))
        ),
    )


# --- Gemini generateContent ---


def _generate_path(base: str, model: str) -> str:
    base = base if base.endswith(("/v1beta", "/v1")) else f"{base}/v1beta"
    return f"{base}/models/{quote(model.removeprefix('models/'), safe='')}:generateContent"


def _generate_payload(request: Request, model: str, host: str) -> dict[str, Any]:
    return {
        "systemInstruction": {"parts": [{"text": request.system}]},
        "contents": [{"role": "user", "parts": [{"text": request.prompt}]}],
        "generationConfig": {"maxOutputTokens": request.max_tokens},
    }


def _generate_answer(body: dict[str, Any]) -> Answer:
    feedback = body.get("promptFeedback")
    if isinstance(feedback, dict) and feedback.get("blockReason"):
        return Answer(finished="refusal")
    candidate = _first(body.get("candidates"), "candidates")
    parts = _maybe(candidate.get("content")).get("parts")
    called = isinstance(parts, list) and any(
        isinstance(part, dict) and "functionCall" in part for part in parts
    )
    used = _maybe(body.get("usageMetadata"))
    return Answer(
        text=_joined(parts, lambda part: "" if part.get("thought") else part.get("text")),
        finished="tool" if called else _finished(candidate.get("finishReason")),
        reasoning=_joined(parts, lambda part: part.get("text") if part.get("thought") else ""),
        usage=Usage(
            input=_number(used.get("promptTokenCount")),
            output=_number(used.get("candidatesTokenCount")),
        ),
    )


WIRES: dict[str, Wire] = {
    "openai": Wire(
        host="api.openai.com", key_env="OPENAI_API_KEY", path=_chat_path, payload=_chat_payload, answer=_chat_answer,
        headers=lambda key: {"authorization": f"Bearer {key}"} if key else {},
    ),
    "anthropic": Wire(
        host="api.anthropic.com", key_env="ANTHROPIC_API_KEY", path=_messages_path, payload=_messages_payload,
        answer=_messages_answer,
        headers=lambda key: {"anthropic-version": "2023-06-01", **({"x-api-key": key} if key else {})},
    ),
    "gemini": Wire(
        host="generativelanguage.googleapis.com", key_env="GEMINI_API_KEY", path=_generate_path,
        payload=_generate_payload, answer=_generate_answer,
        headers=lambda key: {"x-goog-api-key": key} if key else {},
    ),
}  # fmt: skip
