"""The estimate: exact at the small sizes that are promised, near the truth for every kind of
text, additive."""

from __future__ import annotations

import base64
import json
import random
import time
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.tokens.estimate import _WEIGHTS, BASE64, LINE, PIECE_CHARS, SYMBOL, UNIT, estimate

ANY_TEXT = st.text(st.characters(codec=None, exclude_categories=()), max_size=400)
PROSE = (
    "A log that only grows lies underneath; the page the model reads is folded from it. What serves none of these, "
    "and neither keeps nor shows their results, does not belong. "
)
CODE = '''def kept_lines(text: str, keep: tuple[Span, ...]) -> str:
    """The lines of a text that stay."""
    lines = text.split("\\n")
    for span in keep:
        first, last = max(span.first, at), min(span.last, len(lines))
        if first > last:
            continue
    return "\\n".join(shown)
'''
TOOL = json.dumps(
    {
        "tool": "read_file",
        "path": "src/refold/core/fold.py",
        "lines": [1, 250],
        "ok": True,
        "size": 18213,
    }
)
LOG = "2026-11-03T14:07:22.481Z INFO [store.sqlite] appended 14 events to conversation id=48213 took=312ms\n"
RANDOM = random.Random(7).randbytes(3000)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        ("a", 1),
        ("abcdefgh", 2),
        ("abcdefghi", 3),
        (" ", 1),
        ("\n", 1),
        ("x" * 4, 1),
        ("z" * 9, 3),
    ],
)
def test_small_texts_count_as_four_characters_per_token(text: str, tokens: int) -> None:
    """Y-03: "" is 0, one letter 1, eight letters 2, nine letters 3."""
    assert estimate(text) == tokens


@pytest.mark.parametrize("sign", ["中", "語", "字"])
def test_a_hundred_chinese_characters_are_at_least_sixty_tokens(sign: str) -> None:
    """Y-03: Han is not four characters per token."""
    assert 60 <= estimate(sign * 100) <= 120


@pytest.mark.parametrize(
    ("kind", "text", "exact", "error_max"),
    # `exact` is what o200k gives, counted with rs-bpe 0.1.0.
    [
        ("prose", PROSE * 10, 361, 0.15),
        ("code", CODE * 10, 780, 0.15),
        ("json", TOOL * 10, 400, 0.25),
        ("log", LOG * 10, 350, 0.15),
        ("base64", base64.b64encode(RANDOM).decode(), 2710, 0.10),
        ("hex", RANDOM.hex(), 3362, 0.10),
        ("chinese", "数据库连接失败，请检查配置文件并重新启动服务。" * 20, 240, 0.50),
        (
            "japanese",
            "データベースに接続できませんでした。設定を確認してください。" * 20,
            320,
            0.35,
        ),
        ("korean", "데이터베이스에 연결할 수 없습니다. 설정을 확인하세요. " * 20, 282, 0.35),
        ("russian", "Не удалось подключиться к базе данных, проверьте настройки. " * 20, 261, 0.35),
        ("emoji", "🎉🚀🔥👍😀🐍📦✅" * 20, 240, 0.6),
    ],
    ids=lambda value: value if isinstance(value, str) and len(value) < 12 else "",
)
def test_the_error_is_bounded_for_every_kind_of_text(
    kind: str, text: str, exact: int, error_max: float
) -> None:
    """Y-03: near o200k for prose, code, JSON, logs, random letters and other scripts."""
    assert abs(estimate(text) - exact) / exact <= error_max, (kind, estimate(text))


def test_a_drawn_line_is_cheaper_than_its_signs() -> None:
    """Y-03: command-line tools draw boxes; a sign of its own costs more than one token."""
    assert estimate("─" * 100) <= 30
    assert estimate("→" * 100) >= 100


def test_a_long_run_of_spaces_is_nearly_free() -> None:
    """Y-03: a tokenizer takes a run of spaces whole, four characters per token would be 25,000."""
    assert estimate(" " * 100_000) <= 2_000


