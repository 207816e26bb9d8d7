"""`refold history`: every compaction of a conversation."""

from __future__ import annotations

import pytest

import refold
from tests.edges.cli.rooms import as_json, run
from tests.edges.commands.golden import printed

pytestmark = pytest.mark.usefixtures("alone")


def test_a_conversation_that_was_never_compacted_says_so(url: str) -> None:
    assert printed("history", "fix-login") == "fix-login was never compacted.\n"
    assert as_json("history", "fix-login")["batches"] == []


def test_every_compaction_is_listed_with_its_state(url: str) -> None:
    run("compact", "fix-login", "--strategy", "hide", "--target", "60")
    run("undo", "fix-login")
    run("compact", "fix-login", "--strategy", "gist", "--target", "60")
    run("clear", "fix-login", "--yes")
    lines = printed("history", "fix-login").splitlines()
    assert lines[0].split() == ["BATCH", "KIND", "SEQ", "AT", "BY", "EDITS", "TOKENS", "STATE"]
    cells = [line.split() for line in lines[1:4]]
    assert [(row[0], row[1], row[4], row[-1]) for row in cells] == [
        ("BATCH", "compaction", "hide", "undone"),
        ("BATCH", "compaction", "gist", "covered"),
        ("BATCH", "clear", "user", "live"),
    ]
    assert lines[4:] == [
        "1 compaction, 1 clear on the page, 1 undone.",
        "The messages of a covered one come back once the later ones are undone.",
        "Take one back with: refold undo fix-login BATCH",
        "Undo with: refold undo fix-login",
    ]


def test_the_sizes_are_those_that_the_compaction_told(url: str) -> None:
    told = [
        as_json("compact", "fix-login", "--strategy", name, "--target", target)
        for name, target in (("gist", "1200"), ("hide", "60"))
    ]
    rows = as_json("history", "fix-login")["batches"]
    told = [one for one in told if one["batch"]]
    assert [row["id"] for row in rows] == [one["batch"] for one in told]
    for row, one in zip(rows, told, strict=True):
        assert abs(row["tokens_before"] - one["tokens_before"]) <= 5
        assert abs(row["tokens_after"] - one["tokens_after"]) <= 5


def test_every_batch_that_is_live_can_be_reverted_and_no_other(url: str) -> None:
    with refold.open("fix-login", store=url) as context:
        for target in (1200, 900, 60):
            context.compact("hide", target=target)
        context.undo()
    for row in as_json("history", "fix-login")["batches"]:
        assert (run("undo", "fix-login", row["id"]).exit_code == 0) is row["live"]
    assert not any(row["live"] for row in as_json("history", "fix-login")["batches"])


def test_a_batch_may_be_named_by_how_it_begins(url: str) -> None:
    run("compact", "fix-login", "--strategy", "hide", "--target", "900")
    run("clear", "fix-login", "--yes")
    first, second = (one["id"] for one in as_json("history", "fix-login")["batches"])
    assert as_json("undo", "fix-login", "nope")["error"]["code"] == "not-found"
    size = next(n for n in range(1, 17) if first[:n] != second[:n])
    if size > 1:
        assert "several batches" in run("undo", "fix-login", first[: size - 1]).stderr
    assert as_json("undo", "fix-login", first[:size])["batch"] == first


def test_undoing_a_covered_compaction_says_what_to_undo_next(url: str) -> None:
    first = as_json("compact", "fix-login", "--strategy", "gist", "--target", "60")["batch"]
    run("clear", "fix-login", "--yes")
    done = as_json("undo", "fix-login", first)
    clear = as_json("history", "fix-login")["batches"][-1]["id"]
    assert done["covered_by"] == [clear]
    run("redo", "fix-login")
    text = printed("undo", "fix-login", first)
    assert (
        "Later compactions cover some of its messages" in text and "refold undo fix-login" in text
    )


def test_a_compaction_is_shown_alone_with_the_command_for_what_it_changed(url: str) -> None:
    with refold.open("fix-login", store=url) as context:
        first = context.hide(context.view.slots[1].seq)
        context.hide(context.view.slots[3].seq)
    shown = run("history", "fix-login", first.batch).stdout
    assert first.batch in shown and shown.count("live") == 1
    [command] = [line for line in shown.splitlines() if "What it changed: " in line]
    words = command.partition("refold ")[2].split()
    assert run(*words).exit_code == 0 and as_json(*words)["removed"]
    done = run("history", "fix-login", "nothing")
    assert done.exit_code == 2 and "lists the compactions" in done.stderr
