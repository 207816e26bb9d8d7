"""`refold resume`: the agent's own command, in the folder of the session."""

from __future__ import annotations

import os
import uuid
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import refold
from refold.conversations.listing import PROGRAMS, RESUMING, resuming
from refold.edges.cli.screen import Screen
from refold.edges.proxy.supervisor import Ended
from tests.edges.cli.rooms import as_json, run

pytestmark = pytest.mark.usefixtures("alone")
SESSION = "0b5e1c9e-0000-4000-8000-000000000001"


def held(agent: str, folder: str, **more: str) -> None:
    metadata = {"imported": agent, "session": f"{agent}-{SESSION}", "cwd": folder, **more}
    with refold.open("old", store="sqlite:.refold/refold.db") as context:
        context.update(metadata=metadata)
        context.append({"role": "user", "content": "Fix the marmalade test."})


@pytest.mark.parametrize("agent", RESUMING)
def test_the_agent_runs_in_the_folder_of_its_session(
    agent: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs, folder = tmp_path / "bin", tmp_path / "project"
    programs.mkdir()
    folder.mkdir()
    script = programs / PROGRAMS[agent]
    script.write_text(f'#!/bin/sh\npwd > {tmp_path}/ran\necho "$@" >> {tmp_path}/ran\nexit 3\n')
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    held(agent, str(folder))
    here = Path.cwd()
    assert run("resume", "old", "--yes").exit_code == 3
    said = [str(folder), " ".join([*RESUMING[agent][1:], SESSION])]
    assert (tmp_path / "ran").read_text().splitlines() == said
    assert Path.cwd() == here


PLACES = {"here": ".", "by a link": "link", "above": "..", "below": "below", "beside": "../beside"}


@pytest.mark.parametrize("agent", RESUMING)
@pytest.mark.parametrize("place", PLACES)
def test_an_agent_starts_unasked_only_in_the_current_folder(
    place: str, agent: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[tuple[tuple[str, ...], str]] = []

    def run_agent(words: tuple[str, ...], *_: object, **__: object) -> Ended:
        ran.append((tuple(words), os.getcwd()))
        return Ended(status=0)

    monkeypatch.setattr("refold.edges.proxy.supervisor.run_agent", run_agent)
    here = tmp_path / "clone"
    for folder in (here / "below", tmp_path / "beside"):
        folder.mkdir(parents=True)
    (here / "link").symlink_to(here)
    monkeypatch.chdir(here)
    folder = here / PLACES[place]
    held(agent, str(folder))
    words = (*RESUMING[agent], SESSION)
    done = run("resume", "old")
    if place in ("here", "by a link"):
        assert done.exit_code == 0 and ran == [(words, str(here))]
        return
    by_hand = f"cd {folder.resolve()} && {' '.join(words)}"
    assert done.exit_code == 2 and ran == [] and by_hand in done.stderr
    monkeypatch.setattr(Screen, "can_ask", True)
    for answer in ("no", "yes"):
        asked = run("resume", "old", input=f"{answer}\n")
        assert "".join(by_hand.split()) in "".join(asked.stderr.split())
        assert ran == ([(words, str(folder.resolve()))] if answer == "yes" else [])
    assert run("resume", "old", "--yes").exit_code == 0 and len(ran) == 2


@given(folder=st.text("a./~", min_size=1, max_size=8).filter(lambda text: text[0] != "/"))
def test_a_folder_that_is_not_a_whole_path_is_refused_whatever_is_agreed_to(folder: str) -> None:
    held("opencode", folder)
    refused = run("resume", "old", "--yes")
    assert refused.exit_code == 2 and "not a whole path" in refused.stderr


def test_what_cannot_be_resumed_is_refused_with_what_can_be_done(tmp_path: Path) -> None:
    held("claude-code", f"{tmp_path}/gone")
    gone = run("resume", "old")
    assert gone.exit_code == 3 and f"claude --resume {SESSION}" in gone.stderr
    held("aider", str(tmp_path))
    unknown = run("resume", "old")
    assert unknown.exit_code == 2 and "refold chat --resume old" in unknown.stderr


def test_what_a_chat_held_goes_on_in_a_chat(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REFOLD_CHAT_MODEL", "scripted")
    assert run("chat", input="count to 2\n").exit_code == 0
    done = run("resume", "@1", input="count to 3\n")
    assert done.exit_code == 0 and done.stdout.startswith("1 2 3\n")


@given(agent=st.sampled_from([*RESUMING]), words=st.text(max_size=30), session=st.uuids())
def test_only_the_id_of_a_session_becomes_an_argument(
    agent: str, words: str, session: uuid.UUID
) -> None:
    about = {"imported": agent, "session": f"{agent}-{session}"}
    assert resuming(about) == (*RESUMING[agent], str(session))
    assert resuming({**about, "part_of": "other"}) == ()
    assert resuming({**about, "session": f"{agent}-{session}-left-{words}"}) == ()
    assert resuming({**about, "session": f"--{words}"}) == ()
    assert resuming({**about, "imported": "aider"}) == ()


def test_a_search_names_the_commands_that_open_and_continue_a_conversation() -> None:
    held("codex", "/work")
    lines = run("search", "marmalade", "--full-text").stdout.splitlines()
    assert lines[-2:] == ["  open it: refold show old", f"  go on with it: codex resume {SESSION}"]
    found = as_json("search", "marmalade", "--full-text")
    assert found["resuming"] == {"old": ["codex", "resume", SESSION]}


def test_the_command_at_the_end_is_for_the_same_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "claude"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    held("claude-code", str(tmp_path))
    done = run("resume", "old", "--store", "sqlite:.refold/refold.db")
    assert done.exit_code == 0 and "--scan --store sqlite:.refold/refold.db keeps" in done.stderr
