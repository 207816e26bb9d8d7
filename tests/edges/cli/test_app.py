"""Every command has help; an error is one line and an exit status."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

import refold
from refold.edges.cli.options import parameters
from refold.edges.commands import COMMANDS, DAILY, GROUPS, PREFIXES, load
from refold.errors import OUTCOMES
from tests.edges.cli.rooms import program, run

pytestmark = pytest.mark.usefixtures("alone")


def test_refold_alone_prints_its_help() -> None:
    result = run()
    assert result.exit_code == 0 and all(f"\n  {name} " in result.stdout for name in DAILY)
    words = set(re.findall(r"[a-z-]+", result.stdout))
    assert all({*name.split()} <= words for name in COMMANDS)


def test_every_command_has_help_that_fits_its_line_and_is_ascii() -> None:
    listing = run("--help").stdout + "".join(run("help", group).stdout for group in GROUPS)
    assert "...\n" not in listing.replace("[ARGS]...", "") and listing.isascii()
    for name, entry in COMMANDS.items():
        result = run(*name.split(), "--help")
        assert result.exit_code == 0 and result.stdout.isascii() and "--json" in result.stdout
        assert entry.summary in result.stdout
        assert f" {entry.summary}\n" in listing


def test_every_option_has_help() -> None:
    for name in COMMANDS:
        options = [one for one in parameters(load(name)) if isinstance(one, click.Option)]
        assert all(option.help for option in options), name


def test_a_list_of_commands_loads_none_of_them() -> None:
    code = (
        "import sys; from refold.edges.cli.app import outcome; outcome(['--help']);"
        "assert not {'refold.engine', 'apsw', 'rich'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60, check=True)


# --- errors ---


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("show", "../../x"), "not-found"),  # any text may be a name
        (("stats", ".."), "not-found"),
        (("export", "a/b", "x.json"), "not-found"),
        (("undo", "-x"), "invalid"),
        (("verify", "../x"), "not-found"),
        (("compact", "a b"), "not-found"),
        (("show", "nobody"), "not-found"),
        (("stats", "nobody"), "not-found"),
        (("undo", "nobody"), "not-found"),
        (("compact", "nobody"), "not-found"),
        (("verify", "nobody"), "not-found"),
        (("export", "nobody", "x.json"), "not-found"),
        (("import", "nothing.json"), "not-found"),
        (("export", "fix-login", "x.pdf"), "invalid"),
        (("compact", "fix-login", "--strategy", "hid"), "invalid"),
        (("show", "fix-login", "what"), "invalid"),
        (("show", "fix-login", "999"), "not-found"),
        (("show", "fix-login", "0"), "invalid"),
        (("show", "fix-login", "--lines", "1-2"), "invalid"),
        (("show", "fix-login", "5", "--lines", "x"), "invalid"),
        (("list", "--nope"), "invalid"),
        (("show", "fix-login", "5", "--all"), "invalid"),
        (("show",), "invalid"),
        (("lst",), "invalid"),
        (("list", "--store", "ftp://x"), "invalid"),
        (("compact", "fix-login", "--target", "x"), "invalid"),
        (("import", ".", "--id", "../x"), "invalid"),
    ],
)
def test_an_error_is_one_line_and_its_exit_status_is_that_of_the_table(
    url: str, arguments: tuple[str, ...], code: str
) -> None:
    result = run(*arguments)
    assert result.exit_code == OUTCOMES[code][1], result.stderr
    assert (
        result.stdout == ""
        and result.stderr.startswith("refold: ")
        and result.stderr.count("\n") == 1
    )
    answer = json.loads(run(*arguments, "--json").stdout)
    assert answer["error"]["code"] == code


@pytest.mark.parametrize("words", [(), ("artifact",)])
def test_json_without_a_command_is_an_error_and_not_help(words: tuple[str, ...]) -> None:
    result = run(*words, "--json")
    error = json.loads(result.stdout)["error"]
    assert result.exit_code == 2 and error["message"] == "no command is named"
    assert error["hint"] == " ".join(["refold", *words, "--help"])
    assert run(*words).stdout.startswith("Usage: refold")


def test_an_unknown_command_gets_the_nearest() -> None:
    assert "did you mean export?" in run("exprt").stderr
    assert "\x1b" not in run("\x1b[31m").stderr


def test_a_conversation_that_is_asked_for_is_not_created(tmp_path: Path) -> None:
    for name in ("show", "stats", "undo", "compact"):
        assert run(name, "new").exit_code == 3
    assert os.listdir(tmp_path) == []


def test_an_unexpected_error_is_one_line_unless_it_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("\x1b[31mboom")

    monkeypatch.setattr("refold.settings.sources.default_store", fail)
    result = run("list")
    assert result.exit_code == 1 and result.stderr.count("\n") == 1
    assert (
        "internal error" in result.stderr
        and "--debug" in result.stderr
        and "\x1b" not in result.stderr
    )
    assert "Traceback" in run("list", "--debug").stderr


def test_an_interrupt_ends_with_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("refold.settings.sources.default_store", interrupt)
    result = run("list")
    assert result.exit_code == 130 and result.stderr == ""


def test_reading_commands_write_nothing(url: str, tmp_path: Path) -> None:
    store = refold.open_store(url)
    refold.Context(store, "fix-login").append(
        {"role": "user", "content": "no bookmark of this yet"}
    )
    store.close()
    database = tmp_path / ".refold" / "refold.db"
    before = database.read_bytes()
    for arguments in (
        ("list",),
        ("show", "fix-login"),
        ("stats", "fix-login"),
        ("verify",),
        ("doctor",),
    ):
        assert run(*arguments).exit_code == 0
    assert run("compact", "fix-login", "--dry-run").exit_code == 0
    assert database.read_bytes() == before


# --- settings and arguments that are at fault ---

NO_TEXT = "\udc83"  # a byte that is not UTF-8, as Python gives it
AT_FAULT = [
    ({"REFOLD_WARN_RATIO": NO_TEXT}, ("stats", "talk")),
    ({"REFOLD_REDACT": "[" * 5_000}, ("stats", "talk")),
    ({"REFOLD_STORE": f"sqlite:{NO_TEXT}.db"}, ("list",)),
    ({"REFOLD_WRITER_URL": NO_TEXT}, ("compact", "talk", "--writer")),
    ({}, ("search", "--tool", NO_TEXT, "fox")),
    ({}, ("search", "--reindex", "--store", f"sqlite:{NO_TEXT}.db")),
    ({}, (NO_TEXT,)),
    ({}, ("--json", "show", NO_TEXT)),
]


@pytest.mark.parametrize(("environ", "args"), AT_FAULT)
def test_what_is_not_text_ends_in_one_line_and_status_2(
    environ: dict[str, str], args: tuple[str, ...], url: str
) -> None:
    done = program(*[one.replace("talk", "fix-login") for one in args], **environ)
    said = done.stdout + done.stderr
    assert done.returncode == 2, said
    assert said.count(b"\n") == 1 and b"Traceback" not in said and b"internal" not in said


@pytest.mark.parametrize("name", ["refold.toml", "pyproject.toml"])
def test_a_file_that_is_nested_deep_ends_in_one_line_and_status_2(
    name: str, url: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_text("a = " + "[" * 3_000 + "]" * 3_000)
    done = program("stats", "fix-login")
    assert done.returncode == 2 and done.stderr.count(b"\n") == 1, done.stderr
    assert name.encode() in done.stderr


def test_an_error_is_reported_without_the_settings_and_without_secrets(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> None:
        raise MemoryError

    monkeypatch.setattr("refold.settings.sources.loaded", broken)
    secret = "ghp_" + "a1B2c3D4e5F6a1B2c3D4e5F6a1B2c3D4e5F6"
    shown = run("show", secret)
    assert shown.exit_code == OUTCOMES["not-found"][1] and secret not in shown.output


ON_ONE = [name for name in COMMANDS if load(name).on == "conversation"]


@pytest.mark.parametrize("name", ON_ONE)
def test_a_missing_id_is_told_with_the_ways_to_name_one(name: str) -> None:
    result = run(*name.split())
    if name in PREFIXES:
        return
    text = f"no conversation is named (ID); refold {name} @1 is about the newest; refold list"
    assert result.exit_code == 2 and text in result.stderr


def test_a_missing_choice_is_told_in_one_line() -> None:
    error = run("completion").stderr
    assert error.count("\n") == 1 and "\\n" not in error and "bash, fish, zsh" in error


def test_delete_names_the_limits_it_takes() -> None:
    assert "--older-than DAYS, --keep NUMBER" in run("delete").stderr


def test_the_package_runs_as_a_program_too(tmp_path: Path) -> None:
    """X-45"""
    told = subprocess.run(
        [sys.executable, "-m", "refold", "list", "--json"],
        cwd=tmp_path, capture_output=True, timeout=60, check=True,
    )  # fmt: skip
    assert json.loads(told.stdout)["conversations"] == []
