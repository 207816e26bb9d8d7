"""An embedder over HTTP: `endpoint(url, model)` returns a callable for an OpenAI-compatible
endpoint.

    embedder = endpoint("https://api.openai.com/v1", "text-embedding-3-small")
    context = refold.open("work", embedder=embedder)

Indexed text and queries go to that host and to no other; nothing is sent unless a caller names one.
Neighbours: `client` posts, `refold.search` calls it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from refold.dialects.wire import objects_in
from refold.edges.endpoints.client import Client, Post, check_address, check_limits, host_of
from refold.edges.endpoints.writer import WIRES
from refold.errors import Unavailable

BATCH_TEXTS = 64
CHARS_MAX = 8_000
NUMBER_MAX = 3.4e38
WIRE = WIRES["openai"]


def endpoint(
    url: str,
    model: str,
    *,
    key_env: str = "",
    timeout_s: float = 30.0,
    tries: int = 3,
    deadline_s: float = 60.0,
) -> Embeddings:
    """An embedder that asks the model at this address. `key_env` names the variable with the key;
    by default the provider's usual one, for the provider's own host only."""
    check_limits(timeout_s=timeout_s, deadline_s=deadline_s, tries=tries)
    url = check_address(url)
    key_env = key_env or WIRE.usual_key_env(host_of(url))
    client = Client(url, key_env=key_env, timeout_s=timeout_s, tries=tries)
    return Embeddings(client, model, deadline_s=deadline_s)


class Embeddings:
    """The callable that `endpoint` makes. Its representation does not contain the key."""

    def __init__(self, client: Client, model: str, *, deadline_s: float) -> None:
        self._client, self.model, self._deadline_s = client, model, deadline_s
        self.name = f"{client.host}/{model}"

    def __repr__(self) -> str:
        return f"endpoint({self._client.host!r}, {self.model!r})"

    def __call__(self, texts: Sequence[str]) -> list[list[float]]:
        """Vectors in the order of the texts. `Unavailable` if there is no answer in time,
        `Denied` without a key."""
        vectors: list[list[float]] = []
        url = self._client.url
        address = url if url.endswith("/embeddings") else f"{url}/embeddings"
        for start in range(0, len(texts), BATCH_TEXTS):
            inputs = [text[:CHARS_MAX] or " " for text in texts[start : start + BATCH_TEXTS]]
            payload = {"model": self.model, "input": inputs, "encoding_format": "float"}
            post = Post(address=address, payload=payload, headers=WIRE.headers)
            body = self._client.post(post, time.monotonic() + self._deadline_s)
            vectors += vectors_of(body, len(inputs))
        return vectors


def vectors_of(body: dict[str, Any], count: int) -> list[list[float]]:
    """The vectors of an answer, in the order of their indices. Unavailable if one is missing, or is
    not a list of as many finite numbers as the others."""
    rows = body.get("data")
    by_index = {
        str(row.get("index", at)): row.get("embedding") for at, row in enumerate(objects_in(rows))
    }
    vectors = [by_index.get(str(index)) for index in range(count)]
    sizes = {len(vector) if isinstance(vector, list) else 0 for vector in vectors}
    if sizes != {max(sizes)} - {0} or not all(
        _is_number(x) for vector in vectors for x in vector or ()
    ):
        raise Unavailable(
            "the endpoint returned no vectors", hint="check the address and the model"
        )
    return vectors  # type: ignore[return-value]


def _is_number(value: object) -> bool:
    """Whether a value is a number that a vector's 32 bits hold."""
    return type(value) in (int, float) and abs(value) < NUMBER_MAX  # type: ignore[arg-type]
