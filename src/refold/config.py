"""Every setting, with its default and its bounds.

A `Config` is frozen. An unknown name is refused, with the nearest known one as a hint. Neighbour:
`settings.sources` reads the values from files, environment and arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Literal, get_args

import msgspec

from refold import decoding
from refold.display import failure, suggestion
from refold.errors import Invalid

RATIOS = ("warn_ratio", "compact_ratio", "critical_ratio")
RECENT_DEFAULT = 10
NUMBERS = (
    "artifacts_days", "artifacts_bytes", "artifacts_count", "tokens_cap", "keep_recent",
    "writer_wait_s", "reserve_tokens", "output_tokens", "offload_tokens", "messages_cap",
    "checkpoint_every", "memory_tokens", "compact_every",
)  # fmt: skip

MODELS = "models"
NUMBER_MAX = 10**12
WAIT_MAX_S = 86_400


class When(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A condition of `compact_when`: every limit that is set must be reached."""

    # Tokens on the page.
    tokens: int | None = None
    # Used share of the window.
    ratio: float | None = None
    # Messages on the page.
    messages: int | None = None
    # Seconds since the oldest message on the page.
    age_s: float | None = None
    # Seconds since the last model call.
    idle_s: float | None = None


Durability = Literal["turn", "append", "none"]
Channel = Literal["summaries", "exports", "logs"]
CHANNELS: tuple[Channel, ...] = get_args(Channel)
# Among the channels: also removes e-mail addresses.
EMAILS: Literal["emails"] = "emails"


class _RemembersGiven(msgspec.StructMeta):
    """Makes values that remember which fields were given: a default that was given explicitly
    still overrides a file."""

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
    # Maximum tokens of an answer, for providers that require it; None: 8,192, or less if the model
    # or the reserve allow less.
    output_tokens: int | None = None
    # Tokens at which a page is compacted at the latest, however large the window.
    tokens_cap: int = 256_000
    # Share of the window at which the notice `context-warning` is sent.
    warn_ratio: float = 0.8
    # Share of the window at which a compaction is due.
    compact_ratio: float = 0.9
    # Share of the window at which the notice `context-critical` is sent, if no compaction can help.
    critical_ratio: float = 0.95
    # Target of a compaction, as a share of the way from the fixed part of the page to the trigger.
    target_ratio: float = 0.5
    # Minimum number of answers between two automatic compactions, as long as the page fits.
    compact_every: int = 0
    # Share of the whole conversation at which a compaction is also due, from half of the trigger
    # on; 0: only the trigger counts.
    compact_share: float = 0.0
    # Messages at the end of the page that stay whole, even if a target is missed; None: 10, as far
    # as they leave more than half of the room.
    keep_recent: int | None = None
    # Tokens above which a tool result becomes an artifact; None: an eighth of the window, at
    # most 8,000.
    offload_tokens: int | None = None
    # Strategies of a compaction, in order.
    ladder: tuple[str, ...] = ("dedup", "gist", "hide")
    # Whether `request` compacts automatically when it is due.
    auto: bool = True
    # Messages on the page above which a compaction is also due; 0: no limit.
    messages_cap: int = 0
    # Conditions below the trigger under which a compaction is also due: any one of them.
    compact_when: tuple[When, ...] = ()
    # Messages between two automatic checkpoints; 0: none.
    checkpoint_every: int = 0
    # Tools whose results stay verbatim, newest first, in at most a quarter of the input limit.
    exclude_tools: tuple[str, ...] = ("memory",)
    # Days to keep the content of an artifact; None: forever.
    artifacts_days: float | None = None
    # Maximum bytes of all artifacts of a conversation; None: no limit.
    artifacts_bytes: int | None = None
    # Maximum number of artifacts of a conversation; None: no limit.
    artifacts_count: int | None = None
    # Actions of the caller's own tools, by name, as in `{"save": "modify:path"}`.
    tool_kinds: dict[str, str] = msgspec.field(default_factory=dict)
    # Cache marks of requests: refold's, with the caller's lifetime (true) or with this one ("5m",
    # "1h"), none (false), or those on the messages, the system prompt and the tools ("caller").
    cache: bool | Literal["caller", "5m", "1h"] = True
    # Maximum tokens of memories shown for a request; 0: none; None: 3 % of the window, at most
    # 2,000.
    memory_tokens: int | None = None
    # Facts in messages that a compaction hides: ignored, remembered, or put in the memory's inbox.
    memory_extract: Literal["off", "keep", "ask"] = "off"
    # Embedder of memories: the extra `semantic` or `semantic-large`, `bert:FOLDER`, `off`; empty:
    # the installed one.
    memory_embedder: str = ""
    # Vector store of memories: `chroma`, or one that the program registered; empty: refold's own
    # index.
    memory_vectors: str = ""
    # Minimum score, from 0 to 1, of retrieved memories; None: the embedder's own.
    memory_threshold: float | None = None
    # When the log is synced to disk: once a turn, with every append, or never.
    durability: Durability = "turn"
    # Seconds that a compaction waits for the writer.
    writer_wait_s: float = 30.0
    # Whether the writer checks its text against the ledger a second time, and may add to it.
    writer_checks: bool = False
    # Where secrets are removed: everywhere, nowhere, or in the given channels; with "emails", also
    # e-mail addresses.
    redact: bool | tuple[Channel | Literal["emails"], ...] = True
    # Wire format of requests; None: by the model's name.
    dialect: str | None = None
    # Whether user and assistant take turns in Chat Completions, as strict chat templates require;
    # None: for models outside the table, such as those of local servers.
    alternate_roles: bool | None = None
    # Allows a ratio below 0.3, which compacts nearly always.
    force: bool = False
    # Settings of single strategies, as in `{"hide": {"preset": "half"}}`.
    strategy: dict[str, dict[str, Any]] = msgspec.field(default_factory=dict)
    # Different values for some models, as in `{"claude-*": {"tokens_cap": 100000}}`; if several
    # patterns match, the longest wins.
    models: dict[str, dict[str, Any]] = msgspec.field(default_factory=dict)


