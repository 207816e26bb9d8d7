"""What a model can hold and what it costs, as data: `models.json`, read when it is first asked for.

A name is looked up whole, then without its provider or host (`openrouter/anthropic/…`,
`us.anthropic.…-v1:0`), then by its longest prefix that ends where a word of the name ends, so that
a dated name finds its model and `gpt-4` never answers for `gpt-4o`. An unknown name gets a window
of 128,000 and says that it is unknown. Neighbour: `core.budget` turns a window into thresholds.

More than one report of what a response was billed, as a file has them while it is written.

A response was billed the most that any of them says, number by number, so what comes later is never
less; in a log, a later report adds to the earlier ones. Neighbours: `core.fold` adds reports up,
`edges.importers` reads them, `engine.batch` writes them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from datetime import date, timedelta
from functools import cache, lru_cache
from importlib.resources import files
from itertools import chain, islice
from typing import Any, Literal

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from refold import decoding
from refold.checked import checked, quoted
from refold.core.model import Usage
from refold.display import failure, is_text
from refold.errors import Invalid

# Where a provider or host may end, and where a model's name may: `gpt-4.5` is not a `gpt-4`.
_OPENERS = "/:."
_BOUNDARIES = "-@:_"
# So many providers and hosts may stand before a name; a longer row of them is no name.
FORMS_MAX = 32
# Hosts of many providers speak one dialect, whichever model they pass on.
_GATEWAY_DIALECT = "openai_chat"
PER = 1_000_000
SOON = timedelta(days=90)


class Prices(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Dollars per million tokens. A missing cache price is the price of input."""

    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None


