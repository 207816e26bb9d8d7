"""The demo keeps what it promises, in this run, with this source."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from refold.core.model import Usage
from refold.edges.commands.command import builtins_of
from refold.edges.commands.session import Session
from refold.edges.demo import script
from refold.edges.demo.questions import Question
from refold.edges.demo.report import ASCII, Note, Symbols, clean
from refold.edges.demo.screen import Lines, Live, Pace, event_lines, header, meter
from refold.edges.demo.script import TOOLS, Workshop, scratch_folder
from refold.edges.demo.sides import Bill, Messages, Scale, Summarized, Unit, fixed_part
from refold.edges.demo.story import WINDOW, play
from refold.errors import Invalid, RefoldError
from refold.tokens.models import model_info

KEYS = {
    "messages", "tokens_seen", "tokens_sent", "tokens_max_request", "window", "compactions", "requests",
    "requests_invalid", "requests_over_budget", "answers", "answers_visible", "answers_window", "seconds",
}  # fmt: skip
MODEL = model_info("claude-sonnet-5-5")


def figures(window: int | None = None) -> dict[str, Any]:
    report = play(Session(), window=window, fast=True)
    assert report.outcome == "ok"
    found: dict[str, Any] = builtins_of(report)
    return found


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where every demo of this file keeps its folder: one place, because its name weighs tokens
    in a stub."""
    return tmp_path_factory.mktemp("place")


@pytest.fixture(autouse=True)
def _in_place(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(place))
    monkeypatch.setattr(tempfile, "tempdir", str(place))


@pytest.fixture(scope="module")
def played(place: Path) -> dict[str, Any]:
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "from refold.edges.cli.app import outcome; raise SystemExit(outcome(['demo', '--json']))",
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
        env={**os.environ, "TMPDIR": str(place)},
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module")
def printed(place: Path) -> str:
    """What a pipe gets that takes ASCII only."""
    command = [
        sys.executable,
        "-c",
        "from refold.edges.cli.app import outcome; raise SystemExit(outcome(['demo']))",
    ]
    environ = {**os.environ, "PYTHONIOENCODING": "ascii", "COLUMNS": "80", "TMPDIR": str(place)}
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=120, env=environ, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


# --- the run ---


def test_the_figures_are_complete_and_every_request_is_valid_and_fits(played):
    assert played.keys() >= KEYS
    assert 200 <= played["messages"] <= 400
    assert played["requests_invalid"] == played["requests_over_budget"] == 0
    assert played["tokens_max_request"] < played["window"] == WINDOW
    assert played["compactions"] >= 3
    assert played["tokens_seen"] > 500_000


def test_all_six_answers_are_at_hand_and_the_window_has_fewer(played):
    assert played["answers"] == len(played["questions"]) == 6
    assert played["answers_window"] < played["answers"]
    assert 3 <= played["answers_visible"] <= 6
    assert all(row["refold"]["seq"] for row in played["questions"])


def test_undo_and_unfold_are_proven_by_hashes(played):
    undo, unfold = played["undo"], played["unfold"]
    assert undo["equal"] and undo["before"] == undo["after"] != undo["compacted"]
    assert unfold["equal"] and unfold["given"] == unfold["unfolded"]
    assert unfold["size_bytes"] >= 2_000_000


def test_the_large_output_is_refused_in_a_window_but_here(played):
    sides = played["sides"]
    assert sides["window"]["requests_over_budget"] == 1
    assert sides["everything"]["requests_over_budget"] == 0, "its window has room for all"
    assert sides["refold"]["requests_over_budget"] == 0
    assert sides["refold"]["cost_dollars"] < min(
        sides["window"]["cost_dollars"], sides["everything"]["cost_dollars"]
    )


def test_a_second_run_gives_the_same_figures_and_leaves_nothing_behind(played, place):
    again = {"schema_version": 1, **figures()}
    assert list(place.iterdir()) == []
    assert {**again, "seconds": 0} == {**played, "seconds": 0}


def test_another_window_keeps_the_promises_too():
    found = figures(window=12_000)
    assert found["window"] == 12_000 and found["answers"] == 6
    assert found["tokens_max_request"] < 12_000


