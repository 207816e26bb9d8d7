"""What is sent and no block stands for is counted; what only frames a message is not."""

from __future__ import annotations

import base64
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import refold
from refold.core.model import Opaque
from refold.tokens.counter import ESTIMATE, count_block, sealed_tokens, unknown_tokens
from refold.tokens.media import ANY

LONG = "a note that somebody put there, and that no block of ours holds. " * 100
WIRES: dict[str, dict[str, Any]] = {
    "openai_chat": {"role": "user", "content": "hello", "note": LONG},
    "a part": {"role": "user", "content": [{"type": "text", "text": "hello", "note": LONG}]},
    "anthropic": {
        "role": "user",
        "content": [
            {"type": "document", "source": {"type": "text", "data": "x"}, "context": LONG},
            {"type": "text", "text": "hello"},
        ],
    },
    "a block": {"role": "user", "content": [{"type": "never_seen", "deep": [{"note": LONG}]}]},
    "gemini": {"role": "user", "parts": [{"text": "hello", "note": LONG}]},
    "a key": {"role": "user", "content": "hello", LONG: 1},
    "a field": {"role": "user", "content": "hello", "note": LONG},
}


@pytest.mark.parametrize("name", WIRES)
def test_unknown_keys_and_blocks_are_counted(name: str) -> None:
    with refold.open("x", store="memory:", counter="estimate", embedder=False) as context:
        context.append(WIRES[name])
        assert context.stats().current >= ESTIMATE(LONG)


@pytest.mark.parametrize(
    "wire",
    [
        {"role": "assistant", "content": "hello", "refusal": None, "annotations": []},
        {"role": "assistant", "content": [{"type": "text", "text": "hello", "citations": None}]},
        {
            "role": "user",
            "content": [{"type": "text", "text": "hello", "cache_control": {"type": "ephemeral"}}],
        },
    ],
)
def test_what_sdks_add_to_a_message_counts_nothing(wire: dict[str, Any]) -> None:
    with refold.open("x", store="memory:", counter="estimate", embedder=False) as context:
        assert context.count(wire) == context.count({"role": wire["role"], "content": "hello"})


json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda items: st.lists(items) | st.dictionaries(st.text(min_size=1), items),
    max_leaves=20,
)


@given(json, st.text(alphabet="abc de", min_size=100, max_size=400))
def test_more_that_is_sent_never_counts_less(value: Any, text: str) -> None:
    wrapped = {"wrapped": value, "note": text}
    alone = unknown_tokens({"wrapped": value}, ESTIMATE, ANY)
    assert unknown_tokens(wrapped, ESTIMATE, ANY) >= alone + ESTIMATE(text) - 2


@given(json)
def test_nothing_counts_more_than_its_json(value: Any) -> None:
    whole = ESTIMATE(msgspec.json.encode(value).decode())
    assert 0 <= unknown_tokens(value, ESTIMATE, ANY) <= whole


def test_an_image_inside_an_unknown_block_is_an_image() -> None:
    png = base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"\0" * 900_000).decode()
    assert (
        count_block(Opaque(raw={"type": "image_generation_call", "result": png}), ESTIMATE) < 2_000
    )
    assert count_block(Opaque(raw={"screen": f"data:image/png;base64,{png}"}), ESTIMATE) < 2_000


def test_sealed_data_counts_by_its_size() -> None:
    sealed = base64.b64encode(bytes(range(256)) * 10).decode()
    assert unknown_tokens({"encrypted_content": sealed}, ESTIMATE, ANY) == sealed_tokens(sealed)
