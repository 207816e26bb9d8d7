"""What the files of a project name is used only after the user allowed it: by the command, or at
the terminal."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.edges.cli.rooms import as_json, on_terminal, run

TABLE = '[writer]\nurl = "http://127.0.0.1:9/v1"\nmodel = "m"\nkey_env = "GITHUB_TOKEN"\n'
pytestmark = pytest.mark.usefixtures("alone")


def test_allow_says_what_it_allows_and_revoke_takes_it_back(tmp_path: Path) -> None:
    (tmp_path / "refold.toml").write_text(TABLE)
    shown = run("allow").stdout
    assert "may send texts to http://127.0.0.1:9/v1, with the key in GITHUB_TOKEN" in shown
    assert as_json("allow", "--revoke")["allowed"] is False
    refused = run("compact", "x", "--writer")
    assert refused.exit_code == 7 and "refold allow" in refused.stderr


def test_allow_where_nothing_is_named_says_so() -> None:
    assert "name nothing" in run("allow").stdout


def test_at_a_terminal_the_question_is_asked_and_no_answer_is_no(url: str, tmp_path: Path) -> None:
    (tmp_path / "refold.toml").write_text(TABLE)
    status, text = on_terminal(
        "compact", "fix-login", "--writer", cwd=tmp_path, XDG_DATA_HOME=str(tmp_path / "data"),
        typed="n\n",
    )  # fmt: skip
    assert "Allow? [y]es, [n]o:" in text and "GITHUB_TOKEN" in text
    assert status == 7


def test_at_a_terminal_a_yes_is_remembered(url: str, tmp_path: Path) -> None:
    (tmp_path / "refold.toml").write_text(TABLE)
    place = {"XDG_DATA_HOME": str(tmp_path / "data"), "GITHUB_TOKEN": "x"}
    asked = on_terminal("compact", "fix-login", "--writer", cwd=tmp_path, typed="y\n", **place)
    again = on_terminal("compact", "fix-login", "--writer", cwd=tmp_path, **place)
    assert "Allow?" in asked[1] and "Allow?" not in again[1]
    assert asked[0] == again[0] == 0
