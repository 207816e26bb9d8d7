"""What only leads to a response is refused with what to call."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

import refold
from refold import Invalid


class LegacyAPIResponse:
    """As openai and anthropic give it for `with_raw_response`."""

    def __init__(self) -> None:
        self._cast_to, self.http_response, self.elapsed = dict, object(), timedelta(seconds=1)

    def parse(self) -> dict[str, Any]:
        return {"role": "assistant", "content": "x"}


class APIResponse(LegacyAPIResponse):
    """As they give it for `with_streaming_response`."""

    @property
    def headers(self) -> dict[str, str]:
        return {}


class Response:
    """As httpx and requests give it."""

    def __init__(self) -> None:
        self.status_code = 200

    def json(self) -> dict[str, Any]:
        return {"role": "assistant", "content": "x"}


class MessageStreamManager:
    def __init__(self) -> None:
        self.__api_request = lambda: None

    def __enter__(self) -> Any:
        raise AssertionError

    def __exit__(self, *_: object) -> None: ...


class AsyncMessageStreamManager:
    def __init__(self) -> None:
        self.__api_request = lambda: None

    async def __aenter__(self) -> Any:
        raise AssertionError

    async def __aexit__(self, *_: object) -> None: ...


class Later:
    def __await__(self) -> Any:
        raise AssertionError


class Private:
    def __init__(self) -> None:
        self._hidden = 1


CASES: list[tuple[Callable[[], Any], str, str]] = [
    (LegacyAPIResponse, "is a raw HTTP response", ".parse()"),
    (APIResponse, "is a raw HTTP response", ".parse()"),
    (Response, "is an HTTP response", ".json()"),
    (MessageStreamManager, "was not entered", "with … as stream"),
    (AsyncMessageStreamManager, "was not entered", "async with … as stream"),
    (Later, "was not awaited", "await it"),
    (Private, "is not JSON", "plain dicts"),
]


@pytest.mark.parametrize("model", ["gpt-5", "claude-sonnet-4-5", "gemini-2.5-pro"])
@pytest.mark.parametrize(
    ("make", "what", "hint"), CASES, ids=lambda case: getattr(case, "__name__", "")
)
def test_what_was_not_read_is_refused_with_what_to_call(
    make: Callable[[], Any], what: str, hint: str, model: str
) -> None:
    context = refold.open("x", store="memory:", model=model)
    context.append({"role": "user", "content": "hi"})
    for use in (context.record, context.append, refold.tool_calls):
        with pytest.raises(Invalid, match=what) as error:
            use(make())
        assert hint in str(error.value.hint)
        assert make.__name__ in str(error.value)
    assert len(context.view.slots) == 1
