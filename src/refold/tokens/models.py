"""The table of models with their windows and prices: `models.json`, read at first use; and repeated
usage reports of one response.

A name is looked up as it is, then without its provider or host (`openrouter/anthropic/…`,
`us.anthropic.…-v1:0`), then by its longest prefix that ends at a word boundary, so that a dated
name finds its model and `gpt-4o` is never taken for `gpt-4`. An unknown name gets a window of
128,000 and `known=False`. Files may contain several reports of a response: the largest numbers
count; in a log, later reports add up. Neighbours: `core.budget` derives thresholds, `core.fold`
adds reports up, `edges.importers` and `engine.bulk_write` read and write them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from datetime import date, timedelta
from functools import cache, lru_cache
from itertools import chain, islice
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from refold import decoding
from refold.checked import checked, quoted
from refold.core.model import Usage
from refold.display import failure, is_text
from refold.errors import Invalid

# Characters that may end a provider or host, and a model's name: `gpt-4.5` is not a `gpt-4`.
_OPENERS = "/:."
_BOUNDARIES = "-@:_"
FORMS_MAX = 32  # providers and hosts before a name
# Gateways use one dialect for all models.
_GATEWAY_DIALECT = "openai_chat"
PER = 1_000_000
WRITE_1H = 2  # times the price of input: Anthropic's price of what its cache keeps for an hour
SOON = timedelta(days=90)


class Prices(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Dollars per million tokens. A missing cache price is the price of input."""

    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None


