"""What reaches a terminal: our own colours and nothing that content could steer it by."""

from __future__ import annotations

import io
import json
import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from refold.edges.cli.screen import Screen, is_utf8, width
from refold.edges.commands.command import short_line
from tests.edges.chat.rooms import Terminal
from tests.edges.cli.rooms import PROGRAM, hostile, on_terminal, program, run

OURS = re.compile(r"\x1b\[[0-9;]*m")
STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
# What a bar on the way writes to hide the cursor and to draw itself again.
BAR = re.compile(r"\x1b\[\?25[lh]|\r?\x1b\[(?:2K|1A)")
pytestmark = pytest.mark.usefixtures("alone")
READING = (
    ("list",),
    ("show", "hostile"),
    ("show", "hostile", "--all"),
    ("verify",),
    ("stats", "hostile"),
    ("history", "hostile", "--points", "--every", "1"),
    ("history", "hostile"),
    ("history", "hostile", "1", "--diff"),
    ("show", "hostile", "3", "--why"),
    ("restore", "hostile", "1", "--dry-run"),
)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A hostile store, in a folder whose very name is an attack."""
    url = f"sqlite:{tmp_path_factory.mktemp('x') / ('a' + chr(27) + '[31m') / 'refold.db'}"
    hostile(url)
    return url


@pytest.mark.parametrize("arguments", READING)
def test_a_hostile_store_cannot_steer_the_terminal(store: str, arguments: tuple[str, ...]) -> None:
    status, text = on_terminal(*arguments, "--store", store)
    assert status in (0, 5), text[-500:]
    assert OURS.search(text), "colours are ours and are there"
    assert STEERING.findall(BAR.sub("", OURS.sub("", text)).replace("\r\n", "\n")) == []
    assert "\\x1b" in text or arguments[0] in ("verify", "history")


def test_a_problem_in_a_hostile_place_cannot_either(tmp_path: Path) -> None:
    folder = tmp_path / "a\x1b[31m\u202e"
    hostile(f"sqlite:{folder / 'refold.db'}")
    for file in (folder / "artifacts").iterdir():
        file.unlink()
    status, text = on_terminal("verify", "--store", f"sqlite:{folder / 'refold.db'}")
    assert status == 5 and "its content is missing" in text and "a\\x1b[31m\\u202e" in text
    assert STEERING.findall(BAR.sub("", OURS.sub("", text)).replace("\r\n", "\n")) == []


def test_markup_is_shown_and_not_read(store: str) -> None:
    _, text = on_terminal("show", "hostile", "--store", store)
    assert "[/nope] [bold red]x[/]" in " ".join(OURS.sub("", text).split())


def test_an_export_to_a_terminal_and_json_are_harmless_too(store: str) -> None:
    exports = ("export hostile -", "export hostile - --format markdown", "list --json")
    for arguments in exports:
        _, text = on_terminal(*arguments.split(), "--store", store)
        assert STEERING.findall(text.replace("\r\n", "\n")) == []


def test_an_error_about_a_hostile_name_is_harmless(store: str) -> None:
    status, text = on_terminal("show", "\x1b[31mx\u202e", "--store", store)
    assert status == 3 and STEERING.findall(text.replace("\r\n", "\n")) == []


@pytest.mark.parametrize(
    ("flags", "environ"), [((), {"NO_COLOR": "1"}), ((), {"TERM": "dumb"}), (("--no-color",), {})]
)
def test_colour_can_be_switched_off(
    store: str, flags: tuple[str, ...], environ: dict[str, str]
) -> None:
    for arguments in (("list",), ("verify",), ("context", "hostile"), ("show", "hostile")):
        text = on_terminal(*arguments, *flags, "--store", store, **environ)[1]
        assert not OURS.search(text)
        assert "\x1b" not in text or "TERM" not in environ, "a dumb terminal is not steered"


@pytest.mark.parametrize(
    "environ", [{"LANG": "C"}, {"LC_ALL": "C"}, {"LC_ALL": "POSIX", "LANG": "en_US.UTF-8"}, {}]
)
def test_a_locale_that_is_not_utf8_gets_ascii_only(store: str, environ: dict[str, str]) -> None:
    result = program("show", "hostile", "--store", store, **environ)
    assert result.returncode == 0 and result.stdout.isascii() and result.stderr == b""
    assert rb"\u6f22" in result.stdout and rb"\x1b" in result.stdout


def test_a_pipe_in_a_utf8_locale_gets_text_without_colour(store: str) -> None:
    result = program("show", "hostile", "--store", store, LANG="en_US.UTF-8")
    assert "漢字".encode() in result.stdout and b"\x1b" not in result.stdout


@pytest.mark.parametrize("arguments", READING)
def test_json_is_one_ascii_object_with_the_true_texts(
    store: str, arguments: tuple[str, ...]
) -> None:
    result = run(*arguments, "--store", store, "--json")
    assert result.stdout.isascii() and "\x1b" not in result.stdout and "\x7f" not in result.stdout
    value = json.loads(result.stdout)
    assert value["schema_version"] == 1
    if arguments[0] == "list":
        assert "\x1b[31mred" in value["conversations"][0]["title"]


def test_a_closed_pipe_is_quiet(store: str) -> None:
    shell = '"$@" | head -c 10'
    command = ["bash", "-c", shell, "x", *PROGRAM, "show", "hostile", "--all", "--store", store]
    result = subprocess.run(command, capture_output=True, timeout=60, check=False)
    assert result.stderr == b"" and len(result.stdout) == 10


def test_a_full_disk_behind_the_output_is_said(store: str) -> None:
    with open("/dev/full", "wb") as full:
        result = subprocess.run(
            [*PROGRAM, "list", "--store", store],
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=60,
            check=False,
        )
    assert (
        result.returncode == 8
        and b"No space left" in result.stderr
        and b"Traceback" not in result.stderr
    )


def test_what_counts_as_utf8() -> None:
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    assert is_utf8(out, {"LANG": "C.UTF-8"}) and is_utf8(
        out, {"LANG": "C", "LC_ALL": "de_DE.utf8@euro"}
    )
    # Python has put LC_CTYPE there itself.
    assert not is_utf8(out, {"LANG": "C", "LC_CTYPE": "C.UTF-8"}) and not is_utf8(out, {})
    assert not is_utf8(io.TextIOWrapper(io.BytesIO(), encoding="latin-1"), {"LANG": "C.UTF-8"})


def test_cells_are_cut_and_measured_in_columns(capsys: pytest.CaptureFixture[str]) -> None:
    assert short_line("a\nb\tc", 10) == "a\\nb\\tc" and len(short_line("x" * 100, 20)) == 20
    assert (width("abc"), width("漢字"), width("e\u0301")) == (3, 4, 1)
    Screen().table(("A", ">B"), [["x", "1"], ["long", "22"]])
    assert capsys.readouterr().out == "A      B\nx      1\nlong  22\n"


# --- the version ---


def test_the_version_is_told_before_anything_is_imported() -> None:
    code = (
        "import sys; sys.argv = ['refold', '--version']; from refold.edges.cli import main; main();"
        "assert not {'click', 'msgspec', 'rich', 'apsw', 'json'} & set(sys.modules), sorted(sys.modules)"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert re.fullmatch(r"refold \d+\.\d+\.\d+\n", result.stdout)
    assert run("--no-color", "--version").stdout == result.stdout


def test_the_package_is_the_command() -> None:
    asked = [sys.executable, "-m", "refold", "show", "nothing", "--store", "memory:"]
    done = subprocess.run(asked, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (3, "") and "nothing" in done.stderr


@pytest.mark.soak
def test_the_version_costs_at_most_three_bare_starts() -> None:
    """The least CPU of several runs on both sides: what other programs take does not count."""
    program_path = Path(sys.executable).parent / "refold"
    if not program_path.exists():
        pytest.skip("refold is not installed as a program")
    bare = min(_cpu_s([sys.executable, "-c", "pass"]) for _ in range(12))
    version = min(_cpu_s([str(program_path), "--version"]) for _ in range(12))
    assert version <= 3 * bare


def _cpu_s(command: list[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, stdout=subprocess.DEVNULL, timeout=60, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_a_question_shows_its_argument_as_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that a caller gave, or that was found, can neither steer the terminal nor hide."""
    asked: list[str] = []

    def prompt(question: str, **_: object) -> str:
        asked.append(question)
        return "y"

    monkeypatch.setattr("click.prompt", prompt)
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    Screen().confirm("Remove a\x1b[2J\u202eb\u200bc\nRemove nothing for good?", "x")
    [question] = asked
    assert question.isascii() and not STEERING.search(question) and "\n" not in question
    assert "\\x1b[2J\\u202eb\\u200bc" in question


