"""The texts that the designs drew, to the letter, and the rules behind them."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from refold.core.plan import Receipt
from refold.display import ago
from refold.edges.displays.overview import (
    ArtifactLine,
    Overview,
    Said,
    compaction_box,
    overview_lines,
    usage_box,
    usage_lines,
)
from refold.edges.displays.phrases import (
    advice,
    compacted,
    compacting,
    header,
    short_and_exact,
    short_number,
    status_line,
    told,
    warning,
)
from refold.edges.displays.wrap import fitted, width
from refold.log.notices import Notice

GOLDEN = Path(__file__).parent / "golden"
AT = datetime(2025, 12, 27, 10, 30, tzinfo=UTC)
SEEN = Overview(
    conversation="conv-abc123",
    title="Add user authentication",
    messages={"user": 20, "assistant": 15, "tool": 10, "system": 0},
    artifacts={"file": 8, "search_result": 3, "command_output": 1},
    current=85_420,
    window=200_000,
    cost=0.0512,
    created_ms=int(AT.timestamp() * 1000),
    updated_ms=int(AT.replace(hour=11, minute=15).timestamp() * 1000),
    recent=(
        Said(role="user", text="older"),
        Said(role="user", text="Add login page"),
        Said(role="assistant", text="I'll create a login component..."),
        Said(role="tool", text="Created file: src/pages/Login.tsx (artifact://art-007)"),
        Said(role="assistant", text="Login page created. Next, I'll add authentication..."),
    ),
    first=(
        ArtifactLine(id="art-001", name="src/auth/login.ts", type="file", lines=250),
        ArtifactLine(
            id="art-002",
            name='Search results: "authentication libraries"',
            type="search_result",
            lines=15,
        ),
        ArtifactLine(id="art-003", name="npm install output", type="command_output", lines=120),
    ),
)


def golden(name: str) -> str:
    return (GOLDEN / f"{name}.txt").read_text(encoding="utf-8")


def joined(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def test_a_conversation_at_a_glance_is_the_golden_text() -> None:
    """M-100"""
    assert joined(overview_lines(SEEN, UTC)) == golden("overview")


def test_a_glance_names_only_what_is_there() -> None:
    empty = replace(
        SEEN, messages={}, artifacts={}, recent=(), first=(), created_ms=0, cost=None, current=0
    )
    text = joined(overview_lines(empty, UTC, call=lambda name: f"refold context {name} x"))
    assert "Recent" not in text and "Artifacts:\n" not in text and "more" not in text
    assert "Messages: 0\nArtifacts: 0\nTokens: 0 / 200,000 (0.0%)\nCost: n/a\n\nRun" in text
    assert "Run 'refold context messages x' to see all messages" in text
    long = replace(SEEN, recent=(Said(role="user", text="漢字 \n" * 40),))
    [line] = [line for line in overview_lines(long, UTC) if line.startswith("  [User]")]
    assert line.endswith("...") and width(line) <= len("  [User] ") + 60


def test_the_usage_box_is_the_golden_text() -> None:
    """Y-91, Y-97"""
    assert joined(usage_box(12, 45, 2)) == golden("box")
    assert joined(usage_box(12, 45, 2)).startswith("+")
    empty = joined(usage_box(0, 0, 0))
    assert "[####################] 100%" in empty and "Uncompressed" in empty


def test_the_box_after_a_compaction_says_what_it_saved() -> None:
    """Y-92"""
    lines = compaction_box(12, 45, 2)
    assert lines[1].startswith("| Compaction Complete ")
    assert lines[3].startswith("| Active               12  [####...........]")
    assert lines[4].startswith("| Total                45  [###############]")
    assert lines[7].startswith("| Saved: 73%")
    assert {len(line) for line in lines} == {50}


@given(st.integers(0, 9_999), st.integers(0, 9_999), st.integers(0, 99), st.integers(30, 60))
def test_a_box_is_as_narrow_as_the_screen(active: int, more: int, sums: int, columns: int) -> None:
    for made in (usage_box, compaction_box):
        lines = made(active, active + more, sums, columns)
        assert {width(line) for line in lines} == {min(50, columns)}
        assert any("%" in line for line in lines) and all("..." not in line[:12] for line in lines)


@given(st.integers(1, 999), st.data())
def test_what_is_used_and_what_is_saved_are_all(total: int, data: st.DataObject) -> None:
    active = data.draw(st.integers(0, total))
    [used] = re.findall(r"(\d+)%", "".join(usage_box(active, total, 0)))
    [saved] = re.findall(r"(\d+)%", "".join(compaction_box(active, total, 0)))
    assert int(used) + int(saved) == 100


@given(st.integers(0, 10**9), st.integers(0, 10**9), st.integers(0, 10**6))
def test_every_row_of_a_box_is_as_wide_as_its_border(active: int, more: int, notes: int) -> None:
    for lines in (
        usage_box(active, active + more, notes),
        compaction_box(active, active + more, notes),
    ):
        assert {width(line) for line in lines} == {50}


def test_usage_with_its_parts_is_the_golden_text() -> None:
    """Y-93"""
    parts = {"system": 1_200, "memory": 800, "summaries": 0, "conversation": 56_432}
    lines = usage_lines(
        current=58_432,
        window=128_000,
        messages=47,
        oldest_age_ms=2 * 3_600_000 + 5,
        parts=parts,
    )
    assert joined(lines) == golden("usage") and sum(parts.values()) == 58_432


def test_status_line_header_and_sentences_are_the_golden_texts() -> None:
    """Y-94, Y-95, Y-96"""
    lines = [
        status_line("mycode", "0.2.0", "gpt-4o", 58_432, 128_000),
        header(45, 120),
        warning(102_400, 128_000),
        compacting(91.7, "prune"),
        compacted("prune"),
    ]
    assert joined(lines) == golden("phrases")
    assert status_line("x", "1", "m", 102_399, 128_000).endswith("79% (102K/128K tokens)")
    assert header(0, 120) == "" and header(45, 120, percent=12).endswith("(12%)")
    assert advice(104_960, 128_000) == "Context usage at 82% - Consider using /compact"


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0"), (999, "999"), (1_000, "1K"), (58_432, "58K"), (999_999, "999K"), (2_000_000, "2.0M"), (1_999_999, "1.9M")],
)  # fmt: skip
def test_numbers_are_cut(count: int, text: str) -> None:
    assert short_number(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "just now"), (59, "just now"), (60, "1 minute ago"), (7_199, "1 hour ago"), (7_200, "2 hours ago"), (200_000, "2 days ago")],
)  # fmt: skip
def test_ages_are_said_in_words(seconds: int, text: str) -> None:
    assert ago(seconds * 1_000) == text


def test_notices_are_told_in_sentences_and_coherence_only_where_it_was_checked() -> None:
    """Y-96, Y-98"""
    receipt = Receipt(batch="b", tokens_before=60_000, tokens_after=8_000, messages_hidden=45)
    done = Notice(name="compaction-complete", strategy="gist", receipt=receipt)
    summed = "Summarized 45 messages, saved 52K tokens"
    assert told(done) == ["Compaction complete (gist)", summed]
    checked = replace(done, details={"asked": 2, "accepted": 2})
    assert told(checked)[-1] == "Conversation coherence preserved"
    refused = replace(done, details={"asked": 2, "accepted": 1})
    assert told(refused)[-1] == summed
    failed = Notice(
        name="compaction-failed", reason="a number is not in the span", details={"asked": 1}
    )
    assert told(failed) == ["Summary check failed: a number is not in the span"]
    raised = Notice(name="compaction-failed", reason="KeyError: 'x'", strategy="mine")
    assert told(raised) == ["Compaction failed (mine): KeyError: 'x'"]
    warned = Notice(name="context-warning", tokens=102_400, max=128_000)
    assert told(warned)[0] == "Context usage at 80% (102K/128K tokens)"
    assert told(Notice(name="index-behind", reason="x")) == []


@given(st.text(), st.integers(0, 80))
def test_a_fitted_text_takes_at_most_its_columns(text: str, columns: int) -> None:
    short = fitted(text, columns)
    assert width(short) <= columns and (short == text or width(text) > columns)


@pytest.mark.parametrize(
    ("tokens", "text"),
    [(0, "0 tokens"), (1, "1 token"), (999, "999 tokens"), (1_000, "1K tokens (1,000)"),
     (41_200, "41K tokens (41,200)"), (11_605, "11K tokens (11,605)")],
)  # fmt: skip
def test_what_was_saved_is_said_short_and_exact(tokens: int, text: str) -> None:
    """Y-90"""
    assert short_and_exact(tokens, "token") == text
