"""A configuration is checked as a whole when it is given, not when a page is full.

`config` knows the bounds of values; the names in them (strategies, dialects, kinds of tools) are
known in rooms above it, so they are checked here. Neighbours: `Context` checks what it is given,
`refold doctor` what the settings say.
"""

from __future__ import annotations

from refold.config import Config, config_from, config_under, given_values
from refold.dialects import dialect
from refold.ledger.tools import configured
from refold.strategies.registry import check_ladder, check_tables


def check_config(config: Config) -> Config:
    """The configuration, if all of its values are in their bounds and all of its names are known;
    else Invalid, with the nearest name."""
    effective = config_from(given_values(config))
    for one in (effective, *(config_under(effective, [name]) for name in effective.models)):
        _check_names(one)
    return config


def _check_names(config: Config) -> None:
    check_ladder(config.ladder)
    check_tables(config.strategy)
    for entry in config.tool_kinds.values():
        configured(entry)
    if config.dialect is not None:
        dialect(config.dialect)
