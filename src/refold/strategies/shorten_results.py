"""The largest old tool results shrink to their needed lines: head, tail, errors, and the lines with
words of the task.

The lines are the original's own, by number, so nothing is reworded, and every gap says how many
lines it leaves out. Results before the tail are shortened, the largest first, until the target is
met; a single giant line is left to `fit`. Neighbours: `clear` empties results and finds the tool
uses; `brief.words` splits the task into words.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate

from refold.config import recent_messages
from refold.core.model import Edit, Replace, Span, Text
from refold.core.plan import Ask
from refold.core.shortened import text_of
from refold.strategies.brief import Brief
from refold.strategies.clear import Use, result_tokens, uses
from refold.strategies.protected_messages import protected, tail_start
from refold.strategies.word_stems import words

MARKERS = (
    "error",
    "fail",
    "exception",
    "traceback",
    "panic",
    "fatal",
    "warning",
    "denied",
    "not found",
    "assert",
)
HITS_PER_WORD = 24
WORTH = 0.75  # of a result: with a larger share of needed lines, it stays complete


def keep(brief: Brief) -> list[Edit | Ask]:
    """Shortens large old results to their needed lines."""
    left = brief.excess
    task_words = [word for word in dict.fromkeys(words(brief.task)) if len(word) > 2]
    head, tail = brief.setting("head", 10), brief.setting("tail", 10)
    most = brief.setting("lines", 20)
    edits: list[Edit | Ask] = []
    for tokens, use in _largest_uses(brief):
        if left <= 0:
            break
        spans, share = needed_lines(
            text_of(use.result), (*MARKERS, *task_words), head=head, tail=tail, most=most
        )
        if share <= WORTH:
            edit = Replace(
                batch=brief.batch,
                seq=use.answer.seq,
                block=use.block,
                keep=spans,
                reason="the needed lines of a tool result",
            )
            edits.append(edit)
            left -= int(tokens * (1 - share))
    return edits


def _largest_uses(brief: Brief) -> list[tuple[int, Use]]:
    """The uses with a result that may be shortened, and its tokens: before the tail, neither
    protected nor excluded, the largest first, of equal ones the older first."""
    smallest = brief.setting("min_tokens", 200)
    messages, tokens = recent_messages(brief.config), max(0, brief.target // 2)
    tail = brief.slots[tail_start(brief.view, keep_messages=messages, keep_tokens=tokens) :]
    tail_seq = tail[0].seq if tail else brief.view.head + 1
    held = protected(brief.view)
    sized = [
        (result_tokens(brief, use), use)
        for use in uses(brief.slots)
        if use.answer.seq < tail_seq
        and use.answer.seq not in held
        and use.call.name not in brief.config.exclude_tools
    ]
    large = [
        (tokens, use)
        for tokens, use in sized
        if tokens >= smallest
        # Lines are numbered in the original, so an edited result cannot be shortened further.
        and use.block not in [applied.block for applied in use.answer.edits]
        and all(isinstance(part, Text) for part in use.result.content)
    ]
    return sorted(large, key=lambda sized: (-sized[0], sized[1].answer.seq, sized[1].block))


# --- lines ---


def needed_lines(
    text: str, wanted: Iterable[str], *, head: int, tail: int, most: int
) -> tuple[tuple[Span, ...], float]:
    """The line ranges to keep, from 1, and their share of the text: head, tail, and at most `most`
    lines with a wanted word, each with the line after it."""
    # Where each line ends, the line break included, with a 0 in front.
    ends = list(accumulate((len(line) + 1 for line in text.split("\n")), initial=0))
    count = len(ends) - 1
    if count <= head + tail:
        return (Span(1, count),), 1.0
    chosen = {*range(1, head + 1), *range(count - tail + 1, count + 1)}
    for number in _lines_with(wanted, text.lower(), ends, most):
        chosen.update((number, min(number + 1, count)))
    spans = line_ranges(sorted(chosen))
    chars = sum(ends[span.last] - ends[span.first - 1] for span in spans)
    return spans, chars / ends[-1]


def _lines_with(wanted: Iterable[str], lower: str, ends: Sequence[int], most: int) -> list[int]:
    """The lines with a wanted word, the words in their order of importance."""
    numbers: dict[int, None] = {}
    for word in wanted:
        for at in _hits(lower, word):
            if len(numbers) >= most:
                return list(numbers)
            numbers[bisect_right(ends, at)] = None
    return list(numbers)


def _hits(lower: str, word: str) -> Iterator[int]:
    """The positions of a word, at most one per line."""
    at = lower.find(word)
    for _ in range(HITS_PER_WORD):
        if at < 0:
            return
        yield at
        line_end = lower.find("\n", at)
        if line_end < 0:
            return
        at = lower.find(word, line_end)


def line_ranges(numbers: Iterable[int]) -> tuple[Span, ...]:
    """Numbers as ranges; a gap of one line is closed, since a note about it costs as much as the
    line."""
    ranges: list[Span] = []
    for number in numbers:
        if ranges and number <= ranges[-1].last + 2:
            ranges[-1] = Span(ranges[-1].first, number)
        else:
            ranges.append(Span(number, number))
    return tuple(ranges)