def test_a_window_that_is_too_small_is_an_error_and_nothing_stays(place):
    with pytest.raises(Invalid, match="1,000 tokens"):
        play(Session(), window=1_000)
    assert list(place.iterdir()) == []


def test_in_a_pipe_it_prints_the_story_line_by_line_and_ends_with_the_table(printed):
    assert "\x1b" not in printed and printed.isascii()
    for said in (
        "dropped",
        "receipt 1",
        "cache kept for",
        "refused",
        "kept whole",
        "6 of 6",
        "undone",
    ):
        assert said in printed
    assert printed.index("What the session came to") < printed.index("tokens sent")
    assert max(map(len, printed.splitlines())) <= 80


def test_a_reader_that_leaves_early_leaves_nothing_behind(place):
    code = "import sys; from refold.edges.cli import main; sys.argv[1:] = ['demo']; main()"
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        pipesize=4096,  # less than it says: it cannot have said all before the reader leaves
    ) as process:
        assert process.stdout is not None and process.stdout.readline()
        process.stdout.close()
        assert process.wait(timeout=120) == 141
    assert list(place.iterdir()) == []


def test_the_folder_goes_also_after_an_error_unless_it_is_kept():
    with pytest.raises(KeyError), scratch_folder() as gone:
        (gone / "file").write_text("x")
        raise KeyError
    with scratch_folder(keep=True) as kept:
        assert kept.stat().st_mode & 0o777 == 0o700
    assert not gone.exists() and kept.exists()
    kept.rmdir()


# --- the parts ---


def test_the_workshop_works_on_a_copy_and_its_failures_are_real(tmp_path):
    shop = Workshop(tmp_path / "scratch")
    failed = shop.call("run", {"command": 'python -c "raise SystemExit(3)"'})
    assert failed.failed and failed.text.startswith("exit status 3: python")
    path = "refold/config.py"
    old = shop.lines(path)[0]
    assert shop.call("edit_file", {"path": path, "old": old, "new": "# new"}).text.startswith(
        f"modified {path}"
    )
    assert shop.lines(path)[0] == "# new"
    assert (
        Path(script.__file__)
        .parents[2]
        .joinpath("config.py")
        .read_text(encoding="utf-8")
        .startswith(old)
    )
    assert shop.call("edit_file", {"path": path, "old": "no such text", "new": ""}).failed
    with pytest.raises(RefoldError):
        shop.call("run", {"command": "no-such-command-anywhere"})
    with pytest.raises(RefoldError):
        shop.call("read_file", {"path": "refold/none.py", "start_line": 1, "end_line": 2})


def test_the_copy_does_not_hold_the_answers(tmp_path):
    shop = Workshop(tmp_path / "scratch")
    texts = "\n".join("\n".join(shop.lines(shop.name(file))) for file in shop.files())
    assert (
        script.REQUEST not in texts and str(script.PORT) not in texts and script.RULE not in texts
    )


def test_a_bill_reads_what_is_equal_from_the_start_and_writes_the_rest():
    bill = Bill(MODEL)
    bill.charge([Unit("head", 100), Unit("a", 10)], 0)
    usage = bill.charge([Unit("head", 100), Unit("b", 20), Unit("a", 10)], 5)
    assert usage == Usage(model=MODEL.name, input=130, output=5, cache_read=100, cache_write=30)
    assert (bill.tokens_sent, bill.tokens_max, bill.tokens_read) == (240, 130, 100)


def test_a_bill_takes_the_cheaper_of_caching_and_not_caching():
    bill = Bill(MODEL)
    for at in range(3):
        bill.charge([Unit(f"always new {at}", 1_000)], 0)
    assert bill.cost == bill.cost_plain < bill.cost_cached


