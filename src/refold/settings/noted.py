"""The limits by which a proxy keeps a conversation, as it noted them in the metadata.

A proxy has its own rule for a window that is a wish, and settings of its own. Whoever opens the
conversation beside it (a shell, a status line) counts with the same limits, or would speak of
another trigger and make room where there is enough. What the user says here in files and variables
stands alone, as it does for the proxy. Neighbours: `edges/proxy/book` notes, `sources` loads.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any

from refold.config import Config
from refold.errors import Invalid
from refold.settings.sources import loaded

KEEPER = "proxy"  # in the metadata: what a proxy says of a conversation
LIMITS = "limits"
# What says when a compaction comes, and how far it goes.
NAMES = frozenset(
    {
        "reserve_tokens",
        "warn_ratio",
        "compact_ratio",
        "critical_ratio",
        "tokens_cap",
        "target_ratio",
        "compact_every",
        "compact_share",
    }
)


def are_said(config: Config, origins: Iterable[str]) -> bool:
    """Whether somebody says when a compaction comes, for all models or for some."""
    return any(name in NAMES for name in chain(origins, *config.models.values()))


def limits_of(config: Config) -> dict[str, Any]:
    """The limits of a configuration that are not the default ones."""
    plain, names = Config(), sorted(NAMES)
    values = {name: getattr(config, name) for name in names}
    return {name: value for name, value in values.items() if value != getattr(plain, name)}


def noted(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The limits that were noted; none where nothing was, or nothing that is known."""
    about = metadata.get(KEEPER)
    limits = about.get(LIMITS) if isinstance(about, Mapping) else None
    given = limits if isinstance(limits, Mapping) else {}
    return {name: value for name, value in given.items() if name in NAMES}


def loaded_for(metadata: Mapping[str, Any]) -> Config:
    """The settings of this project for a conversation that says this of itself."""
    config, origins = loaded()
    limits = noted(metadata)
    if not limits or are_said(config, origins):
        return config
    try:
        return loaded(limits)[0]
    except Invalid:
        return config  # anybody can write metadata, and no conversation must be shut by it
