"""What a tool gives is kept, whatever it is, or refused with the place that cannot be (T-04,
T-05)."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import refold
from refold.artifacts import json_values as encoding
from refold.artifacts.json_values import DEPTH_MAX, decoded, degraded, encoded
from refold.artifacts.tool_output import read
from refold.errors import Invalid

ZONES = st.sampled_from([None, UTC, timezone(timedelta(hours=-3, minutes=-30))])
SCALARS = (
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | st.text()
    | st.binary(max_size=20) | st.datetimes(timezones=ZONES) | st.dates() | st.times() | st.uuids()
    | st.timedeltas() | st.decimals(allow_nan=False, allow_infinity=False)
    | st.text(st.sampled_from("a\ud800\\é"), max_size=5)
)  # fmt: skip
HASHABLE = st.recursive(
    SCALARS, lambda held: st.tuples(held, held) | st.frozensets(held, max_size=3), max_leaves=4
)  # fmt: skip
KEYS = st.sampled_from(["a", "$set", "$dict", "$bytes", "$float", ""]) | st.text() | HASHABLE
VALUES = st.recursive(
    SCALARS,
    lambda held: (
        st.lists(held, max_size=4)
        | st.dictionaries(KEYS, held, max_size=4)
        | st.sets(HASHABLE, max_size=3)
    ),
    max_leaves=12,
)


@given(VALUES)
def test_every_value_comes_back(value):
    """T-04, T-05: also data that looks like one of our own tags."""
    assert decoded(encoded(value)) == value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({1, 2}, '{"$set":[1,2]}'),
        ({"raw": b"\x00"}, '{"raw":{"$bytes":"AA=="}}'),
        ([datetime(2026, 11, 16, 3, 14, 15)], '[{"$datetime":"2026-11-16T03:14:15"}]'),
        (date(2026, 11, 16), '{"$date":"2026-11-16"}'),
        (time(3, 14), '{"$time":"03:14:00"}'),
        (timedelta(seconds=5), '{"$timedelta":"PT5S"}'),
        (Decimal("1.50"), '{"$decimal":"1.50"}'),
        (UUID(int=1), '{"$uuid":"00000000-0000-0000-0000-000000000001"}'),
        ({"x": [math.inf]}, '{"x":[{"$float":"inf"}]}'),
        ({1: "one"}, '{"$dict":[[1,"one"]]}'),
        ({"$set": 1}, '{"$dict":[["$set",1]]}'),
        ({"plain": ["data", 1, None, True, 0.5]}, '{"plain":["data",1,null,true,0.5]}'),
    ],
)
def test_what_json_has_no_word_for_is_tagged(value, text):
    assert encoded(value).decode() == text and decoded(text) == value


def test_not_a_number_and_lone_surrogates_come_back():
    assert math.isnan(decoded(encoded(math.nan)))
    odd = {"\ud800 key": ["\ud800 text", {"b": "fine"}, {1, 2}]}
    assert decoded(encoded(odd)) == odd


def test_shells_become_what_they_hold_and_failures_what_they_say():
    class Level(enum.StrEnum):
        HIGH = "high"

    @dataclass
    class Found:
        level: Level = Level.HIGH
        lines: set[int] = field(default_factory=lambda: {3})

    assert encoded([Found()]) == b'[{"level":"high","lines":{"$set":[3]}}]'
    assert encoded({"error": ValueError("boom")}) == b'{"error":{"$exception":"ValueError: boom"}}'


def circular() -> dict[str, object]:
    inner: dict[str, object] = {"name": "x"}
    inner["again"] = inner
    return {"rows": [1, inner]}


def nested(depth: int) -> list[object]:
    value: list[object] = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (circular(), r"at \.rows\[1\]\.again: it holds itself"),
        ({"a": {"b": [object()]}}, r"at \.a\.b\[0\]: object is not plain data"),
        (object(), "type object cannot be kept: object is not plain data"),
        ({"k" * 500: print}, "is not plain data"),
        (nested(100_000), f"at (\\[0\\]){{10}}…: it is nested more than {DEPTH_MAX} deep"),
    ],
)
def test_what_has_no_form_is_refused_with_its_place_or_kept_as_its_repr(value, said):
    """T-05: circular data names the key; `degrade` keeps the repr instead."""
    with pytest.raises(Invalid, match=said) as caught:
        read(value)
    assert len(str(caught.value)) < 300 and "degrade" in str(caught.value.hint)
    assert read(value, on_error="degrade").content == degraded(value)


def test_the_repr_is_kept_even_if_it_fails_and_another_word_is_refused():
    class Broken:
        def __repr__(self) -> str:
            raise RuntimeError("no repr today")

    assert read(circular(), on_error="degrade").content == repr(circular())
    assert read(Broken(), on_error="degrade").content == "<Broken, whose repr failed: RuntimeError>"
    with pytest.raises(Invalid, match="on_error='ignore'"):
        read({}, on_error="ignore")


def test_a_refused_output_leaves_the_conversation_as_it_was():
    """T-05: the loop may answer the call with something else."""
    context = refold.open("work", store="memory:")
    call = {"id": "c", "type": "function", "function": {"name": "run", "arguments": "{}"}}
    context.append({"role": "assistant", "content": None, "tool_calls": [call]})
    head = context.view.head
    with pytest.raises(Invalid, match=r"at \.rows\[1\]\.again"):
        context.append_result("c", circular())
    assert context.view.head == head
    context.append_result("c", {"when": {1, 2}})
    assert decoded(context.view.slots[-1].message.blocks[0].content[0].text) == {"when": {1, 2}}


def test_what_is_no_written_value_is_said():
    for text in (
        "plain text",
        '{"$bytes":"not base64!"}',
        '{"$set":[{}]}',
        '{"$dict":[1]}',
        '{"$date":1}',
    ):
        with pytest.raises(Invalid, match="not what a value was written as"):
            decoded(text)


@given(VALUES)
def test_pieces_are_the_whole(value):
    """However small the pieces are."""
    sizes = {"PIECE_CHARS": 2, "PIECE_ITEMS": 2, "SMALL_CHARS": 1, "SMALL_ITEMS": 1}
    with pytest.MonkeyPatch.context() as patch:
        for name, size in sizes.items():
            patch.setattr(encoding, name, size)
        written = encoding.Written(value)
        text = b"".join(written)
        assert text == written.whole and (len(text), len(text.decode())) == (
            written.size_bytes,
            written.size_chars,
        )
    assert text == encoded(value)


def test_a_value_that_is_too_large_to_hold_is_written_piece_by_piece(monkeypatch):
    """T-04: and its stub has its first and last characters."""
    monkeypatch.setattr(encoding, "EVENT_BYTES_MAX", 20_000)
    context = refold.open("work", store="memory:", config={"offload_tokens": 50})
    call = {"id": "c", "type": "function", "function": {"name": "run", "arguments": "{}"}}
    context.append({"role": "assistant", "content": None, "tool_calls": [call]})
    value = {"rows": [{"n": n, "text": "é" * 50} for n in range(1_000)], "last": {1, 2}}
    assert isinstance(read(value).content, encoding.Written)
    context.append_result("c", value)
    [artifact] = [one.artifact for one in context.artifacts.list()]
    assert (
        context.unfold(artifact.id).text.encode() == encoded(value)
        and decoded(encoded(value)) == value
    )
    assert (artifact.size_bytes, artifact.mime, artifact.lines) == (
        len(encoded(value)),
        "application/json",
        1,
    )
    stub = context.view.slots[-1].message.blocks[0].content[0].text
    assert '"rows":[\n{"n":0,' in stub and '"last":{"$set":[1,2]}' in stub


def test_a_loop_that_asks_for_it_goes_on_with_the_repr():
    """T-05: on_error="degrade"."""
    context = refold.open("work", store="memory:")
    call = {"id": "c", "type": "function", "function": {"name": "run", "arguments": "{}"}}
    context.append({"role": "assistant", "content": None, "tool_calls": [call]})
    context.append_result("c", circular(), on_error="degrade")
    assert context.view.slots[-1].message.blocks[0].content[0].text == repr(circular())


@settings(max_examples=50, deadline=None)
@given(VALUES | st.binary() | st.text().map(str.encode) | st.builds(Path, st.just("/a/b.py")))
def test_what_a_tool_gave_comes_back_large_or_small(value):
    """T-05: bytes as bytes, also where they are text."""
    for offload_tokens in (1, 8_000):
        context = refold.open("work", store="memory:", config={"offload_tokens": offload_tokens})
        call = {"id": "c", "type": "function", "function": {"name": "run", "arguments": "{}"}}
        context.append({"role": "assistant", "content": None, "tool_calls": [call]})
        seq = context.append_result("c", value)[-1].seq
        back = context.artifacts.value(f"#{seq}")
        assert back == value
        assert isinstance(back, bytes) == isinstance(value, bytes)
        for stored in context.artifacts.list():
            assert context.artifacts.value(stored.id) == value
