"""The command lines of the guide are understood, and words after a program are the program's."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from refold.edges.cli.app import _own_words
from refold.edges.proxy import serve
from tests.edges.cli.rooms import run

GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "proxy.md"


def test_the_command_lines_of_the_guide_are_understood(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = re.findall(r"^    refold (.+)$", GUIDE.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(lines) >= 6
    for line in lines:
        words = shlex.split(line)
        if words[0] == "run":
            program = next(word for word in words if word in ("claude", "codex"))
            words = words[: words.index(program)]
        assert run(*words, "--help").exit_code == 0, line


@pytest.mark.parametrize(
    ("words", "own"),
    [
        (["run", "--json", "claude", "--debug"], ["--json"]),
        (["run", "claude", "--json"], []),
        (["list", "x", "--json"], ["list", "x", "--json"]),
    ],
)
def test_options_after_a_program_are_the_programs(words: list[str], own: list[str]) -> None:
    assert _own_words(words) == own


def test_a_proxy_is_checked_without_being_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with serve.listen("127.0.0.1", 0) as taken:
        port = str(taken.getsockname()[1])
        refused = run("proxy", "--check", "--port", port)
        assert refused.exit_code and "cannot listen" in refused.stderr
        refused = run("proxy", "--port", port)
        assert "cannot listen" in refused.stderr and "BASE_URL" not in refused.stderr
    done = run("proxy", "--check", "--fold", "--port", port)
    assert done.exit_code == 0 and f"http://127.0.0.1:{port} folds into" in done.stdout
    assert list(tmp_path.iterdir()) == []
    refused = run("proxy", "--check", "--host", "0.0.0.0")
    assert refused.exit_code == 2 and "--name" in refused.stderr
