"""Our hooks go into the settings of Claude Code and out again, and nothing else of them changes."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.edges import host_config
from refold.edges.hooks import state
from refold.edges.hooks.state import EVENTS, HOOKS, STATUS_LINE, with_hooks, without_hooks
from refold.errors import Conflict, Invalid
from tests.edges.cli.rooms import run

pytestmark = pytest.mark.usefixtures("project")

COMMAND = "/bin/refold hook claude-code event --above 16000"
LINE = "/bin/refold statusline --color"
FOREIGN = {
    "model": "opus",
    "permissions": {"allow": ["Bash(ls:*)"], "deny": []},
    "hooks": {
        "PostToolUse": [{"matcher": "Edit", "hooks": [{"type": "command", "command": "fmt"}]}],
        "Notification": [{"hooks": [{"type": "command", "command": "bell"}]}],
    },
    "statusLine": {"type": "command", "command": "mine"},
}

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip
commands = st.sampled_from(["fmt", "refold list", "echo hook claude-code", "bell"])
hooks = st.fixed_dictionaries({"type": st.just("command"), "command": commands})
entries = st.fixed_dictionaries(
    {"hooks": st.lists(hooks, min_size=1, max_size=2)}, optional={"matcher": st.text(max_size=4)}
)
events = st.sampled_from([*EVENTS, "PreToolUse", "Notification"])
tables = st.dictionaries(events, st.lists(entries, min_size=1, max_size=2), min_size=1, max_size=4)
any_settings = st.dictionaries(
    st.text(max_size=6).filter(lambda key: key not in (HOOKS, STATUS_LINE)), values, max_size=4
)
line = st.fixed_dictionaries({"type": st.just("command"), "command": commands})
with_some = st.tuples(any_settings, st.none() | tables, st.none() | line).map(
    lambda three: {
        **three[0],
        **({HOOKS: three[1]} if three[1] else {}),
        **({STATUS_LINE: three[2]} if three[2] else {}),
    }
)


def installed(settings: Any) -> Any:
    return with_hooks(settings, command=COMMAND, status_line=LINE)


@given(with_some)
def test_out_again_gives_the_same_settings_in_the_same_order(settings):
    again = without_hooks(installed(settings))
    assert json.dumps(again) == json.dumps(settings)


@given(with_some)
def test_twice_is_once(settings):
    once = installed(settings)
    assert installed(once) == once


@given(with_some)
def test_everything_of_others_stays(settings):
    made = installed(settings)
    for key, value in settings.items():
        if key != HOOKS:
            assert made[key] == value
    for event, before in settings.get(HOOKS, {}).items():
        assert made[HOOKS][event][: len(before)] == before
    assert set(EVENTS) <= set(made[HOOKS])


def test_another_path_or_size_takes_the_place_of_the_first():
    other = "/other/refold hook claude-code event --above 5000"
    made = with_hooks(installed(FOREIGN), command=other, status_line=LINE)
    text = json.dumps(made)
    assert COMMAND not in text and text.count(other) == len(EVENTS)


def test_a_hook_of_ours_beside_one_of_others_goes_alone():
    ours = {"type": "command", "command": COMMAND}
    settings = {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "bell"}, ours]}]}}
    kept = {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "bell"}]}]}}
    assert without_hooks(settings) == kept


@pytest.mark.parametrize("hooks", [[], "x", 7, {"PostToolUse": {}}, {"Stop": "x"}])
def test_what_is_not_what_claude_code_takes_is_told_and_left(hooks, project):
    path = state.place_of("local")
    path.parent.mkdir()
    path.write_text(json.dumps({"hooks": hooks}))
    with pytest.raises(Invalid, match="hooks"):
        installed({"hooks": hooks})
    before = path.read_bytes()
    assert run("install", "claude-code", "--hooks", "--yes").exit_code == 2
    assert path.read_bytes() == before


@pytest.mark.parametrize("text", ["{", "[]", "// a comment\n{}", '{"a": 1,}', "[" * 50_000])
def test_a_file_that_cannot_be_read_is_left_as_it_is(text, project):
    path = state.place_of("local")
    path.parent.mkdir()
    path.write_text(text)
    done = run("install", "claude-code", "--hooks", "--yes")
    assert done.exit_code == 2
    assert "fix the file first" in done.stderr
    assert path.read_text() == text


# --- the file ---


def test_installing_and_uninstalling_gives_the_same_bytes(project):
    path = state.place_of("local")
    path.parent.mkdir()
    path.write_text(json.dumps(FOREIGN, indent="\t") + "\n")
    before = path.read_bytes()
    assert run("install", "claude-code", "--hooks", "--yes").exit_code == 0
    assert json.loads(path.read_bytes())[STATUS_LINE]["command"] == "mine"
    assert run("install", "claude-code", "--hooks", "--remove", "--yes").exit_code == 0
    assert path.read_bytes() == before


def test_a_file_that_install_made_goes_with_uninstall(project):
    path = state.place_of("local")
    assert run("install", "claude-code", "--hooks", "--yes").exit_code == 0
    assert run("install", "claude-code", "--hooks", "--remove", "--yes").exit_code == 0
    assert not path.exists()


def test_the_change_is_shown_and_without_anybody_to_ask_it_is_not_made(project):
    done = run("install", "claude-code", "--hooks")
    assert done.exit_code == 2
    assert "--yes" in done.stderr
    assert '+            "type": "command",' in done.stdout
    assert not state.place_of("local").exists()


def test_done_twice_it_says_so(project):
    run("install", "claude-code", "--hooks", "--yes")
    assert "has the hooks already" in run("install", "claude-code", "--hooks", "--yes").stdout
    run("install", "claude-code", "--hooks", "--remove", "--yes")
    assert (
        "no hooks of refold" in run("install", "claude-code", "--hooks", "--remove", "--yes").stdout
    )


def test_each_scope_is_a_file_of_its_own(project, monkeypatch):
    assert state.place_of("local") == project / ".claude" / "settings.local.json"
    assert state.place_of("project") == project / ".claude" / "settings.json"
    assert state.place_of("user") == Path.home() / ".claude" / "settings.json"
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(project / "config"))
    assert state.place_of("user") == project / "config" / "settings.json"
    done = run("install", "claude-code", "--hooks", "--yes", "--scope", "user")
    assert "--remove --scope user" in done.stdout
    assert (project / "config" / "settings.json").exists()


def test_store_and_size_are_in_the_command(project):
    run("install", "claude-code", "--hooks", "--yes", "--above", "5000", "--store", "sqlite:a b.db")
    text = state.place_of("local").read_text()
    assert "event --above 5000 --store 'sqlite:a b.db'" in text


def test_a_link_stays_a_link_and_its_mode_stays(project):
    path = state.place_of("local")
    path.parent.mkdir()
    real = project / "dotfile.json"
    real.write_text("{}")
    real.chmod(0o600)
    path.symlink_to(real)
    run("install", "claude-code", "--hooks", "--yes")
    assert path.is_symlink()
    assert "hook claude-code event" in real.read_text()
    assert real.stat().st_mode & 0o777 == 0o600


def test_a_file_that_somebody_changed_meanwhile_is_not_written(project):
    path = project / "settings.json"
    path.write_text('{"a": 1}')
    with pytest.raises(Conflict):
        host_config.write(path, b"{}", "{}\n")
    assert path.read_text() == '{"a": 1}'
    assert [one.name for one in project.iterdir()] == ["settings.json"]


def test_the_program_is_named_by_its_whole_path(monkeypatch, tmp_path):
    found = tmp_path / "a b" / "refold"
    found.parent.mkdir()
    found.write_text("#!/bin/sh\n")
    found.chmod(0o755)
    monkeypatch.setattr(sys, "argv", [os.path.relpath(found, tmp_path / "project"), "hook"])
    assert host_config.program() == str(found)
