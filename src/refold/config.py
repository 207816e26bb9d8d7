"""Every knob, with its default and its bounds. Frozen; an unknown name answers with the nearest
one.

Where the values come from (files, environment, arguments) is the business of `refold.settings`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

import msgspec

from refold.display import suggestion
from refold.errors import Invalid

NUMBERS = (
    "artifacts_days", "artifacts_bytes", "artifacts_count",
    "tokens_cap", "keep_recent", "writer_wait_s", "reserve_tokens", "offload_tokens", "messages_cap",
    "checkpoint_every",
)  # fmt: skip

Durability = Literal["turn", "append", "none"]
Channel = Literal["summaries", "exports", "logs"]
CHANNELS: tuple[Channel, ...] = get_args(Channel)
EMAILS: Literal["emails"] = (
    "emails"  # named among the channels: e-mail addresses are taken out, too
)


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`reserve_tokens` and `offload_tokens` follow from the model's window unless they are
    given."""

    reserve_tokens: int | None = None
    tokens_cap: int = 256_000
    warn_ratio: float = 0.8
    compact_ratio: float = 0.9
    critical_ratio: float = 0.95
    target_ratio: float = 0.5
    keep_recent: int = 10
    offload_tokens: int | None = None
    ladder: tuple[str, ...] = ("dedup", "gist", "hide")
    auto: bool = True
    messages_cap: int = 0  # compacts also when the page has more messages than this; 0: never
    checkpoint_every: int = (
        0  # messages between checkpoints that are made without being asked for; 0: none
    )
    exclude_tools: tuple[str, ...] = ("memory",)
    artifacts_days: float | None = None
    artifacts_bytes: int | None = None
    artifacts_count: int | None = None
    tool_kinds: dict[str, str] = msgspec.field(default_factory=dict)
    cache: bool = True
    durability: Durability = "turn"
    writer_wait_s: float = 30.0
    # Secrets are taken out in every channel, in none, or in those named; with "emails", addresses
    # go too.
    redact: bool | tuple[Channel | Literal["emails"], ...] = True
    dialect: str | None = None
    force: bool = False
    strategy: dict[str, dict[str, Any]] = msgspec.field(default_factory=dict)


def config_from(values: dict[str, Any], *, origin: str = "the configuration") -> Config:
    """A checked configuration. `origin` says in errors where the values stood."""
    check_names(values, origin)
    try:
        config = msgspec.convert(values, Config)
    except msgspec.ValidationError as error:
        raise Invalid(
            f"{origin}: {error}", hint="see the table of settings in docs/start.md"
        ) from error
    return _bounded(config, origin)


def check_names(
    values: Mapping[str, Any], origin: str, known: Sequence[str] = Config.__struct_fields__
) -> None:
    """Refuses a name that is not a setting, and names the nearest one."""
    for name in values:
        if name not in known:
            hint = suggestion(name, known)
            raise Invalid(f"{origin} has an unknown name {name!r}", hint=hint)


def _bounded(config: Config, origin: str) -> Config:
    def refuse(what: str, hint: str) -> None:
        raise Invalid(f"{origin}: {what}", hint=hint)

    for name in ("warn_ratio", "compact_ratio", "critical_ratio"):
        ratio = getattr(config, name)
        if not 0.05 <= ratio <= 1.0:
            refuse(f"{name} is {ratio}", "a ratio lies between 0.05 and 1.0")
        if ratio < 0.3 and not config.force:
            refuse(
                f"{name} is {ratio}, which compacts nearly always",
                "set force = true if you mean it",
            )
    if not config.warn_ratio < config.compact_ratio <= config.critical_ratio:
        refuse(
            "warn, compact and critical are out of order",
            "warn_ratio < compact_ratio <= critical_ratio",
        )
    if not 0.05 <= config.target_ratio < 1.0:
        refuse(f"target_ratio is {config.target_ratio}", "a target lies between 0.05 and below 1.0")
    for name in NUMBERS:
        value = getattr(config, name)
        if value is not None and (value < 0 or (name == "tokens_cap" and value == 0)):
            refuse(f"{name} is {value}", "give a number that is not negative")
    return config