class Model(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A model's limits in tokens, its prices, its wire format. `thinking_bound`: its thinking
    blocks hold only after an unchanged prefix. `input_max` is set where the provider allows
    less input than the window. `retires` is the day (ISO) after which the provider no longer
    serves it, where one is announced."""

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
    """What is assumed of a name that is not in the table but contains a word; with a window, the
    model counts as known."""

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
    # What comes before the slash, where it is not a provider's name.
    hosts: dict[str, str] = field(default_factory=dict)
    gateways: tuple[str, ...] = ()
    patterns: tuple[Pattern, ...] = ()
    models: dict[str, Model] = field(default_factory=dict)


@cache
def table() -> Table:
    """The model table of the package."""
    data = files("refold.tokens").joinpath("models.json").read_bytes()
    return decoding.decode(data, Table)


_registered: dict[str, Model] = {}


def register_models(rows: Mapping[str, Mapping[str, Any]]) -> None:
    """Adds rows of the form of `models.json` to the table for this process; they replace its own
    rows of the same name."""
    added = _checked_rows(rows)
    _registered.update({name.strip().lower(): row for name, row in added.items()})
    _model_named.cache_clear()


def _checked_rows(rows: Mapping[str, Mapping[str, Any]]) -> dict[str, Model]:
    try:
        models = decoding.convert(rows, dict[str, Model])
    except Exception as error:  # rows may be objects of the caller's, and raise anything
        hint = "window is needed; see models.json"
        said = str(error) if isinstance(error, msgspec.ValidationError) else failure(error)
        raise Invalid(f"this is not a row of the model table: {said}", hint=hint) from error
    for name, model in models.items():
        if not name.strip() or not is_text(name):
            hint = "name the model as its provider does"
            raise Invalid(f"{quoted(name)} is not the name of a model", hint=hint)
        _reject_zero_limit("window", model.window)
        _reject_zero_limit("output", model.output)
        _check_day(model.retires)
    return models


def _check_day(day: str) -> None:
    """Refuses what is no date."""
    try:
        date.fromisoformat(day or "2000-01-01")
    except ValueError as error:
        raise Invalid(f"retires is {day!r}", hint="give a date such as 2026-11-30") from error


@checked
def model_info(name: str | None) -> Model:
    """The model of that name; `known` is False where we had to assume."""
    return _model_named(name)


@lru_cache(maxsize=256)
def _model_named(name: str | None) -> Model:
    wanted = (name or "").strip().lower()
    found = _listed(wanted) or _assumed(wanted)
    dialect = table().dialects.get(found.provider, "")
    if wanted.split("/", 1)[0] in table().gateways:
        dialect = _GATEWAY_DIALECT
    return replace(found, dialect=found.dialect or dialect)


def _listed(wanted: str) -> Model | None:
    """The row of the table that a name finds."""
    rows = table().models | _registered
    key = listed_name(wanted, rows)
    return replace(rows[key], name=key) if key else None


def listed_name(wanted: str, names: Collection[str]) -> str:
    """The one of these names that a model's name finds: whole in any of its forms, or else by a
    prefix; empty if there is none."""
    # One more character than any name has, so that a longer one does not look like it.
    size = max(map(len, names), default=0) + 1
    forms = _forms(wanted, size)
    if "claude" in wanted:
        # Hosts write `claude-sonnet-4.5`; nobody else's dots may become boundaries.
        forms += _forms(wanted.replace(".", "-"), size)
    keys = chain(forms, _prefixes(forms))
    return next((key for key in keys if key in names), "")


def _forms(name: str, size: int) -> list[str]:
    """The name, and what is left of it after each place where a provider or host may end; the
    longest first, each cut to a size: a name may have any length and must cost little."""
    openers = (at for at, char in enumerate(name) if char in _OPENERS)
    starts = [0, *(at + 1 for at in islice(openers, FORMS_MAX))]
    return [name[start : start + size] for start in starts]


def _prefixes(forms: list[str]) -> Iterator[str]:
    """What is left of each form where a word of the name ends, the longest first."""
    for form in forms:
        for at in range(len(form) - 1, 0, -1):
            if form[at] in _BOUNDARIES:
                yield form[:at]


def _assumed(wanted: str) -> Model:
    """A model that is not in the table, by a word in its name or by its host."""
    found = next((pattern for pattern in table().patterns if pattern.contains in wanted), None)
    if found is not None and found.window is not None:
        return Model(name=wanted, provider=found.provider, window=found.window)
    provider = found.provider if found else _provider_of_host(wanted)
    return Model(name=wanted, provider=provider, window=table().default_window, known=False)


def _provider_of_host(wanted: str) -> str:
    """The provider that comes before the slash of a name, or is known by its host."""
    host, slash, _ = wanted.partition("/")
    if not slash:
        host = ""
    return table().hosts.get(host, host if host in table().dialects else "")


def retirement(model: Model, today: date) -> Literal["", "soon", "retired"]:
    """Whether a provider has ended a model, or will within `SOON`; nothing where no day is
    known."""
    if not model.retires:
        return ""
    last = date.fromisoformat(model.retires)
    if last < today:
        return "retired"
    return "soon" if last - today <= SOON else ""


def _reject_zero_limit(name: str, tokens: int | None) -> None:
    """Refuses a limit of nothing."""
    if tokens is not None and tokens <= 0:
        hint = f"leave {name} out to use the model's own"
        raise Invalid(f"{name} is {tokens}, but must be above 0", hint=hint)


def cost(model: Model, usage: Usage) -> float | None:
    """Dollars for one call; None where the prices are not known. `usage.input` includes what
    came from the cache."""
    if model.prices is None:
        return None
    prices = model.prices
    read = prices.input if prices.cache_read is None else prices.cache_read
    write = prices.input if prices.cache_write is None else prices.cache_write
    uncached = max(0, usage.input - usage.cache_read - usage.cache_write)
    whole = uncached * prices.input + usage.cache_read * read + usage.cache_write * write
    return (whole + usage.output * prices.output) / PER


def input_price(model: Model) -> float | None:
    """Dollars for one token of uncached input."""
    return None if model.prices is None else model.prices.input / PER


def dollars(value: float | None) -> str:
    """`$0.0512`, or `n/a` where nothing is known: an unknown price is not zero."""
    if value is None:
        return "n/a"
    amount = round(value, 4)  # first, so that nothing is "-$0.0000"
    return f"-${-amount:.4f}" if amount < 0 else f"${amount + 0.0:.4f}"


COUNTS = ("input", "output", "cache_read", "cache_write", "reasoning")


def most(one: Usage, other: Usage) -> Usage:
    """The greater of two reports of one response, number by number."""
    return replace(one, **{name: max(getattr(one, name), getattr(other, name)) for name in COUNTS})


def is_more(one: Usage, other: Usage) -> bool:
    """Whether a report says more than another of the same response."""
    return any(getattr(one, name) > getattr(other, name) for name in COUNTS)


def together(one: Usage, more: Usage) -> Usage:
    """What was billed by two reports of one response, of which the second adds to the first."""
    counts = {name: getattr(one, name) + getattr(more, name) for name in COUNTS}
    cost = None if one.cost is None or more.cost is None else one.cost + more.cost
    return replace(one, **counts, cost=cost)


def beyond(whole: Usage, before: Usage) -> Usage:
    """What a response was billed beside what it was billed before."""
    counts = {name: getattr(whole, name) - getattr(before, name) for name in COUNTS}
    cost = whole.cost
    if cost is not None and before.cost is not None:
        cost -= before.cost
    return replace(whole, **counts, cost=cost)
