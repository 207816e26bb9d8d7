"""Streams of text without their secrets."""

from __future__ import annotations

import pytest

from refold.redaction import redacted, redacted_chunks
from tests.redaction.secret_kinds import KEY_LINE, SECRETS


@pytest.mark.parametrize("size", [1, 7, 1_000, 100_000])
def test_a_stream_is_redacted_like_its_text_wherever_it_is_cut(size):
    """X-51: the same words as in one piece, also where a key or a sign lies across two chunks."""
    key = f"-----BEGIN RSA PRIVATE KEY-----\n{KEY_LINE * 20}\n-----END RSA PRIVATE KEY-----\n"
    text = "".join(
        f"line {n}: née {SECRETS[n % len(SECRETS)]}\n{key if n % 50 == 0 else ''}"
        for n in range(1_500)
    )
    data = text.encode()
    chunks = [data[at : at + size] for at in range(0, len(data), size)]
    assert b"".join(redacted_chunks(chunks)).decode() == redacted(text)


def test_a_stream_without_an_end_of_line_is_not_held_for_ever():
    seen = redacted_chunks(b"x" * 50_000 for _ in range(100))
    assert len(next(iter(seen))) < 2_000_000
