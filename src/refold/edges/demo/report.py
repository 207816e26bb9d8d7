"""The figures of a run, as one value: what `--json` prints and what the closing table shows.

Nothing here is a constant: every number was counted by a bill, a search or a hash of this run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from refold.edges.commands.command import Result
from refold.edges.demo.questions import Found, Question

if TYPE_CHECKING:
    from refold.edges.demo.proofs import Returned, Searched, Undone
    from refold.edges.demo.sides import Folded, Messages
    from refold.edges.demo.story import Story


class Note(Struct, frozen=True):
    """Something that happened, in lines; the first says what, the others more."""

    kind: str
    lines: list[str]


class Answer(Struct, frozen=True, kw_only=True):
    """A question, and where each side has its answer."""

    question: Question
    everything: Found
    summarized: Found
    window: Found
    folded: Found


class SideReport(Struct, frozen=True, kw_only=True):
    """What one way of sending came to."""

    messages: int
    requests: int
    requests_invalid: int
    requests_over_budget: int
    tokens_max_request: int
    tokens_sent: int
    tokens_from_cache: int
    cost_dollars: float
    cached: bool
    answers: int
    answers_visible: int

    @property
    def requests_valid(self) -> int:
        return self.requests - self.requests_invalid - self.requests_over_budget

    @property
    def share_from_cache(self) -> float:
        return self.tokens_from_cache / self.tokens_sent


class Report(Result, frozen=True, kw_only=True):
    """The whole run."""

    model: str
    window: int
    messages: int
    tokens_seen: int
    tokens_sent: int
    tokens_max_request: int
    compactions: int
    requests: int
    requests_invalid: int
    requests_over_budget: int
    answers: int
    answers_visible: int
    answers_window: int
    questions: list[dict[str, Any]]
    sides: dict[str, SideReport]
    undo: dict[str, Any]
    unfold: dict[str, Any]
    search: dict[str, Any]
    prices: dict[str, float]
    summaries: int
    summaries_dollars: float
    seconds: float = 0.0

    @property
    def outcome(self) -> str:
        """An error if refold did not keep what it promises."""
        fits = not self.requests_invalid and not self.requests_over_budget
        return "ok" if fits and self.undo["equal"] and self.unfold["equal"] else "error"


def report_of(
    story: Story, answers: list[Answer], undone: Undone, returned: Returned, searched: Searched
) -> Report:
    """The figures of a story that has been played."""
    sides = {
        "everything": _side(story, story.everything, [answer.everything for answer in answers]),
        "window": _side(story, story.window, [answer.window for answer in answers]),
        "summaries": _side(story, story.summarized, [answer.summarized for answer in answers]),
        "refold": _side(story, story.folded, [answer.folded for answer in answers]),
    }
    folded = sides["refold"]
    return Report(
        model=story.model.name,
        window=story.window_tokens,
        messages=folded.messages,
        compactions=story.compactions,
        tokens_seen=story.tokens_seen,
        tokens_sent=folded.tokens_sent,
        tokens_max_request=folded.tokens_max_request,
        requests=folded.requests,
        requests_invalid=folded.requests_invalid,
        requests_over_budget=folded.requests_over_budget,
        answers=folded.answers,
        answers_visible=folded.answers_visible,
        answers_window=sides["window"].answers,
        questions=[_row(answer) for answer in answers],
        sides=sides,
        undo={**msgspec.to_builtins(undone), "equal": undone.holds},
        unfold={**msgspec.to_builtins(returned), "equal": returned.holds},
        search={**msgspec.to_builtins(searched), "holds": searched.holds},
        prices=msgspec.to_builtins(story.model.prices) if story.model.prices else {},
        summaries=story.summarized.summaries,
        summaries_dollars=round(story.summarized.summaries_dollars, 6),
    )


def _side(story: Story, side: Messages | Folded, found: list[Found]) -> SideReport:
    bill = side.bill
    return SideReport(
        messages=len(story.seen),
        requests=bill.requests,
        requests_invalid=bill.invalid,
        requests_over_budget=bill.over_budget,
        tokens_max_request=bill.tokens_max,
        tokens_sent=bill.tokens_sent,
        tokens_from_cache=bill.tokens_read if bill.cost == bill.cost_cached else 0,
        cost_dollars=round(bill.cost, 6),
        cached=bill.cost == bill.cost_cached,
        answers=sum(one.found for one in found),
        answers_visible=sum(one.place == "page" for one in found),
    )


def _row(answer: Answer) -> dict[str, Any]:
    return {
        "question": answer.question.text,
        "answer": answer.question.answer,
        "window": msgspec.to_builtins(answer.window),
        "summaries": msgspec.to_builtins(answer.summarized),
        "refold": msgspec.to_builtins(answer.folded),
    }
