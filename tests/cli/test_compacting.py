"""A writer on the command line: `refold compact --writer`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.rooms import as_json, run
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
            context.append({"role": role, "content": f"step {n}: " + f"something about the form {n}. " * 30})


@pytest.mark.usefixtures("long")
def test_a_writer_is_named_on_the_command_line_and_its_words_stand_on_the_page() -> None:
    """Y-52, Y-53, Y-90"""
    with serving(Play(chat(WORDS))) as server:
        named = ("--writer", server.url, "--writer-model", "small", "--instructions", "Focus on test results")
        done = as_json(*COMPACT, *named)
    assert done["writer"] == {"asked": 1, "accepted": 1, "calls": 1, "input": 9, "output": 3, "refused": []}
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
        shown = run(*COMPACT, "--writer").stdout
    [(_, headers, body)] = server.seen
    assert (headers["authorization"], body["model"]) == ("Bearer key-of-the-environment", "configured")
    assert "Writer: 1 of 1 summaries accepted, 9 tokens in, 3 out." in shown
    assert "key-of-the-environment" not in shown


@pytest.mark.usefixtures("long")
def test_a_writer_that_fails_is_reported_and_the_page_is_compacted_all_the_same() -> None:
    """Y-49"""
    with serving(Play({"error": "no such model"}, 404)) as server:
        done = run(*COMPACT, "--writer", server.url, "--writer-model", "x")
    assert done.exit_code == 0
    assert "Writer: 0 of 1 summaries accepted" in done.stdout
    assert "refused: Invalid" in done.stdout
    assert "Compacted by summarize" in done.stdout


@pytest.mark.usefixtures("long")
@pytest.mark.parametrize(
    "given",
    [
        ("--writer",), ("--writer-model", "x"), ("--writer", "ftp://x", "--writer-model", "x"),
        ("--writer", "http://localhost"), ("--writer", "http://localhost", "--writer-model", "x", "--writer-kind", "y"),
        ("--writer", "http://me:secret@localhost", "--writer-model", "x"),
    ],
)  # fmt: skip
def test_a_writer_that_is_not_named_in_full_is_refused_before_anything_is_written(given: tuple[str, ...]) -> None:
    refused = run(*COMPACT, *given)
    assert refused.exit_code != 0
    assert "secret" not in refused.output
    assert "nothing to undo" in run("undo", "fix-login").stdout
