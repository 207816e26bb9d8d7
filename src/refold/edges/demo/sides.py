"""The ways to send one conversation: all of it, a sliding window over it, a summary by a model, or
refold's page; and what each request costs.

All sides get the same messages and are checked, measured and billed by the same rule. The sliding
window is a fair one: system prompt and tools stay, the oldest messages go at refold's own trigger,
tool pairs stay whole, and an output that no request can hold is cut to the size of refold's stub.
The demo has no model, so a script writes the summaries: the words of the user and of the agent, the
newest first, in the usual size; a real model would choose better, and could be wrong. The cost of
its calls is real.

A request is a list of units: everything before the messages, then each message, without cache
marks. Units equal to those of the previous request from the start are read from the cache; the rest
is written to it. Neighbours: `story` plays, `tokens.models` has the list prices.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from refold.artifacts.stub import STUB_CHARS_MAX
from refold.config import Config
from refold.core.model import Usage
from refold.dialects import dialect, parse
from refold.edges.demo.script import Outcome
from refold.engine.context import Context
from refold.errors import Invalid
from refold.log.notices import Notice
from refold.stores import open_store
from refold.tokens.counter import ESTIMATE, count_message, count_system, count_tools
from refold.tokens.models import Model, cost

DIALECT = "anthropic"
MARK = "cache_control"


class Unit(Struct, frozen=True):
    """A part of a request that is cached or not as a whole."""

    text: str
    tokens: int


class Scale:
    """Counts the tokens of requests. A message that was counted before is not counted again."""

    def __init__(self) -> None:
        self._known: dict[str, int] = {}

    def units(self, request: Mapping[str, Any]) -> list[Unit]:
        """The request as a list of units."""
        return [self._head(request), *map(self.unit, request["messages"])]

    def _head(self, request: Mapping[str, Any]) -> Unit:
        """Everything before the messages."""
        head = {key: unmarked(value) for key, value in request.items() if key != "messages"}
        system = count_system(head.get("system"), ESTIMATE)
        tools = count_tools(head.get("tools"), ESTIMATE)
        return Unit(_encoded(head), system + tools)

    def unit(self, message: Any) -> Unit:
        """One message."""
        bare = unmarked(message)
        text = _encoded(bare)
        if text not in self._known:
            parsed = parse(bare, DIALECT)
            self._known[text] = sum(count_message(one, ESTIMATE) for one in parsed)
        return Unit(text, self._known[text])


def _encoded(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def unmarked(value: Any) -> Any:
    """The value without cache marks, and with plain text as one text block: only a block can have a
    mark, and the provider reads both forms as the same."""
    if isinstance(value, list):
        return [unmarked(inner) for inner in value]
    if not isinstance(value, dict):
        return value
    bare = {key: unmarked(inner) for key, inner in value.items() if key != MARK}
    content = bare.get("content")
    if "role" in bare and isinstance(content, str):
        bare["content"] = [{"type": "text", "text": content}]
    return bare


def size(units: Sequence[Unit]) -> int:
    return sum(unit.tokens for unit in units)


class Bill:
    """The requests of one side so far. `requests` are those that the provider would accept;
    `refused` the others."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.requests = self.invalid = self.over_budget = 0
        self.tokens_sent = self.tokens_max = self.tokens_read = 0
        self.cost_cached = self.cost_plain = 0.0
        self._previous: Sequence[Unit] = ()

    @property
    def cost(self) -> float:
        """The lower of two costs: with cache marks and without. A cache that never hits is not
        billed."""
        return min(self.cost_cached, self.cost_plain)

    @property
    def refused(self) -> int:
        return self.invalid + self.over_budget

    def refuse(self, *, too_long: bool) -> None:
        """Counts a refused request; it costs nothing."""
        self.requests += 1
        self.over_budget += too_long
        self.invalid += not too_long

    def charge(self, units: Sequence[Unit], output: int) -> Usage:
        """Counts a request whose answer had this many tokens. Returns its usage in the provider's
        form."""
        whole, read = size(units), size(units[: same(self._previous, units)])
        self._previous = units
        usage = Usage(
            model=self.model.name,
            input=whole,
            output=output,
            cache_read=read,
            cache_write=whole - read,
        )
        self.requests += 1
        self.tokens_sent += whole
        self.tokens_read += read
        self.tokens_max = max(self.tokens_max, whole)
        self.cost_cached += cost(self.model, usage) or 0.0
        self.cost_plain += cost(self.model, replace(usage, cache_read=0, cache_write=0)) or 0.0
        return usage


