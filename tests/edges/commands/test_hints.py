"""What an error says to do next is for whoever reads it: a command in a shell, a line in a chat,
never a call of Python."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import refold
from refold.edges.chat.terminal import has_seen_hint
from refold.edges.commands import COMMANDS
from refold.edges.commands.command_line import with_id
from refold.errors import install_hint
from tests.edges.cli.rooms import as_json, run

SOURCE = Path(refold.__file__).parent
PROJECT = Path(__file__).parents[3] / "pyproject.toml"
# `name(...)` and `context.name`: how something is called in Python.
CALL = re.compile(r"(?<!pip install )\b[a-z_][\w.]*\([^)]*\)|\bcontext\.\w")
# A command in a hint; "the refold that wrote it" and "upgrade refold" are not.
NAMED = re.compile(r"(?<!the )(?<!this )(?<!a )(?<!upgrade )(?<!give )\brefold (?=[a-z])")
OPTION = re.compile(r"(?<!\S)--[a-z][a-z-]+")
# What only a program can come to: it has the objects in its hands.
FOR_PROGRAMS = (
    "dialects/", "engine/opening.py", "engine/forks.py", "memory/files/", "tokens/counter.py",
    "edges/adapters/", "settings/magenta.py", "testing/", "register.py",
)  # fmt: skip


def written(node: ast.AST) -> str:
    """The parts of a text that stand in the source."""
    texts = (one.value for one in ast.walk(node) if isinstance(one, ast.Constant))
    return " ".join(text for text in texts if isinstance(text, str))


def hints(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Call):
            yield from (written(one.value) for one in node.keywords if one.arg == "hint")
        if isinstance(node, ast.Assign):
            names = [one.id for one in node.targets if isinstance(one, ast.Name)]
            if any("hint" in name.lower() for name in names):
                yield written(node.value)


def test_no_hint_that_a_command_can_show_is_a_call_of_python() -> None:
    files = {file.relative_to(SOURCE).as_posix(): file for file in SOURCE.rglob("*.py")}
    found = {
        name: hint
        for name, file in files.items()
        if not name.startswith(FOR_PROGRAMS)
        for hint in hints(file)
        if CALL.search(hint)
    }
    assert not found


def commands_in(hint: str) -> Iterator[tuple[str, list[str]]]:
    """Each command that a hint names, empty if there is none, and the options after it."""
    for said in NAMED.split(hint)[1:]:
        known = [name for name in COMMANDS if re.match(rf"{name}(?![\w-])", said)]
        yield max(known, key=len, default=""), OPTION.findall(re.split(r"[;,(]", said)[0])


def test_every_command_and_option_that_a_hint_names_exists() -> None:
    told = [hint for file in SOURCE.rglob("*.py") for hint in hints(file)]
    unknown = []
    for hint in told:
        for name, options in commands_in(hint):
            usage = run(*name.split(), "--help").stdout if options else ""
            if not name or any(one not in usage for one in options):
                unknown.append(hint)
    assert not unknown
    assert sum(1 for hint in told for _ in commands_in(hint)) > 50


@pytest.mark.parametrize(
    ("args", "hint"),
    [
        (("hide", "fix-login", "9999"), "refold show fix-login lists"),
        (("pin", "fix-login", "9999"), "refold show fix-login"),
        (("artifact", "show", "fix-login", "art-0000000000"), "refold artifact list fix-login"),
        (("memory", "forget", "mem-123", "--yes"), "refold memory list has the ids"),
        (("memory", "inbox", "--accept", "mem-1"), "refold memory inbox lists its entries"),
    ],
)
def test_a_hint_is_a_command_that_can_be_pasted(url: str, args: tuple[str, ...], hint: str) -> None:
    error = run(*args).stderr
    assert hint in error and not CALL.search(error)


def test_every_pin_in_the_way_is_named(url: str) -> None:
    seqs = [str(slot["seq"]) for slot in as_json("show", "fix-login")["slots"]]
    assert run("pin", "fix-login", seqs[1], seqs[6]).exit_code == 0
    error = run("hide", "fix-login", seqs[0], seqs[9]).stderr
    found = re.search(r"unpin first: (refold pin fix-login [\d ]+ --off)", error)
    assert found
    assert run(*found[1].split()[1:]).exit_code == 0
    assert run("hide", "fix-login", seqs[0], seqs[9]).exit_code == 0


@given(name=st.text(max_size=20))
def test_an_id_that_a_shell_would_read_otherwise_is_not_put_into_a_hint(name: str) -> None:
    text = with_id("look with refold artifact list ID, or refold show ID", name)
    assert text.startswith("look with refold artifact list ")
    assert not re.search(r"[^\w .,@-]", text)


def test_what_an_extra_brings_is_installed_from_an_index_or_a_checkout() -> None:
    extras = tomllib.loads(PROJECT.read_text())["project"]["optional-dependencies"]
    files = {file: file.read_text() for file in SOURCE.rglob("*.py")}
    written = [file.name for file, text in files.items() if "install 'refold[" in text]
    assert written == ["errors.py"], "errors.install_hint says it"
    named = {
        name for text in files.values() for name in re.findall(r"install_hint\([\"'](\w+)", text)
    }
    assert {"chat", "server", "postgres"} <= named <= {*extras}
    for extra in extras:
        assert f"'refold[{extra}]'" in install_hint(extra)
        assert f"'.[{extra}]'" in install_hint(extra)


def test_what_a_chat_could_have_is_told_once(tmp_path: Path) -> None:
    own = {"XDG_DATA_HOME": str(tmp_path / "data"), "HOME": str(tmp_path)}
    assert [has_seen_hint(own) for _ in range(3)] == [False, True, True]
    (tmp_path / "file").touch()
    assert not has_seen_hint({**own, "XDG_DATA_HOME": str(tmp_path / "file")})