@given(ANY_TEXT)
def test_any_text_has_a_count_and_only_the_empty_one_has_none(text: str) -> None:
    """Y-03: never negative, never an error, lone surrogates included."""
    assert estimate(text) == estimate(text)
    assert (estimate(text) > 0) == bool(text)


@given(ANY_TEXT, ANY_TEXT)
def test_two_texts_together_count_nearly_as_apart(first: str, second: str) -> None:
    """Y-09: sums of counts stand for counts of sums; only rounding and the rule for base64 lie
    between."""
    together, apart = estimate(first + second), estimate(first) + estimate(second)
    slack = BASE64 * (len(first) + len(second)) // UNIT
    assert apart - slack - 1 <= together <= apart + slack


@given(
    st.text(alphabet="abc XY.,({\n", max_size=200), st.text(alphabet="abc XY.,({\n", max_size=200)
)
def test_ordinary_text_is_additive_but_for_rounding(first: str, second: str) -> None:
    """Y-09: without digits nothing looks like base64, so that only rounding is left."""
    assert 0 <= estimate(first) + estimate(second) - estimate(first + second) <= 1


@given(st.text(alphabet="abc XY.,({\n", max_size=200), st.sampled_from("a X.\n"))
def test_one_more_character_never_makes_a_text_lighter(text: str, sign: str) -> None:
    assert estimate(text + sign) >= estimate(text)


def weighed(text: str) -> int:
    """The estimate, added up byte by byte, without the rule for base64."""
    data = text.encode("utf-8", "surrogatepass")
    drawn = data.count(b"\xe2\x94") + data.count(b"\xe2\x95")
    return -(-(sum(_WEIGHTS[byte] for byte in data) - drawn * (SYMBOL - LINE)) // UNIT)


@given(ANY_TEXT, st.integers(1, 40))
def test_the_fast_sum_is_the_sum_of_the_weights(text: str, times: int) -> None:
    """Y-03: Adler-32 adds up modulo 65,521, and no piece may come that far."""
    assert estimate(text * times) in (
        weighed(text * times),
        -(-len((text * times).encode("utf-8", "surrogatepass")) * BASE64 // UNIT),
    )


@pytest.mark.parametrize(
    "sign",
    [
        "\n",
        "\x01",
        "0",
        "$",
        "é",
        "\u0301",
        "→",
        "中",
        "🎉",
        "\U0010ffff",
        "\ud800",
        "\0",
        " ",
        "a",
    ],
)
def test_the_heaviest_runs_do_not_overflow(sign: str) -> None:
    """Y-111: a million equal characters, NUL and lone surrogates among them, weigh what each of
    them weighs."""
    assert estimate(sign * 1_000_000) == -(
        -_WEIGHTS[sign.encode("utf-8", "surrogatepass")[0]] * 1_000_000 // UNIT
    )


def test_a_line_of_ten_megabytes_and_special_tokens_are_text() -> None:
    """Y-111: no line is too long, and no name of a special token means anything."""
    line = (PROSE + "<|endoftext|><|im_start|>") * 60_000
    assert len(line) > 10_000_000
    assert estimate(line) == pytest.approx(
        60_000 * estimate((PROSE + "<|endoftext|><|im_start|>") * 100) / 100, rel=0.001
    )


def test_pieces_of_a_large_text_add_up() -> None:
    assert estimate(PROSE * 4000) == pytest.approx(4000 * estimate(PROSE * 100) / 100, rel=0.001)
    assert len(PROSE * 4000) > 2 * PIECE_CHARS


def test_a_large_text_is_counted_without_a_copy_of_it() -> None:
    """Y-111: counting 20 MB takes less than 1 MB of memory."""
    text = PROSE * 100_000
    tracemalloc.start()
    estimate(text)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1_000_000


@pytest.mark.soak
def test_four_kilobytes_count_in_microseconds() -> None:
    """Y-110: a count must not be felt in an append; the bound is twenty times what was measured."""
    text = (CODE * 20)[:4096]
    started = time.perf_counter()
    for _ in range(200):
        estimate(text)
    assert (time.perf_counter() - started) / 200 < 140e-6
