"""`refold artifact`: what is kept, what it holds, which lines match, and removing what is old."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

import refold
from tests.edges.cli.rooms import HOSTILE, as_json, hostile, run


@pytest.fixture
def ids(url: str) -> list[str]:
    """Outputs of the conversation `work`: two off the page, one on it."""
    with refold.open("work", store=url, window=24_000, config={"offload_tokens": 50}) as context:
        for n, name in enumerate(("alpha", "beta", "gamma")):
            if n == 2:
                context.restore(0)
            call = {
                "id": f"c{n}",
                "type": "function",
                "function": {"name": "run", "arguments": f'{{"x":"{name}"}}'},
            }
            context.append({"role": "assistant", "content": None, "tool_calls": [call]})
            text = f"{name} begins\n" + "\n".join(f"{name} line {m}" for m in range(100))
            context.append_result(f"c{n}", text, task=f"t{n}", query="What is wrong?")
        return [artifact.id for artifact in context.artifacts.list()]


def aged(tmp_path: Path) -> None:
    """Makes the stored contents as old as if they had been kept an hour ago."""
    for name in os.listdir(tmp_path / ".refold" / "artifacts"):
        os.utime(tmp_path / ".refold" / "artifacts" / name, (1, time.time() - 3_600))


def an_hour_later(monkeypatch: pytest.MonkeyPatch) -> None:
    real = time.time_ns
    clock = "refold.edges.commands.artifacts.now_ms"
    monkeypatch.setattr(clock, lambda: real() // 1_000_000 + 3_600_000)


def test_artifacts_alone_prints_its_help() -> None:
    result = run("artifact")
    assert result.exit_code == 0 and all(
        f"\n  {name} " in result.stdout for name in ("list", "show", "grep", "remove")
    )
    for name in ("list", "show", "grep", "remove"):
        result = run("artifact", name, "--help")
        assert result.exit_code == 0 and result.stdout.isascii()
    assert run("artifact", "nope").exit_code == 2


def test_list_shows_outputs_by_task_query_and_tool(ids: list[str]) -> None:
    """T-07, T-15."""
    assert [one["id"] for one in as_json("artifact", "list", "work")["artifacts"]] == ids
    assert [
        one["id"] for one in as_json("artifact", "list", "work", "--task", "t1")["artifacts"]
    ] == [ids[1]]
    assert (
        len(
            as_json("artifact", "list", "work", "--query", "what IS wrong?", "--tool", "run")[
                "artifacts"
            ]
        )
        == 3
    )
    assert as_json("artifact", "list", "work", "--tool", "other")["artifacts"] == []
    newest = as_json("artifact", "list", "@1")
    assert newest["conversation"] == "work" and len(newest["artifacts"]) == 3
    [best] = as_json("artifact", "list", "work", "--match", "beta")["artifacts"]
    assert best["id"] == ids[1] and "beta in what the tool was asked" in best["why"]
    shown = run("artifact", "list", "work").stdout
    assert all(id in shown for id in ids) and "run: alpha" in shown
    assert "no such artifacts" in run("artifact", "list", "work", "--task", "none").stdout
    assert (
        "beta in what the tool was asked"
        in run("artifact", "list", "work", "--match", "beta").stdout
    )


def test_show_gives_all_or_some_lines(ids: list[str]) -> None:
    """T-21."""
    assert run("artifact", "show", "work", ids[0]).stdout.startswith("alpha begins\nalpha line 0\n")
    assert (
        run("artifact", "show", "work", ids[0], "--lines", "2-3").stdout
        == "alpha line 0\nalpha line 1\n"
    )
    assert (
        as_json("artifact", "show", "work", f"artifact://{ids[0]}", "--lines", "101")["text"]
        == "alpha line 99"
    )


@pytest.mark.parametrize("text", ["a\nb\n", "a\nb", "", "\n", "\n\n", "x" * 200_000 + "\n"])
def test_what_is_shown_is_what_was_kept(ids: list[str], text: str) -> None:
    """M-102: a line that is not ended is ended for the shell, and nothing else is added."""
    with refold.open("work") as context:
        kept = context.artifacts.put(text, name="x")
    shown = run("context", "show", "work", kept.id).stdout
    assert shown == (text if text.endswith("\n") else f"{text}\n")


def test_grep_finds_lines_in_one_or_all(ids: list[str]) -> None:
    """T-22."""
    assert run("artifact", "grep", "work", "line 99").stdout == "".join(
        f"{id}:101: {name} line 99\n" for id, name in zip(reversed(ids), ("gamma", "beta", "alpha"))
    )
    found = as_json("artifact", "grep", "work", "^ALPHA l.*9{2}$", ids[0], "-e", "-i")
    assert (
        found["lines"] == [{"artifact": ids[0], "line": 101, "text": "alpha line 99"}]
        and found["ended"] == ""
    )
    assert "stopped at 3 lines" in run("artifact", "grep", "work", "line", "--limit", "3").stdout
    assert run("artifact", "grep", "work", "nowhere").stdout == "0 lines found.\n"


@pytest.mark.parametrize(
    ("args", "status", "says"),
    [
        (("list", "nobody"), 3, "refold list"),
        (("show", "work", "art-aaaaaaaaaaaa"), 3, "in this conversation"),
        (("show", "fix-login", "{id}"), 3, "in this conversation"),
        (("show", "work", "../../x"), 2, "handles look like"),
        (("show", "work", "{id}", "--lines", "500"), 2, "lines 1 to 101"),
        (("show", "work", "{id}", "--lines", "x"), 2, "is not of the form"),
        (("grep", "work", ""), 2, "pass the text to search for"),
        (("grep", "work", "(", "-e"), 2, "cannot be used"),
        (("grep", "work", "x", "--wait", "1000"), 2, "--wait"),
        (("remove", "work"), 2, "say what to remove"),
        (("remove", "work", "--older-than", "soon"), 2, "such as 10s"),
        (("remove", "work", "{id}", "--older-than", "1d"), 2, "ARTIFACT excludes"),
        (("remove", "nobody", "--keep-count", "1", "--yes"), 3, "refold list"),
    ],
)
def test_bad_input_is_one_line_and_a_status(
    args: tuple[str, ...], status: int, says: str, ids: list[str]
) -> None:
    result = run("artifact", *(arg.replace("{id}", ids[0]) for arg in args))
    assert result.exit_code == status and says in result.stderr and result.stderr.count("\n") == 1


def test_a_hostile_pattern_ends(ids: list[str], url: str) -> None:
    """T-22."""
    with refold.open("evil", store=url, window=24_000) as context:
        id = context.artifacts.put("a" * 5_000 + "!", name="evil").id
    result = run("artifact", "grep", "evil", "(a+)+$", id, "-e", "--wait", "0.5")
    assert result.exit_code == 0 and "stopped after" in result.stdout


def test_clean_removes_what_no_page_names(
    ids: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T-19."""
    assert (
        as_json("artifact", "remove", "work", "--keep-count", "0", "--yes")["removed"] == []
    )  # all are new
    aged(tmp_path)
    an_hour_later(monkeypatch)
    would = run("artifact", "remove", "--older-than", "30m", "--dry-run").stdout
    assert "2 artifacts would be removed" in would and "the page of work names it" in would
    assert len(as_json("artifact", "list", "work")["artifacts"]) == 3
    done = as_json("artifact", "remove", "work", "--keep-bytes", "1 KB", "--yes")
    assert [one["id"] for one in done["removed"]] == ids[:2] and done["size_bytes"] > 2_000
    listed = as_json("artifact", "list", "work")["artifacts"]
    assert [bool(one["cleaned_ms"]) for one in listed] == [True, True, False]
    assert "[cleaned up 20" in run("artifact", "list", "work").stdout
    gone = run("artifact", "show", "work", ids[0])
    assert (
        gone.exit_code == 3
        and "was cleaned up on 20" in gone.stderr
        and "run: alpha" in gone.stderr
    )
    assert run("artifact", "show", "work", ids[2]).exit_code == 0


