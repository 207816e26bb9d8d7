"""Whether the forecast of an observed run is what the fold then does: recorded streams of Claude
Code and Codex go through the proxy twice, observed and folded, and what the first says folding
would have sent and cost is compared with the second's bill.

The provider counts bytes, its cache has the front of the call before, and the model's prices are
real. Nothing is timed. Neighbours: `talks` has the clients, `proxied` the proxy without HTTP.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import takewhile
from operator import eq
from pathlib import Path

import msgspec
from msgspec import Struct

from bench.proxied import Passage
from bench.proxy_pages import AGENTS, calls_of
from bench.sessions import Message, session_of, session_paths
from bench.tables import Table
from bench.talks import CLAUDE, CODEX, ItemsTalk, Talk
from refold.core.model import Usage
from refold.edges.proxy.forecast import Forecast, forecast
from refold.edges.proxy.savings import Sum, added, sums

WINDOW, STREAMS = 60_000, 20
TOKENS_OFF_MAX, MONEY_OFF_MAX = 0.05, 0.10
BYTES_A_TOKEN, OUTPUT = 3.6, 300
PROMPT = "You are a coding agent. " * 1_800  # 12,000 tokens: an agent's prompt and its tools
PEAK_MIN, PEAK_MAX = 70_000, 250_000  # tokens of the last list


class Billed(Struct, frozen=True):
    """A stream behind the proxy: its calls, and what folding them would be if they were only
    observed."""

    sum: Sum
    forecast: Forecast


class Provider:
    """Counts and bills the calls of one conversation; its cache has the call before."""

    def __init__(self, talk: Talk) -> None:
        self._key = talk.key
        self._is_openai = isinstance(talk, ItemsTalk)  # it writes its cache at no price
        self._before: list[bytes] = []

    def bill(self, body: bytes) -> Usage:
        fields = msgspec.json.decode(body)
        units = list(map(msgspec.json.encode, [fields.get("tools"), *fields[self._key]]))
        units[0] += msgspec.json.encode([fields.get("system"), fields.get("instructions")])
        same = len(list(takewhile(bool, map(eq, units, self._before))))
        self._before = units
        size, read = _tokens(units), _tokens(units[:same])
        return Usage(
            model=CODEX if self._is_openai else CLAUDE,
            input=size,
            output=OUTPUT,
            cache_read=read,
            cache_write=0 if self._is_openai else size - read,
        )


def _tokens(units: Iterable[bytes]) -> int:
    return round(sum(map(len, units)) / BYTES_A_TOKEN)


def run(folder: Path, streams: int = STREAMS) -> list[Table]:
    """Every stream, and how far the worst forecast is off."""
    figures = ["forecast", "folded", "off"]
    head = ["stream", "calls", "tokens", *figures, "$", *figures, "claimed off"]
    table = Table(f"The forecast of a fold into {WINDOW:,} tokens, and the fold", head)
    worst = {"tokens": 0.0, "money": 0.0, "claimed": 0.0}
    for path, make in streams_in(folder, streams):
        messages = session_of(path)
        observed = played(messages, make, folds=False)
        off, row = compared(observed, played(messages, make, folds=True))
        worst = {name: max(worst[name], abs(off[name])) for name in worst}
        table.add(path.name.removesuffix(".jsonl.gz"), *row)
    table.note(
        "claimed off: what the fold says the calls would have cost unfolded, beside what they cost."
    )
    goals = Table("The forecast, goals", ["what, of the worst stream", "off", "goal", "met"])
    goals.at_most("forecast of tokens", worst["tokens"], TOKENS_OFF_MAX)
    goals.at_most("forecast of money", worst["money"], MONEY_OFF_MAX)
    goals.at_most("cost without the fold, as the fold says", worst["claimed"], MONEY_OFF_MAX)
    return [table, goals]


def compared(observed: Billed, folded: Billed) -> tuple[dict[str, float], list[object]]:
    """How far each figure is off, as a share of the real one, and the row of a table."""
    paid, said, real = observed.sum, observed.forecast, folded.sum
    cost, whole = real.cost or 0.0, paid.cost or 0.0
    off = {
        "tokens": said.sent / real.sent - 1,
        "money": (said.cost or 0.0) / cost - 1,
        "claimed": (cost + (real.saved_cost or 0.0)) / whole - 1,
    }
    tokens, money, claimed = (f"{one:+.1%}" for one in off.values())
    tokens_row = [paid.calls, paid.sent, said.sent, real.sent, tokens]
    return off, [*tokens_row, whole, said.cost or 0.0, cost, money, claimed]


def streams_in(folder: Path, count: int) -> list[tuple[Path, type[Talk]]]:
    """Streams of both agents, spread over those of a size that a fold is for."""
    found: list[list[tuple[Path, type[Talk]]]] = []
    for prefix, make in AGENTS.values():
        own = [path for path in session_paths(folder) if path.name.startswith(prefix)]
        found.append([(one, make) for one in own if PEAK_MIN <= _peak(one, make) <= PEAK_MAX])
    fewest = min(count // 2, *map(len, found))
    numbers = [min(len(some), max(fewest, count - fewest)) for some in found]
    spread = zip(found, numbers, strict=True)
    return [some[at * len(some) // number] for some, number in spread for at in range(number)]


def _peak(path: Path, make: type[Talk]) -> int:
    talk = make(thinks=True)
    for message in session_of(path):
        talk.take(message)
    return int(len(talk.body()) / BYTES_A_TOKEN)


def played(
    messages: list[Message], make: type[Talk], *, folds: bool, window: int = WINDOW
) -> Billed:
    """A session through a proxy."""
    talk = make(thinks=True)
    talk.take({"role": "system", "content": PROMPT})
    provider, passage = Provider(talk), Passage(talk.path, window, folds=folds)
    for call in calls_of(messages, talk):
        passage.billed(provider.bill(passage.sent(call)))
    made = list(sums(passage.store))
    said = Forecast()
    if not folds:
        said = forecast(passage.store, made[0].conversation, window)
    passage.close()
    return Billed(added("all", made), said)
