"""A fourth way to send a conversation: when the page is full, the model is asked for a summary, and
the summary and the newest messages are what is left.

No model is at hand in the demo, so a script stands for it: of what is summarized it takes the
user's words and what the agent said, the newest first, as many tokens as summaries of coding agents
have. A real model would choose better, and could be wrong. What the calls cost is real: each reads
what it sums up, as far as it can from the cache, and its answer is billed. Neighbour: `sides`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from refold.core.model import Usage
from refold.edges.demo.billing import Scale
from refold.edges.demo.sides import Entry, Messages, Sent, has_results
from refold.tokens.counter import ESTIMATE
from refold.tokens.models import Model, cost

# What such a summary has: the median of those that coding agents wrote in recorded sessions.
SUMMARY_TOKENS = 2_700
TAIL_SHARE = 5  # so much of the limit stays as it came: a fifth
INSTRUCTION = "Summarize the conversation so far: requests, rules, files, decisions, what is open."
ASKED = {"role": "user", "content": INSTRUCTION}
OPENING = "[Summary of the conversation so far]"


class Summarized(Messages):
    """A list of messages whose beginning is summarized. `summaries` is how often, and
    `summaries_dollars` what those calls cost."""

    def __init__(
        self, scale: Scale, model: Model, fixed: dict[str, Any], *, room: int, limit: int
    ) -> None:
        super().__init__(scale, model, fixed, room=room, limit=None)
        self.full = limit
        self.summaries, self.summaries_dollars = 0, 0.0

    def send(self) -> Sent:
        """The next request; summarizes first where the page is full."""
        if self.tokens() > self.full:
            self._summarize()
        return super().send()

    def _summarize(self) -> None:
        first = self._tail_start()
        if first is None:
            return
        text = summary_text(self.entries[:first])
        wire = {"role": "user", "content": text}
        summary = Entry(0, wire, self.scale.unit(wire))
        self._charge(self.entries[:first], summary.unit.tokens)
        self.entries = [summary, *self.entries[first:]]

    def _tail_start(self) -> int | None:
        """Where the messages begin that stay; None if nothing could go."""
        room, start = self.full // TAIL_SHARE, None
        for at in range(len(self.entries) - 1, 0, -1):
            room -= self.entries[at].unit.tokens
            if room < 0 and start is not None:
                break
            if not has_results(self.entries[at]):
                start = at
        return start

    def _charge(self, read: Sequence[Entry], output: int) -> None:
        """The call by which a model would write it: the page up to there, and an instruction."""
        head = self.scale.units({**self.fixed, "messages": [entry.wire for entry in read]})
        usage = self.bill.charge([*head, self.scale.unit(ASKED)], output)
        self.summaries += 1
        self.summaries_dollars += _dollars(self.bill.model, usage)


def _dollars(model: Model, usage: Usage) -> float:
    return cost(model, usage) or 0.0


def summary_text(entries: Sequence[Entry]) -> str:
    """What stands for the entries: the words of the user and of the agent, the newest first while
    there is room, in their order."""
    chosen: list[str] = []
    room = SUMMARY_TOKENS
    for text in _newest_first(entries):
        room -= ESTIMATE(text)
        if room < 0:
            break
        chosen.append(text)
    return "\n".join([OPENING, *reversed(chosen)])


def _newest_first(entries: Sequence[Entry]) -> Iterator[str]:
    """The user's words first: they matter most; then what the agent said."""
    yield from (text for entry in reversed(entries) for text in _texts(entry, "user"))
    yield from (text for entry in reversed(entries) for text in _texts(entry, "assistant"))


def _texts(entry: Entry, role: str) -> list[str]:
    content = entry.wire["content"]
    if entry.wire["role"] != role:
        return []
    if isinstance(content, str):
        return [content.removeprefix(f"{OPENING}\n")]
    return [block["text"] for block in content if block["type"] == "text"]
