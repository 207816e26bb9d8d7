"""Every command is a value that any door can offer: it says what it takes, prints nothing, and
gives a result that can be encoded."""

from __future__ import annotations

import ast
import io
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

import refold.edges.commands
from refold.edges.cli.screen import Screen
from refold.edges.commands import COMMANDS, GROUPS, PREFIXES, load
from refold.edges.commands.command import Result, builtins_of
from refold.edges.commands.command_line import table
from refold.edges.commands.session import Session
from refold.edges.server.access import Orgs, Tokens
from refold.errors import OUTCOMES, Invalid
from refold.stores import make_key, open_store, synced_of
from refold.stores.remote.client import TokenAbout
from tests.edges.cli.rooms import run

ROOT = Path(__file__).parents[3]
ROOM = Path(refold.edges.commands.__file__).parent
PRINTING = {"click", "rich", "refold.edges.cli"}
pytestmark = pytest.mark.usefixtures("alone")

PLACE = "http://127.0.0.1:9/acme"
# What each command is given, as JSON would have it; ARTIFACT is one of the conversation,
# BATCH a compaction of it, TOKEN one of a team server at PLACE.
EXAMPLES: dict[str, dict[str, Any]] = {
    "list": {"limit": 5},
    "show": {"all": True, "brief": True},
    "search": {"query": ["login"], "full_text": True},
    "stats": {"window": 40_000},
    "compact": {"strategy": ["hide"], "target": "60", "format": "box"},
    "undo": {"batch": "BATCH"},
    "redo": {},
    "history": {"points": True, "every": 5},
    "restore": {"point": "#9", "dry_run": True},
    "checkpoint": {"name": "good"},
    "fork": {"new": "other", "at": "9"},
    "pin": {"seqs": ["4", "#5"]},
    "hide": {"first": "4", "last": "#5"},
    "clear": {"backup": "backup.json", "yes": True},
    "add": {"what": "exported.json"},
    "edit": {"title": "Another title", "tag": ["one", "two"], "model": "gpt-4o"},
    "import": {"files": ["exported.json"], "id": "imported"},
    "export": {"file": "a.json"},
    "demo": {"window": 24_000},
    "replay": {"name": "fix-login", "window": [2_000]},
    "sync": {"far": "files:team"},
    "sync key new": {"file": "new.key"},
    "resume": {},
    "sync key apply": {"far": "files:team", "key": "acme.key", "yes": True},
    "erase": {"seqs": ["4"], "yes": True},
    "delete": {"conversations": ["fix-login"], "yes": True},
    "artifact list": {"match": "login"},
    "artifact show": {"artifact": "ARTIFACT", "lines": "1-2"},
    "artifact grep": {"pattern": "login", "limit": 2},
    "artifact remove": {"artifact": "ARTIFACT", "yes": True},
    "handover": {"conversations": ["fix-login"], "tokens": 900},
    "memory list": {"tag": ["infra"], "ended": True},
    "memory add": {"content": "The port is 7000", "tag": ["infra"]},
    "memory search": {"query": "port", "limit": 3},
    "memory edit": {"entry": "MEMORY", "content": "The port is 7001"},
    "memory forget": {"entry": "MEMORY", "yes": True},
    "memory log": {"limit": 5},
    "memory inbox": {"accept": ["all"]},
    "scan": {"all": True},
    "verify": {},
    "allow": {},
    "serve": {"store": "sqlite:team", "check": True},
    "mcp": {"check": True},
    "install": {"host": "cursor", "yes": True},
    "run": {"program": ["true", "-x"], "window": 60_000},
    "proxy": {"check": True, "fold": True},
    "ui": {"check": True},
    "token create": {"store": "sqlite:team", "org": "acme", "scope": "read", "days": 30},
    "token list": {"store": "sqlite:team", "org": "acme"},
    "token revoke": {"store": "sqlite:team", "token": "TOKEN"},
    "token audit": {"store": "sqlite:team", "org": "acme"},
    "login": {"url": "PLACE"},
    "doctor": {},
    "chat": {"model": "scripted"},
    "statusline": {"conversation": "fix-login", "short": True},
    "completion": {"shell": "bash"},
    "help": {"command": "compact"},
}


def arguments(name: str, url: str) -> Any:
    """The example of a command, decoded as a door would."""
    with refold.open("fix-login", store=url) as context:
        [artifact] = [one.artifact for one in context.artifacts.list()]
        context.log.export("exported.json")
        memory = context.memory.store("The port is 6999", tags=["infra"]).id
        Path("memory.jsonl").write_bytes(b"".join(context.memory.export()))
        batch = context.compact("hide", target=60).batch if "BATCH" in str(EXAMPLES[name]) else ""
    text = json.dumps(EXAMPLES[name]).replace("ARTIFACT", artifact.id).replace("STORE", url)
    text = text.replace("BATCH", batch).replace("MEMORY", memory)
    text = text.replace("PLACE", PLACE)
    if "DEVICE" in text:
        text = text.replace("DEVICE", _synced_device(url))
    if "acme.key" in text:
        make_key("acme.key")
    if "sqlite:team" in text:
        text = text.replace("TOKEN", _team_token())
    return msgspec.json.decode(text, type=load(name).arguments)


def _synced_device(url: str) -> str:
    """The name of this device, which has synced with a folder."""
    store = open_store(f"hybrid:{url}?far=files:team")
    synced_of(store).sync()
    [device] = synced_of(store).devices()
    store.close()
    return device.name


def _team_token() -> str:
    """A valid token of a team server in this folder."""
    orgs = Orgs("sqlite:team")
    token, _ = Tokens(orgs.own).create("acme", "read")
    orgs.close()
    return token.id


