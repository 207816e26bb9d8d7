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
from refold.edges.chat.input import with_files
from refold.edges.chat.prompt import paths
from refold.edges.chat.tools import REFUSED, TOOLS, Used, Workspace, environment
from refold.stores import make_key, open_store
from tests.edges.chat.rooms import GivenLines, Replies, chat_in, said, seen
from tests.waiting import LONG_S


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


STORES = {
    "sqlite:work.db": ["work.db", "work.db-wal", "work.artifacts/ab/x", "work.index.db-shm"],
    "files:.mimir/context": [".mimir/context/conversations/talk/messages.jsonl", ".mimir/context"],
    "sqlite:sub/refold.db": [
        "sub/refold.db",
        "sub/artifacts/ab/x",
        "sub/index.db",
        "sub/sync.json",
    ],
    "hybrid:near.db?far=files:far&key=my.key": ["near.db", "near.sync.json", "far/x", "my.key"],
}
OWN = [(url, path) for url, paths in STORES.items() for path in paths]
FORMS = (str, str.upper, "./sub/../{}".format, "link/{}".format)


def in_store(folder: Path, url: str, monkeypatch: Any) -> Any:
    """A chat on a store inside of its folder, in which "precious" was said."""
    monkeypatch.chdir(folder)
    (folder / "sub").mkdir()
    (folder / "link").symlink_to(folder)
    (folder / "work.py").write_text("precious = 1\n")
    if "key=" in url:
        pytest.importorskip("cryptography")
        make_key("my.key")
    chat = chat_in(folder, Replies(), yes=True, store=open_store(url))
    chat.context.append({"role": "user", "content": "precious"})
    chat.store.flush()
    return chat


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("url", "path"), OWN)
def test_no_tool_reaches_the_store(
    url: str, path: str, form: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    chat = in_store(tmp_path, url, monkeypatch)
    asked = form(path)
    for name, more in (
        ("write_file", {"content": "junk"}),
        ("read_file", {}),
        ("edit_file", {"old": "precious", "new": "x"}),
        ("list_files", {}),
        ("grep", {"pattern": "precious"}),
    ):
        used = use(chat, name, path=asked, **more)
        assert used.is_error and "belongs to the store" in used.text, (name, used.text)
    assert with_files(f"@{asked}", chat.workspace, chat.context)[1]


@pytest.mark.parametrize("url", STORES)
def test_a_list_and_a_search_pass_over_the_store(
    url: str, tmp_path: Path, monkeypatch: Any
) -> None:
    chat = in_store(tmp_path, url, monkeypatch)
    assert use(chat, "list_files").text == "work.py  13 bytes"
    assert use(chat, "grep", pattern="precious").text.splitlines()[1:] == [
        "work.py:1: precious = 1"
    ]
    offered = {*paths("", tmp_path, chat.workspace.guards)} - {".mimir/"}
    assert offered == {"work.py", "sub/", "link/"}
    assert not any(name in chat.workspace.guards for name in ("work.py", "memory.py", "sub"))


def test_another_name_of_a_database_is_the_database(tmp_path: Path, monkeypatch: Any) -> None:
    chat = in_store(tmp_path, "sqlite:work.db", monkeypatch)
    os.link("work.db", "twin.txt")
    os.symlink("work.db", "arrow.txt")
    for path in ("twin.txt", "arrow.txt"):
        assert "belongs to the store" in use(chat, "read_file", path=path).text


def test_what_refold_keeps_for_the_user_is_not_reached(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    chat = chat_in(tmp_path, Replies(), yes=True)
    used = use(chat, "write_file", path="data/refold/logins.json", content="{}")
    assert (
        "belongs to the store" in used.text and not (tmp_path / "data/refold/logins.json").exists()
    )


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
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
    used = use(chat, "run_command", command="echo begun; sleep 300", seconds=2)
    assert "begun" in used.text and "not done after 2 s" in used.text
    assert time.monotonic() - began < LONG_S


def test_a_command_that_reads_gets_no_input_and_one_that_floods_is_ended(chat: Any) -> None:
    assert use(chat, "run_command", command="cat").text == "[no output, exit status 0]"
    used = use(chat, "run_command", command="yes", seconds=120)
    assert "bytes of output" in used.text and used.is_error


@pytest.mark.parametrize("dialect", dialects.DIALECTS)
def test_every_provider_takes_the_tools_as_they_are(chat: Any, dialect: str) -> None:
    lost: list[str] = []
    spoken = dialects.dialect(dialect)
    assert len(spoken.definitions(chat.tools.definitions(), lost)) >= 1 and lost == []
    chat.context.append({"role": "user", "content": "go"})
    assert spoken.check(chat.context.request(dialect)) == []
