"""Lines that begin with a slash: every command of the table, and the chat's own."""

from __future__ import annotations

import os
import pty
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.edges.chat.prompt import Names, words_for
from refold.edges.chat.scripted import Scripted
from refold.edges.chat.slash import OWN, obey
from refold.edges.chat.start import greet
from refold.edges.commands import COMMANDS
from refold.edges.commands.command_line import table
from refold.edges.commands.session import Session
from refold.stores import open_store
from tests.edges.chat.rooms import GivenLines, chat_in, seen


@pytest.fixture
def chat(tmp_path: Path) -> Any:
    (tmp_path / "a.txt").write_text("alpha\nbeta\n")
    chat = chat_in(tmp_path, Scripted(0), store=open_store(f"sqlite:{tmp_path / 'x.db'}"))
    chat.answer("read a.txt")
    return chat


def told(chat: Any, line: str) -> str:
    before = len(seen(chat))
    assert obey(chat, line) is True
    return seen(chat)[before:]


@pytest.mark.parametrize("name", table())
def test_every_command_of_the_table_has_help_in_a_chat(chat: Any, name: str) -> None:
    own = OWN.get(name)
    assert (own or table()[name]).summary in told(chat, f"/{name} --help")


@pytest.mark.parametrize("name", table())
def test_every_command_of_the_table_runs_or_says_what_it_needs(chat: Any, name: str) -> None:
    text = told(chat, f"/{name}")
    assert text.strip() and "Traceback" not in text
    assert "refold: internal" not in text
    assert obey(chat, "/stats")


def test_commands_work_on_the_open_conversation(chat: Any) -> None:
    chat.answer("count to 3")
    chat.answer("count to 4")
    slots = len(chat.context.view.slots)
    assert "Undo with: /undo" in told(chat, "/compact --target 1900")
    assert len(chat.context.view.slots) < slots
    assert "Undone" in told(chat, "/undo")
    assert len(chat.context.view.slots) == slots
    assert '"conversation": "talk"' in told(chat, "/stats --json")


def test_a_typo_is_answered_with_the_nearest_name(chat: Any) -> None:
    assert "did you mean /undo?" in told(chat, "/undoo")
    assert "did you mean /resume?" in told(chat, "/resum")
    assert "/help lists them" in told(chat, "/")


def listed(text: str) -> list[str]:
    return re.findall(r"(?<!\S)/[a-z-]+", text)


def test_whatever_help_names_can_be_asked_about_and_typed(chat: Any) -> None:
    for name in listed(told(chat, "/help")):
        text = told(chat, f"/help {name.removeprefix('/')}")
        assert text.strip() and "there is no command" not in text and "for a shell" not in text
        assert "there is no command" not in told(chat, f"{name} --help")


SHELL_ONLY = [name for name, entry in COMMANDS.items() if entry.is_shell_only and name not in OWN]


@pytest.mark.parametrize("name", [*SHELL_ONLY, "token"])
def test_a_command_of_the_shell_says_so_in_a_chat(chat: Any, name: str) -> None:
    for line in (f"/{name}", f"/help {name}", f"/{name} --help", f"/{name} x"):
        text = " ".join(told(chat, line).split())
        assert "is for a shell, not for a chat; refold " in text and " --help" in text
    # A group may have commands for the chat beside those for a shell: /sync, and `sync key new`.
    first = name.split()[0]
    assert (f"/{first}" in listed(told(chat, "/help"))) is (first in table())


def test_help_lists_the_chats_own_commands(chat: Any) -> None:
    assert {f"/{name}" for name in OWN} <= {*listed(told(chat, "/help"))}


def test_a_command_before_the_first_message_finds_its_conversation(tmp_path: Path) -> None:
    chat = chat_in(tmp_path, Scripted(0), id="fresh")
    text = told(chat, "/stats")
    assert "Conversation: fresh" in text and "Model: scripted" in text and "24,000" in text


@pytest.mark.parametrize("name", table())
def test_no_command_misses_a_conversation_that_has_not_begun(tmp_path: Path, name: str) -> None:
    store = open_store(f"sqlite:{tmp_path / 'x.db'}")
    text = told(chat_in(tmp_path, Scripted(0), id="fresh", store=store), f"/{name}")
    assert "there is no conversation" not in text and "refold list" not in text


def test_an_error_says_what_to_do_in_words_of_the_chat(chat: Any) -> None:
    text = told(chat, "/show 999 --why")
    assert "there is no message #999" in text and "refold " not in text
    assert "/memory list" in told(chat, "/memory forget")


