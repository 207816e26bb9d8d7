"""`refold undo`: a compaction is taken back."""

from __future__ import annotations

import re

import pytest

import refold
from tests.edges.cli.rooms import as_json, run
from tests.edges.commands.golden import printed

pytestmark = pytest.mark.usefixtures("alone")
CLEAR = ("clear", "fix-login", "--yes")


def test_a_dry_run_changes_nothing_and_undo_takes_a_compaction_back(url: str) -> None:
    before = as_json("show", "fix-login")
    arguments = ("compact", "fix-login", "--strategy", "hide", "--target", "60")
    plan = as_json(*arguments, "--dry-run")
    assert plan["dry_run"] and plan["tokens_after"] < plan["tokens_before"] and plan["items"]
    assert "Nothing was changed" in run(*arguments, "--dry-run").stdout
    assert as_json("show", "fix-login") == before
    text = run(*arguments).stdout
    assert "Compacted by hide" in text and "refold undo fix-login" in text
    assert as_json("undo", "fix-login")["undone"] is True
    assert as_json("show", "fix-login")["slots"] == before["slots"]


def test_nothing_to_do_is_said(url: str) -> None:
    assert "nothing to undo" in run("undo", "fix-login").stdout
    assert as_json("undo", "fix-login")["undone"] is False
    assert "Nothing was done" in run("compact", "fix-login", "--target", "1000000").stdout
    assert (
        "Nothing would be done"
        in run("compact", "fix-login", "--target", "1000000", "--dry-run").stdout
    )
    assert as_json("compact", "fix-login", "--target", "1000000")["batch"] == ""


def test_undo_goes_back_step_by_step_and_never_toggles(url: str) -> None:
    pages = [as_json("show", "fix-login")["slots"]]
    run("compact", "fix-login", "--strategy", "hide", "--target", "900")
    pages.append(as_json("show", "fix-login")["slots"])
    run("restore", "fix-login", "9")
    pages.append(as_json("show", "fix-login")["slots"])
    first = printed("undo", "fix-login").splitlines()
    assert re.fullmatch(r"Undone: the restore #\d+, 5 -> \d+ slots, N -> N tokens\.", first[0])
    assert first[1:] == [
        "Further back with: refold undo fix-login (1 step left)",
        "Redo with: refold redo fix-login",
    ]
    assert as_json("show", "fix-login")["slots"] == pages[1]
    second = printed("undo", "fix-login").splitlines()
    assert second[0].startswith("Undone: the compaction BATCH, ") and second[0].endswith("tokens.")
    assert second[1:] == ["Redo with: refold redo fix-login"]
    assert as_json("show", "fix-login")["slots"] == pages[0]
    for _ in range(3):
        assert printed("undo", "fix-login") == (
            "There is nothing left to undo.\nRedo with: refold redo fix-login\n"
        )
    assert as_json("show", "fix-login")["slots"] == pages[0]


def test_redo_comes_forward_again_step_by_step(url: str) -> None:
    assert printed("redo", "fix-login") == "There is nothing to redo.\n"
    pages = [as_json("show", "fix-login")["slots"]]
    for arguments in (("compact", "fix-login", "--strategy", "hide", "--target", "900"), CLEAR):
        run(*arguments)
        pages.append(as_json("show", "fix-login")["slots"])
    run("undo", "fix-login")
    run("undo", "fix-login")
    lines = printed("redo", "fix-login").splitlines()
    assert lines[0].startswith("Redone: the compaction BATCH, 16 -> ")
    assert lines[1:] == [
        "Further with: refold redo fix-login (1 step left)",
        "Undo with: refold undo fix-login",
    ]
    assert as_json("show", "fix-login")["slots"] == pages[1]
    told = as_json("redo", "fix-login")
    assert told["redone"] and (told["undo_steps"], told["redo_steps"]) == (2, 0)
    assert as_json("show", "fix-login")["slots"] == pages[2]
    assert as_json("redo", "fix-login")["redone"] is False


def test_undo_says_that_the_oldest_had_to_leave(url: str) -> None:
    with refold.open("full", store=url, model="gpt-4o", config={"auto": False}) as context:
        for turn in range(60):
            role = "assistant" if turn % 2 else "user"
            context.append({"role": role, "content": f"part {turn}: " + "some words " * 1_500})
        context.compact("hide", target=20_000)
    lines = printed("undo", "full").splitlines()
    assert lines[0].startswith("Undone: the compaction BATCH, ")
    reason = "The page would not have fitted: its oldest messages left (batch BATCH)."
    assert lines[1] == reason


def test_what_was_hidden_by_hand_is_no_compaction(url: str) -> None:
    seq = as_json("show", "fix-login")["slots"][1]["seq"]
    run("hide", "fix-login", str(seq))
    assert "1 hide on the page, 0 undone." in printed("receipts", "fix-login")
    assert as_json("context", "fix-login")["compactions"] == []
    assert "compaction" not in run("statusline", "fix-login").output
    assert printed("undo", "fix-login").startswith("Undone: the hide BATCH, ")
    assert printed("redo", "fix-login").startswith("Redone: the hide BATCH, ")
    run("clear", "fix-login", "--yes")
    assert printed("undo", "fix-login").startswith("Undone: the clear BATCH, ")
