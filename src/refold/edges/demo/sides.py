"""The ways to send one conversation: all of it, a sliding window over it, or refold's page.

All sides get the same messages and are checked, weighed and billed by the same rule. The sliding
window is the usual one, and a fair one: system prompt and tools stay, the oldest messages go as
soon as the page passes the same trigger that refold has, tool pairs stay whole, and an output that
no request can hold is cut to as much as refold's stub shows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from refold.artifacts.stub import STUB_CHARS_MAX
from refold.config import Config
from refold.core.model import Usage
from refold.dialects import dialect
from refold.edges.demo.billing import DIALECT, MARK, Bill, Scale, Unit, size
from refold.edges.demo.workshop import Outcome
from refold.engine.context import Context
from refold.errors import Invalid
from refold.log.notices import Notice
from refold.stores import open_store
from refold.tokens.models import Model

DROPPED = "[Earlier messages were dropped to fit the window.]"
REST_DROPPED = "\n[The rest was dropped: too long for the window.]"
RESERVE_SHARE = 12  # a twelfth of the window is left for the answer
WINDOW_MIN = 12_000


class Entry(Struct, frozen=True):
    """A message of the stream: its seq in refold's log, its wire form, its weight."""

    seq: int
    wire: dict[str, Any]
    unit: Unit


class Sent(Struct, frozen=True, kw_only=True):
    """One request: what was in it, and what the provider would say to it."""

    request: dict[str, Any]
    units: Sequence[Unit]
    faults: Sequence[str]
    too_long: bool
    dropped: Sequence[Entry] = ()

    @property
    def tokens(self) -> int:
        return size(self.units)

    @property
    def taken(self) -> bool:
        return not self.too_long and not self.faults


def reserve_for(window: int) -> int:
    """What a window leaves for the answer. Invalid if the window is too small to show anything."""
    if window < WINDOW_MIN:
        raise Invalid(
            f"a window of {window:,} tokens is too small for the demo",
            hint=f"at least {WINDOW_MIN:,}",
        )
    return window // RESERVE_SHARE


class Messages:
    """A list of messages, sent whole, or with a limit as a sliding window."""

    def __init__(
        self, scale: Scale, model: Model, fixed: dict[str, Any], *, room: int, limit: int | None
    ) -> None:
        self.scale, self.bill, self.fixed = scale, Bill(model), fixed
        self.room, self.limit = room, limit
        self.entries: list[Entry] = []
        self.first = 0  # the index of the oldest message that is still sent
        self.fixed_tokens = size(scale.units({**fixed, "messages": []}))
        notice = {"role": "user", "content": DROPPED}
        self._notice = Entry(0, notice, scale.unit(notice))

    def append(self, seq: int, wire: dict[str, Any]) -> None:
        self.entries.append(Entry(seq, wire, self.scale.unit(wire)))

    def send(self) -> Sent:
        """The next request."""
        dropped = self._slide()
        page = self.page()
        head = self.scale.units({**self.fixed, "messages": []})
        request = {**self.fixed, "messages": [entry.wire for entry in page]}
        units = [*head, *(entry.unit for entry in page)]
        # Everything in one list cannot break a rule of the provider's; only a window that cuts can.
        faults = dialect(DIALECT).check(request) if self.limit is not None else []
        return Sent(
            request=request,
            units=units,
            faults=faults,
            too_long=size(units) > self.room,
            dropped=dropped,
        )

    def page(self) -> list[Entry]:
        """What is sent now. A page must open with a user's words, so a window that opens
        otherwise says why."""
        shown = self.entries[self.first :]
        if not shown or _is_request(shown[0]):
            return shown
        return [self._notice, *shown]

    def _slide(self) -> list[Entry]:
        """Lets the oldest messages go until the rest fits, whole tool pairs at a time; gives
        what went. Where the newest alone is too long nothing goes: it would not help."""
        before = self.first
        while self.limit is not None and self.tokens() > self.limit:
            start = self._next_start()
            if start is None:
                self.first = before
                break
            self.first = start
        return self.entries[before : self.first]

    def _next_start(self) -> int | None:
        """The next message that a window can open with; None if there is none."""
        for at in range(self.first + 1, len(self.entries)):
            if not has_results(self.entries[at]):
                return at
        return None

    def tokens(self) -> int:
        return self.fixed_tokens + sum(entry.unit.tokens for entry in self.page())

    def cut_last(self) -> int:
        """What people do after a refusal: the newest output is cut to its start. Gives its size
        in bytes."""
        entry = self.entries[-1]
        blocks = [dict(block) for block in entry.wire["content"]]
        largest = max(blocks, key=lambda block: len(block.get("content", "")))
        whole = largest["content"]
        largest["content"] = whole[:STUB_CHARS_MAX] + REST_DROPPED
        wire = {**entry.wire, "content": blocks}
        self.entries[-1] = Entry(entry.seq, wire, self.scale.unit(wire))
        return len(whole.encode())