def test_the_model_can_be_changed_and_limits_follow(chat: Any) -> None:
    """Y-84"""
    assert "scripted, with a window of 24,000" in told(chat, "/model")
    assert "openai:gpt-4o, with a window of 128,000" in told(chat, "/model openai:gpt-4o")
    assert chat.context.budget.window == 128_000
    assert "names no provider" in told(chat, "/model opnai:x")
    assert "did you mean scripted?" in told(chat, "/model scriptd")
    assert ", scripted" in told(chat, "/model zzzzzz")
    assert chat.endpoint.model.name == "gpt-4o"


def test_a_switch_to_a_smaller_window_compacts_before_the_next_call(chat: Any) -> None:
    """Y-84"""
    told(chat, "/model openai:gpt-4o")
    for n in range(60):
        role = "assistant" if n % 2 else "user"
        chat.context.append({"role": role, "content": f"{n} " + "word " * 600})
    assert chat.context.stats().current > 30_000
    told(chat, "/model scripted")
    assert chat.context.stats().due == "compact"
    before = len(seen(chat))
    chat.answer("count to 3")
    assert "Compaction complete (" in seen(chat)[before:]


def test_a_fork_goes_its_own_way_and_one_can_go_back(chat: Any) -> None:
    """Y-81"""
    assert "a fork of talk" in told(chat, "/fork other")
    chat.answer("count to 3")
    assert chat.context.id == "other"
    told(chat, "/resume talk")
    assert chat.context.id == "talk" and len(chat.context.view.slots) == 4
    listed = told(chat, "/resume")
    assert "@1 other" in listed and "Fork of read a.txt" in listed
    assert "no conversation" in told(chat, "/resume nowhere")
    assert chat.context.id == "talk"


