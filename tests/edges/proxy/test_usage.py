"""What an answer says of its usage, read from a copy that comes in any pieces."""

from __future__ import annotations

import gzip
import json
import zlib
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.edges.proxy.own_tools.events import Cutter
from refold.edges.proxy.savings import LINE_BYTES_MAX, UsageReader

ANSWER = {"model": "claude-sonnet-5-5", "usage": {"input_tokens": 10, "output_tokens": 7}}
PACKINGS = {"": bytes, "gzip": gzip.compress, "deflate": zlib.compress}


def read(packing: str, packed: bytes, cuts: list[int]) -> UsageReader:
    reader = UsageReader("anthropic", {"content-encoding": packing})
    places = sorted({0, len(packed), *(cut % (len(packed) + 1) for cut in cuts)})
    for first, last in pairwise(places):
        reader.feed(packed[first:last])
    return reader


@given(st.sampled_from(sorted(PACKINGS)), st.lists(st.integers(0, 10_000), max_size=5))
def test_it_is_read_in_any_packing_and_in_any_pieces(packing, cuts):
    usage = read(packing, PACKINGS[packing](json.dumps(ANSWER).encode()), cuts).usage
    assert (usage.input, usage.output, usage.model) == (10, 7, "claude-sonnet-5-5")


@given(st.sampled_from(sorted(PACKINGS)), st.binary(max_size=200))
def test_what_cannot_be_read_says_nothing(packing, noise):
    assert read(packing, noise, []).usage is None


@pytest.mark.parametrize("packing", ["gzip", "deflate"])
def test_what_is_packed_too_densely_is_given_up(packing):
    bomb = PACKINGS[packing](bytes(3 * LINE_BYTES_MAX))
    reader = read(packing, bomb, [])
    assert reader.usage is None
    assert len(reader._rest) == 0


STREAM = {"content-type": "text/event-stream"}
PIECE_BYTES = 512


@given(
    st.lists(st.text("ab\\n\n\r {}", max_size=8), max_size=6),
    st.lists(st.integers(0, 10_000), max_size=9),
)
def test_a_stream_is_read_in_any_pieces(noise, cuts):
    raw = "\n".join([*noise, f"data: {json.dumps(ANSWER)}", ""]).encode()
    reader = UsageReader("anthropic", STREAM)
    places = sorted({0, len(raw), *(cut % (len(raw) + 1) for cut in cuts)})
    for first, last in pairwise(places):
        reader.feed(raw[first:last])
    assert (reader.usage.input, reader.usage.output) == (10, 7)
    assert reader.copy.content == raw


def test_a_very_long_line_in_many_pieces_is_looked_at_once():
    """An image is one line of megabytes: to look at all of it for each piece would take minutes."""
    line = b"data: " + json.dumps({**ANSWER, "image": "x" * 16_000_000}).encode() + b"\n\n"
    reader, cutter, events = UsageReader("anthropic", STREAM), Cutter(), []
    for begin in range(0, len(line), PIECE_BYTES):
        reader.feed(line[begin : begin + PIECE_BYTES])
        events += cutter.feed(line[begin : begin + PIECE_BYTES])
    assert reader.usage.input == 10
    assert [event.raw for event in events] == [line]