def same(before: Sequence[Unit], after: Sequence[Unit]) -> int:
    """The number of equal units at the start."""
    count = 0
    for old, new in zip(before, after, strict=False):
        if old.text != new.text:
            break
        count += 1
    return count


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
    """One request: its content, and the reasons why a provider would refuse it."""

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
    """The reserve for the answer in a window. Invalid if the window is too small to show
    anything."""
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
        self.first = 0  # the index of the oldest message still sent
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
        # A complete list breaks no rule of the provider; only a window that cuts can.
        faults = dialect(DIALECT).check(request) if self.limit is not None else []
        return Sent(
            request=request,
            units=units,
            faults=faults,
            too_long=size(units) > self.room,
            dropped=dropped,
        )

    def page(self) -> list[Entry]:
        """The messages to send. A page must open with a user's message, so a window that cut it off
        begins with a notice."""
        shown = self.entries[self.first :]
        if not shown or _is_request(shown[0]):
            return shown
        return [self._notice, *shown]

    def _slide(self) -> list[Entry]:
        """Drops the oldest messages until the rest fits, whole tool pairs at a time; returns the
        dropped ones. If the newest alone is too long, nothing is dropped: it would not help."""
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
        """Cuts the newest output to its start, as people do after a refusal. Returns its size in
        bytes."""
        entry = self.entries[-1]
        blocks = [dict(block) for block in entry.wire["content"]]
        largest = max(blocks, key=lambda block: len(block.get("content", "")))
        whole = largest["content"]
        largest["content"] = whole[:STUB_CHARS_MAX] + REST_DROPPED
        wire = {**entry.wire, "content": blocks}
        self.entries[-1] = Entry(entry.seq, wire, self.scale.unit(wire))
        return len(whole.encode())


def has_results(entry: Entry) -> bool:
    """Whether a message has results of calls, so that no page can begin with it."""
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
        """Appends a user's message; returns its seq."""
        return self.context.append(message)[-1].seq

    def append_results(self, outcomes: Mapping[str, Outcome]) -> list[int]:
        """Appends the results of the calls; returns their seqs."""
        seqs = []
        for call, outcome in outcomes.items():
            events = self.context.append_result(call, outcome.text, is_error=outcome.failed)
            seqs.append(events[-1].seq)
        return seqs

    def record(self, content: list[dict[str, Any]], usage: Usage, id: str) -> int:
        """Records the reply in the provider's form; returns its seq."""
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
        """The engine's notices since the last call."""
        notices = list(self.notices)
        self.notices.clear()
        return notices


def fixed_part(system: str, tools: list[dict[str, Any]]) -> dict[str, Any]:
    """System prompt and tools as a caller with a cache writes them."""
    return {
        "system": [{"type": "text", "text": system, MARK: {"type": "ephemeral"}}],
        "tools": tools,
    }


# The median size of the summaries that coding agents wrote in recorded sessions.
SUMMARY_TOKENS = 2_700
TAIL_SHARE = 5  # a fifth of the limit stays unchanged
INSTRUCTION = "Summarize the conversation so far: requests, rules, files, decisions, what is open."
ASKED = {"role": "user", "content": INSTRUCTION}
OPENING = "[Summary of the conversation so far]"


class Summarized(Messages):
    """A list of messages whose beginning is summarized. `summaries` is their number, and
    `summaries_dollars` their cost."""

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
        """The first message that stays; None if nothing can go."""
        room, start = self.full // TAIL_SHARE, None
        for at in range(len(self.entries) - 1, 0, -1):
            room -= self.entries[at].unit.tokens
            if room < 0 and start is not None:
                break
            if not has_results(self.entries[at]):
                start = at
        return start

    def _charge(self, read: Sequence[Entry], output: int) -> None:
        """Bills the call by which a model would write the summary: the page up to there, and an
        instruction."""
        head = self.scale.units({**self.fixed, "messages": [entry.wire for entry in read]})
        usage = self.bill.charge([*head, self.scale.unit(ASKED)], output)
        self.summaries += 1
        self.summaries_dollars += cost(self.bill.model, usage) or 0.0


def summary_text(entries: Sequence[Entry]) -> str:
    """The summary of the entries: the words of the user and of the agent, the newest first while
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
    """The user's words first, since they matter most; then the agent's."""
    yield from (text for entry in reversed(entries) for text in _texts(entry, "user"))
    yield from (text for entry in reversed(entries) for text in _texts(entry, "assistant"))


def _texts(entry: Entry, role: str) -> list[str]:
    content = entry.wire["content"]
    if entry.wire["role"] != role:
        return []
    if isinstance(content, str):
        return [content.removeprefix(f"{OPENING}\n")]
    return [block["text"] for block in content if block["type"] == "text"]
