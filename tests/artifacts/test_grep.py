"""Lines of outputs: streamed, numbered, bounded, and safe against any pattern."""

from __future__ import annotations

import subprocess
import sys

import pytest

from refold.artifacts.grep import matching_lines
from refold.errors import Corrupt, Invalid, NotFound, Unavailable
from refold.log.handles import lines_between
from refold.stores import open_store
from tests.toolruns import long, opened, outputs_in, ran


@pytest.fixture(params=["memory", "sqlite"])
def store(request, tmp_path):
    store = open_store("memory:" if request.param == "memory" else f"sqlite:{tmp_path}/refold.db")
    yield store
    store.close()


def test_lines_come_out_of_a_stream_as_out_of_the_whole():
    """T-21: exactly these lines, wherever the pieces are cut."""
    text = "one\ntwo\n\nfour\nfive\n"
    lines = text.split("\n")
    for size in (1, 2, 5, 100):
        pieces = [text[at : at + size] for at in range(0, len(text), size)]
        for first in range(1, len(lines) + 1):
            for last in (None, *range(first, len(lines) + 3)):
                assert lines_between(iter(pieces), first, last).text == "\n".join(
                    lines[first - 1 : last]
                )
        cut = lines_between(iter(pieces), 2, None, most=6)
        assert (cut.text, cut.last, cut.cut) == ("two\n\nf", 4, True)
        assert lines_between(iter(pieces), 4, 4, skip=1).text == "our"
        with pytest.raises(Invalid, match="no line 7; it has lines 1 to 5"):
            lines_between(iter(pieces), 7, None)
        assert lines_between(iter(pieces), 2, None).last == 5, "as many as its stub says"
    for first, last in ((0, None), (3, 2), (-1, 5)):
        with pytest.raises(Invalid):
            lines_between(iter([text]), first, last)


@pytest.mark.parametrize("regex", [False, True])
def test_grep_gives_numbered_lines(regex):
    """T-22."""
    content = b"first\r\nNeedle in a line\nlast needle"
    for size in (1, 7, 1_000):
        chunks = [content[at : at + size] for at in range(0, len(content), size)]
        found = matching_lines(chunks, "needle", regex=regex, ignore_case=True)
        assert [(line.number, line.text) for line in found.lines] == [
            (2, "Needle in a line"),
            (3, "last needle"),
        ]
        assert found.ended == ""
    assert [line.number for line in matching_lines([content], "needle", regex=regex).lines] == [3]
    assert (
        matching_lines([b""], "x", regex=regex).lines == ()
        and matching_lines([], "x", regex=regex).lines == ()
    )
    assert (
        matching_lines([content], "needle", regex=regex, ignore_case=True, most=1).ended
        == "stopped at 1 lines"
    )


def test_a_plain_pattern_is_not_a_regular_expression():
    assert [line.number for line in matching_lines([b"a.c\nabc\n[x\n"], "a.c").lines] == [1]
    assert [
        line.number for line in matching_lines([b"a.c\nabc\n[x\n"], "a.c", regex=True).lines
    ] == [1, 2]
    assert [line.number for line in matching_lines([b"a.c\nabc\n[x\n"], "[x").lines] == [3]
    assert [line.number for line in matching_lines([b"x\r\nyx\r\n"], "x$", regex=True).lines] == [
        1,
        2,
    ]


@pytest.mark.parametrize("regex", [False, True])
def test_a_line_without_end_is_looked_at_in_pieces(regex):
    """T-22: a match on the seam of two pieces is found, once, and shown with what is around it."""
    for place in (0, (1 << 20) - 3, (1 << 20) + 100_000, 3_000_000):
        content = b"x" * place + b"needle" + b"x" * 500_000
        chunks = [content[at : at + 262_144] for at in range(0, len(content), 262_144)]
        [line] = matching_lines(chunks, "needle", regex=regex).lines
        assert line.number == 1 and "needle" in line.text and len(line.text) < 400


