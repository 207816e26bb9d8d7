"""The three wire formats a writer's endpoint can speak: where to post, what to send, what came
back.

Only text goes out, never a tool. Whatever is not in the shape that was promised is `Unavailable`,
in words that name the shape and nothing of the content. Neighbour: `writer` uses them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
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
    "length": "length", "max_tokens": "length", "MAX_TOKENS": "length",
    "model_context_window_exceeded": "length",
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

    def limit(self, host: str) -> str:
        """What the limit of an answer is called there. OpenAI's own newer models refuse the old
        name; other servers know only that one."""
        return "max_completion_tokens" if host == "api.openai.com" else "max_tokens"

    def usual_key_env(self, host: str) -> str:
        """The variable of the key for a host: the usual one for the provider's own host, none for
        any other."""
        return self.key_env if host == self.host else ""


# --- answers of any shape ---


def _finish(reason: object) -> str:
    """Why an answer ended, in our words."""
    if not isinstance(reason, str) or not reason:
        return "nothing"
    return _STOPS.get(reason, reason)


def _missing(what: str) -> Unavailable:
    hint = "check the address and the kind of the endpoint"
    return Unavailable(f"the writer's endpoint gave no {what}", hint=hint)


def _table(value: object, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _missing(what)
    return value


def _first(value: object, what: str) -> dict[str, Any]:
    if not isinstance(value, list) or not value:
        raise _missing(what)
    return _table(value[0], what)


def _usage(body: dict[str, Any], table: str, input: str, output: str) -> Usage:
    """The tokens that an answer reports under these names; 0 where it does not say."""
    used = body.get(table)
    if not isinstance(used, dict):
        return Usage()
    return Usage(input=_number(used.get(input)), output=_number(used.get(output)))


def _number(value: object) -> int:
    return value if isinstance(value, int) and value > 0 else 0


def _parts(value: object) -> list[dict[str, Any]]:
    """The parts of a content that are objects."""
    if not isinstance(value, list):
        return []
    return [part for part in value if isinstance(part, dict)]


def _joined(texts: Iterable[object]) -> str:
    return "".join(text for text in texts if isinstance(text, str))


# --- OpenAI-compatible chat completions ---


def _chat_path(base: str, model: str) -> str:
    return base if base.endswith("/chat/completions") else f"{base}/chat/completions"


def _chat_payload(request: Request, model: str, host: str) -> dict[str, Any]:
    limit = WIRES["openai"].limit(host)
    messages = [
        {"role": "system", "content": request.system},
        {"role": "user", "content": request.prompt},
    ]
    return {"model": model, "messages": messages, limit: request.max_tokens, "stream": False}


def _chat_answer(body: dict[str, Any]) -> Answer:
    choice = _first(body.get("choices"), "choices")
    message = _table(choice.get("message"), "message")
    reasoning = message.get("reasoning_content") or message.get("reasoning") or ""
    return Answer(
        text=_chat_text(message.get("content")),
        finished=_chat_finish(choice, message),
        reasoning=str(reasoning),
        usage=_usage(body, "usage", "prompt_tokens", "completion_tokens"),
    )


def _chat_text(content: object) -> str:
    if isinstance(content, str):
        return content
    return _joined(part.get("text") for part in _parts(content))


def _chat_finish(choice: dict[str, Any], message: dict[str, Any]) -> str:
    if message.get("refusal"):
        return "refusal"
    return "tool" if message.get("tool_calls") else _finish(choice.get("finish_reason"))


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
    if not isinstance(body.get("content"), list):
        raise _missing("content")
    parts = _parts(body["content"])
    return Answer(
        text=_joined(part.get("text") for part in parts if part.get("type") == "text"),
        finished=_finish(body.get("stop_reason")),
        reasoning=_joined(part.get("thinking") for part in parts),
        usage=_usage(body, "usage", "input_tokens", "output_tokens"),
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
    content = candidate.get("content")
    parts = _parts(content.get("parts")) if isinstance(content, dict) else []
    is_call = any("functionCall" in part for part in parts)
    return Answer(
        text=_joined(part.get("text") for part in parts if not part.get("thought")),
        finished="tool" if is_call else _finish(candidate.get("finishReason")),
        reasoning=_joined(part.get("text") for part in parts if part.get("thought")),
        usage=_usage(body, "usageMetadata", "promptTokenCount", "candidatesTokenCount"),
    )


# --- the table ---


def _bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"} if key else {}


def _anthropic_headers(key: str) -> dict[str, str]:
    version = {"anthropic-version": "2023-06-01"}
    return {**version, "x-api-key": key} if key else version


def _gemini_headers(key: str) -> dict[str, str]:
    return {"x-goog-api-key": key} if key else {}


WIRES: dict[str, Wire] = {
    "openai": Wire(
        host="api.openai.com",
        key_env="OPENAI_API_KEY",
        path=_chat_path,
        headers=_bearer,
        payload=_chat_payload,
        answer=_chat_answer,
    ),
    "anthropic": Wire(
        host="api.anthropic.com",
        key_env="ANTHROPIC_API_KEY",
        path=_messages_path,
        headers=_anthropic_headers,
        payload=_messages_payload,
        answer=_messages_answer,
    ),
    "gemini": Wire(
        host="generativelanguage.googleapis.com",
        key_env="GEMINI_API_KEY",
        path=_generate_path,
        headers=_gemini_headers,
        payload=_generate_payload,
        answer=_generate_answer,
    ),
}
