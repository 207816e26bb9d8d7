"""Errors as the SDKs of the providers raise them, without the SDKs, and a provider that refuses."""

from __future__ import annotations

import json

from refold import dialects


class APIStatusError(Exception):
    """As `openai` and `anthropic` have it: a message, a status, the decoded body, its code."""

    def __init__(self, status: int, body: object, message: str = "") -> None:
        super().__init__(message or f"Error code: {status} - {body}")
        self.status_code, self.body = status, body
        error = body.get("error", body) if isinstance(body, dict) else {}
        self.code = error.get("code") if isinstance(error, dict) else None


class ClientError(Exception):
    """As `botocore` has it: everything in `response`, with headers that name a rate limit."""

    def __init__(self, code: str, message: str, status: int = 400) -> None:
        super().__init__(
            f"An error occurred ({code}) when calling the Converse operation: {message}"
        )
        headers = {"x-note": "rate limit: 5 tokens per minute", "status": "429"}
        self.response = {
            "Error": {"Code": code, "Message": message},
            "ResponseMetadata": {"HTTPStatusCode": status, "HTTPHeaders": headers},
        }


class GoogleError(Exception):
    """As `google.genai` has it: `code` is the status, `details` the body."""

    def __init__(self, code: int, status: str, message: str) -> None:
        super().__init__(f"{code} {status}. {message}")
        self.code, self.status, self.message = code, status, message
        self.details = {"error": {"code": code, "status": status, "message": message}}


class StreamedResponse:
    status_code = 400

    @property
    def text(self) -> str:
        raise RuntimeError("the response was not read")


class HTTPStatusError(Exception):
    """As `httpx` has it, for a response whose body was not read."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.response = StreamedResponse()


class ContextWindowExceededError(Exception):
    """As `litellm` has it: the class says it."""


def openai(
    message: str, *, status: int = 400, code: str | None = None, type: str = "invalid_request_error"
):
    return APIStatusError(
        status, {"error": {"message": message, "type": type, "param": None, "code": code}}
    )


def anthropic(message: str, *, status: int = 400, type: str = "invalid_request_error"):
    return APIStatusError(status, {"type": "error", "error": {"type": type, "message": message}})


def openrouter(message: str, status: int = 400) -> str:
    raw = json.dumps({"error": {"message": message, "code": status}})
    body = {
        "error": {"message": "Provider returned error", "code": status, "metadata": {"raw": raw}}
    }
    return "OpenRouter said: " + json.dumps(body)


def caused(message: str) -> Exception:
    error = RuntimeError("the model call failed")
    error.__cause__ = openai(message)
    return error


class Provider:
    """Refuses what is above its limit, in the words of a gateway, and counts in its own way."""

    def __init__(
        self, limit: int, *, per_sign: float = 0.25, states: bool = True, stubborn: bool = False
    ) -> None:
        self.limit, self.per_sign, self.states, self.stubborn = limit, per_sign, states, stubborn
        self.calls: list[int] = []

    def complete(self, request: dict) -> dict:
        assert dialects.dialect("openai_chat").check(request) == []
        size = int(len(json.dumps(request, ensure_ascii=False)) * self.per_sign)
        self.calls.append(size)
        if size > self.limit or self.stubborn:
            said = f"maximum context length is {self.limit} tokens. However, you requested {size:,} tokens"
            raise openai(
                f"This model's {said}" if self.states else "Input is too long for requested model."
            )
        message = {"role": "assistant", "content": "done"}
        usage = {"prompt_tokens": size, "completion_tokens": 5, "total_tokens": size + 5}
        choices = [{"index": 0, "finish_reason": "stop", "message": message}]
        reply = {"id": f"r{len(self.calls)}", "object": "chat.completion", "model": "m"}
        return {**reply, "choices": choices, "usage": usage}