ORDERS = "instructions"  # a strategy's setting with text for the writer


def _freely(value: Any) -> bool:
    return True


# Whether a project's files, whose author may not be the user, may set this value without the user's
# permission: every value of most settings, which shape a page and its costs, and elsewhere those
# that keep secrets, data and instructions as safe as the default.
PROJECT_MAY: dict[str, Callable[[Any], bool]] = {
    "reserve_tokens": _freely,
    "output_tokens": _freely,
    "tokens_cap": _freely,
    "warn_ratio": _freely,
    "compact_ratio": _freely,
    "critical_ratio": _freely,
    "target_ratio": _freely,
    "compact_every": _freely,
    "compact_share": _freely,
    "keep_recent": _freely,
    "offload_tokens": _freely,
    "ladder": _freely,  # strategies that the program has: a name imports nothing
    "auto": _freely,
    "messages_cap": _freely,
    "compact_when": _freely,
    "checkpoint_every": _freely,
    "exclude_tools": _freely,
    # The content of artifacts is deleted.
    "artifacts_days": lambda days: days is None,
    "artifacts_bytes": lambda limit: limit is None,
    "artifacts_count": lambda limit: limit is None,
    "tool_kinds": _freely,
    "cache": _freely,
    "memory_tokens": _freely,
    "memory_extract": _freely,  # into the project's own memory, of the project's own conversations
    # A folder in the project, or texts that go to another program.
    "memory_embedder": lambda name: not name.startswith("bert:"),
    "memory_vectors": lambda name: not name,
    "memory_threshold": _freely,
    # Acknowledged events may be lost with the power.
    "durability": lambda when: when != "none",
    "writer_wait_s": lambda seconds: seconds <= Config().writer_wait_s,
    "writer_checks": _freely,
    # Secrets are shown, exported or logged.
    "redact": lambda where: where is True or (where and set(where) >= set(CHANNELS)),
    "dialect": _freely,
    "alternate_roles": _freely,
    "force": _freely,
    # A project's instructions to the writer, which reads the whole conversation.
    "strategy": lambda tables: not any(ORDERS in table for table in tables.values()),
    "models": _freely,  # the settings in its tables are asked for one by one
}


def needing_permission(values: Mapping[str, Any]) -> dict[tuple[str, ...], Any]:
    """The values of a project's table that the user has to permit, each by its full path in it
    and without neighbouring values that need none."""
    found: dict[tuple[str, ...], Any] = {}
    for name, value in values.items():
        if PROJECT_MAY[name](value):
            continue
        if name != "strategy":
            found[name,] = value
            continue
        for strategy, table in value.items():
            if ORDERS in table:
                found[name, strategy, ORDERS] = table[ORDERS]
    for pattern, table in values.get(MODELS, {}).items():
        for place, value in needing_permission(table).items():
            found[(MODELS, pattern, *place)] = value
    return found


