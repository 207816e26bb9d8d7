"""`refold compact`: a writer (`--writer`), a task and settings (`--task`, `--set`), and what a
dry run tells."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from refold.display import number
from tests.edges.cli.rooms import as_json, run
from tests.edges.commands.golden import printed
from tests.servers import Play, chat, serving

WORDS = "Goal: make the login work.\nDone: read login.py.\nNext steps: run the tests."
COMPACT = ("compact", "fix-login", "--strategy", "summarize", "--window", "20000")


@pytest.fixture
def long(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The conversation, long enough that a summary has room for prose."""
    import refold

    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with refold.open("fix-login", store=url) as context:
        for n in range(20):
            role = "user" if n % 2 == 0 else "assistant"
            context.append(
                {"role": role, "content": f"step {n}: " + f"something about the form {n}. " * 30}
            )


@pytest.mark.usefixtures("long")
def test_a_writer_is_named_on_the_command_line_and_its_words_stand_on_the_page(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Y-52, Y-53, Y-90"""
    monkeypatch.setenv("REFOLD_WRITER_MODEL", "small")
    with serving(Play(chat(WORDS))) as server:
        named = (
            "--writer",
            server.url,
            "Focus",
            "on test results",
        )
        done = as_json(*COMPACT, *named)
    assert done["writer"] == {
        "asked": 1,
        "accepted": 1,
        "calls": 1,
        "input": 9,
        "output": 3,
        "refused": [],
    }
    [(_, headers, body)] = server.seen
    assert body["model"] == "small"
    assert "Focus on test results" in body["messages"][1]["content"]
    assert "authorization" not in headers
    assert "make the login work" in run("show", "fix-login").stdout


@pytest.mark.usefixtures("long")
def test_a_writer_of_the_settings_is_asked_only_if_the_command_line_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", "key-of-the-environment")
    with serving(Play(chat(WORDS))) as server:
        table = f'[writer]\nurl = "{server.url}"\nmodel = "configured"\nkey_env = "MY_KEY"\n'
        (tmp_path / "refold.toml").write_text(table)
        assert "Writer" not in run(*COMPACT).stdout
        assert server.seen == []
        run("undo", "fix-login")
        assert run(*COMPACT, "--writer", "--dry-run").exit_code == 0
        assert server.seen == []
        refused = run(*COMPACT, "--writer")
        assert refused.exit_code == 7 and "refold allow" in refused.stderr
        assert server.seen == []
        assert run("allow").exit_code == 0
        shown = run(*COMPACT, "--writer").stdout
    [(_, headers, body)] = server.seen
    assert (headers["authorization"], body["model"]) == (
        "Bearer key-of-the-environment",
        "configured",
    )
    assert "Writer: 1 of 1 summary accepted, 9 tokens in, 3 out." in shown
    assert "Conversation coherence preserved" in shown
    assert "key-of-the-environment" not in shown


@pytest.mark.usefixtures("long")
def test_a_writer_that_fails_is_reported_and_the_page_is_compacted_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Y-49"""
    monkeypatch.setenv("REFOLD_WRITER_MODEL", "x")
    with serving(Play({"error": "no such model"}, 404)) as server:
        done = run(*COMPACT, "--writer", server.url)
    assert done.exit_code == 0
    assert "Writer: 0 of 1 summary accepted" in done.stdout
    assert "coherence preserved" not in done.stdout
    assert "refused: " in done.stdout
    assert "Compacted by summarize" in done.stdout


@pytest.mark.usefixtures("long")
@pytest.mark.parametrize(
    ("given", "environ"),
    [
        ("--writer", {}),
        ("--writer=ftp://x", {"REFOLD_WRITER_MODEL": "x"}),
        ("--writer=http://localhost", {}),
        ("--writer=http://localhost", {"REFOLD_WRITER_MODEL": "x", "REFOLD_WRITER_KIND": "y"}),
        ("--writer=http://me:secret@localhost", {"REFOLD_WRITER_MODEL": "x"}),
    ],
)
def test_a_writer_that_is_not_named_in_full_is_refused_before_anything_is_written(
    given: str, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    refused = run(*COMPACT, given)
    assert refused.exit_code != 0
    assert "secret" not in refused.output
    assert "nothing to undo" in run("undo", "fix-login").stdout


# --- settings ---

RELEVANCE = ("compact", "fix-login", "--strategy", "relevance", "--set", "keep_recent=0")


@pytest.mark.usefixtures("long")
@pytest.mark.parametrize("strategy", ["importance", "relevance"])
def test_a_dry_run_lists_what_would_go_with_its_scores(strategy: str) -> None:
    """M-83"""
    before = as_json("show", "fix-login")
    arguments = (
        "compact",
        "fix-login",
        "--strategy",
        strategy,
        "--set",
        "max_tokens=900",
        "--dry-run",
    )
    told = as_json(*arguments)
    shown = " ".join(run(*arguments).stdout.split())
    for item in told["items"]:
        assert re.fullmatch(r"least important \(.*0\.\d\d\)", item["reason"])
        assert f"{item['handle']} hidden" in shown and item["reason"] in shown, "every score"
    pruned = ("context", "prune", "fix-login", "--strategy", strategy, "--max-tokens", "900")
    count = number(as_json(*pruned, "--dry-run")["removed"], "message")
    assert f"Would hide: {count}" in run(*pruned, "--dry-run").stdout
    assert as_json("show", "fix-login") == before
    done = as_json(*pruned)
    assert number(done["removed"], "message") == count, "as many as were foretold"


@pytest.mark.usefixtures("long")
def test_relevance_is_told_a_task_and_a_size() -> None:
    """M-80, M-83: without a size it says what to give; the task decides what stays."""
    refused = run(*RELEVANCE, "--task", "something about the form 4")
    assert refused.exit_code != 0 and "set max_tokens" in refused.stderr
    slots = {}
    for task in ("step 4", "step 16"):
        assert as_json(*RELEVANCE, "--task", task, "--set", "max_tokens=1200")["batch"]
        slots[task] = json.dumps(as_json("show", "fix-login")["slots"])
        run("undo", "fix-login")
    assert "step 4:" in slots["step 4"] and "step 4:" not in slots["step 16"]


@pytest.mark.usefixtures("long")
def test_settings_are_read_as_json_else_as_text() -> None:
    done = as_json(
        *COMPACT[:2], "--strategy", "hide", "--set", "preset=half", "--target", "0", "--dry-run"
    )
    assert done["items"][0]["reason"] == "truncation half"
    done = as_json(*COMPACT[:2], "--strategy", "hide", "--set", "fraction=0.5", "--target", "0")
    assert done["items"][0]["reason"] == "0.5 of the messages"
    run("undo", "fix-login")
    weights = 'weights={"recency": 0, "marks": 2.5}'
    assert (
        run(*COMPACT[:2], "--strategy", "importance", "--set", weights, "--target", "900").exit_code
        == 0
    )


@pytest.mark.usefixtures("long")
@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("--set", "presett=half"), "did you mean preset?"),
        (("--set", "preset"), "NAME=VALUE"),
        (("--set", "=half"), "NAME=VALUE"),
        (("--set", "self=1"), "known: preset, fraction"),
        (("--set", "task=x"), "pass --task"),
        (("--set", "target=5"), "pass --target"),
        (("--set", "fraction=much"), "float"),
        (("--set", "fraction=7"), "from 0 to 1"),
        (("--set", "preset=third"), "known: none"),
        (("--set", "preset=5"), "str"),
    ],
)
@pytest.mark.parametrize("dry", [(), ("--dry-run",)])
def test_a_setting_that_is_none_is_refused_in_one_line(
    given: tuple[str, ...], said: str, dry: tuple[str, ...]
) -> None:
    refused = run(*COMPACT[:2], "--strategy", "hide", "--target", "0", *given, *dry)
    assert refused.exit_code != 0 and refused.stderr.count("\n") == 1
    assert said in refused.stderr and refused.stderr.startswith("refold: ")
    assert "nothing to undo" in run("undo", "fix-login").stdout


