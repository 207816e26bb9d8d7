"""How many tokens a request has and what it costs: measured on the request itself, for every side
by the same rule.

A request is read as a list of units: what comes before the messages, then each message, without
cache marks. Units that equal those of the previous request from the start are read from the cache;
the rest is written to it. Neighbours: `sides` sends, `tokens.models` has the list prices.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from refold.core.model import Usage
from refold.dialects import parse
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
        """What comes before the messages."""
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
    """The value without cache marks, and with plain text as one text block: a mark can only
    stand on a block, and the provider reads both forms as the same."""
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
    """What one side has sent so far. `requests` are those that the provider would take;
    `refused` the others."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.requests = self.invalid = self.over_budget = 0
        self.tokens_sent = self.tokens_max = self.tokens_read = 0
        self.cost_cached = self.cost_plain = 0.0
        self._previous: Sequence[Unit] = ()

    @property
    def cost(self) -> float:
        """The cheaper of two ways: with cache marks and without. Nobody is billed for a cache
        that never holds."""
        return min(self.cost_cached, self.cost_plain)

    @property
    def refused(self) -> int:
        return self.invalid + self.over_budget

    def refuse(self, *, too_long: bool) -> None:
        """Counts a request that the provider would not take; it costs nothing."""
        self.requests += 1
        self.over_budget += too_long
        self.invalid += not too_long

    def charge(self, units: Sequence[Unit], output: int) -> Usage:
        """Counts a request that was answered with so many tokens. Gives its usage as the
        provider would report it."""
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
    """How many units at the start are equal."""
    count = 0
    for old, new in zip(before, after, strict=False):
        if old.text != new.text:
            break
        count += 1
    return count