def test_a_number_is_what_the_list_of_this_terminal_showed(
    chat: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, theirs = pty.openpty()
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    with os.fdopen(ours), os.fdopen(theirs) as stream:
        monkeypatch.setattr(sys, "stdin", stream)
        told(chat, "/fork other")
        chat.answer("count to 3")
        assert "@1 other" in told(chat, "/resume")
        told(chat, "/resume talk")
        chat.answer("count to 3")
        assert "This is other" in told(chat, "/resume @1")
        assert "the last list in this terminal has no @7" in told(chat, "/resume @7")
        assert any(row.startswith("@1 ") for row in told(chat, "/list").splitlines())
        assert "This is talk" in told(chat, "/resume @1")


def test_a_fork_takes_what_the_table_says(chat: Any) -> None:
    seq = chat.context.view.slots[1].seq
    assert f"f2, a fork of talk at #{seq}" in told(chat, f"/fork f2 --at {seq}")
    assert chat.context.id == "f2" and len(chat.context.view.slots) == 2
    told(chat, "/resume talk")
    assert f"--at {seq} forks there" in told(chat, f"/fork {seq}")
    assert "there is no checkpoint 'nowhere'" in told(chat, "/fork f3 --at nowhere")
    assert "unexpected extra argument (two)" in told(chat, "/fork one two")
    assert chat.context.id == "talk"


@pytest.mark.parametrize("name", OWN)
def test_the_chats_own_commands_have_one_help_text(chat: Any, name: str) -> None:
    text = told(chat, f"/help {name}")
    assert text == told(chat, f"/help /{name}") == told(chat, f"/{name} --help")
    assert OWN[name].summary in text and f"Usage: /{name}" in text
    assert name not in table() or OWN[name].summary == table()[name].summary


def test_a_batch_to_undo_is_completed(chat: Any) -> None:
    chat.answer("count to 3")
    told(chat, "/compact --target 1900")
    [batch] = [one.id for one in chat.context.log.batches()]
    names = Names(Path("."), Session.holding(chat.context, chat.store), OWN)
    assert words_for("/undo ", names) == [batch]


def test_help_of_what_is_not_there_names_only_what_a_chat_has(chat: Any) -> None:
    text = told(chat, "/help zzzzzzz")
    assert "known: " in text and "serve" not in text and "login" not in text


def test_a_new_conversation_starts_empty(chat: Any) -> None:
    told(chat, "/new")
    assert chat.context.id.startswith("chat-") and not chat.context.view.slots
    told(chat, "/fork x")
    assert "nothing to fork" in seen(chat)


def test_a_conversation_that_is_deleted_is_left(chat: Any) -> None:
    assert "a new conversation" in told(chat, "/delete talk --yes")
    chat.answer("count to 3")
    assert chat.context.id != "talk" and len(chat.context.view.slots) == 2


def test_exit_ends_the_chat(chat: Any) -> None:
    assert obey(chat, "/exit") is False
    chat.lines = GivenLines("/quit", "count to 3")
    chat.run(obey)
    assert chat.lines.lines == ["count to 3"]


@given(st.text(max_size=30))
def test_any_line_is_a_command_or_a_clear_refusal(text: str) -> None:
    chat = chat_in(Path("."), Scripted(0))
    if text.split()[:1] not in (["doctor"], ["exit"], ["quit"]):
        assert obey(chat, "/" + text) in (True, False)


def test_a_chat_begins_with_where_one_is(chat: Any, tmp_path: Path) -> None:
    greet(chat)
    where = f"scripted in {tmp_path}; /help lists the commands"
    # The path may be longer than a line.
    solid = "".join(seen(chat).split())
    assert solid.endswith("".join(f"{where} This is talk: read a.txt (4 messages)".split()))


# --- completion ---


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("/und", ["/undo"]),
        ("/res", ["/restore", "/resume"]),
        ("/artifact s", ["show"]),
        ("/context mess", ["messages"]),
        ("/compact --dry", ["--dry-run"]),
        ("/pin #", ["#5", "#6", "#8", "#9"]),
        ("/resume t", ["talk"]),
        ("/model scr", ["scripted"]),
        ("/model openai:gpt-4o-m", ["openai:gpt-4o-mini"]),
        ("/model t", []),
        ("/fork f2 --a", ["--at"]),
        ("/fork f2 --at he", ["here"]),
        ("/context add sr", ["src/"]),
        ("look at @s", ["@setup.cfg", "@src/"]),
        ("look at @src/", ["@src/a.py"]),
        ("look at @my", ["@my\\ notes.txt"]),
        ("look at @my\\ n", ["@my\\ notes.txt"]),
        ('look at @"my', ['@"my notes.txt"']),
        ('look at @"my n', ['@"my notes.txt"']),
        ('look at @"src', ['@"src/']),
        ('look at @"src/', ['@"src/a.py"']),
        ('look at @"s', ['@"setup.cfg"', '@"src/']),
        ("look at @../", []),
        ("look at @/etc/", []),
        ("hello", []),
    ],
)
def test_what_can_stand_there_is_completed(
    chat: Any, tmp_path: Path, text: str, found: list[str]
) -> None:
    (tmp_path / "src").mkdir(exist_ok=True)
    (tmp_path / "src/a.py").touch()
    (tmp_path / "setup.cfg").touch()
    (tmp_path / "my notes.txt").touch()
    chat.context.checkpoint("here")
    session = Session.holding(chat.context, chat.store)
    names = Names(tmp_path, session, OWN)
    assert words_for(text, names) == found


@given(st.text(max_size=30))
def test_any_text_can_be_completed(text: str) -> None:
    assert isinstance(words_for(text, Names(Path("/usr/share"))), list)


@pytest.mark.parametrize("name", ["talk", "other", "other.1"])
def test_new_never_opens_what_is_there(chat: Any, name: str) -> None:
    if name != "talk":
        told(chat, f"/new {name}")
        chat.answer("count to 3")
        told(chat, "/resume talk")
    text = " ".join(told(chat, f"/new {name}").split())
    assert "already exists" in text and f"/resume {name} continues it" in text
    assert chat.context.id == "talk"


@pytest.mark.parametrize("adding", ["add a.txt", "add-folder .", "add-search alpha"])
def test_what_is_added_is_no_request(chat: Any, adding: str) -> None:
    request = chat.context.view.request
    for _ in range(3):
        told(chat, f"/context {adding}")
    added = chat.context.view.slots[-1].seq
    assert chat.context.view.request == request < added
    assert "is the latest request, which stays" in told(chat, f"/hide {request}")
    assert "Hidden: 1 message" in told(chat, f"/hide {added}")


@pytest.mark.parametrize("line", ["/etc/passwd is what?", "/zzzzzz", "/home/undo", "/123 why"])
def test_a_line_that_is_no_command_says_how_it_reaches_the_model(chat: Any, line: str) -> None:
    text = " ".join(told(chat, line).split())
    assert "/help lists them; with a space before it, the line goes to the model" in text
