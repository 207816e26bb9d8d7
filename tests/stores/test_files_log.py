"""Any part of a long log is found without reading the rest."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import refold
from refold.stores.contract.kit import sealed
from refold.stores.files import FilesStore
from refold.stores.files import log as files_log
from tests.stores.trees import log_of


class Bytes:
    """Counts what is read from logs."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        read = os.pread

        def counted(fd: int, size: int, offset: int) -> bytes:
            piece = read(fd, size, offset)
            self.count += len(piece)
            return piece

        monkeypatch.setattr(files_log.os, "pread", counted)


def test_the_end_and_the_middle_of_a_long_log_are_found_without_reading_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """M-19: ten events of a log of 20 MB cost less than 1 MB. Only who comes upon the one huge
    line may read it too."""
    store = FilesStore(str(tmp_path))
    sizes = [50, 5_000, 200] * 2_000 + [8_000_000] + [300] * 2_000
    events = sealed(None, [b'"%s"' % (b"x" * size) for size in sizes])
    for start in range(0, len(events), 500):
        store.append("log", events[start : start + 500], expect=start)
    store.close()
    assert log_of(tmp_path).stat().st_size > 20_000_000
    for after in (len(events) - 10, 0, 17, 3_000, 5_990, 6_001, 7_000):
        reader = FilesStore(str(tmp_path))
        with monkeypatch.context() as patch:
            read = Bytes(patch)
            assert reader.read("log", after=after, limit=10) == events[after : after + 10]
        huge = {3_000: 8_000_000, 5_990: 20_000_000, 6_001: 8_000_000, 7_000: 8_000_000}.get(
            after, 0
        )
        assert read.count < 1_000_000 + huge, (after, read.count)
        reader.close()


def test_places_that_were_found_are_remembered_and_stay_few(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files_log, "PLACES_MAX", 16)
    store = FilesStore(str(tmp_path))
    events = sealed(None, [b'"%s"' % (b"x" * 2_000)] * 1_000)
    store.append("log", events, expect=0)
    log = files_log.LogFile(str(log_of(tmp_path)), read_only=True)
    log.refresh()
    for after in [*range(0, 1_000, 7), *range(997, 0, -13)]:
        last = min(after + 3, 1_000)
        assert log.events(after + 1, last) == events[after:last]
    assert 0 < len(log.places) <= 16
    log.close()


def test_opening_reads_the_bookmark_and_the_tail_not_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with refold.open("log", store=f"files:{tmp_path}", window=10_000) as context:
        for n in range(150):
            context.append({"role": "user", "content": f"question {n} " + "word " * 3_000})
            context.append({"role": "assistant", "content": f"answer {n}"})
            if n % 3 == 2:
                context.request()
        expected = context.request()
    size = log_of(tmp_path).stat().st_size
    read = Bytes(monkeypatch)
    with refold.open("log", store=f"files:{tmp_path}", window=10_000) as context:
        assert context.request() == expected
    assert read.count < size / 5, (read.count, size)