def given_values(config: Config) -> dict[str, Any]:
    """The values given explicitly in `Config(…)`; all values of a configuration made otherwise."""
    names = config.__dict__.get("given", config.__struct_fields__)
    return {name: getattr(config, name) for name in config.__struct_fields__ if name in names}


def config_from(values: dict[str, Any], *, origin: str = "the configuration") -> Config:
    """A checked configuration. `origin` names the source of the values in errors."""
    check_names(values, origin)
    try:
        config = decoding.convert(values, Config)
    except Exception as error:  # values may be foreign objects that raise anything
        hint = "see the table of settings in docs/start.md"
        why = str(error) if isinstance(error, msgspec.ValidationError) else failure(error)
        raise Invalid(f"{origin}: {why}", hint=hint) from error
    for what, hint in _faults(config):
        raise Invalid(f"{origin}: {what}", hint=hint)
    for pattern in config.models:
        config_under(config, [pattern], origin=origin)
    return config


def config_for(config: Config, names: Iterable[str]) -> Config:
    """The configuration for a model with these names."""
    lowered = [name.lower() for name in names]
    matching = [
        pattern
        for pattern in config.models
        if any(fnmatchcase(name, pattern.lower()) for name in lowered)
    ]
    return config_under(config, sorted(matching, key=len)) if matching else config


def config_under(
    config: Config, patterns: Iterable[str], *, origin: str = "the configuration"
) -> Config:
    """The configuration with these of its model tables applied; a later one wins."""
    values = {name: getattr(config, name) for name in Config.__struct_fields__ if name != MODELS}
    for pattern in patterns:
        origin = f"{origin}, {MODELS}.{pattern!r}"
        check_names(config.models[pattern], origin, tuple(values))
        values.update(config.models[pattern])
    return config_from(msgspec.to_builtins(values), origin=origin)


def check_names(
    values: Mapping[str, Any], origin: str, known: Sequence[str] = Config.__struct_fields__
) -> None:
    """Raises Invalid for an unknown name, with the nearest known one."""
    for name in values:
        if name not in known:
            hint = suggestion(name, known)
            raise Invalid(f"{origin} has an unknown name {name!r}", hint=hint)


def recent_messages(config: Config) -> int:
    """The number of messages at the end of the page to keep, if there is room."""
    return RECENT_DEFAULT if config.keep_recent is None else config.keep_recent


def _faults(config: Config) -> Iterator[tuple[str, str]]:
    """Every value out of its bounds, with a hint."""
    for name in RATIOS:
        ratio = getattr(config, name)
        if not 0.05 <= ratio <= 1.0:
            yield f"{name} is {ratio}", "a ratio lies between 0.05 and 1.0"
        if ratio < 0.3 and not config.force:
            hint = "set force = true if you mean it"
            yield f"{name} is {ratio}, which compacts nearly always", hint
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
        value, least = getattr(config, name), 1 if name == "tokens_cap" else 0
        most = WAIT_MAX_S if name.endswith("_wait_s") else NUMBER_MAX
        if value is not None and not least <= value <= most:
            yield f"{name} is {value}", f"use a number from {least} to {most:,}"
    for name in config.__struct_fields__:
        if not _is_plain(getattr(config, name)):
            hint = "use text that can be written as UTF-8, not nested too deep"
            yield f"{name} cannot be kept", hint
    if config.memory_threshold is not None and not 0 <= config.memory_threshold <= 1:
        yield f"memory_threshold is {config.memory_threshold}", "a score lies between 0 and 1"
    for when in config.compact_when:
        limits = {name: getattr(when, name) for name in when.__struct_fields__}
        if all(limit is None for limit in limits.values()):
            hint = "set at least one of " + ", ".join(limits)
            yield "a condition of compact_when is empty, which compacts always", hint
        for name, limit in limits.items():
            most = 1 if name == "ratio" else NUMBER_MAX
            if limit is not None and not 0 < limit <= most:
                yield f"compact_when.{name} is {limit}", f"use a number above 0, at most {most:,}"


def _is_plain(value: object) -> bool:
    """Whether a value can be encoded as JSON; foreign objects in it, for a caller's own strategy,
    are not checked."""
    try:
        msgspec.json.encode(value, enc_hook=lambda _: None)
    except (ValueError, OverflowError, RecursionError):
        return False
    return True
