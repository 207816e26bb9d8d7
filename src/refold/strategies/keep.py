"""The largest old tool results shrink to the lines that are needed: head, tail, errors, and what
the task speaks of.

What stays is the original's own lines, by number, so nothing is reworded and every gap says how
many lines it leaves out. Only results before the tail, the largest first, until the target is met;
one giant line is left to `fit`. Neighbours: `clear` takes results away whole; `words` knows the
words of the task.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate

from refold.core.fold import text_of
from refold.core.model import Edit, Replace, Span, Text
from refold.core.plan import Ask
from refold.strategies.brief import Brief, protected, tail_start
from refold.strategies.clear import Use, part_tokens, uses
from refold.strategies.terms import words

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
WORTH = 0.75


def keep(brief: Brief) -> list[Edit | Ask]:
    """Shortens large old results to their needed lines."""
    left = brief.excess
    wanted = tuple(word for word in dict.fromkeys(words(brief.task)) if len(word) > 2)
    amounts = _amounts(brief)
    edits: list[Edit | Ask] = []
    for use in _largest(brief):
        if left <= 0:
            break
        spans, share = needed_lines(text_of(use.result), (*MARKERS, *wanted), **amounts)
        if share <= WORTH:
            edits.append(_edit(brief, use, spans))
            left -= int(part_tokens(brief, use.answer, use.result) * (1 - share))
    return edits


def _amounts(brief: Brief) -> dict[str, int]:
    return {
        "head": brief.setting("head", 10),
        "tail": brief.setting("tail", 10),
        "most": brief.setting("lines", 20),
    }


def _largest(brief: Brief) -> list[Use]:
    """The results that may be shortened, the largest first."""
    view, held = brief.view, protected(brief.view)
    start = tail_start(
        view, keep_messages=brief.config.keep_recent, keep_tokens=max(0, brief.target // 2)
    )
    tail = view.slots[start].seq if start < len(view.slots) else view.head + 1
    smallest = brief.setting("min_tokens", 200)
    sized = [
        (part_tokens(brief, use.answer, use.result), use)
        for use in uses(view)
        if use.answer.seq < tail
        and use.answer.seq not in held
        and use.call.name not in brief.config.exclude_tools
    ]
    large = [(tokens, use) for tokens, use in sized if tokens >= smallest and _is_plain(use)]
    return [
        use
        for _, use in sorted(large, key=lambda pair: (-pair[0], pair[1].answer.seq, pair[1].block))
    ]


def _is_plain(use: Use) -> bool:
    """Whether the result is text as it came: lines are numbered in the original, and media have
    none."""
    edited = any(applied.block == use.block for applied in use.answer.edits)
    return not edited and all(isinstance(part, Text) for part in use.result.content)


def _edit(brief: Brief, use: Use, spans: tuple[Span, ...]) -> Replace:
    reason = "the needed lines of a tool result"
    return Replace(
        batch=brief.batch, seq=use.answer.seq, block=use.block, keep=spans, reason=reason
    )


# --- lines ---


def needed_lines(
    text: str, wanted: Iterable[str], *, head: int, tail: int, most: int
) -> tuple[tuple[Span, ...], float]:
    """The line ranges to keep, from 1, and the part of the text they are: head, tail, and at
    most `most` lines with a wanted word, each with the line behind it."""
    ends = list(accumulate(map(len, text.split("\n")), lambda end, size: end + size + 1, initial=0))
    count = len(ends) - 1
    if count <= head + tail:
        return (Span(1, count),), 1.0
    chosen = {*range(1, head + 1), *range(count - tail + 1, count + 1)}
    for number in _found(text.lower(), wanted, ends, most):
        chosen.update((number, min(number + 1, count)))
    spans = line_ranges(sorted(chosen))
    return spans, sum(ends[span.last] - ends[span.first - 1] for span in spans) / ends[-1]


def _found(lower: str, wanted: Iterable[str], ends: Sequence[int], most: int) -> list[int]:
    """The lines with a wanted word, the words in their order of importance."""
    found: dict[int, None] = {}
    for word in wanted:
        for at in _hits(lower, word):
            if len(found) >= most:
                return list(found)
            found[bisect_right(ends, at)] = None
    return list(found)


def _hits(lower: str, word: str) -> Iterator[int]:
    at = lower.find(word)
    for _ in range(HITS_PER_WORD):
        if at < 0:
            return
        yield at
        # The next hit in the same line would say nothing new.
        line_end = lower.find("\n", at)
        at = lower.find(word, line_end) if line_end >= 0 else -1


def line_ranges(numbers: Iterable[int]) -> tuple[Span, ...]:
    """Numbers as ranges; a gap of one line is closed, since saying that it is missing costs as
    much as the line."""
    out: list[Span] = []
    for number in numbers:
        if out and number <= out[-1].last + 2:
            out[-1] = Span(out[-1].first, number)
        else:
            out.append(Span(number, number))
    return tuple(out)
