"""The lines of a file: read once, walked as often as one likes."""

from __future__ import annotations

import gzip
from itertools import islice
from pathlib import Path

import pytest

from refold.edges.importers import lines as reading
from refold.edges.importers.lines import Lines
from refold.errors import NotFound


def packed(path: Path, *lines: bytes) -> Path:
    path.write_bytes(gzip.compress(b"\n".join(lines)))
    return path


def test_a_walk_begins_with_what_another_has_read_and_reads_on(tmp_path: Path) -> None:
    path = packed(tmp_path / "a.jsonl.gz", b'{"a": 1}', b"", b'{"b": 2}', b'{"c": 3}')
    read: list[int] = []
    lines = Lines(path, read.append)
    first = list(islice(lines, 2))
    assert [number for number, _ in first] == [1, 3]
    path.unlink()  # nothing is read again
    assert [number for number, _ in lines] == [1, 3, 4]
    assert list(lines) == list(lines)
    assert len(read) == 4


def test_a_file_that_is_too_large_to_be_held_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "HELD_BYTES_MAX", 10)
    lines = Lines(packed(tmp_path / "a.jsonl.gz", *[b'{"a": 1}'] * 5))
    assert len(list(islice(lines, 3))) == 3
    assert [number for number, _ in lines] == [number for number, _ in lines] == [1, 2, 3, 4, 5]


def test_what_a_walk_could_not_give_is_told_by_every_walk_and_once(tmp_path: Path) -> None:
    path = packed(tmp_path / "a.jsonl.gz", b'{"a": 1}', b"[2]", b"nothing", b'{"b": 4}', b"")
    path.write_bytes(path.read_bytes()[:-4])  # its end is missing
    lines = Lines(path)
    for _ in range(2):
        assert [value for _, value, _ in lines.objects()] == [{"a": 1}, {"b": 4}]
        assert sorted(one.line for one in lines.unread) == [2, 3, 5]
    list(lines)
    assert [one.line for one in lines.unread] == [5]


def test_a_walk_that_cannot_begin_fails_again(tmp_path: Path) -> None:
    lines = Lines(tmp_path / "missing.jsonl")
    for _ in range(2):
        with pytest.raises(NotFound):
            list(lines)
