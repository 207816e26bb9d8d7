"""Every setting, with its default and its bounds. Frozen; an unknown name answers with the nearest
one.

Where the values come from (files, environment, arguments) is the business of `settings.sources`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Literal, get_args

import msgspec

from refold import decoding
from refold.display import failure, suggestion
from refold.errors import Invalid

RATIOS = ("warn_ratio", "compact_ratio", "critical_ratio")
NUMBERS = (
    "artifacts_days", "artifacts_bytes", "artifacts_count", "tokens_cap", "keep_recent",
    "writer_wait_s", "native_wait_s", "reserve_tokens", "output_tokens", "offload_tokens",
    "messages_cap", "checkpoint_every", "cache_marks", "cache_life_s", "memory_tokens",
    "memory_entries", "compact_every",
)  # fmt: skip

MODELS = "models"
NUMBER_MAX = 10**12
WAIT_MAX_S = 86_400


class When(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A condition of `compact_when`: all that is given must hold."""

    # The page has at least so many tokens.
    tokens: int | None = None
    # The page has at least this share of the window.
    ratio: float | None = None
    # The page has at least so many messages.
    messages: int | None = None
    # The oldest message on the page came at least so many seconds ago.
    age_s: float | None = None
    # The model was last heard at least so many seconds ago.
    idle_s: float | None = None


Durability = Literal["turn", "append", "none"]
Channel = Literal["summaries", "exports", "logs"]
CHANNELS: tuple[Channel, ...] = get_args(Channel)
# Named among the channels: e-mail addresses are taken out as well.
EMAILS: Literal["emails"] = "emails"


class _RemembersGiven(msgspec.StructMeta):
    """Makes values that remember which of their fields were given: one that is given with its
    default is given all the same, and wins over a file."""

    def __call__(cls, /, *args: object, **given: object) -> object:
        made = super().__call__(*args, **given)
        made.__dict__["given"] = frozenset(given)
        return made


