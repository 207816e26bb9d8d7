"""Every command that the source designs name, through both doors: `/name` in a chat and `refold
name` in a shell; as text, as JSON, with its help, and with its name for a typo."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import refold
from refold.edges.chat.scripted import Scripted
from refold.edges.chat.slash import OWN, obey
from refold.edges.commands import ALIASES, COMMANDS, PREFIXES, load
from tests.edges.chat.rooms import chat_in, seen
from tests.edges.cli.rooms import run
from tests.edges.commands.test_order import options_of

# The names as the designs write them, with what they are given; {seq}, {artifact} and {point} are
# of the conversation. `--yes` answers what is asked.
DESIGNS = {
    "context": "",
    "context messages": "--role user",
    "context artifacts": "",
    "context show": "{artifact}",
    "context stats": "",
    "context add": "notes.txt",
    "context add-folder": "src",
    "context add-search": "alpha",
    "context prune": "--strategy hide --max-tokens 300 --dry-run",
    "context clear": "--yes",
    "context compact": "",
    "context export": "out.json",
    "context status": "",
    "context summarize": "",
    "context checkpoint": "named",
    "context restore": "{point}",
    "context search": "alpha",
    "compact": "--dry-run keep the names",
    "condense": "",
    "undo": "",
    "redo": "",
    "pin": "{seq}",
    "memory list": "",
    "memory add": "the port is 7000",
    "memory search": "port",
    "fork": "",
    "help": "",
}
IN_CHAT = ("resume", "model", *DESIGNS)  # in a shell it is `refold chat --resume ID`


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    (tmp_path / "notes.txt").write_text("alpha\n")
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.py").write_text("alpha = 1\n")
    return tmp_path


def filled(context: refold.Context) -> dict[str, str]:
    """A conversation with something of everything, and the names in it."""
    kept = context.artifacts.put("alpha\n" * 50, name="notes", type="file")
    for turn in range(12):
        context.append({"role": "user", "content": f"alpha {turn}: " + "some words " * 40})
        context.append({"role": "assistant", "content": f"beta {turn}: " + "more words " * 40})
    point = context.checkpoint("begun")
    context.append({"role": "user", "content": "go on with alpha"})
    context.flush()
    return {"artifact": kept.id, "seq": str(context.view.slots[2].seq), "point": str(point)}


def line_of(name: str, names: dict[str, str]) -> list[str]:
    return [*name.split(), *DESIGNS.get(name, "").format(**names).split()]


@pytest.mark.parametrize("name", IN_CHAT)
@pytest.mark.parametrize("is_json", [False, True])
def test_in_a_chat(place: Path, name: str, is_json: bool) -> None:
    chat = chat_in(place, Scripted(0))
    names = filled(chat.context)
    before = len(seen(chat))
    wants_json = is_json and name not in OWN and name != "context export"
    words = [*line_of(name, names), *(["--json"] if wants_json else [])]
    assert obey(chat, "/" + " ".join(words)) is True
    shown = seen(chat)[before:]
    assert shown.strip() and "Traceback" not in shown and not chat.failure, shown
    assert not re.search(r"there is no|does not take|/help", shown) or name == "help", shown
    if wants_json:
        assert json.loads(shown)["schema_version"] == 1
    chat.close()


@pytest.mark.parametrize("name", DESIGNS)
@pytest.mark.parametrize("is_json", [False, True])
def test_in_a_shell(place: Path, name: str, is_json: bool) -> None:
    url = f"sqlite:{place}/.refold/refold.db"
    with refold.open("talk", store=url, model="gpt-4o") as context:
        names = filled(context)
    words = line_of(name, names)
    if load(name).on in ("conversation", "either") or name == "context search":
        words.insert(len(name.split()), "talk")
    got = run(*words, *(["--json"] if is_json else []))
    assert got.exit_code == 0, got.stdout + got.stderr
    if is_json:
        assert json.loads(got.stdout)["schema_version"] == 1
    else:
        assert got.stdout.strip() or name == "context export"


def typo(name: str) -> str:
    """The name with a letter of its last word doubled."""
    return f"{name}{name[-1]}"


@pytest.mark.parametrize("name", IN_CHAT)
def test_a_typo_gets_the_nearest_name_and_every_name_has_help(place: Path, name: str) -> None:
    chat = chat_in(place, Scripted(0))
    filled(chat.context)
    obey(chat, f"/{typo(name)}")
    last = name.split()[-1]
    assert re.search(rf"did you mean /?{last}\?", seen(chat)), seen(chat)
    obey(chat, f"/{name} --help")
    assert f"Usage: /{name}" in seen(chat) or (name in PREFIXES and f"/{name}  " in seen(chat))
    chat.close()
    if name in COMMANDS or name in ALIASES:
        wrong = run(*typo(name).split())
        assert wrong.exit_code == 2 and f"did you mean {last}?" in wrong.stderr
        helped = run(*name.split(), "--help")
        assert helped.exit_code == 0 and ("--json" in helped.stdout or name in PREFIXES)


def test_options_of_the_designs_are_there() -> None:
    for name, options in {
        "context messages": {"--role"},
        "context prune": {"--strategy", "--dry-run"},
        "compact": {"--dry-run"},
    }.items():
        assert options <= {one.option for one in options_of(name)}
