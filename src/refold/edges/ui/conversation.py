"""One conversation for its screens: the columns of its history, and its messages, stand-ins,
reasons and facts one by one.

Columns only grow, so a browser that has them up to a head asks for what came after it. Everything
is read from a store that refuses writes: looking leaves no trace. Neighbours: `message_states` has
the columns, `readable` the texts, `answers` the open conversations.
"""

from __future__ import annotations

import shlex
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from msgspec.structs import asdict

from refold.conversations.listing import FOLDER, resuming
from refold.core.active_events import CONTROLS, switches
from refold.core.codec import ZERO, decode
from refold.core.model import Event, Hide, Message, Replace, Slot, Summarize
from refold.core.shortened import edited
from refold.display import visible
from refold.edges.commands.stats import Call, breaks_of, calls_of, tools_of
from refold.edges.ui.readable import TEXT_CHARS, blocks, brief, lines_of, safe
from refold.edges.ui.transcript import Transcript
from refold.engine.context import Context
from refold.errors import NotFound
from refold.ledger.ledger import facts_of
from refold.redaction import Redact, redactor

LINES_MAX = 400
FACTS_MAX = 2_000
TURNS_AGAIN = 2
STATES = ("later", "whole", "shortened", "quoted", "hidden", "rewound", "erased")  # as in states.js
ROLES = {"system": "s", "user": "u", "assistant": "a", "tool": "t"}


