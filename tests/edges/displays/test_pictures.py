"""Pictures of the window fit their columns, sum to the window, and let no content steer them."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

import refold
from refold.display import visible, without_colors
from refold.edges.displays.overview import NAMES, REST, WindowPart, tool_tokens
from refold.edges.displays.panel import (
    LOOKS,
    Large,
    Line,
    Panel,
    bar,
    comparison_lines,
    dealt,
    marks,
    panel_lines,
    sparkline,
    tenths_of,
)
from refold.edges.displays.wrap import width
from tests.edges.cli.conftest import alone, url
from tests.edges.cli.rooms import hostile, on_terminal, program, run
from tests.edges.displays.screens import blocks, screens
from tests.edges.displays.test_texts import SEEN

__all__ = ["alone", "url"]

texts = st.text(max_size=60) | st.sampled_from(
    ["漢字" * 20, "🙂👩‍👩‍👧 ok", "\x1b[31mred", "a\nb\tc", "é" * 30]
)
sizes = st.integers(0, 2_000_000)


@pytest.fixture
def utc() -> Iterator[None]:
    before = os.environ.get("TZ")
    yield
    os.environ.pop("TZ") if before is None else os.environ.update(TZ=before)
    time.tzset()


@pytest.mark.parametrize("count", [0, 1, 3, 7])
@pytest.mark.parametrize("columns", [40, 80, 120])
def test_the_picture_has_the_largest_tools_and_where_the_others_are(
    count: int, columns: int, tmp_path: Path
) -> None:
    tools = [
        {"name": f"tool_{at}", "description": "reads " * 9 * at, "input_schema": {"type": "object"}}
        for at in range(count)
    ]
    url = f"sqlite:{tmp_path / 'store.db'}"
    with refold.open("talk", store=url, window=8_000) as context:
        context.update(tools=tools)
        context.append({"role": "user", "content": "Hi."})
        sizes = tool_tokens(context.view)
    place = {"COLUMNS": str(columns), "HOME": str(tmp_path)}
    status, text = on_terminal("show", "talk", "--summary", "--store", url, **place)
    lines = without_colors(text).splitlines()
    assert status == 0 and all(width(line) <= columns for line in lines)
    shown = [line.split() for line in lines if " tool_" in line]
    largest = sorted(sizes, key=lambda one: -one[1])[:3]
    expected = [[name, f"{tokens:,}"] for name, tokens in largest]
    assert [line[1:3] for line in shown] == expected
    assert any(line.startswith("Tools (all: refold stats") for line in lines) == bool(count)
    assert [name for name, _ in sizes] == [tool["name"] for tool in tools]


@pytest.mark.usefixtures("alone", "utc")
def test_the_guide_shows_the_screens_as_they_are() -> None:
    made = screens()
    assert blocks() == made, "python -m tests.edges.displays.screens writes them again"


def text_of(line: Line) -> str:
    return "".join(part if isinstance(part, str) else part[1] for part in line)


@given(
    title=texts,
    names=st.lists(st.sampled_from(sorted(NAMES)), unique=True),
    tokens=st.lists(sizes, min_size=9, max_size=9),
    said=st.lists(texts, max_size=5),
    history=st.lists(st.tuples(st.integers(1, 10_000), sizes), max_size=40),
    columns=st.integers(20, 140),
    level=st.sampled_from(["ok", "warn", "compact", "critical"]),
)
def test_no_line_of_a_picture_is_wider_than_the_terminal(
    title: str,
    names: list[str],
    tokens: list[int],
    said: list[str],
    history: list[tuple[int, int]],
    columns: int,
    level: str,
) -> None:
    parts = tuple(
        WindowPart(name=name, tokens=size + 1) for name, size in zip(names, tokens, strict=False)
    )
    largest = tuple(
        Large(seq=at, last=at + at % 3, part="outputs", tokens=size, text=text, is_pinned=at == 2)
        for at, (size, text) in enumerate(zip(tokens, said, strict=False))
    )
    shown = Panel(
        overview=replace(SEEN, title=title),
        model=title,
        level=level,
        warn_at=tokens[0],
        compact_at=tokens[1],
        parts=parts,
        history=tuple(sorted(history)),
        compactions=tuple(seq for seq, _ in history[:3]),
        largest=largest,
        pins=tuple(range(len(said) * 4)),
    )
    for line in panel_lines(shown, columns, lambda *words: " ".join(words)):
        text = text_of(line)
        assert width(text) <= columns, line
        assert "\n" not in text and visible(text) == text


@given(st.lists(sizes, max_size=9), st.integers(0, 120))
def test_cells_fill_the_bar_and_everything_that_is_there_is_seen(
    given: list[int], cells: int
) -> None:
    counts = dealt(given, cells)
    assert len(counts) == len(given)
    if sum(given) and cells:
        assert sum(counts) == cells
        if sum(size > 0 for size in given) <= cells:
            assert all(bool(count) == bool(size) for count, size in zip(counts, given, strict=True))


def test_a_bar_has_the_colors_of_its_parts() -> None:
    parts = [WindowPart(name="system", tokens=25), WindowPart(name="free", tokens=75)]
    assert bar(parts, 8) == [("magenta", "██"), ("dim", "░░░░░░")]


def test_a_sparkline_rises_falls_and_marks_compactions() -> None:
    history = [(1, 0), (2, 50), (3, 99), (4, 20)]
    assert sparkline(history, 100, 4) == "▁▅█▂"
    assert marks([4], 1, 4, 4) == "   ▲" and sparkline(history[:1], 100, 4) == ""


@given(st.integers(0, 10**7), st.integers(0, 10**7), st.integers(1, 10**7), st.integers(20, 140))
def test_before_and_after_stand_under_each_other(
    before: int, after: int, window: int, columns: int
) -> None:
    first, second = comparison_lines(before, after, window, columns)
    assert width(text_of(first)) == width(text_of(second)) <= columns


@pytest.mark.parametrize("columns", ["100", "40"])
@pytest.mark.usefixtures("alone")
def test_content_cannot_steer_a_picture(tmp_path: object, columns: str) -> None:
    store = f"sqlite:{tmp_path}/h.db"
    hostile(store)
    for command in (
        ("context", "hostile"),
        ("show", "hostile", "--page", "--format", "plain"),
        ("show", "hostile", "--follow", "--seconds", "0"),
        ("stats", "hostile", "--tools"),
        ("stats", "hostile", "--cost"),
    ):
        status, text = on_terminal(*command, "--store", store, COLUMNS=columns)
        assert status == 0
        if "--follow" in command:
            # Its own screen, entered and left once.
            begin, end = "\x1b[?1049h\x1b[H\x1b[J", "\x1b[?1049l"
            assert text.startswith(begin) and text.count(end) == 1
            text = text.removeprefix(begin).replace(end, "")
        for found in text.split("\x1b")[1:]:
            assert found[:1] == "[" and found[1:].split("m")[0].replace(";", "").isdigit(), found
        assert "\u202e" not in text and "\x9b" not in text and "\x07" not in text


@pytest.mark.parametrize("environ", [{"TERM": "dumb"}, {"TERM": ""}, {"LANG": "C", "LC_ALL": "C"}])
def test_where_nothing_can_be_drawn_it_is_the_plain_text(url: str, environ: dict[str, str]) -> None:
    for command in (
        ("context", "fix-login"),
        ("compact", "fix-login", "--dry-run", "--target", "60"),
    ):
        status, text = on_terminal(*command, **environ)
        assert status == 0 and "█" not in text and ("\x1b" not in text or "LANG" in environ)
    piped = program("context", "fix-login", LANG="C", LC_ALL="C").stdout
    assert piped.startswith(b"Context Summary\n") and piped.isascii()


@pytest.mark.parametrize(("flags", "environ"), [((), {"NO_COLOR": "1"}), (("--no-color",), {})])
@pytest.mark.parametrize("columns", ["100", "40"])
def test_without_colors_the_picture_is_drawn_in_letters(
    url: str, flags: tuple[str, ...], environ: dict[str, str], columns: str
) -> None:
    status, text = on_terminal("context", "fix-login", *flags, **environ, COLUMNS=columns)
    assert status == 0 and "\x1b" not in text and "░" in text and "Largest" in text
    lines = text.split("\r\n")
    drawn = next(line for line in lines if "░" in line)
    parts = {name: look.letter for name, look in LOOKS.items() if f"{look.letter} " in text}
    assert len(parts) >= 4 and len({*parts.values()}) == len(parts)
    for name, letter in parts.items():
        assert f"{letter} {NAMES[name]}"[:12] in text
        assert letter in drawn
    status, text = on_terminal(
        "compact", "fix-login", "--dry-run", "--target", "60", *flags, **environ
    )
    assert status == 0 and "\x1b" not in text and "Before" in text


def test_on_a_terminal_with_colors_it_is_a_picture(url: str) -> None:
    status, text = on_terminal("context", "fix-login", COLUMNS="40")
    assert status == 0 and "█" in text and "\x1b[" in text and "Largest" in text
    status, text = on_terminal("context", "fix-login", "--format", "plain")
    assert "Context Summary" in text


@given(st.lists(sizes, min_size=9, max_size=9))
def test_the_shares_of_a_window_sum_to_all_of_it(given_sizes: list[int]) -> None:
    parts = [
        WindowPart(name=name, tokens=size)
        for name, size in zip(NAMES, given_sizes, strict=True)
        if size
    ]
    tenths = tenths_of(parts)
    assert sum(tenths.values()) == (1_000 if parts else 0)
    whole = sum(given_sizes)
    page = [part for part in parts if part.name not in REST]
    assert sum(tenths[part.name] for part in page) in (
        1_000 * sum(part.tokens for part in page) // max(1, whole),
        0,
    )
    assert all(abs(tenths[part.name] - 1_000 * part.tokens / whole) <= 2 for part in page)


def test_an_overview_of_nothing_is_no_error(url: str) -> None:
    with refold.open("empty", store=url) as context:
        context.checkpoint("begun")
    assert "Messages: 0" in run("context", "empty").stdout
    assert run("context", "status", "empty", "--format", "box").exit_code == 0
    assert on_terminal("context", "empty")[0] == 0


@given(
    sizes=st.lists(st.integers(0, 100_000), min_size=len(LOOKS), max_size=len(LOOKS)),
    cells=st.integers(20, 200),
)
def test_the_page_ends_in_the_bar_where_its_size_says(sizes: list[int], cells: int) -> None:
    parts = [WindowPart(name=name, tokens=size) for name, size in zip(LOOKS, sizes, strict=True)]
    drawn = bar(parts, cells, colors=False)
    if not sum(sizes):
        return
    text = "".join(text for _, text in drawn)
    assert len(text) == cells
    reach = sum(sign not in "░▒" for sign in text)
    taken = sum(size for size in sizes[:-2])
    needed = sum(size > 0 for size in sizes[:-2])
    assert abs(reach - cells * taken / sum(sizes)) <= 1 or reach == needed
