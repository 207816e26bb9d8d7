"""The messages of a log with their states: calls and their results, turns, requests, and the
events that explain the bill.

A turn is one model call: the head that it read, and the first message of its reply. One
pass, continued when the log has grown. Neighbours: `Context.log.states` has the states,
`conversation` joins both.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from refold.core.codec import decode
from refold.core.laws import is_request
from refold.core.model import (
    Block,
    Erase,
    Event,
    Message,
    Opaque,
    Slot,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
)
from refold.core.shortened import text_of
from refold.edges.commands.stats import DECODED_KINDS

CHANGING = frozenset({"edit", "revert", "restore", "erase"})


class Turn(Struct, kw_only=True):
    """One model call: the head that it read, and the first message of its reply."""

    at: int
    reply: int


class Transcript:
    """Messages by number, from 0. `extend` adds events."""

    def __init__(self) -> None:
        self.head = 0
        self.seqs: list[int] = []
        self.tools: list[str] = []  # the tool that is called, or that answers
        self.pairs: list[int] = []  # the number of the message that called, for a result; else -1
        self.failed: list[int] = []  # numbers of results that are errors
        self.thin: list[int] = []  # numbers of messages with nothing to read
        self.turns: list[Turn] = []
        self.requests: list[int] = []  # seqs of the user's own requests
        self.erased: set[int] = set()
        self.billing: list[Event] = []  # usage, and the events that explain a broken cache
        self._callers: dict[str, int] = {}
        self._replying, self._response = False, ""

    def extend(self, events: Iterable[Event]) -> None:
        """Adds the events after the head."""
        for event in events:
            self.head = event.seq
            body = None if event.erased else decode(event)
            if event.kind in DECODED_KINDS:
                self.billing.append(event)
            match body:
                case Usage():
                    self._answer(body)
                case Erase():
                    self.erased.add(body.seq)
                case _ if event.kind == "message":
                    self._say(event, body if isinstance(body, Message) else None)
                case _:
                    self._replying = self._replying and event.kind not in CHANGING

    def _say(self, event: Event, message: Message | None) -> None:
        number, tool, pair = len(self.seqs), "", -1
        for block in message.blocks if message else ():
            if isinstance(block, ToolCall):
                self._callers[block.id] = number
                tool = tool or block.name
            elif isinstance(block, ToolResult):
                if pair < 0:
                    pair = self._callers.get(block.call, -1)
                tool = tool or block.name or (self.tools[pair] if pair >= 0 else "")
                if block.is_error and number not in self.failed[-1:]:
                    self.failed.append(number)
        self.seqs.append(event.seq)
        self.tools.append(tool)
        self.pairs.append(pair)
        if message is None:
            self._replying = False
            return
        if not any(map(_is_read, message.blocks)):
            self.thin.append(number)
        if is_request(Slot(event.seq, event.seq, message, event.tokens)):
            self.requests.append(event.seq)
        is_reply = message.role == "assistant"
        if is_reply and not self._replying:
            self.turns.append(Turn(at=event.seq - 1, reply=event.seq))
        self._replying = is_reply

    def _answer(self, usage: Usage) -> None:
        """Ends a reply. The report says what its call had read; a second report of one response
        belongs to the same turn."""
        if usage.response and usage.response == self._response and self._replying:
            self.turns = self.turns[:-1] if len(self.turns) > 1 else self.turns
        turn = self.turns[-1] if self.turns else None
        before = self.turns[-2].at if len(self.turns) > 1 else 0
        if turn is not None and usage.response != self._response:
            turn.at = usage.upto if before < usage.upto < turn.reply else turn.at
        self._replying, self._response = False, usage.response


def _is_read(block: Block) -> bool:
    """Whether a person can read anything in a block."""
    return not isinstance(block, Opaque | Thinking) or bool(text_of(block))