def test_hostile_names_and_contents_cannot_steer_the_terminal(url: str) -> None:
    hostile(url)
    for args in (
        ("list", "hostile"),
        ("grep", "hostile", "e"),
        ("list", "hostile", "--match", "red"),
    ):
        shown = run("artifact", *args).stdout
        assert shown and not any(sign in shown for sign in "\x1b\x9b\r\x08\u202e\x00\x7f")
    id = as_json("artifact", "list", "hostile")["artifacts"][-1]["id"]
    shown = run("artifact", "show", "hostile", id).stdout
    assert "\\x1b[31mred" in shown and "\x1b" not in shown and HOSTILE[-1] in shown


def test_an_artifact_is_named_by_how_its_id_begins(url: str) -> None:
    [artifact] = as_json("artifact", "list", "fix-login")["artifacts"]
    id = artifact["id"]
    for typed in (id, id[:8], id[4:9], f"artifact://{id[:8]}"):
        for words in (("artifact", "show", "fix-login", typed), ("show", "fix-login", typed)):
            assert as_json(*words)["handle"] == id
    assert run("artifact", "show", "fix-login", "art-nothing").exit_code == 3


def test_one_artifact_is_deleted_once(url: str) -> None:
    """M-20."""
    [artifact] = as_json("artifact", "list", "fix-login")["artifacts"]
    assert run("artifact", "remove", "fix-login", artifact["id"]).exit_code == 2
    told = as_json("artifact", "remove", "fix-login", artifact["id"], "--yes")
    assert told["removed"]["id"] == artifact["id"] and told["left"] == 0
    again = run("artifact", "remove", "fix-login", artifact["id"], "--yes")
    assert again.exit_code == 3 and "removed already" in again.stderr
    assert run("verify").exit_code == 0


def test_verify_tells_of_artifacts_that_are_named_and_not_there(url: str) -> None:
    """M-04."""
    with refold.open("fix-login", store=url) as context:
        [event] = context.append({"role": "user", "content": "see artifact://art-nowhere"})
    told = run("verify")
    assert (
        told.exit_code == 0
        and "art-nowhere" in told.stdout
        and "everything is as it was written" in told.stdout
    )
    assert [one["seq"] for one in as_json("verify")["remarks"]] == [event.seq]
