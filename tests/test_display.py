"""Texts that are shown: cut, on one line, with the nearest name, and fenced."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold import display
from refold.display import (
    cut,
    fenced,
    markdown_fence,
    nearest,
    one_line,
    suggestion,
    visible,
    without_colors,
)


@given(st.text(max_size=40), st.integers(1, 30))
def test_a_cut_text_is_never_longer_than_asked(text: str, length: int) -> None:
    shown = cut(text, length)
    assert len(shown) <= length
    assert shown == text if len(text) <= length else shown.endswith("…")


def test_one_line_keeps_words_and_no_line_ends() -> None:
    assert one_line("  a\n\tb \r\n c ") == "a b c"


def test_the_nearest_names_come_best_first_and_nothing_like_it_gives_none() -> None:
    names = ["warn_ratio", "target_ratio", "ladder"]
    assert nearest("warn_ration", names) == ["warn_ratio"]
    assert nearest("target_ratio2", names, limit=3) == ["target_ratio", "warn_ratio"]
    assert nearest("zzz", names) == []
    assert nearest("warn_ratio" * 1_000_000, names) == []


def test_an_unknown_name_gets_the_nearest_or_the_list() -> None:
    assert suggestion("laddr", ("ladder", "auto")) == "did you mean ladder?"
    assert suggestion("zzz", ("ladder", "auto")) == "known: ladder, auto"


@given(st.text(max_size=60))
def test_a_fenced_text_stands_whole_between_two_marks(text: str) -> None:
    whole = fenced(text, "file", " path='a'")
    assert whole == fenced(text, "file", " path='a'")
    mark = re.match(r"<(file-[0-9a-f]{12}) path='a'>\n", whole)
    assert mark is not None
    assert whole[mark.end() :] == f"{text}\n</{mark[1]}>"
    assert mark[1] not in text


def test_a_text_cannot_close_its_own_fence() -> None:
    mark = fenced("text", "file").rsplit("</", 1)[1]
    assert fenced(f"text\n</{mark}", "file").count(f"</{mark}") == 1


@pytest.mark.parametrize("where", ["text", "attributes"])
def test_a_mark_that_occurs_is_not_used(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody can write a text with its own digest, so the digests are given here."""
    digits = iter(["1" * 12, "2" * 12, "3" * 12])
    monkeypatch.setattr(display, "_digits", lambda text: next(digits))
    attack = f"</data-{'1' * 12}> and </data-{'2' * 12}>"
    text, attributes = (attack, "") if where == "text" else ("plain", f" name={attack!r}")
    whole = fenced(text, "data", attributes)
    assert whole.startswith(f"<data-{'3' * 12}") and whole.count(f"</data-{'3' * 12}>") == 1


@given(st.lists(st.text("`a\n", max_size=6), max_size=6))
def test_a_markdown_fence_is_longer_than_any_run_also_over_pieces(pieces: list[str]) -> None:
    runs = [len(run) for run in re.findall("`+", "".join(pieces))]
    assert markdown_fence(pieces) == "`" * max(3, *(run + 1 for run in runs), 0)


def _unseen() -> list[str]:
    """Every character that steers, joins, fills or turns and has no shape of its own."""
    ranges = [(0x00AD, 0x00AD), (0x034F, 0x034F), (0x061C, 0x061C), (0x115F, 0x1160),
              (0x17B4, 0x17B5), (0x180B, 0x180F), (0x200B, 0x200F), (0x2028, 0x202E),
              (0x2060, 0x206F), (0x3164, 0x3164), (0xFE00, 0xFE0F), (0xFEFF, 0xFEFF),
              (0xFFA0, 0xFFA0), (0xFFF0, 0xFFFB), (0x1BCA0, 0x1BCA3), (0x1D173, 0x1D17A),
              (0xE0000, 0xE01EF)]  # fmt: skip
    return [chr(code) for first, last in ranges for code in range(first, last + 1)]


def test_what_no_screen_shows_is_shown_as_an_escape() -> None:
    for char in [*_unseen(), "\x1b", "\x00", "\x9b", "\ud800"]:
        shown = visible(f"pass{char}word")
        assert shown.isascii() and shown.startswith("pass\\") and shown.endswith("word")


def test_letters_of_any_script_and_signs_in_color_are_shown_as_they_are() -> None:
    text = "naïve Ωμέγα привет 日本語 한국어 עברית ✔️ ❤️ 1️⃣ 😀\n\t"
    assert visible(text) == text


COLORS = (
    "\x1b[31m", "\x1b[0m", "\x1b[1;38;5;196m", "\x1b[38:2::1:2:3m", "\x1b[2K", "\x1b[?25l",
    "\x1b]0;title\x07", "\x1b]8;;https://example.org\x1b\\",
)  # fmt: skip


@given(st.lists(st.tuples(st.sampled_from(COLORS), st.text(alphabet="abc [;m\n", max_size=5))))
def test_colors_go_and_every_other_character_stays(parts: list[tuple[str, str]]) -> None:
    text = "".join(color + said for color, said in parts)
    assert without_colors(text) == "".join(said for _, said in parts)
    blank = without_colors(text, same_length=True)
    assert len(blank) == len(text)
    assert blank == "".join(" " * len(color) + said for color, said in parts)
