"""Every command of the designs does its work through both doors: the shell, and a line of a chat
that holds its conversation open."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import refold
from refold.edges.cli.options import parse
from refold.edges.cli.screen import Screen
from refold.edges.commands import ALIASES, COMMANDS
from refold.edges.commands.command import builtins_of
from refold.edges.commands.command_line import table
from refold.edges.commands.session import Session
from refold.errors import Denied, Invalid, NotFound, RefoldError
from refold.stores import open_store
from tests.edges.cli.rooms import as_json, on_terminal, run
from tests.edges.commands.golden import refused

pytestmark = pytest.mark.usefixtures("alone")


class Chat:
    """A program that has its conversation open and reads lines."""

    def __init__(self, url: str) -> None:
        self.store = open_store(url)
        self.context = refold.Context(self.store, "fix-login", config=refold.Config())

    def result(self, line: str) -> Any:
        """What a line gives, as plain values."""
        command, arguments, _ = parse(line)
        with Session.holding(self.context, self.store) as session:
            return builtins_of(command.run(session, arguments))

    def text(self, line: str) -> str:
        """What a person reads."""
        command, arguments, _ = parse(line)
        out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
        screen = Screen(out=out, is_shell=False)
        with Session.holding(self.context, self.store, screen=screen) as session:
            command.show(command.run(session, arguments), screen)
        return out.buffer.getvalue().decode()  # type: ignore[attr-defined]


@pytest.fixture
def chat(url: str) -> Iterator[Chat]:
    opened = Chat(url)
    yield opened
    opened.context.close()
    opened.store.close()


Door = Callable[[str], Any]


@pytest.fixture(params=["shell", "chat"])
def door(request: pytest.FixtureRequest, url: str) -> Iterator[Door]:
    """`door("context messages --role user")`, in either way, as plain values."""
    if request.param == "chat":
        opened = Chat(url)
        yield lambda line: opened.result(f"/{line}")
        opened.context.close()
        opened.store.close()
        return

    def shell(line: str) -> Any:
        command, _, _ = parse(f"/{line}")
        words = line.split()
        typed = [" ".join(words[:count]) for count in (2, 1)]
        name = next(name for name in typed if name in ALIASES or name in COMMANDS)
        at = len(name.split())
        is_on_one = command.on in ("conversation", "either") or name == "context search"
        id = ["fix-login"] if is_on_one else []
        found = as_json(*words[:at], *id, *words[at:])
        if "error" in found:
            raise RefoldError(found["error"]["message"], hint=found["error"]["hint"])
        del found["schema_version"]
        return found

    yield shell


def test_a_glance(door: Door) -> None:
    """M-100"""
    seen = door("context")
    assert seen["overview"]["messages"] == {"user": 5, "assistant": 6, "tool": 5}
    assert seen["overview"]["artifacts"] == {"command_output": 1}
    assert sum(part["tokens"] for part in seen["parts"]) == seen["overview"]["window"]
    used = sum(one["tokens"] for one in seen["parts"] if one["name"] not in ("free", "reserve"))
    assert used == seen["overview"]["current"] == door("context stats")["current"]


def test_messages_by_role(door: Door) -> None:
    """M-101"""
    assert len(door("context messages")["messages"]) == 16
    listed = door("context messages --role user")["messages"]
    assert len(listed) == 5 and {one["role"] for one in listed} == {"user"}
    door("compact --strategy hide --target 60")
    shown = {one["shown"] for one in door("context messages")["messages"]}
    assert "hidden" in shown


def test_artifacts_and_what_they_hold(door: Door) -> None:
    """M-102"""
    [artifact] = door("context artifacts")["artifacts"]
    for name in (artifact["id"], f"artifact://{artifact['id']}"):
        assert door(f"context show {name} --lines 1-2")["text"].splitlines() == ["def login():"] * 2


def test_figures_are_those_of_the_library(door: Door, url: str) -> None:
    """M-103"""
    with refold.open("fix-login", store=url, read_only=True) as context:
        stats = context.stats()
    found = door("context stats")
    assert (found["current"], found["messages"], found["cost"]) == (
        stats.current,
        stats.messages,
        stats.cost,
    )


def test_a_file_a_folder_and_a_search_are_added(door: Door, tmp_path: Path) -> None:
    """M-104"""
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "auth.py").write_text("def login(a+b):\n    pass\n" * 3)
    (tmp_path / "src" / "junk.log").write_text("def login(a+b)")
    (tmp_path / ".gitignore").write_text("*.log\n")
    before = len(door("context messages")["messages"])
    file = door("context add src/auth.py")
    folder = door("context add-folder src")
    search = door("context add-search login(a+b)")
    assert (file["type"], file["name"], file["lines"]) == ("file", "src/auth.py", 6)
    text = door(f"context show {folder['artifact']}")["text"]
    assert text == "src/\n  auth.py (75 bytes)"
    text = door(f"context show {search['artifact']}")["text"]
    assert search["type"] == "search_result" and text.count("\n") == 2 and "junk" not in text
    listed = door("context messages")["messages"]
    assert len(listed) == before + 3
    assert listed[-3]["text"].startswith("[Added file src/auth.py, 6 lines: artifact://art-")
    door(f"restore {file['before']}")
    page = {slot["seq"] for slot in door("show")["slots"]}
    assert not page & {file["seq"], folder["seq"], search["seq"]}


@pytest.mark.parametrize("place", ["tree", ".mimir/context", "Notes"])
def test_nothing_of_the_store_is_added(tmp_path: Path, place: str) -> None:
    url = f"files:{place}"
    for name, said in (("other", "Zebracode"), ("fix-login", "go")):
        with refold.open(name, store=url) as context:
            context.append({"role": "user", "content": said})
    (tmp_path / "a.txt").write_text("hi")
    log = f"{place}/conversations/other/messages.jsonl"
    chat = Chat(url)
    for line in (f"add {log}", f"add-folder {place}", f"add-search x --folder {place}"):
        with pytest.raises(Denied, match="belongs to the store"):
            chat.result(f"/context {line}")
    with pytest.raises(NotFound):
        chat.result("/context add-search Zebracode")
    added = chat.result("/context add-folder .")
    text = chat.result(f"/context show {added['artifact']}")["text"]
    assert "a.txt" in text and "conversations" not in text


def test_pruning_has_a_strategy_a_size_and_a_dry_run(door: Door) -> None:
    """M-105"""
    planned = door("context prune --max-tokens 100 --dry-run")
    assert planned["dry_run"] and planned["edits"] and planned["target"] == 100
    done = door("context prune --max-tokens 100")
    assert done["batch"] and done["tokens_after"] < done["tokens_before"]
    assert door("undo")["undone"]
    assert door("context prune")["target"] == door("context stats")["window"] // 2


def test_clear_compact_export_and_the_way_back(door: Door, tmp_path: Path) -> None:
    """M-106"""
    before = door("show")["slots"]
    cleared = door("context clear --yes --backup all.json")
    assert cleared["slots_after"] == 0 and (tmp_path / "all.json").exists()
    door("undo")
    assert door("show")["slots"] == before
    assert door("context compact --strategy gist --target 60")["removed"]
    door("context export a.json")
    assert json.loads((tmp_path / "a.json").read_text())["format"]


def test_status_summary_checkpoint_restore_and_search(door: Door) -> None:
    """G-70, Y-93"""
    status = door("context status")
    assert sum(status["parts"].values()) == status["current"]
    assert door("context checkpoint before it all")["name"] == "before it all"
    assert door("context summarize --keep 2")["strategy"] == "summarize"
    assert door("context stats")["summaries"] == 1
    assert [one["name"] for one in door("context restore")["points"] if one["name"]]
    assert door("context restore 9 --dry-run")["seq"] == 9
    assert door("context search login")["said"]["hits"]


def test_undo_redo_pin_why_receipts_diff_and_unfold(door: Door) -> None:
    door("pin 4")
    assert door("context")["pins"] == [4] or door("context")["pins"] == (4,)
    door("pin 4 --off")
    batch = door("compact --strategy hide --target 60")["batch"]
    assert [one["id"] for one in door("history")["batches"]] == [batch]
    assert door("show 4 --why") and door("history 4 9 --diff") and door("show 4-5")["text"]
    assert door("undo")["undone"] and door("redo")


def test_another_model_has_its_limits_at_once(door: Door) -> None:
    """Y-84"""
    assert door("edit")["model"] == "claude-sonnet-4-5"
    chosen = door("edit --model gpt-4o")["chosen"]
    assert (chosen["model"], chosen["before"], chosen["window"]) == (
        "gpt-4o",
        "claude-sonnet-4-5",
        128_000,
    )
    unknown = door("edit --model gpt-4oo")["chosen"]
    assert not unknown["is_known"] or unknown["window"]
    assert not door("stats --tools")["tools"]


def test_the_page_is_shown_as_the_model_reads_it_and_unfolds_by_handle(door: Door) -> None:
    door("compact --strategy gist --target 60")
    page = door("show --page")
    folded = [part for part in page["parts"] if part["folded"]]
    assert [part["folded"] for part in folded] == [*range(1, len(folded) + 1)] and folded
    assert "[Earlier steps" in folded[0]["text"] and page["system"] == "Be brief"
    assert "question 1" in door(f"show {folded[0]['handle']}")["text"]


def test_help_names_every_command(door: Door) -> None:
    firsts = {one["name"] for one in door("help")["commands"]}
    assert firsts >= {name.split()[0] for name in table()}
    told = door("help context messages")
    [role] = [one for one in told["options"] if one["usage"].startswith("--role")]
    assert told["alias"] == "show --list" and "assistant" in role["help"]


@pytest.mark.parametrize(
    ("line", "error", "said"),
    [
        ("/context add nope.py", NotFound, "there is no nope.py"),
        ("/context add ../x", NotFound, "there is no ../x"),
        ("/context add /etc/passwd", Denied, "is outside"),
        ("/context add-folder /etc", Denied, "is outside"),
        ("/context add-search nobody-has-this", NotFound, "files contains"),
        ("/context show art-none", NotFound, "art-none"),
        ("/show 99", NotFound, "#99"),
        ("/help nothing", NotFound, "there is no command"),
        ("/context clear", Invalid, "clear asks first"),
        ("/context prune --strategy nope", Invalid, "there is no strategy"),
    ],
)
def test_a_mistake_is_said_and_nothing_is_written(
    chat: Chat, line: str, error: type[RefoldError], said: str
) -> None:
    head = chat.context.view.head
    with pytest.raises(error, match=said) as raised:
        chat.result(line)
    assert raised.value.hint and chat.context.view.head == head


def test_a_link_does_not_lead_out_of_the_folder(chat: Chat, tmp_path: Path) -> None:
    (tmp_path / "out").symlink_to("/etc")
    for line in ("/context add out/passwd", "/context add-folder out"):
        with pytest.raises(Denied, match="is outside"):
            chat.result(line)
    assert chat.result("/context add out/hostname --anywhere")["artifact"]


def test_instructions_without_a_writer_say_what_the_page_stays_about(chat: Chat) -> None:
    """Y-90"""
    done = chat.result("/compact keep question 3 --strategy importance --target 100")
    assert done["batch"] and "writer" not in done


def test_in_a_chat_the_way_back_is_a_line_of_the_chat(chat: Chat) -> None:
    text = chat.text("/compact --strategy hide --target 60")
    assert "Undo with: /undo\n" in text and "/history lists all." in text
    assert "refold" not in text
    assert "Run '/context messages' to see all messages" in chat.text("/context")


def test_in_a_box_the_first_sign_is_its_border(chat: Chat) -> None:
    """Y-92, Y-97"""
    text = chat.text("/compact --strategy hide --target 60 --format box")
    assert text.startswith("+---") and "| Compaction Complete " in text
    assert chat.text("/context status --format box").startswith("+---")


def test_one_line_for_the_top_of_a_program(chat: Chat) -> None:
    """Y-95"""
    percent = int(chat.context.stats().percent)
    assert chat.text("/context status --format header") == f"Context: 16/16 msgs ({percent}%)\n"


def test_the_text_of_a_compaction_is_short(chat: Chat) -> None:
    """Y-90"""
    lines = chat.text("/compact --strategy gist --target 60").splitlines()
    assert "Removed: 11 messages" in lines
    assert any(line.startswith("Saved: ") and line.endswith(" tokens") for line in lines)
    assert any(line.startswith('Summary: "') for line in lines)


def test_what_the_chat_holds_goes_on_after_a_command(chat: Chat) -> None:
    chat.result("/compact --strategy hide --target 60")
    chat.context.append({"role": "user", "content": "and now?"})
    assert chat.result("/context stats --window 9000")["window"] == 9_000
    assert chat.context.request()["messages"]
    assert chat.result("/stats")["messages"] == 17


def test_a_misspelt_command_gets_the_nearest_in_the_shell(url: str) -> None:
    assert "did you mean messages?" in refused("context", "mesages", "fix-login")
    assert "did you mean messages?" in refused("context", "mesages")
    assert "'nothing-like-it'" in refused("context", "nothing-like-it")
    for given in (
        ("fix-login", "--format", "plain"),
        ("--format", "plain", "fix-login"),
        ("fix-login", "--store", url),
    ):
        assert run("context", *given).exit_code == 0
    assert run("context", "--store", url, "fix-login").stdout.startswith("Context Summary")
    assert run("context", "--help").stdout.startswith("refold context  ")


def test_clear_asks_and_offers_a_backup_on_a_terminal(url: str, tmp_path: Path) -> None:
    """M-90, M-106"""
    status, text = on_terminal("clear", "fix-login", cwd=tmp_path, typed="n\n")
    assert status == 130 and "off the page of fix-login? [y]es, [n]o:" in text
    assert as_json("stats", "fix-login")["active"] == 16
    status, text = on_terminal("clear", "fix-login", cwd=tmp_path, typed="y\ny\n")
    assert status == 0 and (tmp_path / "fix-login-backup.json").exists()
    assert as_json("stats", "fix-login")["active"] == 0
    assert "clear asks first; confirm it with --yes" in refused("clear", "fix-login")


@pytest.mark.parametrize(
    "content",
    [
        [{"path": f"src/{n}.py"} for n in range(15)],
        {"query": "x", "results": [{"title": str(n)} for n in range(15)]},
        "\n".join(f"src/{n}.py:1: x" for n in range(15)),
    ],
)
def test_results_of_a_search_are_counted_however_they_are_kept(url: str, content: Any) -> None:
    """M-100: `(search, 15 results)`, also of JSON in one line."""
    with refold.open("found", store=url) as context:
        context.append({"role": "user", "content": "look"})
        context.artifacts.put(content, name="Search results", type="search_result")
    assert "Search results (search, 15 results)" in run("context", "found", "--store", url).stdout
