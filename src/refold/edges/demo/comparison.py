"""The demo: one session sent by the usual strategies and by refold, in the same window.

The final table comes first, then six questions whose answers are looked up in each side's last
request, and for refold also behind the handles on its page. All sides are measured and billed by
`refold.replay`. A model's summaries are written by a script, since the demo has no model: the words
of the user and of the agent, the newest first, in the usual size; their calls are billed.
Neighbours: `session` makes the messages; `refold replay` does the same for your own sessions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from refold.core.model import Usage
from refold.edges.commands.command import Result, Screen, number, short_line
from refold.edges.commands.replay import row, show_lost
from refold.edges.demo.session import Question, played_session
from refold.errors import Invalid, NotFound
from refold.replay.needs import Message, tokens_of, tokens_of_text
from refold.replay.policies import BASELINES, FULL, Everything
from refold.replay.run import ALL, OURS, Kept, Outcome, Receipt, Replayed, replay
from refold.tokens.models import cost, model_info

if TYPE_CHECKING:
    from refold.edges.commands.session import Session
    from refold.engine.context import Context

MODEL, WINDOW, WINDOW_MIN = "claude-sonnet-5-5", 24_000, 12_000
CLEARED, SUMMARIES, SLIDING = "clear results, keep 3", "summaries by a model", "sliding window"
SHOWN = (ALL, SLIDING, CLEARED, SUMMARIES, OURS)
ASKED = (CLEARED, SUMMARIES, OURS)
SUMMARY_TOKENS = 2_700  # the median size of the summaries that coding agents wrote
TAIL_SHARE, PIECE_CHARS, NEAR_CHARS = 5, 1_000, 300
SUMMARY = "[Summary of the conversation so far]"
HANDLE = re.compile(r"art-[a-z2-7]{12}|#\d+(?:-\d+)?")
HEADS = ("", ">sent", ">cached", ">cost", ">changes", ">kept", ">faults")
Place = Literal["on the page", "one unfold away", "gone"]


class Summarized(Everything):
    """Replaces all but the newest fifth of a full page by a summary."""

    def start(self, budget: int) -> None:
        super().start(budget)
        self.summary: list[Message] = []
        self.first = 0  # the first unit after the summary
        self.calls: list[Usage] = []

    def prompt(self) -> list[Message]:
        page = self._page()
        size = sum(tokens_of(one) for one in page)
        if size <= FULL * self.budget:
            return page
        self.first, left = len(self.units), self.budget // TAIL_SHARE
        while self.first and (left := left - self.size(self.units[self.first - 1])) >= 0:
            self.first -= 1
        text = "\n".join(reversed(list(self._words())))
        self.summary = [{"role": "user", "content": f"{SUMMARY}\n{text}"}]
        # The page was sent a moment ago, so the call reads it from the cache.
        self.calls.append(Usage(input=size, cache_read=size, output=tokens_of_text(text)))
        return self._page()

    def _page(self) -> list[Message]:
        kept = self.from_unit(self.first)
        return [*self.shown(kept[: self.opening]), *self.summary, *self.shown(kept[self.opening :])]

    def _words(self) -> Iterator[str]:
        """What the user and the agent said, the newest first, as far as there is room."""
        left = SUMMARY_TOKENS
        for unit in reversed(self.units[: self.first]):
            said = self.log[unit[0]]
            text = f"{said['role']}: {said['content'][:PIECE_CHARS]}"
            if (left := left - tokens_of_text(text)) < 0:
                return
            yield text


class Answer(Struct, frozen=True, kw_only=True):
    """A question, its answer, and where each side has it."""

    question: str
    answer: str
    places: dict[str, Place]


class Compared(Result, frozen=True, kw_only=True):
    """The session through every strategy, the answers, and two proofs: after a compaction and its
    undo the page is `undone` byte for byte, and originals come back whole (`unfolded`)."""

    model: str
    window: int
    messages: int
    tokens: int
    outcomes: list[Outcome]
    receipts: list[Receipt]
    answers: list[Answer]
    summaries: int
    undone: bool
    unfolded: bool
    details: bool = False

    @property
    def outcome(self) -> str:
        ours = next(one for one in self.outcomes if one.policy == OURS)
        return "ok" if not ours.faulty and self.undone and self.unfolded else "error"

    def show(self, screen: Screen) -> None:
        size = f"{number(self.messages, 'message')}, {self.tokens:,} tokens"
        screen.line(("bold", f"One agent session ({size}) in a window of {self.window:,}"))
        names = [one.policy for one in self.outcomes] if self.details else SHOWN
        by_name = {one.policy: one for one in self.outcomes}
        screen.table(HEADS, [row([by_name[name]]) for name in names])
        heads = ("asked at the end", *(name.partition(" ")[0] for name in ASKED))
        rows = [(one.question, *(one.places[name] for name in ASKED)) for one in self.answers]
        found = [sum(one.places[name] != "gone" for one in self.answers) for name in ASKED]
        screen.table(heads, [*rows, ("found", *(f"{one} of {len(rows)}" for one in found))])
        screen.line(("dim", f"Billed as {self.model}, list prices, cache included. kept: of the"))
        screen.line(("dim", "names a turn needed, how many its prompt still explained. Summaries"))
        written = number(self.summaries, "call")
        screen.line(("dim", f"are written by a script in place of a model, {written}, billed."))
        if self.details:
            self._show_details(screen)
        mine = screen.call("replay", "", "--all")
        screen.line(f"Your own sessions: {screen.call('import', '', '--scan')}, then {mine}")

    def _show_details(self, screen: Screen) -> None:
        for answer in self.answers:
            screen.line(("dim", f"{answer.question} {short_line(answer.answer, 200)}"))
        for one in self.receipts:
            change = f"{one.tokens_before:,} -> {number(one.tokens_after, 'token')}"
            screen.line(("dim", f"turn {one.turn}: {one.strategy}, {change}"))
        for outcome in self.outcomes:
            show_lost(outcome, screen)
        undone = "the page came back, byte for byte" if self.undone else "the page differs"
        unfolded = "originals came back whole" if self.unfolded else "bytes are missing"
        screen.line(f"undo after a compaction: {undone}; unfold: {unfolded}")


def compared(session: Session, *, window: int | None, details: bool) -> Compared:
    """Plays the session. Invalid if the window is too small to show anything."""
    size = window or WINDOW
    if size < WINDOW_MIN:
        reason = f"a window of {size:,} tokens is too small for the demo"
        raise Invalid(reason, hint=f"at least {WINDOW_MIN:,}")
    told, kept, summarized = played_session(), Kept(), Summarized()
    names = {*SHOWN} if not details else {*BASELINES}
    rivals = {name: make for name, make in BASELINES.items() if name in names}
    with session.progress("playing") as show:

        def progress(done: int, total: int) -> None:
            if show is not None:
                show("playing", done, total)

        played = replay(
            told.messages, size, MODEL, progress, kept,
            rivals={**rivals, SUMMARIES: lambda: summarized},
        )  # fmt: skip
    context = kept.context
    assert context is not None  # a replay keeps it
    answers = [_answer(one, kept, context) for one in told.questions]
    return Compared(
        model=MODEL,
        window=size,
        messages=played.messages,
        tokens=played.tokens,
        outcomes=_in_order(played, summarized.calls),
        receipts=played.receipts,
        answers=answers,
        summaries=len(summarized.calls),
        undone=_is_undone(context),
        unfolded=_is_unfolded(context, told.messages),
        details=details,
    )


def _in_order(played: Replayed, calls: list[Usage]) -> list[Outcome]:
    """The outcomes, refold's last; the calls for summaries are part of their side's bill."""
    extra = sum(cost(model_info(MODEL), call) or 0.0 for call in calls)
    outcomes = [
        replace(one, dollars=(one.dollars or 0.0) + extra) if one.policy == SUMMARIES else one
        for one in played.outcomes
    ]
    return sorted(outcomes, key=lambda one: one.policy == OURS)


def _answer(question: Question, kept: Kept, context: Context) -> Answer:
    texts = list(kept.texts)
    places: dict[str, Place] = {}
    for name, pages in kept.pages.items():
        page: list[str] = []
        for same, runs in pages:
            new = (texts[at] for first, count in runs for at in range(first, first + count))
            page = [*page[:same], *new]
        places[name] = "on the page" if _is_answered(question, "\n".join(page)) else "gone"
        if name == OURS and places[name] == "gone":
            handles = dict.fromkeys(HANDLE.findall("\n".join(page)))
            if any(_is_answered(question, text) for text in _behind(handles, context)):
                places[name] = "one unfold away"
    return Answer(question=question.text, answer=": ".join(question.words), places=places)


def _is_answered(question: Question, text: str) -> bool:
    """Whether the text has the words of the answer, in order and close together."""
    near = f"[\\s\\S]{{0,{NEAR_CHARS}}}?".join(map(re.escape, question.words))
    return re.search(near, text) is not None


def _behind(handles: dict[str, None], context: Context) -> Iterator[str]:
    """The originals behind the handles; a name in a file may look like one."""
    for handle in handles:
        try:
            yield context.unfold(handle).text
        except (NotFound, Invalid):
            continue


def _is_undone(context: Context) -> bool:
    before = msgspec.json.encode(context.request())
    receipt = context.compact(target=context.stats().current // 2)
    compacted = msgspec.json.encode(context.request())
    context.undo(receipt.batch)
    return before == msgspec.json.encode(context.request()) != compacted


def _is_unfolded(context: Context, messages: list[Message]) -> bool:
    """Whether every result is in the log as the tool gave it."""
    results = {one["content"] for one in messages if one["role"] == "tool"}
    seqs = [event.seq for event in context.log.events() if event.kind == "message"]
    return results <= {context.unfold(f"#{seq}").text for seq in seqs}