class Config(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    dict=True,
    metaclass=_RemembersGiven,
):
    """All settings of a conversation, each with its unit and meaning."""

    # Tokens kept free for the answer; None: the model's output limit, at most 32,000.
    reserve_tokens: int | None = None
    # Tokens that an answer may have, where a provider must be told; None: 8,192, or less if the
    # model or the reserve allow less.
    output_tokens: int | None = None
    # Tokens at which a page is compacted at the latest, however large the window is.
    tokens_cap: int = 256_000
    # Share of the window at which the notice `context-warning` is sent.
    warn_ratio: float = 0.8
    # Share of the window at which a compaction is due.
    compact_ratio: float = 0.9
    # Share of the window at which the notice `context-critical` is sent, if no compaction can help.
    critical_ratio: float = 0.95
    # Where a compaction aims, as a share of the way from the fixed part of the page to the trigger.
    target_ratio: float = 0.5
    # Answers that come between two automatic compactions at least, as long as the page fits.
    compact_every: int = 0
    # Share of all that was said at which a compaction is due as well, from half of the trigger on;
    # 0: the trigger alone decides.
    compact_share: float = 0.0
    # Messages at the end of the page that every strategy leaves alone; a gist as far as they leave
    # more than half of its room.
    keep_recent: int = 10
    # Tokens above which a tool result becomes an artifact; None: an eighth of the window, at
    # most 8,000.
    offload_tokens: int | None = None
    # Strategies of a compaction, in the order in which they are tried.
    ladder: tuple[str, ...] = ("dedup", "gist", "hide")
    # Whether `request` compacts automatically when it is due.
    auto: bool = True
    # Messages on the page above which a compaction is due as well; 0: never for that reason.
    messages_cap: int = 0
    # Conditions below the trigger under which a compaction is due as well: any one of them.
    compact_when: tuple[When, ...] = ()
    # Seconds after a call for which the provider keeps the page in its cache; None: 300 for
    # Anthropic, 3,600 for others. Later a compaction is due from `warn_ratio` on.
    cache_life_s: float | None = None
    # Share of the window below which a number of messages alone is no reason to compact.
    crowd_ratio: float = 0.0
    # Messages between two automatic checkpoints; 0: none.
    checkpoint_every: int = 0
    # Tools whose results stay whole, the newest first, in at most a quarter of the input limit.
    exclude_tools: tuple[str, ...] = ("memory",)
    # Days that the content of an artifact is kept; None: forever.
    artifacts_days: float | None = None
    # Bytes that the artifacts of a conversation may have; None: no limit.
    artifacts_bytes: int | None = None
    # Artifacts that a conversation may have; None: no limit.
    artifacts_count: int | None = None
    # What the caller's own tools do, by name, as in `{"save": "modify:path"}`.
    tool_kinds: dict[str, str] = msgspec.field(default_factory=dict)
    # Whose cache marks requests carry: refold's, nobody's (false), or those that came with the
    # messages, the system prompt and the tools ("caller").
    cache: bool | Literal["caller"] = True
    # Cache marks that a request has at most; providers take 4.
    cache_marks: int = 4
    # How long refold's cache marks live; None: as long as the caller's.
    cache_ttl: Literal["5m", "1h"] | None = None
    # Tokens that memories shown for a request may have; 0: none; None: 3 % of the window, at most
    # 2,000.
    memory_tokens: int | None = None
    # What becomes of facts in messages that a compaction takes off the page: nothing, they are
    # remembered, or they wait in the inbox of the memory.
    memory_extract: Literal["off", "keep", "ask"] = "off"
    # Entries that a memory may have before no more are taken from conversations.
    memory_entries: int = 20_000
    # What makes the vectors of memories: the extra `semantic` or `semantic-large`, `bert:FOLDER`,
    # `off`; empty: what is installed.
    memory_embedder: str = ""
    # Where the vectors of memories are kept: in `chroma`, or in a vector store that the program
    # made known; empty: in refold's own index.
    memory_vectors: str = ""
    # The least score, from 0 to 1, of memories that are retrieved; None: as the embedder needs.
    memory_threshold: float | None = None
    # When the log is synced to disk: once a turn, with every append, or never.
    durability: Durability = "turn"
    # Seconds that a compaction waits for the writer.
    writer_wait_s: float = 30.0
    # Seconds that a compaction waits for the provider, where that writes it (`native`).
    native_wait_s: float = 120.0
    # Whether the writer looks at the ledger and its own words once more, and may add what is
    # missing.
    writer_checks: bool = False
    # Where secrets are taken out: everywhere, nowhere, or in the channels named; with "emails",
    # addresses go as well.
    redact: bool | tuple[Channel | Literal["emails"], ...] = True
    # The provider's format of requests; None: the one that the model's name says.
    dialect: str | None = None
    # Whether user and assistant take turns in Chat Completions, as strict chat templates want;
    # None: for models that no table knows, which local servers have.
    alternate_roles: bool | None = None
    # Allows a ratio below 0.3, which compacts nearly always.
    force: bool = False
    # Settings of single strategies, as in `{"hide": {"preset": "half"}}`.
    strategy: dict[str, dict[str, Any]] = msgspec.field(default_factory=dict)
    # Other values of any setting for some models, as in `{"claude-*": {"tokens_cap": 100000}}`;
    # where several patterns match, the longest wins.
    models: dict[str, dict[str, Any]] = msgspec.field(default_factory=dict)


def given_values(config: Config) -> dict[str, Any]:
    """The values that whoever made the configuration gave; all, if it was made by other means than
    `Config(…)`."""
    names = config.__dict__.get("given", config.__struct_fields__)
    return {name: getattr(config, name) for name in config.__struct_fields__ if name in names}


def config_from(values: dict[str, Any], *, origin: str = "the configuration") -> Config:
    """A checked configuration. `origin` says in errors where the values are from."""
    check_names(values, origin)
    try:
        config = decoding.convert(values, Config)
    except Exception as error:  # values may be objects of the caller's, and raise anything
        hint = "see the table of settings in docs/start.md"
        said = str(error) if isinstance(error, msgspec.ValidationError) else failure(error)
        raise Invalid(f"{origin}: {said}", hint=hint) from error
    for what, hint in _faults(config):
        raise Invalid(f"{origin}: {what}", hint=hint)
    for pattern in config.models:
        config_under(config, [pattern], origin=origin)
    return config


