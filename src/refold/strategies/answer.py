"""What a strategy gave is held to what it may give before it touches a page: a strategy may be
anybody's code.

A list of edits and asks, each of which could be written to a log and read again, and is about what
was said so far. Neighbours: `ladder` asks the strategies, and leaves out one whose answer is
refused.
"""

from __future__ import annotations

from collections.abc import Sequence

from refold.core.codec import body_of, encode, kind_of
from refold.core.model import Edit, Hide, Replace, Span, Summarize
from refold.core.plan import Ask
from refold.strategies.brief import Brief


def checked_answer(given: object, brief: Brief) -> Sequence[Edit | Ask]:
    """The edits and asks for a brief; an error if one of them is none, or for something else."""
    if not isinstance(given, list | tuple):
        raise TypeError(f"it gave {type(given).__name__}, not a list of edits")
    for item in given:
        _check_item(item, brief)
    return given


def _check_item(item: object, brief: Brief) -> None:
    edit = item.draft if isinstance(item, Ask) else item
    if not isinstance(edit, Hide | Replace | Summarize):
        raise TypeError(f"it gave {type(edit).__name__} among its edits")
    if isinstance(item, Ask) and not isinstance(item.instructions, str):
        raise TypeError(f"it gave an ask with {type(item.instructions).__name__} for instructions")
    body_of(kind_of(edit), encode(edit))
    if edit.batch != brief.batch:
        raise ValueError("it gave an edit of another batch than brief.batch")
    span = Span(edit.seq, edit.seq) if isinstance(edit, Replace) else edit.span
    if not 1 <= span.first <= span.last <= brief.view.head:
        raise ValueError(f"it gave an edit of {span}, but the log ends at #{brief.view.head}")
