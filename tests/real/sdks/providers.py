"""The real SDKs, each called as its own documentation calls it, at a server of ours."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import anthropic
import openai
from google import genai
from google.genai.errors import APIError

from tests.real.sdks import wire

Request = dict[str, Any]
KEY = "not-a-key"


@dataclass(frozen=True)
class Provider:
    """`create` gives a response object, `stream` a finished stream, `chunks` what a stream sent
    piece by piece."""

    dialect: str
    model: str
    body: Callable[[int], dict[str, Any]]
    events: Callable[[int], bytes]
    create: Callable[[str, Request], Any]
    stream: Callable[[str, Request], Any] | None
    chunks: Callable[[str, Request], list[Any]]
    error: type[Exception]
    overflow: dict[str, Any]


@contextmanager
def _openai(url: str):
    with openai.OpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0) as client:
        yield client


@contextmanager
def _anthropic(url: str):
    with anthropic.Anthropic(base_url=url, api_key=KEY, max_retries=0) as client:
        yield client


@contextmanager
def _gemini(url: str):
    client = genai.Client(api_key=KEY, http_options={"base_url": url})
    try:
        yield client
    finally:
        client.close()


def create_chat(url: str, request: Request) -> Any:
    with _openai(url) as client:
        return client.chat.completions.create(**request)


def stream_chat(url: str, request: Request) -> Any:
    asked = {"stream_options": {"include_usage": True}}
    with (
        _openai(url) as client,
        client.chat.completions.stream(**asked, **request) as stream,
    ):
        stream.until_done()
        return stream


def chunks_of_chat(url: str, request: Request) -> list[Any]:
    asked = {"stream": True, "stream_options": {"include_usage": True}}
    with _openai(url) as client:
        return list(client.chat.completions.create(**asked, **request))


ASKED = {"store": False, "include": ["reasoning.encrypted_content"]}


def create_response(url: str, request: Request) -> Any:
    with _openai(url) as client:
        return client.responses.create(**ASKED, **request)


def stream_response(url: str, request: Request) -> Any:
    with _openai(url) as client, client.responses.stream(**ASKED, **request) as stream:
        stream.until_done()
        return stream


def chunks_of_response(url: str, request: Request) -> list[Any]:
    with _openai(url) as client:
        return list(client.responses.create(stream=True, **ASKED, **request))


def create_message(url: str, request: Request) -> Any:
    with _anthropic(url) as client:
        return client.messages.create(**request)


def stream_message(url: str, request: Request) -> Any:
    with _anthropic(url) as client, client.messages.stream(**request) as stream:
        stream.until_done()
        return stream


def chunks_of_message(url: str, request: Request) -> list[Any]:
    with _anthropic(url) as client:
        return list(client.messages.create(stream=True, **request))


def create_content(url: str, request: Request) -> Any:
    with _gemini(url) as client:
        return client.models.generate_content(**request)


def chunks_of_content(url: str, request: Request) -> list[Any]:
    with _gemini(url) as client:
        return list(client.models.generate_content_stream(**request))


PROVIDERS = {
    provider.dialect: provider
    for provider in (
        Provider(
            dialect="openai_chat",
            model="gpt-5",
            body=wire.chat,
            events=wire.chat_stream,
            create=create_chat,
            stream=stream_chat,
            chunks=chunks_of_chat,
            error=openai.APIStatusError,
            overflow={
                "error": {
                    "message": "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.",
                    "type": "invalid_request_error",
                    "param": "messages",
                    "code": "context_length_exceeded",
                }
            },
        ),
        Provider(
            dialect="openai_responses",
            model="gpt-5",
            body=wire.responses,
            events=wire.responses_stream,
            create=create_response,
            stream=stream_response,
            chunks=chunks_of_response,
            error=openai.APIStatusError,
            overflow={
                "error": {
                    "message": "Your input exceeds the context window of this model. Please adjust your input and try again.",
                    "type": "invalid_request_error",
                    "param": "input",
                    "code": "context_length_exceeded",
                }
            },
        ),
        Provider(
            dialect="anthropic",
            model="claude-sonnet-5-5",
            body=wire.anthropic,
            events=wire.anthropic_stream,
            create=create_message,
            stream=stream_message,
            chunks=chunks_of_message,
            error=anthropic.APIStatusError,
            overflow={
                "type": "error",
                "error": {
                    "type": "invalid_request_error",
                    "message": "prompt is too long: 209000 tokens > 200000 maximum",
                },
            },
        ),
        Provider(
            dialect="gemini",
            model="gemini-2.5-pro",
            body=wire.gemini,
            events=wire.gemini_stream,
            create=create_content,
            stream=None,
            chunks=chunks_of_content,
            error=APIError,
            overflow={
                "error": {
                    "code": 400,
                    "message": "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
                    "status": "INVALID_ARGUMENT",
                }
            },
        ),
    )
}