class Model(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A model's limits in tokens, its prices and wire format. `thinking_bound`: its thinking blocks
    are valid only after an unchanged prefix. `input_max` is set if the provider allows less input
    than the window. `retires` is its announced last day (ISO), if any."""

    name: str = ""
    provider: str = ""
    window: int
    output: int | None = None
    input_max: int | None = None
    prices: Prices | None = None
    dialect: str = ""
    thinking_bound: bool = False
    known: bool = True
    retires: str = ""


class Pattern(Struct, frozen=True, kw_only=True):
    """Assumptions about a name outside the table that contains a word; with a window, the model
    counts as known."""

    contains: str
    provider: str
    window: int | None = None


class Table(Struct, frozen=True, kw_only=True):
    """The data file."""

    source: str
    as_of: str
    default_window: int
    added: str = ""
    dialects: dict[str, str] = field(default_factory=dict)
    # Providers by the part of a name before the slash, unless it is a provider's own name.
    hosts: dict[str, str] = field(default_factory=dict)
    gateways: tuple[str, ...] = ()
    patterns: tuple[Pattern, ...] = ()
    models: dict[str, Model] = field(default_factory=dict)


@cache
def table() -> Table:
    """The model table of the package."""
    # Not by `importlib.resources`, which imports twenty modules.
    return decoding.decode(Path(__file__).with_name("models.json").read_bytes(), Table)


_registered: dict[str, Model] = {}


def register_models(rows: Mapping[str, Mapping[str, Any]]) -> None:
    """Adds rows in the form of `models.json` to the table for this process; they replace existing
    rows of the same name."""
    try:
        models = decoding.convert(rows, dict[str, Model])
    except Exception as error:  # rows may be foreign objects that raise anything
        hint = "window is needed; see models.json"
        why = str(error) if isinstance(error, msgspec.ValidationError) else failure(error)
        raise Invalid(f"this is not a row of the model table: {why}", hint=hint) from error
    for name, model in models.items():
        if not name.strip() or not is_text(name):
            hint = "name the model as its provider does"
            raise Invalid(f"{quoted(name)} is not the name of a model", hint=hint)
        for field_name, tokens in (("window", model.window), ("output", model.output)):
            if tokens is not None and tokens <= 0:
                hint = f"leave {field_name} out to use the model's own"
                raise Invalid(f"{field_name} is {tokens}, but must be above 0", hint=hint)
        try:
            date.fromisoformat(model.retires or "2000-01-01")
        except ValueError as error:
            hint = "use a date such as 2026-11-30"
            raise Invalid(f"retires is {model.retires!r}", hint=hint) from error
    _registered.update({name.strip().lower(): row for name, row in models.items()})
    _model_named.cache_clear()


@checked
def model_info(name: str | None) -> Model:
    """The model of that name; `known` is False if its limits are assumed."""
    return _model_named(name)


@lru_cache(maxsize=256)
def _model_named(name: str | None) -> Model:
    wanted = (name or "").strip().lower()
    rows = table().models | _registered
    key = listed_name(wanted, rows)
    model = replace(rows[key], name=key) if key else _assumed(wanted)
    dialect = table().dialects.get(model.provider, "")
    if wanted.split("/", 1)[0] in table().gateways:
        dialect = _GATEWAY_DIALECT
    return replace(model, dialect=model.dialect or dialect)


def listed_name(wanted: str, names: Collection[str]) -> str:
    """The name in the list that matches a model's name: in any of its forms, or else by a prefix;
    empty if there is none."""
    # One character more than any name, so that a longer one does not look like it.
    size = max(map(len, names), default=0) + 1
    forms = _forms(wanted, size)
    if "claude" in wanted:
        # Hosts write `claude-sonnet-4.5`; dots in other names are not boundaries.
        forms += _forms(wanted.replace(".", "-"), size)
    keys = chain(forms, _prefixes(forms))
    return next((key for key in keys if key in names), "")


def _forms(name: str, size: int) -> list[str]:
    """The name, and its rest after each possible end of a provider or host; the longest first, each
    cut to a size, because a name of any length must be cheap."""
    openers = (at for at, char in enumerate(name) if char in _OPENERS)
    starts = [0, *(at + 1 for at in islice(openers, FORMS_MAX))]
    return [name[start : start + size] for start in starts]


def _prefixes(forms: list[str]) -> Iterator[str]:
    """The prefixes of each form that end at a word boundary, the longest first."""
    for form in forms:
        for at in range(len(form) - 1, 0, -1):
            if form[at] in _BOUNDARIES:
                yield form[:at]


def _assumed(wanted: str) -> Model:
    """A model outside the table, by a word in its name, or by its host or provider before the
    slash."""
    pattern = next((each for each in table().patterns if each.contains in wanted), None)
    if pattern is not None and pattern.window is not None:
        return Model(name=wanted, provider=pattern.provider, window=pattern.window)
    if pattern is not None:
        provider = pattern.provider
    else:
        host = wanted.partition("/")[0] if "/" in wanted else ""
        provider = table().hosts.get(host, host if host in table().dialects else "")
    return Model(name=wanted, provider=provider, window=table().default_window, known=False)


def retirement(model: Model, today: date) -> Literal["", "soon", "retired"]:
    """Whether a provider has retired a model, or will within `SOON`; empty without an announced
    day."""
    if not model.retires:
        return ""
    last = date.fromisoformat(model.retires)
    if last < today:
        return "retired"
    return "soon" if last - today <= SOON else ""


def cost(model: Model, usage: Usage) -> float | None:
    """Dollars for one call; None if the prices are unknown. `usage.input` includes cached
    tokens."""
    if model.prices is None:
        return None
    prices = model.prices
    read = prices.input if prices.cache_read is None else prices.cache_read
    write = write_price(model, prices, usage)
    uncached = max(0, usage.input - usage.cache_read - usage.cache_write)
    total = uncached * prices.input + usage.cache_read * read + usage.cache_write * write
    return (total + usage.output * prices.output) / PER


def write_price(model: Model, prices: Prices, usage: Usage) -> float:
    """Dollars for a million of the tokens that this call wrote to the cache, for as long as it
    did."""
    write = prices.input if prices.cache_write is None else prices.cache_write
    if model.provider != "anthropic" or usage.cache_write <= 0:
        return write
    share_1h = min(1.0, usage.cache_write_1h / usage.cache_write)
    return write + share_1h * (WRITE_1H * prices.input - write)


def input_price(model: Model) -> float | None:
    """Dollars for one token of uncached input."""
    return None if model.prices is None else model.prices.input / PER


def dollars(value: float | None) -> str:
    """`$0.0512`, or `n/a` for an unknown price, which is not zero."""
    if value is None:
        return "n/a"
    amount = round(value, 4)  # first, so that there is no "-$0.0000"
    return f"-${-amount:.4f}" if amount < 0 else f"${amount + 0.0:.4f}"


def amount(dollars: float | None) -> str:
    """An amount of money; below a cent with the digits that matter."""
    if dollars is None:
        return "n/a"
    if 0 < abs(dollars) < 0.01:
        return f"${dollars:.4f}"
    return f"-${-dollars:,.2f}" if dollars < 0 else f"${dollars + 0.0:,.2f}"


COUNTS = ("input", "output", "cache_read", "cache_write", "reasoning", "cache_write_1h")


def most(one: Usage, other: Usage) -> Usage:
    """The maximum of two reports of one response, number by number."""
    return replace(one, **{name: max(getattr(one, name), getattr(other, name)) for name in COUNTS})


def is_more(one: Usage, other: Usage) -> bool:
    """Whether a report has a larger number than another of the same response."""
    return any(getattr(one, name) > getattr(other, name) for name in COUNTS)


def together(one: Usage, more: Usage) -> Usage:
    """The sum of two reports of one response, the second of which adds to the first."""
    counts = {name: getattr(one, name) + getattr(more, name) for name in COUNTS}
    cost = None if one.cost is None or more.cost is None else one.cost + more.cost
    return replace(one, **counts, cost=cost)


def beyond(total: Usage, before: Usage) -> Usage:
    """The difference between a response's total usage and an earlier report."""
    counts = {name: getattr(total, name) - getattr(before, name) for name in COUNTS}
    cost = total.cost
    if cost is not None and before.cost is not None:
        cost -= before.cost
    return replace(total, **counts, cost=cost)
