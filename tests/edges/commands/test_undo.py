"""`refold undo`: a compaction is taken back."""

from __future__ import annotations

import pytest

from tests.edges.cli.rooms import as_json, run

pytestmark = pytest.mark.usefixtures("alone")


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
