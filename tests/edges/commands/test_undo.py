"""`refold undo`: a compaction is taken back."""

from __future__ import annotations

import re
from pathlib import Path

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


def test_a_batch_that_was_undone_already_is_not_called_unknown(url: str) -> None:
    batch = as_json("compact", "fix-login", "--strategy", "hide", "--target", "60")["batch"]
    assert run("undo", "fix-login", batch[:6]).exit_code == 0
    for typed in (batch, batch[:6]):
        again = run("undo", "fix-login", typed)
        assert again.exit_code == 2 and f"the batch {batch} is undone already" in again.stderr
        assert "refold redo fix-login" in again.stderr
    assert "there is no active batch 'nothing'" in run("undo", "fix-login", "nothing").stderr


def full(id: str, **config: float) -> None:
    """A conversation that was compacted by itself, and grew since."""
    window = 16_000
    with refold.open(id, store="sqlite:.refold/refold.db", window=window, config=config) as context:
        context.append({"role": "user", "content": "go"})
        while not context.view.undoable:
            context.append({"role": "assistant", "content": "a word or two " * 120})
            context.append({"role": "user", "content": "go on"})
            context.request()
        if not config:
            context.append({"role": "assistant", "content": "a word or two " * 400})
            context.append({"role": "user", "content": "go on"})


def test_an_undo_that_does_not_fit_says_what_is_left_out_and_what_to_do(url: str) -> None:
    full("full")
    text = run("undo", "full", "--yes").stdout
    found = re.search(r"All of it would be ([\d,]+) tokens, and ([\d,]+) fit: #\d+-\d+ left", text)
    assert found and int(found[1].replace(",", "")) > int(found[2].replace(",", ""))
    assert "Nothing is lost" in text and "refold edit full --model NAME" in text
    assert "larger window: refold edit full --window N" in text


def test_messages_leave_the_page_for_an_undo_only_if_that_was_agreed(url: str) -> None:
    full("full")
    before = as_json("show", "full")
    refused = run("undo", "full")
    assert refused.exit_code == 2
    found = re.search(
        r"nothing was changed: all of it would be ([\d,]+) tokens, and ([\d,]+) fit: #[\d-]+ would "
        r"be left out, and the page would go from ([\d,]+) to ([\d,]+) tokens; "
        r"for all of it: refold edit full --window N, .*; --yes takes it back all the same",
        refused.stderr,
    )
    assert found
    assert as_json("show", "full") == before
    assert as_json("undo", "full")["error"]["code"] == "invalid"
    whole, most, now, then = (int(text.replace(",", "")) for text in found.groups())
    done = as_json("undo", "full", "--yes")
    assert (done["tokens_whole"], done["tokens_max"]) == (whole, most)
    assert (done["tokens_before"], done["tokens_after"]) == (now, then)


def test_a_page_that_is_full_by_the_cap_is_not_helped_by_a_larger_window(
    url: str, tmp_path: Path
) -> None:
    (tmp_path / "refold.toml").write_text("tokens_cap = 9000\n", encoding="utf-8")
    with refold.open("capped", store=url, model="claude-sonnet-4-5") as context:
        while not context.view.undoable:
            context.append({"role": "user", "content": "go on"})
            context.append({"role": "assistant", "content": "a word or two " * 120})
            context.request()
    text = run("undo", "capped").stdout
    assert "To wait longer: a higher tokens_cap or auto = false in refold.toml." in text
    assert "larger window" not in text


def test_with_a_larger_window_all_of_it_comes_back(url: str) -> None:
    full("full")
    assert "K/64K tokens" in run("edit", "full", "--window", "64000").stdout
    done = as_json("undo", "full")
    assert done["undone"] and done["made_room"] == "" and done["left_out"] == ""


def test_an_undo_of_a_full_page_says_how_long_it_lasts(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REFOLD_COMPACT_RATIO", "0.5")
    monkeypatch.setenv("REFOLD_WARN_RATIO", "0.4")
    monkeypatch.setenv("REFOLD_TARGET_RATIO", "0.3")
    full("full", compact_ratio=0.5, warn_ratio=0.4, target_ratio=0.3)
    text = run("undo", "full").stdout
    assert "The page is full" in text and "waits until 1,600 tokens more have come" in text
    assert (
        "compact_ratio" in text
        and "auto = false" in text
        and "refold edit full --model NAME" in text
    )
    told = as_json("redo", "full")
    assert told["pause_tokens"] == 0 and told["redone"]


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
        "Further back with: refold undo fix-login",
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
        "Further with: refold redo fix-login",
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
    lines = printed("undo", "full", "--yes").splitlines()
    assert lines[0].startswith("Undone: the compaction BATCH, ")
    assert lines[1].startswith("All of it would be ")
    assert re.search(r" fit: #4-\d+ left the page \(batch BATCH\)\.$", lines[1])


def test_what_was_hidden_by_hand_is_no_compaction(url: str) -> None:
    seq = as_json("show", "fix-login")["slots"][1]["seq"]
    run("hide", "fix-login", str(seq))
    assert "1 hide on the page, 0 undone." in printed("history", "fix-login")
    assert as_json("context", "fix-login")["compactions"] == []
    assert "compaction" not in run("statusline", "fix-login").output
    assert printed("undo", "fix-login").startswith("Undone: the hide BATCH, ")
    assert printed("redo", "fix-login").startswith("Redone: the hide BATCH, ")
    run("clear", "fix-login", "--yes")
    assert printed("undo", "fix-login").startswith("Undone: the clear BATCH, ")