class Conversation:
    """One open conversation."""

    def __init__(self, context: Context) -> None:
        self.context, self.id = context, context.id
        self._redact = redactor(context.config.redact, "exports")
        self._transcript = Transcript()
        self._chain = ZERO
        self._calls: tuple[int, list[Call]] = (-1, [])
        self._facts: tuple[int, list[dict[str, Any]]] = (-1, [])

    @property
    def transcript(self) -> Transcript:
        """The transcript up to the head; all of it again if another log has taken its place."""
        known = self._transcript.head
        events = self.context.log.events(after=max(0, known - 1))
        newest = next(events, None) if known else None
        if known and (newest is None or newest.chain != self._chain):
            self._transcript, events = Transcript(), self.context.log.events()
        for event in events:
            self._transcript.extend([event])
            self._chain = event.chain
        return self._transcript

    # --- the columns ---

    def columns(self, after: int = 0) -> dict[str, Any]:
        """What changed after a head, and the values that are small."""
        said, stats = self.transcript, self.context.stats()
        states = self.context.log.states(after=min(after, said.head))
        view, redact = self.context.view, self._redact
        messages = [one for one in states.messages if one.seq <= said.head]
        start = bisect_right(said.seqs, after)
        stop = start + len(messages)
        # What is known about the newest turns may have changed since.
        kept = max(0, bisect_right([one.reply for one in said.turns], after) - TURNS_AGAIN)
        if self._calls[0] != said.head:
            self._calls = (said.head, list(calls_of(said.billing)))
        calls = self._calls[1]
        breaks = breaks_of(calls) if any(one.usage.cache_read for one in calls) else ()
        return {
            "id": self.id,
            "head": said.head,
            "after": after,
            "title": safe(stats.title, redact),
            "model": visible(stats.model),
            "project": visible(short_folder(view.metadata.get(FOLDER))),
            "window": stats.window,
            "compact_at": stats.compact_at,
            "current": stats.current,
            "cost": stats.cost,
            "system_tokens": view.system_tokens,
            "tools_tokens": view.tools_tokens,
            "billed": asdict(stats.billed),
            "resume": visible(shlex.join(resuming(view.metadata))),
            "messages": {
                "seq": _steps([one.seq for one in messages], said.seqs[start - 1] if start else 0),
                "role": "".join(ROLES.get(one.role, "u") for one in messages),
                "tokens": [one.tokens for one in messages],
                "at_s": _steps([one.at_ms // 1_000 for one in messages], 0),
                "tool": [visible(name) for name in said.tools[start:stop]],
                "pair": said.pairs[start:stop],
                "failed": [one for one in said.failed if start <= one < stop],
                "thin": [one for one in said.thin if start <= one < stop],
            },
            "changes": _columns(
                [
                    (one.at, bisect_left(said.seqs, one.seq), STATES.index(one.state))
                    for one in states.changes
                    if one.at <= said.head
                ],
                3,
            ),
            "standins": [
                (one.edit, one.first, one.last, one.tokens, one.since, one.until)
                for one in states.standins
                if one.since <= said.head
            ],
            "sizes": _columns([one for one in states.sizes if one[0] <= said.head], 2),
            "turns_from": kept,
            "turns": _columns([(one.at, one.reply) for one in said.turns[kept:]], 2),
            "calls": _columns([_call(one) for one in calls if one.seq > after], 8),
            "breaks": [{**asdict(one), "why": safe(one.why, redact)} for one in breaks],
            "compactions": self._compactions(said),
            "requests": [seq for seq in said.requests if seq > after],
            "pins": sorted(view.pins),
        }

    def _compactions(self, said: Transcript) -> list[dict[str, Any]]:
        """Every compaction, with its last edit and its reason."""
        edits: dict[str, tuple[int, str]] = {}
        for event in said.billing:
            edit = decode(event) if event.kind == "edit" else None
            if isinstance(edit, Replace | Hide | Summarize):
                edits[edit.batch] = (event.seq, edit.reason)
        return [
            {
                **asdict(one),
                "strategy": safe(one.strategy, self._redact),
                "last": edits[one.id][0],
                "reason": safe(edits[one.id][1], self._redact),
            }
            for one in self.context.log.batches()
            if one.id in edits
        ]

    # --- one by one ---

    def lines(self, first: int, count: int) -> list[str]:
        """The beginnings of messages, by their numbers."""
        seqs = self.transcript.seqs[first : first + min(count, LINES_MAX)]
        if not seqs:
            return []
        events = self.context.log.events(after=seqs[0] - 1, limit=seqs[-1] - seqs[0] + 1)
        return [self.line(event) for event in events if event.kind == "message"]

    def line(self, event: Event) -> str:
        """The beginning of a message."""
        return brief(self._body(event), self._redact)

    def message(self, seq: int, *, secrets: bool) -> dict[str, Any]:
        """A message as it came."""
        event = self._event(seq, "message")
        whole = self.as_it_came(event, str)
        shown = whole if secrets else self.as_it_came(event, self._redact)
        return {**shown, "has_secrets": shown["blocks"] != whole["blocks"]}

    def as_it_came(
        self, event: Event, redact: Redact | None = None, most: int = TEXT_CHARS
    ) -> dict[str, Any]:
        """The message of an event, without secrets by default; longer texts are cut."""
        message = self._body(event)
        return {
            "seq": event.seq,
            "at_ms": event.at_ms,
            "by": safe(event.by, self._redact),
            "blocks": blocks(message, redact or self._redact, most),
        }

    def shown(self, seq: int, at: int) -> dict[str, Any]:
        """A shortened message as the page showed it at a position."""
        message = self._body(self._event(seq, "message"))
        edits = [event for event in self.context.log.events(limit=at) if event.kind in CONTROLS]
        off = switches(edits).off
        newest: dict[int, Replace] = {}
        for event in edits:
            edit = decode(event) if event.kind == "edit" and event.seq not in off else None
            if isinstance(edit, Replace) and edit.seq == seq:
                newest[edit.block] = edit
        if message is not None:
            for edit in newest.values():
                message = edited(message, edit)
        return {"seq": seq, "blocks": blocks(message, self._redact)}

    def standin(self, seq: int) -> dict[str, Any]:
        """The text in place of a span, in lines, each with the message that it names."""
        event = self._event(seq, "edit")
        edit = decode(event)
        if not isinstance(edit, Hide | Summarize):
            raise NotFound(f"#{seq} is not a summary or a notice")
        lines = [(named, safe(line, self._redact)) for named, line in lines_of(edit)]
        return {"edit": seq, "by": safe(event.by, self._redact), "lines": lines}

    def why(self, seq: int) -> list[dict[str, Any]]:
        """Everything that happened to a message, oldest first."""
        return [
            {name: safe(value, self._redact) if isinstance(value, str) else value
             for name, value in asdict(trace).items()}
            for trace in self.context.log.why(seq)
        ]  # fmt: skip

    def window(self) -> dict[str, Any]:
        """The tools that the model gets, with the tokens of each definition."""
        tools = tools_of(self.context)
        return {
            "tools": [
                {"name": safe(one.name, self._redact), "tokens": one.tokens} for one in tools.tools
            ],
            "tokens": tools.tokens,
        }

    def ledger(self) -> list[dict[str, Any]]:
        """The facts of the whole conversation, as code reads them."""
        said = self.transcript
        if self._facts[0] != said.head:
            slots = [
                Slot(event.seq, event.seq, message, event.tokens)
                for event in self.context.log.events()
                if event.kind == "message" and (message := self._body(event)) is not None
            ]
            facts = facts_of(slots, self.context.config)[-FACTS_MAX:]
            shown = [
                {"kind": one.kind, "state": one.state, "seq": one.seq,
                 "text": safe(one.text, self._redact)}
                for one in facts
            ]  # fmt: skip
            self._facts = (said.head, shown)
        return self._facts[1]

    def _event(self, seq: int, kind: str) -> Event:
        """The event at a seq. NotFound unless it is of this kind."""
        found = next(self.context.log.events(after=seq - 1, limit=1), None) if seq > 0 else None
        if found is None or found.kind != kind:
            raise NotFound(f"there is no {kind} #{seq}")
        return found

    def _body(self, event: Event) -> Message | None:
        """The message of an event; None if it was erased."""
        is_erased = event.erased or event.seq in self._transcript.erased
        body = None if is_erased else decode(event)
        return body if isinstance(body, Message) else None


def short_folder(folder: object) -> str:
    """The last two names of the folder of a conversation."""
    if not isinstance(folder, str):
        return ""
    return "/".join(folder.replace("\\", "/").rstrip("/").split("/")[-2:])


def _call(call: Call) -> tuple[Any, ...]:
    usage = call.usage
    return (
        call.seq, call.at_ms, usage.input, usage.cache_read, usage.cache_write, usage.output,
        usage.cost, visible(usage.model),
    )  # fmt: skip


def _steps(values: Sequence[int], start: int) -> list[int]:
    """Each value as the difference from the one before."""
    return [later - earlier for earlier, later in pairwise([start, *values])]


def _columns(rows: Sequence[Sequence[Any]], width: int) -> list[list[Any]]:
    """Rows as columns."""
    return [list(column) for column in zip(*rows)] if rows else [[] for _ in range(width)]
