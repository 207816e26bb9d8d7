"""Lines are broken between words, at the width that a terminal has, and lose nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.display import visible
from refold.edges.displays.wrap import COLUMNS_MIN, Flow, broken, lines_of, width, wrapped

SOME = "ab-/.(漢字かな。「」한국🙂👍🏽✔️🇩🇪é\u0301ก็ \t"
WORDS = st.text(alphabet=SOME, max_size=200) | st.text(max_size=60)
TEXTS = st.lists(WORDS, max_size=6).map("\n".join).map(visible)
COLUMNS = st.integers(min_value=COLUMNS_MIN, max_value=90)


def on_a_terminal(text: str, columns: int) -> list[str]:
    """The lines of a terminal that goes to the next line by itself."""
    lines = [""]
    for sign in text:
        if sign == "\n":
            lines.append("")
        elif width(lines[-1] + sign) > columns:
            lines.append(sign)
        else:
            lines[-1] += sign
    return lines


def solid(text: str) -> str:
    return "".join(text.split())


@given(TEXTS, COLUMNS)
def test_no_line_is_too_wide_and_no_sign_is_lost(text: str, columns: int) -> None:
    lines = wrapped(text, columns)
    assert max(map(width, lines)) <= columns
    assert solid("".join(lines)) == solid(text)


@given(st.lists(st.text("abc1-_./:", min_size=1, max_size=30), max_size=40), COLUMNS)
def test_a_word_that_fits_stays_whole(words: list[str], columns: int) -> None:
    lines = wrapped(" ".join(words), columns)
    shown = [word for line in lines for word in line.split()]
    if all(len(word) <= columns // 2 for word in words):
        assert shown == words


@given(TEXTS, COLUMNS, st.data())
def test_a_text_in_pieces_is_broken_as_in_one(text: str, columns: int, data: st.DataObject) -> None:
    places = data.draw(st.lists(st.integers(0, len(text)), max_size=8).map(sorted))
    flow, whole = Flow(), Flow()
    pieces = [text[a:b] for a, b in zip([0, *places], [*places, len(text)], strict=True)]
    printed = "".join(flow.feed(piece, columns) for piece in pieces) + flow.end()
    assert printed == whole.feed(text, columns) + whole.end()
    shown = on_a_terminal(printed, columns)
    assert max(map(width, shown)) <= columns
    assert solid("".join(shown)) == solid(text)


@given(st.lists(st.text("abcdef漢字", min_size=1, max_size=7), min_size=1), COLUMNS)
def test_what_is_printed_is_what_is_wrapped(words: list[str], columns: int) -> None:
    text = " ".join(words)
    flow = Flow()
    assert (flow.feed(text, columns) + flow.end()).split("\n") == wrapped(text, columns)


@given(TEXTS, st.lists(COLUMNS, min_size=1, max_size=5))
def test_a_resize_loses_nothing(text: str, sizes: list[int]) -> None:
    flow = Flow()
    step = len(text) // len(sizes) + 1
    printed = "".join(
        flow.feed(text[at * step : (at + 1) * step], columns) for at, columns in enumerate(sizes)
    )
    assert solid(printed + flow.end()) == solid(text)


@pytest.mark.parametrize(
    ("text", "columns", "lines"),
    [
        ("one two three", 8, ["one two", "three"]),
        ("  one two three", 10, ["  one two", "  three"]),
        ("- one two three", 10, ["- one two", "  three"]),
        ("12. one two three", 12, ["12. one two", "    three"]),
        ("a supercalifragilistic b", 10, ["a", "supercalif", "ragilistic", "b"]),
        ("漢字漢字漢字", 8, ["漢字漢字", "漢字"]),
        ("漢字漢字。漢", 8, ["漢字漢", "字。漢"]),
        ("「漢字」「漢字」", 10, ["「漢字」", "「漢字」"]),
        ("한국어 한국어", 8, ["한국어", "한국어"]),
        ("🇩🇪🇩🇪🇩🇪🇩🇪🇩🇪", 9, ["🇩🇪🇩🇪🇩🇪🇩🇪", "🇩🇪"]),
        ("\tone two", 8, ["    one", "    two"]),
        ("one \n\n two", 8, ["one ", "", " two"]),
        ("", 8, [""]),
    ],
)
def test_these(text: str, columns: int, lines: list[str]) -> None:
    assert wrapped(text, columns) == lines


def test_a_word_waits_until_it_is_whole() -> None:
    flow = Flow()
    assert [flow.feed(piece, 10) for piece in ("one t", "wo th", "ree", " ")] == [
        "one",
        " two",
        "\n",
        "three",
    ]


def test_code_between_fences_and_long_addresses_can_be_copied() -> None:
    code = "```py\nvalue = one_long_name + another_name\n```\nand so on and on"
    flow = Flow()
    assert flow.feed(code, 10) + flow.end() == (
        "```py\nvalue = one_long_name + another_name\n```\nand so on\nand on"
    )
    address = "https://example.org/" + "x" * 40
    assert flow.feed(f"see {address} now", 20) + flow.end() == f"see\n{address}\nnow"


def test_a_line_goes_on_where_it_is_told() -> None:
    """Rows of help: the second column stays a column."""
    parts = [("cyan", "--name  "), ("", "what it means in more words")]
    assert "".join(text for _, text in broken(parts, 22, 8)) == (
        "--name  what it means\n        in more words"
    )
    assert [style for style, text in broken(parts, 22, 8) if text.strip()] == ["cyan", "", ""]


@given(st.lists(st.tuples(st.sampled_from(["", "red"]), WORDS.map(visible)), max_size=4), COLUMNS)
def test_styled_texts_are_broken_like_plain_ones(
    parts: list[tuple[str, str]], columns: int
) -> None:
    for line in lines_of(parts):
        printed = "".join(text for _, text in broken(line, columns))
        assert max(map(width, on_a_terminal(printed, columns))) <= columns
        assert solid(printed) == solid("".join(text for _, text in line))