def config_for(config: Config, names: Iterable[str]) -> Config:
    """The configuration for a model that has these names."""
    lowered = [name.lower() for name in names]
    found = [
        pattern
        for pattern in config.models
        if any(fnmatchcase(name, pattern.lower()) for name in lowered)
    ]
    return config_under(config, sorted(found, key=len)) if found else config


def config_under(
    config: Config, patterns: Iterable[str], *, origin: str = "the configuration"
) -> Config:
    """The configuration with what these of its tables say; a later one wins."""
    values = {name: getattr(config, name) for name in Config.__struct_fields__ if name != MODELS}
    for pattern in patterns:
        origin = f"{origin}, {MODELS}.{pattern!r}"
        check_names(config.models[pattern], origin, tuple(values))
        values.update(config.models[pattern])
    return config_from(msgspec.to_builtins(values), origin=origin)


def check_names(
    values: Mapping[str, Any], origin: str, known: Sequence[str] = Config.__struct_fields__
) -> None:
    """Refuses a name that is not a setting, and names the nearest one."""
    for name in values:
        if name not in known:
            hint = suggestion(name, known)
            raise Invalid(f"{origin} has an unknown name {name!r}", hint=hint)


def _faults(config: Config) -> Iterator[tuple[str, str]]:
    """Each value that is out of its bounds, with a hint."""
    for name in RATIOS:
        yield from _ratio_faults(name, getattr(config, name), config.force)
    warn, compact, critical = config.warn_ratio, config.compact_ratio, config.critical_ratio
    if warn >= compact:
        hint = f"set warn_ratio below {compact}, or compact_ratio above {warn}"
        yield f"compact_ratio is {compact}, not above warn_ratio, which is {warn}", hint
    if compact > critical:
        hint = f"set critical_ratio to {compact} or more, or compact_ratio to {critical} or less"
        yield f"compact_ratio is {compact}, above critical_ratio, which is {critical}", hint
    if not 0.05 <= config.target_ratio < 1.0:
        hint = "a target is at least 0.05 and less than 1.0"
        yield f"target_ratio is {config.target_ratio}", hint
    if not 0 <= config.compact_share <= 1:
        yield f"compact_share is {config.compact_share}", "a share lies between 0 and 1"
    for name in NUMBERS:
        yield from _number_faults(name, getattr(config, name))
    for name in config.__struct_fields__:
        if not _is_plain(getattr(config, name)):
            hint = "give text that can be written as UTF-8, not nested too deep"
            yield f"{name} cannot be kept", hint
    if config.memory_threshold is not None and not 0 <= config.memory_threshold <= 1:
        yield f"memory_threshold is {config.memory_threshold}", "a score lies between 0 and 1"
    for when in config.compact_when:
        yield from _condition_faults(when)


def _condition_faults(when: When) -> Iterator[tuple[str, str]]:
    given = {name: getattr(when, name) for name in when.__struct_fields__}
    if all(value is None for value in given.values()):
        hint = "give at least one of " + ", ".join(given)
        yield "a condition of compact_when is empty, which compacts always", hint
    for name, value in given.items():
        if value is not None and not 0 < value <= (1 if name == "ratio" else NUMBER_MAX):
            most = 1 if name == "ratio" else f"{NUMBER_MAX:,}"
            yield f"compact_when.{name} is {value}", f"give a number above 0, at most {most}"


def _is_plain(value: object) -> bool:
    """Whether a value can be written, as far as it is plain; what a caller's own strategy takes
    besides is its own business."""
    try:
        msgspec.json.encode(value, enc_hook=lambda _: None)
    except (ValueError, OverflowError, RecursionError):
        return False
    return True


def _ratio_faults(name: str, ratio: float, force: bool) -> Iterator[tuple[str, str]]:
    if not 0.05 <= ratio <= 1.0:
        yield f"{name} is {ratio}", "a ratio lies between 0.05 and 1.0"
    if ratio < 0.3 and not force:
        hint = "set force = true if you mean it"
        yield f"{name} is {ratio}, which compacts nearly always", hint


def _number_faults(name: str, value: float | None) -> Iterator[tuple[str, str]]:
    least = 1 if name == "tokens_cap" else 0
    most = WAIT_MAX_S if name.endswith("_wait_s") else NUMBER_MAX
    if value is not None and not least <= value <= most:
        yield f"{name} is {value}", f"give a number from {least} to {most:,}"
