"""`refold handover --to`: a folder of read-only files, or an error that names it."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from refold.engine.handover import TITLES
from tests.edges.cli.rooms import as_json, run


def test_each_section_is_a_read_only_file_with_the_text_of_the_hand_over(url, tmp_path):
    folder = tmp_path / "new" / "handed-over"
    made = as_json("handover", "--to", str(folder))
    text = as_json("handover")["text"]
    assert made["files"] == [
        str(folder / f"{name}.md") for name in TITLES if name in made["sections"]
    ]
    assert made["files"]
    for file in map(Path, made["files"]):
        assert file.read_text().strip() in text
        assert stat.S_IMODE(file.stat().st_mode) == 0o400


@pytest.mark.parametrize(("place", "exit_code"), [("there", 4), ("file/new", 8)])
def test_a_folder_that_cannot_be_made_is_named_and_nothing_is_written(
    url, tmp_path, place, exit_code
):
    (tmp_path / "there").mkdir()
    (tmp_path / "file").write_text("mine")
    done = run("handover", "--to", str(tmp_path / place))
    assert done.exit_code == exit_code
    assert str(tmp_path / place) in done.stderr
    assert not list((tmp_path / "there").iterdir())
    assert (tmp_path / "file").read_text() == "mine"
