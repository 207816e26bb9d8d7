"""`refold show --why`, `pin` and `show HANDLE`: what was done to a message, and holding on to it."""

from __future__ import annotations

import re

import pytest

from refold.strategies.importance import WEIGHTS
from tests.edges.cli.rooms import as_json, run
from tests.edges.commands.golden import printed, refused

pytestmark = pytest.mark.usefixtures("alone")
HIDE = ("compact", "fix-login", "--strategy", "hide", "--target", "60")


def test_why_says_that_nothing_was_done(url: str) -> None:
    worth = r"Worth 0\.\d\d of 1: role 1\.00, (\w+ [01]\.\d\d, )*\w+ [01]\.\d\d\n"
    text = printed("show", "--why", "fix-login", "#4")
    assert re.search(worth, text)
    assert re.sub(worth, "", text) == (
        "#4 user is on the page as it came.\n  question 0 about login.py\nNothing was done to it.\n"
    )


def test_why_says_what_a_message_is_worth(url: str) -> None:
    """G-91"""
    told = as_json("show", "--why", "fix-login", "#4")["score"]
    assert told["seq"] == 4 and 0 < told["score"] <= 1
    assert set(told["factors"]) == set(WEIGHTS)
    run(*HIDE)
    assert as_json("show", "--why", "fix-login", "7")["score"] is None


def test_why_names_the_compaction_its_reason_and_the_way_back(url: str) -> None:
    run(*HIDE)
    assert printed("show", "--why", "fix-login", "7") == (
        "#7 user is not on the page.\n"
        "  question 1 about login.py\n"
        "  #22 TIME hidden by hide\n"
        "      batch BATCH; oldest first\n"
        "The original: refold show fix-login 7\n"
        "Undo with: refold undo fix-login BATCH\n"
    )
    told = as_json("show", "--why", "fix-login", "7")
    assert told["shown"] == "hidden" and told["traces"][0]["handle"] == "#5-16"


def test_why_names_every_batch_that_holds_a_message_newest_first(url: str) -> None:
    for target in ("60", "40"):
        run("compact", "fix-login", "--strategy", "hide", "--target", target)
        run("compact", "fix-login", "--strategy", "summarize", "--target", target)
    told = as_json("show", "--why", "fix-login", "7")
    held = [trace["batch"] for trace in told["traces"] if trace["batch"] and trace["live"]]
    for batch in dict.fromkeys(reversed(held)):
        assert f"refold undo fix-login {batch}" in run("show", "--why", "fix-login", "7").stdout
        run("undo", "fix-login", batch)
    assert as_json("show", "--why", "fix-login", "7")["shown"] == "whole"


def test_why_says_what_no_longer_holds(url: str) -> None:
    run(*HIDE)
    run("undo", "fix-login")
    text = printed("show", "--why", "fix-login", "7")
    assert "hidden by hide (no longer holds)" in text and "reverted batch BATCH" in text
    assert text.startswith("#7 user is on the page as it came.\n")


@pytest.mark.parametrize("command", [("show", "--why"), ("pin",), ("pin", "--off")])
def test_what_is_not_a_message_is_an_error_that_says_where_they_are(
    url: str, command: tuple[str, ...]
) -> None:
    hint = "refold show fix-login --all --brief names each message by its seq"
    for seq in ("2", "#9", "0", "99", "9" * 15):
        reason = f"there is no message #{seq.removeprefix('#')}; {hint}"
        assert refused(*command, "fix-login", seq) == reason
    for text in ("x", "#4-5", "", "9" * 16):
        assert refused(*command, "fix-login", text).endswith(
            "is not the seq of an event; pass it as 41 or #41"
        )


def test_a_pin_keeps_a_message_with_its_tool_pair_through_a_compaction(url: str) -> None:
    assert printed("pin", "fix-login", "7", "#12") == (
        "Pinned: #7, #12, #13 (with tool pairs).\n"
        "Pins of fix-login now: #7, #12, #13.\n"
        "Undo with: refold pin fix-login 7 12 13 --off\n"
    )
    run(*HIDE)
    slots = as_json("show", "fix-login")["slots"]
    assert {7, 12, 13} <= {slot["seq"] for slot in slots if not slot["edits"]}


def test_unpin_lets_go_and_says_how_to_pin_again(url: str) -> None:
    run("pin", "fix-login", "7", "12")
    assert printed("pin", "--off", "fix-login", "#12") == (
        "Unpinned: #12, #13 (with tool pairs).\n"
        "Pins of fix-login now: #7.\n"
        "Undo with: refold pin fix-login 12 13\n"
    )


def test_what_is_pinned_already_is_not_written_again(url: str) -> None:
    run("pin", "fix-login", "7")
    head = as_json("show", "fix-login")["head"]
    assert printed("pin", "fix-login", "7") == ("Nothing changed.\nPins of fix-login now: #7.\n")
    run("pin", "--off", "fix-login", "8")
    assert as_json("show", "fix-login")["head"] == head


def test_one_wrong_message_and_none_is_pinned(url: str) -> None:
    assert "there is no message #99" in refused("pin", "fix-login", "7", "99")
    assert as_json("show", "fix-login")["pins"] == []


def test_unfold_gives_the_originals_or_some_lines_of_them(url: str) -> None:
    assert printed("show", "fix-login", "#4-5") == (
        "#4 user:\nquestion 0 about login.py\n\n#5 assistant:\n"
        "[call run t0]\ncommand: cat login.py\n"
    )
    assert printed("show", "fix-login", "6", "--lines", "2-3") == "def login():\ndef login():\n"
    assert as_json("show", "fix-login", "4")["text"] == "question 0 about login.py"
    assert "is not a handle" in refused("show", "fix-login", "nothing")
    assert printed("show", "fix-login", "#4-5", "--level", "line") == (
        "#4 user: question 0 about login.py\n#5 assistant: [call run t0] command: cat login.py\n"
    )
    assert "'page' is not one of" in refused("show", "fix-login", "4", "--level", "page")


def test_unfold_gives_the_levels_of_a_summary(url: str) -> None:
    run("compact", "fix-login", "--strategy", "gist", "--target", "60")
    [span] = [slot for slot in as_json("show", "fix-login")["slots"] if slot["last"] > slot["seq"]]
    handle = f"#{span['seq']}-{span['last']}"
    levels = ("line", "paragraph", "full")
    texts = [as_json("show", "fix-login", handle, "--level", level)["text"] for level in levels]
    assert "\n" not in texts[0] and texts[1] == span["blocks"][0]["text"]
    assert "question 1 about login.py" in texts[2]
