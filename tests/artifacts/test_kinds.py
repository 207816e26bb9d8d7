"""What an output is decides its stub: the failing line, the columns, the traceback are on it."""

from __future__ import annotations

import time
from collections import Counter

import pytest
from bench import programs, stubs
from hypothesis import example, given, settings
from hypothesis import strategies as st

import refold
from refold.artifacts.kinds import registry
from refold.artifacts.kinds.registry import ClassifiedText, kind_of
from refold.artifacts.stub import STUB_CHARS_MAX
from tests.turns import call, opened

KINDS = {
    "pytest -v": "test run", "unittest -v": "test run", "jest": "test run", "go test -v": "test run",
    "node --test": "test run", "python traceback": "stack trace", "java stack trace": "stack trace",
    "go panic": "stack trace", "gcc -Wall": "compiler output", "mypy": "compiler output",
    "ruff check": "compiler output", "javac": "compiler output", "tsc": "compiler output",
    "eslint": "compiler output", "make": "compiler output", "git diff": "diff", "git log -p": "diff",
    "grep -rn": "search results", "application log": "log", "access log": "log", "kernel log": "log",
    "csv": "table", "sqlite3 -csv": "table", "ls -l": "table", "JSON of an API": "JSON",
    "JSON, laid out": "JSON", "JSON lines": "JSON lines", "cat -n decoder.py": "code",
}  # fmt: skip


@pytest.mark.parametrize("half", [programs.SEEN, programs.UNSEEN], ids=["first", "second"])
def test_the_telling_lines_of_programs_are_on_their_stubs(half, tmp_path):
    """At the size of a stub, for the outputs of programs that run here and now."""
    told, by_ends = [], []
    for case in programs.cases(half, tmp_path):
        assert kind_of(case.text) == KINDS.get(case.name, kind_of(case.text)), case.name
        told.append(stubs.recall(case, stubs.by_kind(case.text, stubs.CHARS)))
        by_ends.append(stubs.recall(case, stubs.by_ends(case.text, stubs.CHARS)))
    assert sum(told) / len(told) >= 0.95 > sum(by_ends) / len(by_ends)


LINES = st.lists(
    st.text(max_size=300)
    | st.sampled_from([
        "E   assert 1 == 2", "FAILED a.py::b", "a.py:1: x", '{"a": 1}', "[", "]", "@@ -1,2 +3 @@",
        "2026-11-16 03:14:15 ERROR x", "Traceback (most recent call last):", "a,b,c", "def f():",
        '  File "a.py", line 3, in f', "ValueError: x", "= 1 failed in 2s =", "\t", "",
    ]),
    min_size=1, max_size=60,
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(LINES, st.integers(200, 2_000))
def test_an_excerpt_has_lines_of_the_text_in_their_order_and_fits(lines, room):
    text = "\n".join(line.replace("\n", " ") for line in lines)
    shown = ClassifiedText(text, print).excerpt(room)
    assert sum(map(len, shown)) + len(shown) <= room + 1
    at = 0
    for line in shown:
        if line.startswith("… ") and line.endswith(" …"):
            continue
        start = line.split(" [+")[0].removesuffix("…")
        found = text.find(start, at)
        assert found >= at
        at = found


ENTRIES = st.lists(
    st.sampled_from(["INFO served page", "ERROR lost connection", "WARNING slow disk", "DEBUG tick"]),
    min_size=10, max_size=400,
)  # fmt: skip


@settings(max_examples=100, deadline=None)
@given(ENTRIES)
@example(["ERROR lost connection"] * 350)
@example(["INFO served page"] * 300 + ["ERROR lost connection"])
def test_the_first_entry_of_each_kind_says_how_many_are_like_it(entries):
    """Also where it is named as the beginning of the log, and above a hundred errors."""
    counts = Counter(entries)
    log = "\n".join(f"10:00:{n % 60:02} {entry} {n}" for n, entry in enumerate(entries))
    shown = ClassifiedText(log, print).excerpt(2_000)
    marks = [line for line in shown if line.endswith(" alike]")]
    assert sorted(marks) == sorted(
        f"10:00:{n % 60:02} {entry} {n} [+{counts[entry] - 1:,} alike]"
        for entry, n in {entry: entries.index(entry) for entry in entries}.items()
        if counts[entry] > 1
    )


def test_a_log_that_is_not_looked_at_whole_says_how_many_are_alike_at_least():
    log = "\n".join(f"10:00:00 INFO served page {n}" for n in range(5_000))
    [mark] = [line for line in ClassifiedText(log, print).excerpt(2_000) if "alike" in line]
    assert mark == "10:00:00 INFO served page 0 [+1,599 or more alike]"


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=2_000) | st.binary(max_size=2_000))
def test_every_output_has_a_stub_that_fits(output):
    context = refold.open("work", store="memory:", config={"offload_tokens": 1})
    context.append(call(1))
    context.append_result("c1", output)
    for block in context.view.slots[-1].message.blocks[0].content:
        assert len(block.text) <= STUB_CHARS_MAX


@pytest.mark.parametrize(
    "line",
    ["a" * 5_000, "a " * 3_000, "(" * 3_000, "a(" * 2_000, "at " * 2_000, "= " * 3_000, "a:1:" * 900,
     "a, " * 2_000, '"' * 3_000, "\t" * 3_000, "a." * 3_000, "- " * 3_000, "\\" * 3_000, "::" * 2_000],
)  # fmt: skip
def test_hostile_lines_are_looked_at_quickly(line):
    """Lines are data: no pattern may take long over them."""
    text = "\n".join(f"{line}{n}" for n in range(2_000))
    start = time.process_time()
    ClassifiedText(text, print).excerpt(1_500)
    ClassifiedText(line * 1_000, print).excerpt(1_500)
    assert time.process_time() - start < 3


def test_a_line_in_the_middle_of_a_very_long_log_is_found():
    lines = [f"row {n} of the listing" for n in range(200_000)]
    lines[123_456] = "the disk refused: EIO"
    shown = "\n".join(ClassifiedText("\n".join(lines), print).excerpt(1_500))
    assert "the disk refused: EIO" in shown and "… lines 123,458-" in shown


def test_a_program_may_bring_kinds_of_its_own(monkeypatch):
    monkeypatch.setattr(registry, "_registered", {})
    refold.register.kind(
        "ledger",
        fits=lambda lines: lines[0] == "LEDGER",
        telling=lambda lines: [at for at, line in enumerate(lines) if "balance" in line],
    )
    text = "\n".join(["LEDGER", *(f"entry {n}" for n in range(2_000)), "balance 7", "end"])
    context = opened(config={"offload_tokens": 20})
    context.append(call(1))
    context.append_result("c1", text)
    stub = context.view.slots[-1].message.blocks[0].content[0].text
    assert "(ledger)" in stub and "balance 7" in stub


@pytest.mark.parametrize("broken", ["fits", "telling"])
def test_a_kind_that_fails_is_told_and_passed_over(broken, monkeypatch):
    monkeypatch.setattr(registry, "_registered", {})

    def fail(lines):
        raise RuntimeError("no kind today")

    given = {"fits": lambda lines: True, "telling": lambda lines: [0], broken: fail}
    refold.register.kind("mine", **given)
    context = opened(config={"offload_tokens": 20})
    heard = []
    context.on("hook-failed", heard.append)
    context.append(call(1))
    context.append_result("c1", "\n".join(f"line {n}" for n in range(500)))
    assert "line 499" in context.view.slots[-1].message.blocks[0].content[0].text
    assert "no kind today" in heard[0].reason