def test_the_sliding_window_drops_whole_pairs_and_stays_valid():
    side = Messages(Scale(), MODEL, fixed_part("system", TOOLS), room=1_500, limit=1_000)
    side.append(1, {"role": "user", "content": "start"})
    for at in range(2, 20, 2):
        call = {
            "type": "tool_use",
            "id": f"t{at}",
            "name": "grep",
            "input": {"pattern": "x", "path": "."},
        }
        side.append(at, {"role": "assistant", "content": [call]})
        result = {
            "type": "tool_result",
            "tool_use_id": f"t{at}",
            "content": "words and words " * 30,
        }
        side.append(at + 1, {"role": "user", "content": [result]})
        sent = side.send()
        assert sent.taken and sent.tokens <= 1_000
    assert side.first > 0 and side.page()[0].wire["content"].startswith("[Earlier")


def test_an_answer_needs_all_its_words_close_together():
    question = Question("?", ("make test", "exit 1"))
    assert question.answered("I ran make test and got exit 1.")
    assert not question.answered("make test") and not question.answered("exit 1, then make test")
    assert not question.answered("make test" + " " * 400 + "exit 1")


# --- the screen ---


def test_what_files_say_cannot_reach_the_terminal():
    assert clean("a\x1b[31mb\r\nc\x07") == "a [31mb  c "
    console = Console(width=80, record=True, markup=False, highlight=False, file=io.StringIO())
    Lines(console, Symbols()).left(Note("drop", ["[bold]not markup[/bold] \x1b]0;title\x07"]))
    shown = console.export_text()
    assert "[bold]not markup[/bold]" in shown and "\x1b" not in shown and "\x07" not in shown


@pytest.mark.parametrize("width", [20, 36, 64, 100])
def test_events_and_meters_stay_in_their_column(width):
    note = Note(
        "fold",
        ["receipt 12: 21,641 → 12,266 tokens", "summarized #12345-12399, 14,777 → 1,007, 3 more"],
    )
    lines = [*event_lines(note, Symbols(), width), *meter((23_999, 12.5), 24_000, Symbols(), width)]
    assert max(len(line) for line in event_lines(note, ASCII, width)) <= width
    assert max(len(line.plain) for line in lines) <= width


@pytest.mark.parametrize(("width", "height"), [(80, 24), (60, 20), (200, 50)])
def test_a_frame_fits_the_terminal(width, height):
    console = Console(
        width=width, height=height, file=io.StringIO(), force_terminal=True, color_system=None
    )
    live = Live(console, Symbols(), Pace(on=False))
    live.head = header(24_000, MODEL.name)
    for at in range(50):
        live.columns[at % 2].events.append(Note("warn", ["warning " * 12, "more"]))
    rows = console.render_lines(live._frame(), pad=False)
    assert len(rows) < height
    assert all(sum(part.cell_length for part in row) <= width for row in rows)


def test_the_page_that_the_model_reads_is_shown(printed):
    assert "the page: " in printed and "for summaries are $" in " ".join(printed.split())
    assert "a script replaces the model" in " ".join(printed.split())


def test_the_demo_uses_a_model_that_is_not_about_to_go(played):
    assert not model_info(played["model"]).retires


def test_summaries_by_a_model_are_a_side_of_their_own_with_their_cost(played):
    side = played["sides"]["summaries"]
    assert played["summaries"] > 1 and played["summaries_dollars"] > 0
    assert side["requests_over_budget"] == 1 and side["requests_invalid"] == 0
    assert side["tokens_max_request"] <= played["window"]
    assert side["requests"] == 1 + played["sides"]["refold"]["requests"] + played["summaries"]
    assert played["summaries_dollars"] < side["cost_dollars"]
    assert played["sides"]["refold"]["cost_dollars"] < side["cost_dollars"]


def test_a_summary_keeps_the_words_of_the_user_and_the_agent_and_bills_its_call():
    side = Summarized(Scale(), MODEL, fixed_part("s", []), room=20_000, limit=4_000)
    for at in range(40):
        side.append(at, {"role": "user", "content": f"wish {at} " + "word " * 150})
        side.append(at, {"role": "assistant", "content": [{"type": "text", "text": f"did {at}"}]})
        sent = side.send()
        assert sent.tokens <= 4_000 + 300 and not sent.faults
        side.bill.charge(sent.units, 10)
    first = side.entries[0].wire["content"]
    assert side.summaries and first.startswith("[Summary") and "wish" in first
    assert side.summaries_dollars > 0 and side.bill.requests == 40 + side.summaries
