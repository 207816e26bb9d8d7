"""`refold clear`, `undo BATCH`, `fork` and `edit`: each names its way back."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.edges.cli.rooms import as_json, run
from tests.edges.commands.golden import printed, refused

pytestmark = pytest.mark.usefixtures("alone")
HIDE = ("compact", "fix-login", "--strategy", "hide", "--target", "60")


def test_clear_takes_everything_but_pins_off_the_page_and_undo_brings_it_back(url: str) -> None:
    run("pin", "fix-login", "7")
    before = as_json("show", "fix-login")["slots"]
    assert printed("clear", "fix-login", "--yes") == (
        "Cleared fix-login: 16 -> 1 slot, N -> N tokens.\nUndo with: refold undo fix-login\n"
    )
    assert [slot["seq"] for slot in as_json("show", "fix-login")["slots"]] == [7]
    assert printed("clear", "fix-login", "--yes") == (
        "Nothing was done: the page of fix-login is clear already.\n"
    )
    run("undo", "fix-login")
    assert as_json("show", "fix-login")["slots"] == before


def test_the_summary_counts_what_is_on_the_page(url: str) -> None:
    """M-100"""
    before = as_json("show", "--summary", "fix-login")["overview"]
    run("pin", "fix-login", "7")
    printed("clear", "fix-login", "--yes")
    after = as_json("show", "--summary", "fix-login")["overview"]
    assert sum(after["messages"].values()) == 1
    assert after["off_page"] == sum(before["messages"].values()) - 1 and not before["off_page"]
    assert "off the page" in run("context", "fix-login").stdout


def test_a_backup_is_written_first_and_can_be_imported(url: str, tmp_path: Path) -> None:
    before = as_json("show", "fix-login")["slots"]
    text = printed("clear", "fix-login", "--backup", "all.json", "--yes")
    assert text.startswith("Backup: all.json; refold import reads it again.\nCleared fix-login: ")
    run("import", "all.json", "--id", "again")
    assert as_json("show", "again")["slots"] == before


def test_the_place_before_gets_a_name(url: str) -> None:
    head = as_json("show", "fix-login")["head"]
    printed("clear", "fix-login", "--checkpoint", "full", "--yes")
    assert as_json("restore", "fix-login", "full")["seq"] == head
    assert "is not a number" in refused("clear", "fix-login", "--checkpoint", "7")


@pytest.mark.parametrize("file", ["taken.json", "nowhere/all.json"])
def test_without_its_backup_nothing_is_cleared(url: str, tmp_path: Path, file: str) -> None:
    (tmp_path / "taken.json").write_text("mine")
    before = as_json("show", "fix-login", "--all")
    assert run("clear", "fix-login", "--backup", file, "--yes").exit_code != 0
    assert as_json("show", "fix-login", "--all") == before
    assert (tmp_path / "taken.json").read_text() == "mine"


def test_revert_takes_back_a_compaction_in_the_middle(url: str) -> None:
    before = as_json("show", "fix-login")["slots"]
    batch = as_json(*HIDE)["batch"]
    assert printed("undo", "fix-login", batch) == (
        "Reverted the compaction BATCH: 4 -> 16 slots, N -> N tokens.\n"
        "Redo with: refold redo fix-login\n"
    )
    assert as_json("show", "fix-login")["slots"] == before
    assert as_json("redo", "fix-login")["batch"] == batch
    assert len(as_json("show", "fix-login")["slots"]) == 4
    assert "there is no active batch 'x'" in refused("undo", "fix-login", "x")


def test_fork_starts_another_conversation_and_leaves_this_one(url: str) -> None:
    before = as_json("show", "fix-login", "--all")
    assert printed("fork", "fix-login", "other", "--at", "9") == (
        "other is a fork of fix-login at #9, with 5 slots.\n"
        "fix-login is as it was.\n"
        "Undo with: refold delete other\n"
    )
    assert as_json("show", "fix-login", "--all") == before
    [row] = [row for row in as_json("list")["conversations"] if row["id"] == "other"]
    assert row["title"] == "Fork of Fix the login test"
    assert (row["parent"], row["parent_seq"]) == ("fix-login", 9)
    assert "conversation 'other' already exists" in refused("fork", "fix-login", "other")
    assert "there is no event #99" in refused("fork", "fix-login", "new", "--at", "99")
    assert refused("fork", "fix-login", "../x")


def test_edit_sets_title_tags_and_model(url: str) -> None:
    given = ("edit", "fix-login", "--title", "Neu", "--tag", "a", "--tag", "b")
    assert printed(*given) == (
        "Conversation: fix-login\nTitle: Neu\nTags: a, b\nModel: claude-sonnet-4-5\n"
    )
    assert as_json("list", "--tag", "b")["conversations"][0]["title"] == "Neu"
    head = as_json("show", "fix-login")["head"]
    run(*given)
    assert as_json("show", "fix-login")["head"] == head
    assert printed("edit", "fix-login").startswith("Conversation: fix-login\nTitle: Neu\n")
    assert as_json("show", "fix-login")["head"] == head
