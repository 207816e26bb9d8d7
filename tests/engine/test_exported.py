"""Exports of an open context: as a text, as a file, and as the backup before a clear."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import refold
from refold.errors import Conflict, Invalid, RefoldError

KEY = "AKIA" + "QZ7WXNM4T2LP5RJD"


@pytest.fixture
def context(tmp_path: Path) -> refold.Context:
    context = refold.open("talk", store=f"sqlite:{tmp_path}/x.db", model="gpt-4o")
    context.append({"role": "user", "content": f"the key is {KEY}"})
    context.append({"role": "assistant", "content": "kept"})
    context.artifacts.put("a\n", name="a.txt")
    return context


@pytest.mark.parametrize(("format", "ending"), [("json", ".json"), ("markdown", ".md")])
@pytest.mark.parametrize("secrets", [None, True, False])
def test_an_export_as_a_text_is_what_the_file_would_hold(
    context: refold.Context, tmp_path: Path, format: str, ending: str, secrets: bool | None
) -> None:
    """M-25"""
    path = tmp_path / f"out{ending}"
    context.log.export(path, secrets=secrets)
    text = context.log.exported(format, secrets=secrets)
    if secrets is not False or format == "markdown":  # else it is another log each time
        assert text == path.read_text()
    assert (KEY in text) == (secrets if secrets is not None else format == "json")


def test_an_exported_text_is_imported_again(context: refold.Context, tmp_path: Path) -> None:
    other = f"files:{tmp_path}/other"
    refold.conversations.import_(other, context.log.exported().encode())
    with refold.open("talk", store=other, read_only=True) as again:
        assert again.request() == context.request()
    with pytest.raises(Invalid):
        context.log.exported("yaml")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["backup.json", "backup.md"])
def test_a_backup_is_written_before_the_page_is_cleared(
    context: refold.Context, tmp_path: Path, name: str
) -> None:
    """M-90"""
    context.clear(backup=tmp_path / name)
    assert not context.view.slots
    text = (tmp_path / name).read_text()
    assert "kept" in text and (name.endswith(".md") or json.loads(text)["events"])
    context.undo()
    assert len(context.view.slots) == 2


@pytest.mark.parametrize("name", ["there.json", "no/such/folder/x.json", "x.txt", "", "a\0.json"])
def test_without_its_backup_nothing_is_cleared(
    context: refold.Context, tmp_path: Path, name: str
) -> None:
    """M-90"""
    (tmp_path / "there.json").write_text("mine")
    head = context.view.head
    with pytest.raises(RefoldError):
        context.clear(backup=f"{tmp_path}/{name}" if name else "")
    assert context.view.head == head and len(context.view.slots) == 2
    assert (tmp_path / "there.json").read_text() == "mine"
    with pytest.raises(Conflict):
        context.log.export(tmp_path / "there.json", force=False)


@pytest.mark.parametrize("bound", [{"after": -1}, {"limit": -1}, {"after": -(2**50)}])
def test_a_page_of_the_log_has_no_negative_bounds(context: refold.Context, bound: dict) -> None:
    """M-18"""
    with pytest.raises(Invalid, match="pass a number from 0"):
        context.log.events(**bound)


@pytest.mark.parametrize("url", ["memory:", "sqlite:"])
def test_the_events_are_all_events_after_a_seq_or_the_first_of_them(url: str, tmp_path: Path):
    """M-18"""
    store = url if url == "memory:" else f"sqlite:{tmp_path}/work.db"
    with refold.open("long", store=store, window=1_000_000) as context:
        context.append([{"role": "user", "content": f"{n}"} for n in range(1_205)])
        seqs = [event.seq for event in context.log.events()]
        assert seqs == list(range(1, context.view.head + 1)) and len(seqs) > 1_200
        for after in (0, 1, 499, 500, 501, 1_000, 1_200, len(seqs), len(seqs) + 5):
            for limit in (None, 0, 1, 499, 500, 501, 1_000, 1_001, 5_000):
                found = [one.seq for one in context.log.events(after=after, limit=limit)]
                assert found == seqs[after:][:limit], (after, limit)
        for event in context.log.events(after=1_200):
            context.append({"role": "user", "content": f"after {event.seq}"})
        assert context.view.head < 2 * len(seqs)


def test_a_backup_over_a_file_names_no_option_of_the_shell(
    context: refold.Context, tmp_path: Path
) -> None:
    (tmp_path / "mine.json").write_text("mine")
    with pytest.raises(Conflict, match="already exists") as refused:
        context.clear(backup=tmp_path / "mine.json")
    assert "--" not in str(refused.value)
