"""An embedder over HTTP: `endpoint(url, model)` gives a callable that asks an OpenAI-compatible
embeddings endpoint.

    context = refold.open("work", embedder=endpoint("https://api.openai.com/v1", "text-embedding-3-small"))

What is indexed and every query go to that host, and to no other; nothing is sent unless a caller
names one. Keys, tries, waits and sizes are bounded and handled as those of `writer`, whose
neighbour this is.
"""

from __future__ import annotations

import time
from typing import Any

from refold.edges.endpoints.wires import WIRES, Wire
from refold.edges.endpoints.writer import Endpoint, _checked
from refold.errors import Invalid, Unavailable

BATCH_TEXTS = 64
CHARS_MAX = 8_000


def endpoint(
    url: str,
    model: str,
    *,
    key_env: str = "",
    timeout_s: float = 30.0,
    tries: int = 3,
    deadline_s: float = 60.0,
) -> Embeddings:
    """An embedder that asks the model at this address. `key_env` names the variable that holds
    the key; without it, the provider's usual one, for the provider's own host only."""
    if timeout_s <= 0 or deadline_s <= 0 or tries < 1:
        raise Invalid(
            "an endpoint needs a timeout, a deadline and a try", hint="give positive numbers"
        )
    return Embeddings(
        _checked(url),
        model,
        key_env=key_env,
        timeout_s=timeout_s,
        tries=tries,
        deadline_s=deadline_s,
    )


class Embeddings(Endpoint):
    """The callable that `endpoint` makes. It shows itself without its key."""

    def __init__(
        self, url: str, model: str, *, key_env: str, timeout_s: float, tries: int, deadline_s: float
    ) -> None:
        super().__init__(
            url,
            model,
            kind="openai",
            key_env=key_env,
            timeout_s=timeout_s,
            tries=tries,
            window=1,
            deadline_s=deadline_s,
            calls_per_hour=0,
        )
        self._wire = _WIRE
        self.name = f"{self.host}/{model}"

    def __call__(self, texts: Any) -> Any:
        """Vectors in the order of the texts. `Unavailable` if there is no answer in time,
        `Denied` without a key."""
        vectors: list[list[float]] = []
        for at in range(0, len(texts), BATCH_TEXTS):
            batch = [text[:CHARS_MAX] or " " for text in texts[at : at + BATCH_TEXTS]]
            deadline = time.monotonic() + self._deadline_s
            vectors += _vectors(self._body(batch, deadline), len(batch))  # type: ignore[arg-type]
        return vectors


def _path(base: str, model: str) -> str:
    return base if base.endswith("/embeddings") else f"{base}/embeddings"


def _payload(texts: Any, model: str, host: str) -> dict[str, Any]:
    return {"model": model, "input": texts, "encoding_format": "float"}


def _vectors(body: dict[str, Any], count: int) -> list[list[float]]:
    """The vectors of an answer, each at the place its index names."""
    rows = body.get("data")
    named = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    places = {row.get("index", at): row.get("embedding") for at, row in enumerate(named)}
    vectors = [places.get(at) for at in range(count)]
    if not all(isinstance(vector, list) and vector for vector in vectors):
        raise Unavailable("the endpoint gave no vectors", hint="check the address and the model")
    return vectors  # type: ignore[return-value]


_CHAT = WIRES["openai"]
_WIRE = Wire(
    host=_CHAT.host,
    key_env=_CHAT.key_env,
    path=_path,
    headers=_CHAT.headers,
    payload=_payload,
    answer=_CHAT.answer,
)