def test_a_shell_asks_in_the_same_way(url: str) -> None:
    command = ("clear", "fix-login", "--store", url)
    status, text = on_terminal(*command, typed="hm\nn\n", when="[n]o:")
    assert status == 130 and "Please answer y or n." in text


@pytest.mark.parametrize("columns", [20, 40, 60, 80, 100, 200])
@settings(
    max_examples=20,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    id=st.text("abcdef0123456789-", min_size=1, max_size=64),
    title=st.text(min_size=0, max_size=80),
    count=st.integers(0, 10**9),
)
def test_an_id_is_never_cut(
    monkeypatch: pytest.MonkeyPatch, columns: int, id: str, title: str, count: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("LANG", "C.UTF-8")
    out = Terminal()
    screen = Screen(out=out, no_color=True)
    heads = ("ID", "TITLE", ">MESSAGES", ">TOKENS", "UPDATED", "PARENT")
    screen.table(heads, [(id, title, "3", f"{count:,}", "2026-11-17 13:00", "")])
    assert screen.draws
    # Where an id is longer than the screen, its parts stand below each other.
    shown = out.getvalue() if len(id) <= columns else "".join(out.getvalue().split())
    assert id in shown and f"{count:,}" in shown


@pytest.mark.parametrize("columns", [80, 100, 120])
@pytest.mark.parametrize("length", [4, 16, 36, 42, 48, 64])
def test_a_long_id_leaves_the_title_and_the_date_readable(
    monkeypatch: pytest.MonkeyPatch, columns: int, length: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("LANG", "C.UTF-8")
    out = Terminal()
    heads = ("ID", "TITLE", ">MESSAGES", ">TOKENS", "UPDATED", "PARENT")
    title = "abcdefghijklmnopqrstuvwxyz" * 2
    row = ("i" * length, title, "3", "166,872", "2026-07-01 14:19:23 UTC", "")
    Screen(out=out, no_color=True).table(heads, [row])
    assert title[:15] in out.getvalue() and "2026-07-01 14:19" in " ".join(out.getvalue().split())
