"""The run itself: every turn of the script goes to all sides, and the screen shows the effects.

Neighbours: `script` has the turns, `sides` send, `report` has the figures, `screen` shows.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from refold.core.model import Span
from refold.core.plan import Receipt
from refold.edges.commands.command import number
from refold.edges.commands.session import Session
from refold.edges.demo import proofs, script
from refold.edges.demo.questions import Question, Search, on_entries, questions, questions_message
from refold.edges.demo.report import Answer, Note, Report, report_of
from refold.edges.demo.screen import Lines, console_on, stage_on
from refold.edges.demo.script import TOOLS, Call, Outcome, Turn, Workshop
from refold.edges.demo.sides import (
    Entry,
    Folded,
    Messages,
    Scale,
    Sent,
    Summarized,
    fixed_part,
    reserve_for,
)
from refold.errors import Corrupt
from refold.tokens.models import model_info

MODEL = "claude-sonnet-5-5"
ITEMS_SHOWN = 3
WINDOW = 24_000


def play(session: Session, *, window: int | None = None, fast: bool = False) -> Report:
    """Plays the demo on the session's screen, animated if someone is watching. On a terminal it
    takes about 35 seconds; in a pipe, with `fast` or as JSON it does not wait."""
    started = time.monotonic()
    stage = stage_on(console_on(session.screen), fast=fast)
    with script.scratch_folder() as folder:
        story = Story(folder, stage, window=window or WINDOW)
        try:
            report = story.play()
        finally:
            story.folded.context.close()
            stage.stop()
    return replace(report, seconds=round(time.monotonic() - started, 2))


class Story:
    """One run. `everything`, `window`, `summarized` and `folded` are the ways; the screen shows
    the window and refold while they work, and all at the end."""

    def __init__(self, folder: Path, screen: Lines, *, window: int) -> None:
        self.screen, self.window_tokens, self.model = screen, window, model_info(MODEL)
        self.shop = Workshop(folder / "scratch")
        scale, fixed = Scale(), fixed_part(script.SYSTEM, TOOLS)
        self.folded = Folded(
            scale, self.model, fixed, window=window, store=f"sqlite:{folder / 'refold.db'}"
        )
        room, limit = window - reserve_for(window), self.folded.context.budget.compact_at
        self.window = Messages(scale, self.model, fixed, room=room, limit=limit)
        self.everything = Messages(scale, self.model, fixed, room=self.model.window, limit=None)
        self.summarized = Summarized(scale, self.model, fixed, room=room, limit=limit)
        self.scale, self.folder = scale, folder
        self.facts: dict[str, Outcome] = {}
        self.seen: dict[int, str] = {}  # the text of every message, by seq
        self.dropped: list[Entry] = []  # dropped by the window, and not shown yet
        self.compactions = self.calls = self.replies = self.tokens_seen = 0
        self.large = ""

    def play(self) -> Report:
        """The whole story, from the first request to the closing table."""
        self.screen.begin(self.window_tokens, MODEL)
        for turn in script.script(self.shop):
            if turn.asks:
                self._ask(turn.asks)
            else:
                self._act(turn)
        answers = self._questions()
        self.screen.end_stream()
        self.screen.answers(answers)
        self.screen.proof(proofs.page_note(self.folded.context.view))
        undone = proofs.undo(self.folded.context, self.folder)
        self.screen.proof(proofs.undo_note(undone))
        unfolded = proofs.unfold(self.folded.context, self.large, self.facts["large"].text)
        self.screen.proof(proofs.unfold_note(unfolded))
        searched = proofs.search(self.folded.context, self.seen)
        self.screen.proof(proofs.search_note(searched))
        return report_of(self, answers, undone, unfolded, searched)

    # --- turns ---

    def _ask(self, text: str) -> None:
        message = {"role": "user", "content": text}
        self._append(self.folded.append(message), message, text)
        self.screen.action("user", text.split("\n", 1)[0], len(self.seen))

    def _act(self, turn: Turn) -> None:
        """One reply of the agent, and the results of its calls."""
        content: list[dict[str, Any]] = [{"type": "text", "text": turn.says}]
        ids = [f"toolu_{self.calls + at:04}" for at, _ in enumerate(turn.calls)]
        self.calls += len(ids)
        for id, call in zip(ids, turn.calls, strict=True):
            content.append(
                {"type": "tool_use", "id": id, "name": call.name, "input": call.arguments}
            )
        self._reply(content)
        if turn.calls:
            self._results(
                {id: self._outcome(call) for id, call in zip(ids, turn.calls, strict=True)}
            )

    def _outcome(self, call: Call) -> Outcome:
        described = " ".join(str(value) for value in call.arguments.values())
        self.screen.action(call.name, described, len(self.seen))
        outcome = self.shop.call(call.name, call.arguments)
        if call.fact:
            self.facts[call.fact] = outcome
        return outcome

    def _reply(self, content: list[dict[str, Any]]) -> None:
        wire = {"role": "assistant", "content": content}
        output = self.scale.unit(wire).tokens
        self._send_plain(self.everything, output, shown=False)
        self._send_plain(self.summarized, output, shown=False)
        self._send_plain(self.window, output, shown=True)
        sent = self._send_folded()
        usage = self.folded.bill.charge(sent.units, output)
        self.replies += 1
        self._append(
            self.folded.record(content, usage, f"msg_{self.replies:04}"), wire, content[0]["text"]
        )

    def _results(self, outcomes: dict[str, Outcome]) -> None:
        blocks = [
            {
                "type": "tool_result",
                "tool_use_id": id,
                "content": outcome.text,
                "is_error": outcome.failed,
            }
            for id, outcome in outcomes.items()
        ]
        known = len(self.folded.context.artifacts.list())
        seqs = self.folded.append_results(outcomes)
        texts = [outcome.text for outcome in outcomes.values()]
        self._append(seqs[0], {"role": "user", "content": blocks}, texts[0])
        self.seen.update(zip(seqs, texts))  # each result is a message of its own
        if len(self.folded.context.artifacts.list()) > known:
            self._show_stub(outcomes)

    def _append(self, seq: int, wire: dict[str, Any], text: str) -> None:
        self.seen[seq] = text
        self.tokens_seen += self.scale.unit(wire).tokens
        self.window.append(seq, wire)
        self.everything.append(seq, wire)
        self.summarized.append(seq, wire)
        self._meters()
        self._show_notices()

    # --- requests ---

    def _send_plain(self, side: Messages, output: int, *, shown: bool) -> Sent:
        """One request of a plain side. A refused one is counted, its newest output cut, and sent
        again."""
        sent = self._send_once(side, shown=shown)
        if not sent.taken:
            side.bill.refuse(too_long=sent.too_long)
            if not sent.too_long:
                reason = f"the sliding window sent an invalid request: {sent.faults[0]}"
                raise Corrupt(reason, hint="report this")
            size_bytes = side.cut_last()
            if shown:
                self._show_refused(sent, size_bytes)
            sent = self._send_once(side, shown=shown)
        side.bill.charge(sent.units, output)
        if shown and self.dropped and self.dropped[0].seq == next(iter(self.seen)):
            self._show_dropped()
        return sent

    def _send_once(self, side: Messages, *, shown: bool) -> Sent:
        sent = side.send()
        if shown:
            self.dropped += sent.dropped
        return sent

    def _send_folded(self) -> Sent:
        sent = self.folded.send()
        self._meters()
        self._show_notices()
        bill = self.folded.bill
        bill.invalid += bool(sent.faults)
        bill.over_budget += sent.too_long
        return sent

    # --- display ---

    def _meters(self) -> None:
        window = (self.window.tokens(), self.window.bill.cost)
        folded = (self.folded.context.stats().current, self.folded.bill.cost)
        self.screen.meters(window, folded)

    def _show_notices(self) -> None:
        for notice in self.folded.new_notices():
            if notice.name == "context-warning":
                self.screen.right(Note("warn", [f"warning: {int(notice.percent)} % full"]))
            if notice.receipt is not None and notice.name == "compaction-complete":
                self.compactions += 1
                self._show_dropped()
                self.screen.right(Note("fold", receipt_lines(notice.receipt, self.compactions)))

    def _show_dropped(self) -> None:
        """Shows the messages that the sliding window has dropped since the last call."""
        if self.dropped:
            self.screen.left(Note("drop", dropped_lines(self.dropped)))
            self.dropped = []

    def _show_refused(self, sent: Sent, size_bytes: int) -> None:
        lines = [
            f"refused: {sent.tokens:,} tokens, too long",
            f"{size_bytes:,} bytes cut to their start",
        ]
        self.screen.left(Note("refuse", lines))

    def _show_stub(self, outcomes: dict[str, Outcome]) -> None:
        artifact = self.folded.context.artifacts.list()[-1].artifact
        slot = self.folded.context.view.slots[-1]
        if any(outcome is self.facts.get("large") for outcome in outcomes.values()):
            self.large = artifact.id
        lines = [
            f"{artifact.size_bytes:,} bytes kept whole",
            f"shown as a stub of {slot.tokens:,} tokens,",
            f"unfold {artifact.id}: any part",
        ]
        self.screen.right(Note("stub", lines))

    # --- the end ---

    def _questions(self) -> list[Answer]:
        """Asks all six in one message, and looks for each answer in the next request of every
        side."""
        asked = questions(self.facts)
        self._ask(questions_message(asked))
        everything = self._send_plain(self.everything, 0, shown=False)
        summarized = self._send_plain(self.summarized, 0, shown=False)
        window, folded = self._send_plain(self.window, 0, shown=True), self._send_folded()
        self.folded.bill.charge(folded.units, 0)
        self._show_dropped()
        search = Search(self.folded.context, folded.request, self.seen)
        plain = (everything, summarized, window)
        return [self._answer(question, plain, search) for question in asked]

    def _answer(self, question: Question, plain: tuple[Sent, Sent, Sent], search: Search) -> Answer:
        everything, summarized, window = plain
        return Answer(
            question=question,
            everything=on_entries(question, everything.request, self.everything.page()),
            summarized=on_entries(question, summarized.request, self.summarized.page()),
            window=on_entries(question, window.request, self.window.page()),
            folded=search.find(question),
        )


def dropped_lines(entries: Sequence[Entry]) -> list[str]:
    """Messages dropped by a sliding window, in a few short lines."""
    span = Span(entries[0].seq, entries[-1].seq)
    tokens = sum(entry.unit.tokens for entry in entries)
    lines = [
        f"dropped {span}, {number(len(entries), 'message')}",
        f"{tokens:,} tokens, no handle",
    ]
    if any(entry.wire["content"] == script.OPENING for entry in entries):
        lines.append("with the request and both rules")
    return lines


def receipt_lines(receipt: Receipt, count: int) -> list[str]:
    """A receipt in a few short lines: actions, handles, price, cache. The first has more
    details."""
    lines = [f"receipt {count}: {receipt.tokens_before:,} → {receipt.tokens_after:,} tokens"]
    shown = receipt.items[: ITEMS_SHOWN if count == 1 else 1]
    for item in shown:
        sizes = f"{item.tokens_before:,} → {item.tokens_after:,}"
        lines.append(f"{item.action} {item.handle} {sizes}")
    rest = len(receipt.items) - len(shown)
    if rest:
        lines.append(f"and {rest} more")
    price = receipt.price
    if price.cost_dollars is not None:
        lines.append(f"price ${price.cost_dollars:.4f} of rewritten cache")
    lines.append(f"cache kept for {number(price.kept_messages, 'message')}")
    if count == 1:
        lines.append("unfold or undo brings it back")
    return lines
