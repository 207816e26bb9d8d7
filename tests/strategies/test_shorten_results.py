"""Old tool results shrink to the lines that are needed."""

from __future__ import annotations

from refold.core.model import Body, Media, Message, Pin, Span, Text, ToolCall, ToolResult
from refold.strategies.shorten_results import keep, needed_lines
from tests.strategies.talks import climbed, log_of, said, shown, state_of, used

TALL = "\n".join(f"line {number} of the output" for number in range(1, 201))


def work(*outputs: str) -> list[Body]:
    """A request, a tool use for each output, and a tail of small talk that keeps them out of the
    recent ones."""
    parts: list[Body] = [said("user", "go")]
    for number, output in enumerate(outputs):
        parts += used(f"u{number}", output)
    return [*parts, *(said("assistant", f"step {i}") for i in range(12))]


def test_head_tail_and_errors_stay() -> None:
    lines = TALL.split("\n")
    lines[99] = "ValueError: the parser failed"
    done = climbed(log_of(work("\n".join(lines))), keep)
    (page,) = shown(done.state.view().slots[2])
    assert page.startswith("line 1 of") and page.endswith("line 200 of the output")
    assert "ValueError: the parser failed\nline 101 of" in page
    assert "… 89 lines" in page


def test_lines_with_words_of_the_task_stay() -> None:
    lines = TALL.split("\n")
    lines[49] = "def login_handler():"
    done = climbed(log_of(work("\n".join(lines))), keep, task="fix the login")
    assert "def login_handler():" in shown(done.state.view().slots[2])[0]


def test_the_kept_lines_are_ranges_of_the_original() -> None:
    assert needed_lines(TALL, (), head=2, tail=3, most=5)[0] == (Span(1, 2), Span(198, 200))
    spans, share = needed_lines(TALL, ("line 50 ",), head=1, tail=1, most=5)
    assert spans == (Span(1, 1), Span(50, 51), Span(200, 200)) and 0.01 < share < 0.03
    assert needed_lines("a\nb\nc", (), head=1, tail=1, most=5) == ((Span(1, 3),), 1.0), (
        "a gap of one line is closed"
    )


def test_the_largest_goes_first_and_only_until_the_target() -> None:
    log = log_of(work(TALL, TALL * 4, TALL))
    before = state_of(log).view().tokens
    done = climbed(log, keep, target=before - 1_000)
    assert [proposal.edit.seq for proposal in done.proposals] == [5]
    assert done.state.view().tokens <= before - 1_000


def test_one_giant_line_media_pins_and_the_tail_are_left_alone() -> None:
    picture = Message(
        role="tool", blocks=(ToolResult("p", (Text(TALL), Media(media="image", data="aGk="))),)
    )
    call = Message(role="assistant", blocks=(ToolCall("p", "look", {}),))
    parts = [*work("x" * 20_000), call, picture, *work(TALL)[1:]]
    log = log_of([*parts, *used("last", TALL), Pin(seq=18)])
    assert not climbed(log, keep).proposals


def test_a_shortened_result_is_not_shortened_again() -> None:
    log = log_of(work(TALL, TALL))
    done = climbed(log, keep)
    assert len(done.proposals) == 2
    assert not climbed(log, keep, state=done.state).proposals


def test_memory_results_are_left_alone() -> None:
    parts = [said("user", "go"), *used("m", TALL, tool="memory"), *work("small")[1:]]
    assert not climbed(log_of(parts), keep).proposals