def test_bytes_that_are_no_text_can_be_grepped():
    found = matching_lines([bytes(range(256)), b"\n\xff\xfeneedle\x00\xff\n"], "needle")
    assert [line.number for line in found.lines] == [3] and "needle" in found.lines[0].text


@pytest.mark.parametrize("pattern", [r"(a+)+$", r"(a|aa)+$", r"^(([a-z])+.)+[A-Z]([a-z])+$"])
def test_a_regular_expression_that_would_never_end_is_ended(pattern):
    """T-22: no catastrophic pattern; what was found before it is kept."""
    hits = "aaaa\n" if pattern.startswith("(a") else "ab.Cd\n"
    found = matching_lines(
        [hits.encode(), b"a" * 5_000 + b"!\n", hits.encode()], pattern, regex=True, wait_s=2
    )
    assert found.ended.startswith("stopped after") and [line.number for line in found.lines] == [1]


@pytest.mark.parametrize(
    "pattern", ["(", "[", "a{99999999999}", "(?P<x", "(" * 400 + "a", "*", "(?<=a+)b", r"\2"]
)
def test_a_regular_expression_that_is_none_says_so(pattern):
    with pytest.raises(Invalid, match="cannot be used"):
        matching_lines([b"text\n"], pattern, regex=True)


def test_bounds_of_a_grep_are_checked():
    for wrong in ({"pattern": ""}, {"pattern": "x" * 1_001}, {"pattern": "two\nlines"}):
        with pytest.raises(Invalid):
            matching_lines([b"x"], **wrong)
    for wrong in (
        {"most": 0},
        {"most": 1_001},
        {"wait_s": 0.0},
        {"wait_s": 61.0},
        {"wait_s": float("nan")},
    ):
        with pytest.raises(Invalid):
            matching_lines([b"x"], "x", **wrong)


def test_a_grep_ends_no_later_than_its_time():
    def endless():
        while True:
            yield b"y\n" * 1_000

    assert matching_lines(endless(), "x", wait_s=0.2).ended == "stopped after 0.2 s"
    assert matching_lines(endless(), "x", regex=True, wait_s=0.5).ended.startswith("stopped after")


def test_an_error_while_reading_comes_through_and_leaves_no_process(monkeypatch):
    def damaged():
        yield b"hello\n"
        raise Corrupt("the content was changed", hint="refold verify")

    start, children = subprocess.Popen, []

    def started(*command, **options):
        children.append(start(*command, **options))
        return children[-1]

    monkeypatch.setattr(subprocess, "Popen", started)
    for regex in (False, True):
        with pytest.raises(Corrupt):
            matching_lines(damaged(), "zzz", regex=regex)
    assert [child.returncode is not None for child in children] == [True]


def test_without_a_process_a_regular_expression_is_unavailable(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(Unavailable) as refused:
        matching_lines([b"x"], "x", regex=True)
    assert "plain text" in refused.value.hint
    assert matching_lines([b"x"], "x").lines


def test_grep_looks_into_one_output_a_message_or_all(store):
    """T-22: newest first, with one limit for all."""
    context = opened(store)
    one, two = ran(context, long("needle one")), ran(context, long("needle two"))
    outputs = outputs_in(context)
    assert [(found.handle, found.grepped.lines[0].number) for found in outputs.grep("needle")] == [
        (two, 1),
        (one, 1),
    ]
    assert [found.handle for found in outputs.grep("needle", one)] == [one]
    assert [found.handle for found in outputs.grep("needle", limit=1)] == [two]
    context.append({"role": "user", "content": "a needle\nin a message"})
    [found] = outputs.grep("message", f"#{context.view.head}")
    assert found.grepped.lines[0].number == 2
    for wrong, error in (
        ("../../x", Invalid),
        ("art-../../x", NotFound),
        ("art-aaaaaaaaaaaa", NotFound),
    ):
        with pytest.raises(error):
            outputs.grep("needle", wrong)
