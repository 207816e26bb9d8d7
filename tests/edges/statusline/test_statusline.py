"""One line about Claude Code or a conversation: right, harmless, and never an error."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import refold
from refold.edges import statusline
from refold.edges.statusline import claude_line, conversation_line
from tests.edges.cli.conftest import alone, url
from tests.edges.cli.rooms import PROGRAM, run

__all__ = ["alone", "url"]

USAGE = {
    "input_tokens": 1_200,
    "output_tokens": 300,
    "cache_creation_input_tokens": 800,
    "cache_read_input_tokens": 88_000,
}
GIVEN: dict[str, Any] = {
    "version": "2.0.14",
    "model": {"id": "claude-opus-4-5", "display_name": "Opus 4.5"},
    "cost": {"total_cost_usd": 0.5123},
    "context_window": {
        "context_window_size": 200_000,
        "used_percentage": 45,
        "current_usage": USAGE,
    },
}
LINE = "Claude Code v2.0.14 | Opus 4.5 | Context: 45% (90K/200K tokens) | $0.51 | cache 97%"


def line(**changed: Any) -> str:
    fields = {name: value for name, value in {**GIVEN, **changed}.items() if value is not None}
    return claude_line(json.dumps(fields).encode(), short=False, color=False)


def test_what_claude_code_says_becomes_one_line() -> None:
    """Y-94"""
    assert line() == LINE
    assert claude_line(json.dumps(GIVEN).encode(), short=True, color=False) == "45%"


def test_what_is_not_known_is_not_guessed() -> None:
    window = {"context_window_size": 200_000, "current_usage": None, "used_percentage": None}
    assert "Context: ? (of 200K tokens)" in line(context_window=window)
    assert "Context: 30% (60K/200K tokens)" in line(
        context_window={**window, "used_percentage": 30}
    )
    assert "$" not in line(cost=None) and "unknown model" in line(model=None)


def test_a_full_window_says_what_to_do_and_has_a_color_if_asked() -> None:
    full = {**GIVEN, "context_window": {"context_window_size": 100_000, "current_usage": USAGE}}
    text = json.dumps(full).encode()
    assert claude_line(text, short=False, color=False).endswith(" | /compact soon")
    assert claude_line(text, short=True, color=True) == "\x1b[31m90%\x1b[0m"


def test_an_older_version_is_read_by_its_transcript(tmp_path: Path) -> None:
    file = tmp_path / "talk.jsonl"
    old = {"type": "assistant", "message": {"usage": {"input_tokens": 5}}}
    new = {"type": "assistant", "message": {"usage": USAGE}}
    side = {"isSidechain": True, "message": {"usage": {"input_tokens": 9}}}
    lines = [old, new, side, {"type": "user"}]
    file.write_text("\n".join(map(json.dumps, lines)) + "\nnot json\n")
    assert "45% (90K/200K tokens)" in line(context_window=None, transcript_path=str(file))
    file.write_text("\n".join(map(json.dumps, [new, {"subtype": "compact_boundary"}])))
    assert "Context: ?" in line(context_window=None, transcript_path=str(file))
    for path in ("/nowhere", "/dev/zero", "\0", str(tmp_path)):
        assert "Context: ?" in line(context_window=None, transcript_path=path)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip
named = st.sampled_from(
    ["model", "display_name", "version", "cost", "total_cost_usd", "context_window", "current_usage", "transcript_path"]
)  # fmt: skip


@given(
    st.dictionaries(
        named, json_values | st.dictionaries(named, json_values, max_size=4), max_size=6
    )
)
def test_any_json_is_one_harmless_line(fields: dict[str, Any]) -> None:
    text = claude_line(json.dumps({**GIVEN, **fields}).encode(), short=False, color=False)
    assert "\n" not in text and "\x1b" not in text and text.isprintable()


@given(st.binary(max_size=50))
def test_any_bytes_give_a_line_or_nothing(given: bytes) -> None:
    assert "\n" not in claude_line(given, short=False, color=False)


def test_a_conversation_has_the_numbers_of_its_stats(url: str) -> None:
    """Y-94"""
    with refold.open("fix-login", store=url, read_only=True) as context:
        stats = context.stats()
    shown = conversation_line("fix-login", url, short=False, color=False)
    percent, used = int(stats.percent), stats.current
    assert shown.startswith(
        f"refold v{refold.__version__} | claude-sonnet-4-5 | Context: {percent}% ({used}/200K tokens)"
    )
    assert conversation_line("@1", url, short=True, color=False) == f"{percent}%"


def test_the_budget_is_that_of_an_open_context(url: str) -> None:
    with refold.open("fix-login", store=url, window=1_500) as context:
        context.compact("gist", target=500)
        stats = context.stats()
    assert f"({stats.current // 1000 or stats.current}" in conversation_line(
        "fix-login", url, short=False, color=False
    ).replace("K", "")
    assert f"{int(stats.percent)}%" == conversation_line("@1", url, short=True, color=False)


def test_what_is_not_there_is_an_empty_line_and_no_error(url: str) -> None:
    for args in (["nope"], ["fix-login", "--store", "sqlite:none.db"], ["--store", "x:y"]):
        done = subprocess.run(
            (*PROGRAM, "statusline", *args), capture_output=True, timeout=60, check=False
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, b"\n", b""), args


def test_the_newest_conversation_is_told_where_nothing_is_given(url: str) -> None:
    done = subprocess.run(
        (*PROGRAM, "statusline"), stdin=subprocess.DEVNULL, capture_output=True, check=True
    )
    assert b"refold v" in done.stdout and b"claude-sonnet-4-5" in done.stdout


def test_claudes_json_loads_nothing_but_the_standard_library(alone: None) -> None:
    code = (
        "import sys; sys.argv = ['refold', 'statusline'];"
        "from refold.edges.cli import main; main();"
        "assert not {'msgspec', 'click', 'rich', 'apsw'} & set(sys.modules), sys.modules"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=json.dumps(GIVEN).encode(),
        capture_output=True,
        check=True,
    )
    assert done.stdout.decode() == f"{LINE}\n"


def test_a_conversation_loads_nothing_that_compacts_renders_or_prints(url: str) -> None:
    code = (
        "import sys; sys.argv = ['refold', 'statusline', 'fix-login'];"
        "from refold.edges.cli import main; main();"
        "heavy = {'click', 'rich', 'refold.redaction', 'refold.engine', 'refold.writer'};"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert done.stdout.startswith(b"refold v")


def test_the_command_of_the_table_says_the_same(url: str) -> None:
    assert run("statusline", "fix-login").stdout == (
        conversation_line("fix-login", url, short=False, color=False) + "\n"
    )
    assert json.loads(run("statusline", "@1", "--short", "--json").stdout)["line"].endswith("%")


@pytest.mark.parametrize("args", [["--nope"], ["a", "b"], ["--json"], ["--help"], ["--store"]])
def test_anything_but_the_plain_form_is_for_the_command_line(args: list[str]) -> None:
    assert not statusline.main(args)


def test_a_person_who_names_what_is_not_there_is_told_at_a_terminal(tmp_path):
    import pty
    import subprocess
    import sys

    with refold.open("c", store=f"files:{tmp_path}/there") as context:
        context.append({"role": "user", "content": "hi"})
    ours, theirs = pty.openpty()
    code = "from refold.edges.cli import main; main()"
    command = [sys.executable, "-c", code, "statusline", "nosuch\x1b[2J", "--store", "files:there"]
    done = subprocess.run(command, cwd=tmp_path, stderr=theirs, stdout=subprocess.PIPE, timeout=60)
    os.close(theirs)
    told = os.read(ours, 10_000)
    os.close(ours)
    assert done.stdout == b"\n"
    assert told.startswith(b"refold: ")
    assert b"\x1b" not in told and b"Traceback" not in told
