"""A memory goes into a file and comes out again, and no file can do harm."""

from __future__ import annotations

import functools
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import refold
from refold.memory import transfer
from refold.memory.semantic import SemanticMemory
from refold.stores.in_memory import MemoryStore

START_MS = 1_700_000_000_000
HEAD = b'{"format":"refold-memory","version":1}\n'


def opened() -> SemanticMemory:
    return SemanticMemory(MemoryStore(), embedder=False, user=MemoryStore)


def facts(memory: SemanticMemory) -> list[tuple[object, ...]]:
    """What a memory says, now and before, but for when it was written and by whom."""
    return sorted(
        (one.id, one.content, one.tags, str(one.metadata), one.version, one.count, str(one.source),
         one.valid_from_ms, one.valid_until_ms)
        for one in memory.list(ended=True, limit=1_000)
    )  # fmt: skip


texts = st.sampled_from(
    ["The port is 1", "The port is 2", "Anna leads the team", "Zürich 東京 \x1b[31m"]
)
text = texts | st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30).filter(
    str.strip
)
stored = st.tuples(
    text, st.lists(st.sampled_from(["a", "b b", "ü"]), max_size=2), st.integers(1, 10**9)
)
values = st.dictionaries(
    st.text(max_size=5), st.integers(-9, 9) | st.text(max_size=5) | st.none(), max_size=2
)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(stored, max_size=8), st.lists(st.tuples(st.integers(0, 9), text), max_size=4), values
)
def test_what_is_exported_and_accepted_elsewhere_says_the_same(stores, updates, metadata):
    memory = opened()
    ids = [
        memory.store(content, metadata, tags=tags, at=START_MS + at, source=("talk", 3)).id
        for content, tags, at in stores
    ]
    for number, content in updates:
        if ids:
            memory.update(ids[number % len(ids)], content)
    other = opened()
    done = other.import_lines(memory.export(), accepted=True)
    assert done.entries == len(stores) and not done.known
    assert facts(other) == facts(memory)
    assert other.import_lines(memory.export(), accepted=True).entries == 0
    assert other.export()[1:] == memory.export()[1:]


def test_what_comes_in_waits_until_a_person_accepts_it():
    """G-48."""
    memory, other = opened(), opened()
    memory.store("The port is 6432")
    other.store("The port is 5432", at=1_600_000_000_000)
    assert other.import_lines(memory.export()) == transfer.ImportedMemories(entries=1)
    [waiting] = other.inbox()
    assert waiting.trust == "import" and waiting.content == "The port is 6432"
    assert other.list(limit=1)[0].content in ("The port is 5432", "The port is 6432")
    other.accept(waiting.id)
    assert [one.content for one in other.list()] == ["The port is 6432"]


def test_what_is_known_or_was_forgotten_stays_out():
    memory, other = opened(), opened()
    for content in ("The port is 6432", "Anna leads the team"):
        memory.store(content)
    other.store("the port is 6432.")
    other.forget(other.store("Anna leads the team").id)
    done = other.import_lines(memory.export())
    assert done == transfer.ImportedMemories(known=1, forgotten=1)
    assert other.inbox() == []


def test_what_was_forgotten_rejected_or_taken_back_is_not_exported():
    memory = opened()
    gone = memory.store("The locker is 7731")
    memory.store("The boat is blue", trust="tool")
    memory.reject(memory.inbox()[0].id)
    memory.store("The port is 1")
    memory.revert(memory.log()[0].seq)
    memory.forget(gone.id)
    held = b"".join(memory.export())
    assert b"7731" not in held and b"port" not in held


def test_ids_of_others_are_not_taken_over():
    memory = opened()
    own = memory.store("Mine is the moon")
    line = {"entry": own.id, "content": "Yours is the sun"}
    odd = {"entry": "../../x", "content": "Odd is the id"}
    memory.import_lines([HEAD, json.dumps(line).encode(), json.dumps(odd).encode()])
    assert memory.history(own.id)[-1].content == "Mine is the moon"
    assert all(one.id.startswith("mem-") for one in memory.list())


