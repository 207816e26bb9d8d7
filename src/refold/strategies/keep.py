"""The largest old tool results shrink to the lines that are needed: head, tail, errors, and what
the task speaks of.

What stays is the original's own lines, by number, so nothing is reworded and every gap says how
many lines it leaves out. Only results before the tail, the largest first, until the target is met;
one giant line is left to `fit`. Neighbours: `clear` takes results away whole; `tool_uses` finds
them; `terms` knows the words of the task.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate

from refold.core.model import Edit, Replace, Span, Text
from refold.core.plan import Ask
from refold.core.shortened import text_of
from refold.strategies.brief import Brief, protected, tail_start, words
from refold.strategies.clear import Use, result_tokens, uses

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
WORTH = 0.75  # of a result: if its needed lines are more than this, it is left whole


def keep(brief: Brief) -> list[Edit | Ask]:
    """Shortens large old results to their needed lines."""
    left = brief.excess
    wanted = _wanted_words(brief.task)
    amounts = _amounts(brief)
    edits: list[Edit | Ask] = []
    for tokens, use in _largest_uses(brief):
        if left <= 0:
            break
        spans, share = needed_lines(text_of(use.result), wanted, **amounts)
        if share <= WORTH:
            edits.append(_keep_lines(brief, use, spans))
            left -= int(tokens * (1 - share))
    return edits


def _wanted_words(task: str) -> tuple[str, ...]:
    """What a line is kept for: signs of trouble, then the words of the task."""
    distinct = dict.fromkeys(words(task))
    return (*MARKERS, *(word for word in distinct if len(word) > 2))


def _amounts(brief: Brief) -> dict[str, int]:
    return {
        "head": brief.setting("head", 10),
        "tail": brief.setting("tail", 10),
        "most": brief.setting("lines", 20),
    }


def _largest_uses(brief: Brief) -> list[tuple[int, Use]]:
    """The uses whose result may be shortened, with its tokens, the largest first."""
    smallest = brief.setting("min_tokens", 200)
    sized = [(result_tokens(brief, use), use) for use in _older_uses(brief)]
    large = [(tokens, use) for tokens, use in sized if tokens >= smallest and _is_plain(use)]
    return sorted(large, key=_size_order)


def _size_order(sized: tuple[int, Use]) -> tuple[int, int, int]:
    """The largest first; of two alike the older one."""
    tokens, use = sized
    return -tokens, use.answer.seq, use.block


def _older_uses(brief: Brief) -> list[Use]:
    """The uses before the tail that are neither protected nor excluded."""
    tail = _tail_seq(brief)
    held = protected(brief.view)
    found = uses(brief.view)
    older = [use for use in found if use.answer.seq < tail and use.answer.seq not in held]
    return [use for use in older if use.call.name not in brief.config.exclude_tools]


def _tail_seq(brief: Brief) -> int:
    """The seq where the tail begins, whose results stay whole."""
    messages, tokens = brief.config.keep_recent, max(0, brief.target // 2)
    start = tail_start(brief.view, keep_messages=messages, keep_tokens=tokens)
    tail = brief.slots[start:]
    return tail[0].seq if tail else brief.view.head + 1


def _is_plain(use: Use) -> bool:
    """Whether the result is text as it came: lines are numbered in the original, and media have
    none."""
    if use.block in [applied.block for applied in use.answer.edits]:
        return False
    return all(isinstance(part, Text) for part in use.result.content)


def _keep_lines(brief: Brief, use: Use, spans: tuple[Span, ...]) -> Replace:
    return Replace(
        batch=brief.batch,
        seq=use.answer.seq,
        block=use.block,
        keep=spans,
        reason="the needed lines of a tool result",
    )


# --- lines ---


def needed_lines(
    text: str, wanted: Iterable[str], *, head: int, tail: int, most: int
) -> tuple[tuple[Span, ...], float]:
    """The line ranges to keep, from 1, and the part of the text they are: head, tail, and at
    most `most` lines with a wanted word, each with the line after it."""
    ends = _line_ends(text)
    count = len(ends) - 1
    if count <= head + tail:
        return (Span(1, count),), 1.0
    chosen = {*range(1, head + 1), *range(count - tail + 1, count + 1)}
    for number in _lines_with(wanted, text.lower(), ends, most):
        chosen.update((number, min(number + 1, count)))
    spans = line_ranges(sorted(chosen))
    return spans, _share(spans, ends)


def _line_ends(text: str) -> list[int]:
    """Where each line ends, the line break counted; a 0 in front of them."""
    sizes = [len(line) + 1 for line in text.split("\n")]
    return list(accumulate(sizes, initial=0))


def _share(spans: Iterable[Span], ends: Sequence[int]) -> float:
    """The part of the text that these lines are."""
    chars = sum(ends[span.last] - ends[span.first - 1] for span in spans)
    return chars / ends[-1]


def _lines_with(wanted: Iterable[str], lower: str, ends: Sequence[int], most: int) -> list[int]:
    """The lines with a wanted word, the words in their order of importance."""
    found: dict[int, None] = {}
    for word in wanted:
        for at in _places(lower, word):
            if len(found) >= most:
                return list(found)
            found[bisect_right(ends, at)] = None
    return list(found)


def _places(lower: str, word: str) -> Iterator[int]:
    """Where a word stands, at most once per line."""
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
    """Numbers as ranges; a gap of one line is closed, since saying that it is missing costs as
    much as the line."""
    out: list[Span] = []
    for number in numbers:
        if out and number <= out[-1].last + 2:
            out[-1] = Span(out[-1].first, number)
        else:
            out.append(Span(number, number))
    return tuple(out)
