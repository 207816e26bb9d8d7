"""The tools: what they reach, what they refuse, and whom they ask."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from refold import dialects
from refold.edges.chat.process import environment
from refold.edges.chat.tools import REFUSED, TOOLS, Used
from refold.edges.chat.workspace import Workspace
from tests.edges.chat.rooms import GivenLines, Replies, chat_in, said, seen


def use(chat: Any, name: str, **arguments: Any) -> Used:
    with chat.interrupts:
        used: Used = chat.tools.call(name, arguments)
    return used


@pytest.fixture
def chat(tmp_path: Path) -> Any:
    (tmp_path / "src").mkdir()
    (tmp_path / "src/a.py").write_text("one\ntwo\nthree\n")
    (tmp_path / "b.txt").write_text("two\n")
    (tmp_path / "node_modules").mkdir()
    (tmp_path / "node_modules/x.js").write_text("two")
    (tmp_path / "data.bin").write_bytes(b"two\0\n")
    return chat_in(tmp_path, Replies(), yes=True)


# --- reading ---


def test_files_are_listed_without_what_is_made_by_machines(chat: Any) -> None:
    assert use(chat, "list_files").text.splitlines() == [
        "src/a.py  14 bytes",
        "b.txt  4 bytes",
        "data.bin  5 bytes",
    ]
    assert use(chat, "list_files", path="src").text == "src/a.py  14 bytes"
    assert use(chat, "list_files", path="nowhere").is_error


def test_some_lines_of_a_file_are_read(chat: Any) -> None:
    assert use(chat, "read_file", path="src/a.py").text == "one\ntwo\nthree"
    part = use(chat, "read_file", path="src/a.py", first_line=2, last_line=2).text
    assert part == "two\n[lines 2 to 2 of 3]"
    assert use(chat, "read_file", path="src/a.py", first_line=9).is_error
    for path in ("data.bin", "src", "nothing", "../x", "/etc/passwd", "a\0b", ""):
        assert use(chat, "read_file", path=path).is_error, path


def test_lines_are_found_with_their_places(chat: Any) -> None:
    assert use(chat, "grep", pattern="two").text.splitlines() == [
        "[2 lines in 3 files]",
        "src/a.py:2: two",
        "b.txt:1: two",
    ]
    assert "src/a.py:3: three" in use(chat, "grep", pattern="^th", regex=True, path="src").text
    assert (
        "src/a.py:1: one"
        in use(chat, "grep", pattern="ONE", ignore_case=True, path="src/a.py").text
    )
    assert use(chat, "grep", pattern="(", regex=True).is_error


# --- changing ---


def test_a_write_is_shown_asked_for_and_kept(tmp_path: Path) -> None:
    lines = GivenLines(answers=["no", "y", "a"])
    chat = chat_in(tmp_path, Replies(), lines)
    assert use(chat, "write_file", path="a/b.txt", content="x\n") == Used(REFUSED, True)
    assert not (tmp_path / "a").exists()
    assert not use(chat, "write_file", path="a/b.txt", content="x\n").is_error
    assert not use(chat, "edit_file", path="a/b.txt", old="x", new="y").is_error
    assert not use(chat, "write_file", path="c.txt", content="always").is_error
    assert lines.asked == [
        "Create a/b.txt? [y]es, [n]o, [a]lways:",
        "Create a/b.txt? [y]es, [n]o, [a]lways:",
        "Change a/b.txt? [y]es, [n]o, [a]lways:",
    ]
    assert "-x" in seen(chat) and "+y" in seen(chat)
    assert (tmp_path / "a/b.txt").read_text() == "y\n"
    changes = chat.context.restore(0, files=True, root=tmp_path).changes
    assert [(one.path, one.change) for one in changes] == [
        ("a/b.txt", "remove"),
        ("c.txt", "remove"),
    ]


def test_always_holds_for_writing_and_not_for_running(tmp_path: Path) -> None:
    lines = GivenLines(answers=["always", "n"])
    chat = chat_in(tmp_path, Replies(), lines)
    assert not use(chat, "write_file", path="a", content="x").is_error
    assert use(chat, "run_command", command="true").is_error


def test_where_nobody_can_be_asked_nothing_is_changed(tmp_path: Path) -> None:
    chat = chat_in(tmp_path, Replies(), GivenLines(can_ask=False))
    assert use(chat, "write_file", path="a", content="x").is_error
    assert use(chat, "run_command", command="touch a").is_error
    assert list(tmp_path.glob("a")) == []


def test_a_chat_that_only_reads_offers_nothing_else(tmp_path: Path) -> None:
    chat = chat_in(tmp_path, Replies(), offered="reading", yes=True)
    offered = {tool["name"] for tool in chat.tools.definitions()}
    changing = {name for name, tool in TOOLS.items() if tool.changes}
    assert not offered & changing and "read_file" in offered and "refold_search" in offered
    for name in changing:
        assert use(chat, name, path="a", content="x", old="a", new="b", command="touch a").is_error
    assert list(tmp_path.glob("a")) == []


def test_a_chat_may_offer_no_tool_at_all(tmp_path: Path) -> None:
    chat = chat_in(tmp_path, Replies(said("hi")), offered="none", yes=True)
    chat.answer("go")
    assert chat.tools.definitions() == [] and "tools" not in chat.endpoint.requests[0]
    assert use(chat, "list_files").is_error


def test_an_edit_needs_a_text_that_is_there_once(chat: Any, tmp_path: Path) -> None:
    assert "0 times" in use(chat, "edit_file", path="b.txt", old="nine", new="x").text
    (tmp_path / "b.txt").write_text("two two")
    assert "2 times" in use(chat, "edit_file", path="b.txt", old="two", new="x").text
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9 two")
    assert use(chat, "edit_file", path="latin.txt", old="two", new="x").is_error
    assert (tmp_path / "latin.txt").read_bytes() == b"caf\xe9 two"


@pytest.mark.parametrize(
    "path",
    ["../x", "/tmp/x-of-chat", ".git/hooks/pre-commit", ".refold/x", "sub/.git/config", "out/x"],
)
def test_nothing_is_written_outside_of_the_folder_or_into_its_history(
    chat: Any, tmp_path: Path, path: str
) -> None:
    (tmp_path / "out").symlink_to(tmp_path.parent)
    used = use(chat, "write_file", path=path, content="x")
    assert used.is_error and used.text.startswith("Error: ")
    assert not (tmp_path / path).exists() or path == "/tmp/x-of-chat"


def test_another_folder_can_be_allowed(tmp_path: Path) -> None:
    home, other = tmp_path / "home", tmp_path / "other"
    home.mkdir()
    other.mkdir()
    (other / "a.txt").write_text("hi")
    assert Workspace(home, (other,)).text(str(other / "a.txt")) == "hi"
    assert Workspace(home, (other,)).text("../other/a.txt") == "hi"


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.sampled_from([*TOOLS, "refold_unfold", "recall", "x"]), st.dictionaries(
    st.sampled_from(["path", "pattern", "command", "content", "old", "new", "x", "handle", "query"]),
    st.text(max_size=8) | st.integers() | st.none(), max_size=4))  # fmt: skip
def test_whatever_a_model_asks_for_the_answer_is_a_text(
    tmp_path: Path, name: str, arguments: dict[str, Any]
) -> None:
    chat = chat_in(tmp_path, Replies(), GivenLines(can_ask=False))
    assert isinstance(use(chat, name, **arguments).text, str)


# --- commands ---


def test_a_command_runs_in_the_folder_without_the_keys(chat: Any, monkeypatch: Any) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    used = use(chat, "run_command", command="pwd; echo [$OPENAI_API_KEY]; echo oops >&2; exit 3")
    assert used.is_error and used.text.splitlines()[1:] == ["[]", "oops", "[exit status 3]"]
    assert "OPENAI_API_KEY" not in environment(os.environ)


def test_a_command_that_takes_too_long_is_ended(chat: Any) -> None:
    began = time.monotonic()
    used = use(chat, "run_command", command="echo begun; sleep 60", seconds=1)
    assert "begun" in used.text and "not done after 1 s" in used.text
    assert time.monotonic() - began < 30


def test_a_command_that_reads_gets_no_input_and_one_that_floods_is_ended(chat: Any) -> None:
    assert use(chat, "run_command", command="cat").text == "[no output, exit status 0]"
    used = use(chat, "run_command", command="yes", seconds=30)
    assert "bytes of output" in used.text and used.is_error


@pytest.mark.parametrize("dialect", dialects.DIALECTS)
def test_every_provider_takes_the_tools_as_they_are(chat: Any, dialect: str) -> None:
    lost: list[str] = []
    spoken = dialects.dialect(dialect)
    assert len(spoken.definitions(chat.tools.definitions(), lost)) >= 1 and lost == []
    chat.context.append({"role": "user", "content": "go"})
    assert spoken.check(chat.context.request(dialect)) == []