BAD_LINES = [
    b"{", b"[]", b"null", b"7", b'"x"', b"\xff\xfe", b"\0", b'{"entry":"x"}', b'{"content":"x"}',
    b'{"entry":"","content":"x"}', b'{"entry":"x","content":""}', b'{"entry":"x","content":"   "}',
    b'{"entry":"x","content":7}', b'{"entry":"x","content":"x","version":0}',
    b'{"entry":"x","content":"x","version":99999999999}', b'{"entry":"x","content":"x","version":1.5}',
    b'{"entry":"x","content":"x","tags":"a"}', b'{"entry":"x","content":"x","tags":[""]}',
    b'{"entry":"x","content":"x","tags":[null]}', b'{"entry":"x","content":"x","metadata":[]}',
    b'{"entry":"x","content":"x","trust":"root"}', b'{"entry":"x","content":"x","source":["a"]}',
    b'{"entry":"x","content":"x","source":["a",0]}', b'{"entry":"x","content":"x","source":["\\u001b[2J",1]}',
    b'{"entry":"x","content":"x","from_ms":-1}', b'{"entry":"x","content":"x","from_ms":1e300}',
    b'{"entry":"x","content":"x","until_ms":999999999999999999}', b'{"entry":"x","content":"x","state":"forgotten"}',
    b'{"entry":"x","content":"x","state":"rejected"}', b'{"entry":"x","content":"x","seal":"00"}',
    b'{"entry":"x","content":"x","unknown":1}', b'{"entry":"a\\nb","content":"x"}', b'{"entry":"x","content":"\\ud800"}',
    *(b'{"entry":"x","content":"x","metadata":' + b'{"a":' * deep + b"1" + b"}" * (deep + 1)
      for deep in (67, 73, 100, 400, 5_000, 100_000)),
    b'{"entry":"x","content":"' + b"a" * 20_001 + b'"}', b'{"entry":"x","content":"' + b"a" * 1_100_000 + b'"}',
    b'{"entry":"' + b"x" * 201 + b'","content":"x"}',
]  # fmt: skip


@pytest.mark.parametrize("line", BAD_LINES, ids=lambda one: repr(one[:50]))
def test_a_line_that_is_no_entry_is_named_and_nothing_is_written(line):
    memory = opened()
    good = b'{"entry":"mem-0123456789abcdef","content":"fine"}'
    with pytest.raises(refold.Invalid, match="the file:3") as failure:
        memory.import_lines([HEAD, good, line], name="the file")
    assert len(str(failure.value)) < 2_000 and memory.log() == []


@pytest.mark.parametrize(
    "head",
    [b"", b"{}", b"[]", b"junk", b'{"format":"refold"}', b'{"format":"other","version":1}',
     b'{"format":"refold-memory","version":2}', b'{"format":"refold-memory","version":"1"}', b"\x1f\x8b\x08"],
)  # fmt: skip
def test_a_file_of_another_kind_is_refused(head):
    memory = opened()
    with pytest.raises(refold.Invalid):
        memory.import_lines([head, b'{"entry":"x","content":"x"}'])
    assert memory.log() == []


@settings(max_examples=200, deadline=None)
@given(st.lists(st.binary(max_size=60), max_size=4))
def test_no_bytes_raise_anything_else(lines):
    memory = opened()
    try:
        memory.import_lines([HEAD, *lines])
    except refold.Invalid:
        assert memory.log() == []


@pytest.mark.parametrize("deep", range(60, 72))
def test_what_a_memory_takes_however_deep_comes_back_from_its_export(deep):
    metadata = functools.reduce(lambda inner, _: {"a": inner}, range(deep), 1)
    memory, other = opened(), opened()
    try:
        memory.store("The port is 5432.", metadata=metadata)
    except refold.Invalid:
        assert deep > 64
    assert other.import_lines(memory.export()).entries == len(memory.list())