@pytest.fixture(autouse=True)
def server_that_knows_every_token(monkeypatch: pytest.MonkeyPatch) -> None:
    """`login` asks a server; tests/edges/commands/test_team.py has a real one."""
    about = TokenAbout(id="tok-1", scope="write", expires_ms=1_900_000_000_000)
    monkeypatch.setattr("refold.edges.commands.server.token_info", lambda *_: about)


@pytest.fixture(autouse=True)
def model_of_a_resumed_chat(alone: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REFOLD_CHAT_MODEL", "scripted")


def stdin() -> io.BytesIO:
    return io.BytesIO(b"rft_secret\n")


def imported(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.update(name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
    return found


def test_there_is_an_example_of_every_command() -> None:
    assert EXAMPLES.keys() == COMMANDS.keys()


def test_commands_know_nothing_of_a_command_line_or_a_terminal() -> None:
    for path in ROOM.rglob("*.py"):
        for module in imported(path):
            parts = module.split(".")
            packages = {".".join(parts[:count]) for count in range(1, len(parts) + 1)}
            assert not packages & PRINTING, f"{path.name} imports {module}"


def test_loading_every_command_loads_no_command_line() -> None:
    code = (
        "import sys; from refold.edges.commands import load;"
        f"[load(name) for name in {list(COMMANDS)}]; assert not {{'click', 'rich'}} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60, check=True)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_is_named_as_in_the_table_and_says_what_it_does(name: str) -> None:
    command = load(name)
    assert command.name == name and COMMANDS[name].group in GROUPS
    assert command.summary.endswith(".") and command.summary[0].isupper()
    assert " ".join(name.split()[:-1]) in {"", *PREFIXES}


@pytest.mark.parametrize("name", COMMANDS)
def test_what_a_command_takes_is_a_json_schema_with_help(name: str) -> None:
    schema = msgspec.json.schema(load(name).arguments)
    [definition] = schema["$defs"].values()
    assert definition["type"] == "object" and definition["additionalProperties"] is False
    for property in definition["properties"].values():
        choices = property.get("anyOf", [property])
        assert any(choice.get("description") for choice in choices), property


@pytest.mark.parametrize("name", COMMANDS)
def test_running_a_command_prints_nothing_and_gives_what_can_be_encoded(
    name: str, url: str, capfd: pytest.CaptureFixture[str]
) -> None:
    command, given = load(name), arguments(name, url)
    # These print while they run, if somebody watches.
    screen = Screen(json_output=name in ("chat", "demo", "resume", "run"))
    with Session(store_url=url, conversation="fix-login", screen=screen, stdin=stdin()) as session:
        result = command.run(session, given)
        assert capfd.readouterr() == ("", "")
        assert isinstance(result, Result) and result.outcome in OUTCOMES
        assert msgspec.json.encode(builtins_of(result)).startswith(b"{")
        assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_shows_its_result(
    name: str, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command, given = load(name), arguments(name, url)
    with Session(store_url=url, conversation="fix-login", stdin=stdin()) as session:
        result = command.run(session, given)
        assert capsys.readouterr() == ("", "")
        command.show(result, Screen())
    shown = capsys.readouterr()
    # What a chat printed are the replies; how to go on with it stands beside them.
    assert shown.err if name in ("chat", "run", "resume") else shown.out


@pytest.mark.parametrize("name", table())
def test_in_a_chat_no_command_speaks_of_the_shell(name: str, url: str) -> None:
    command, given = load(name), arguments(name, url)
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    screen = Screen(out=out, is_shell=False)
    with Session(store_url=url, conversation="fix-login", screen=screen) as session:
        command.show(command.run(session, given), screen)
    assert isinstance(out.buffer, io.BytesIO)
    assert not re.search(r"\brefold [a-z]", out.buffer.getvalue().decode())


@pytest.mark.parametrize("name", ["delete", "artifact remove"])
def test_nothing_is_removed_where_nobody_can_be_asked(name: str, url: str) -> None:
    given = msgspec.structs.replace(arguments(name, url), yes=False)
    with Session(store_url=url, conversation="fix-login") as session:
        with pytest.raises(Invalid, match="cannot be brought back"):
            load(name).run(session, given)
        assert session.store.conversation("fix-login").head


def test_a_command_that_needs_a_conversation_says_so(url: str) -> None:
    with Session(store_url=url) as session, pytest.raises(Invalid, match="no conversation"):
        load("stats").run(session, load("stats").arguments())


def test_import_reads_standard_input_only_where_there_is_one(url: str) -> None:
    command = load("import")
    with Session(store_url=url) as session, pytest.raises(Invalid, match="no standard input"):
        command.run(session, command.arguments(files=("-",)))


def test_every_command_stands_in_the_guide_with_an_example() -> None:
    guide = (ROOT / "docs/guides/commands.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `refold ([^`]+)` \| [^|]+ \| [^|]*\|$", guide, re.MULTILINE)
    named = [
        max((name for name in COMMANDS if f"{row} ".startswith(f"{name} ")), key=len)
        for row in rows
    ]
    assert sorted(named) == sorted(COMMANDS)


def test_the_examples_of_the_guide_are_command_lines_that_are_understood() -> None:
    guide = (ROOT / "docs/guides/commands.md").read_text(encoding="utf-8")
    for line in re.findall(r"^\| `refold ([^`]+)` \|", guide, re.MULTILINE):
        # Nothing is found in an empty folder; what matters is that no word is refused.
        # What follows a program that is run is the program's own.
        words = ["run"] if line.startswith("run ") else shlex.split(line)
        result = run(*words, "--help")
        assert result.exit_code == 0 and result.stdout.startswith("Usage: refold"), line