def has_results(entry: Entry) -> bool:
    """Whether it answers calls, so that nothing can begin with it."""
    content = entry.wire["content"]
    return isinstance(content, list) and any(block["type"] == "tool_result" for block in content)


def _is_request(entry: Entry) -> bool:
    return entry.wire["role"] == "user" and not has_results(entry)


class Folded:
    """refold's side: a real context on a real store, in its default configuration."""

    def __init__(
        self, scale: Scale, model: Model, fixed: dict[str, Any], *, window: int, store: str
    ) -> None:
        self.scale, self.bill = scale, Bill(model)
        self.room = window - reserve_for(window)
        # The reserve alone is set: the model's own, for answers of 64,000 tokens, is larger than
        # this window.
        config = Config(reserve_tokens=reserve_for(window))
        self.context = Context(
            open_store(store),
            "demo",
            config=config,
            model=model.name,
            window=window,
            system=fixed["system"],
            tools=fixed["tools"],
            owns_store=True,
        )
        self.notices: list[Notice] = []
        self.context.on("*", self.notices.append)

    def append(self, message: dict[str, Any]) -> int:
        """Appends a user's message; gives its seq."""
        return self.context.append(message)[-1].seq

    def append_results(self, outcomes: Mapping[str, Outcome]) -> int:
        """Appends what the calls gave; gives the seq of the first."""
        seqs = []
        for call, outcome in outcomes.items():
            events = self.context.append_result(call, outcome.text, is_error=outcome.failed)
            seqs.append(events[-1].seq)
        return seqs[0]

    def record(self, content: list[dict[str, Any]], usage: Usage, id: str) -> int:
        """Records the reply as the provider would have sent it; gives its seq."""
        reported = {
            "input_tokens": usage.input - usage.cache_read - usage.cache_write,
            "output_tokens": usage.output,
            "cache_read_input_tokens": usage.cache_read,
            "cache_creation_input_tokens": usage.cache_write,
        }
        response = {
            "id": id,
            "type": "message",
            "role": "assistant",
            "model": usage.model,
            "content": content,
            "stop_reason": "tool_use" if content[-1]["type"] == "tool_use" else "end_turn",
            "usage": reported,
        }
        events = self.context.record(response)
        return next(event.seq for event in events if event.kind == "message")

    def send(self) -> Sent:
        """The next request; compacts automatically when that is due."""
        request = self.context.request()
        units = self.scale.units(request)
        faults = dialect(DIALECT).check(request)
        return Sent(request=request, units=units, faults=faults, too_long=size(units) > self.room)

    def new_notices(self) -> list[Notice]:
        """What the engine has said since this was last asked."""
        said = list(self.notices)
        self.notices.clear()
        return said


def fixed_part(system: str, tools: list[dict[str, Any]]) -> dict[str, Any]:
    """System prompt and tools as a caller with a cache writes them."""
    return {
        "system": [{"type": "text", "text": system, MARK: {"type": "ephemeral"}}],
        "tools": tools,
    }