@pytest.mark.usefixtures("long")
def test_the_newest_conversation_is_compacted_by_its_number() -> None:
    assert as_json("compact", "@1", "--strategy", "hide", "--target", "900")["batch"]
    assert as_json("undo", "fix-login")["undone"]


def test_the_text_says_what_was_removed_saved_and_put_there(url: str) -> None:
    lines = printed("compact", "fix-login", "--strategy", "gist", "--target", "60").splitlines()
    assert lines[0] == "Compacted by gist: N -> N tokens, 16 -> 6 slots."
    assert lines[1].startswith("  #5-16 summarized, N -> N tokens")
    assert lines[3] == "Removed: 11 messages" and lines[4].startswith("Saved: ")
    assert lines[5] == "Stayed: 5 messages of 16"
    assert lines[6].startswith('Summary: "[Earlier steps #5-16') and len(lines[6]) <= 100
    assert lines[7].startswith("The target of 60 tokens was not reached: ")
    assert "tokens too many: " in lines[7]
    assert lines[8] == "Batch BATCH; refold history fix-login lists all."
    assert lines[9:] == ["Undo with: refold undo fix-login"]


@pytest.mark.usefixtures("long")
def test_a_plan_that_misses_its_target_says_so() -> None:
    for target, is_missed in (("1", True), ("3000", False)):
        planned = run("context", "prune", "fix-login", "--max-tokens", target, "--dry-run")
        shown = " ".join(planned.stdout.split())
        assert planned.exit_code == 0 and "target" in shown
        assert ("would not be reached: " in shown) == is_missed, shown


@pytest.mark.usefixtures("long")
@pytest.mark.parametrize("share", [0, 50, 100, 101, 500, 10**14])
def test_a_target_of_more_than_the_window_is_refused(share: int) -> None:
    done = run(*COMPACT[:2], "--strategy", "hide", "--target", f"{share}%", "--dry-run")
    assert (done.exit_code == 2) == (share > 100)
    assert ("more than the window" in done.stderr) == (share > 100)
