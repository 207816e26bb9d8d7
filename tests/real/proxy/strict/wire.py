"""What the four services share: JSON values, a refusal, digests, and an estimate of tokens."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any

Json = dict[str, Any]


class Refusal(Exception):
    """An answer that is an error: its status, and what the provider's body says."""

    def __init__(
        self,
        message: str,
        *,
        status: int = 400,
        kind: str = "invalid_request_error",
        code: str | None = None,
        param: str | None = None,
        retry_after_s: int | None = None,
        is_scripted: bool = False,
    ) -> None:
        super().__init__(message)
        self.message, self.status, self.kind = message, status, kind
        self.code, self.param = code, param
        self.retry_after_s, self.is_scripted = retry_after_s, is_scripted


def need(holds: object, message: str, **more: Any) -> None:
    """Refuses unless it holds."""
    if not holds:
        raise Refusal(message, **more)


def canonical(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def digest(*values: Any) -> str:
    return hashlib.sha256(canonical(values)).hexdigest()[:32]


def tokens_in(value: Any) -> int:
    """An estimate that is the same for the same value: a token for four bytes of its JSON."""
    return max(1, len(canonical(value)) // 4)


def unmarked(value: Any) -> Any:
    """The value without cache marks, which no rule compares."""
    if isinstance(value, list):
        return [unmarked(one) for one in value]
    if isinstance(value, dict):
        return {key: unmarked(one) for key, one in value.items() if key != "cache_control"}
    return value


def objects(value: Any) -> Iterator[Json]:
    """The objects in what should be a list of them."""
    if isinstance(value, list):
        yield from (one for one in value if isinstance(one, dict))


def is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)
