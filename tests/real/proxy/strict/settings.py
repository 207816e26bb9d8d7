"""What a test may choose about the upstream, and what its services share."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

from tests.real.proxy.strict.cache import Cache
from tests.real.proxy.strict.script import Script
from tests.real.proxy.strict.wire import Json


@dataclass
class Settings:
    """`enforces_prefix` is False for accounts from before 2026-08-31, `drops_by_default` is True
    for a model that drops thinking that does not fit, instead of refusing it. The last three are
    what the Responses API keeps: items by id, the reasoning that led to an item, and whole inputs
    by response."""

    script: Script = field(default_factory=Script)
    window: int = 200_000
    enforces_prefix: bool = True
    drops_by_default: bool = False
    cache: Cache = field(default_factory=lambda: Cache(tokens_min=1_024))
    counter: itertools.count[int] = field(default_factory=lambda: itertools.count(1))
    stored: dict[str, Json] = field(default_factory=dict)
    led_by: dict[str, str] = field(default_factory=dict)
    chains: dict[str, list[Json]] = field(default_factory=dict)

    def id(self, prefix: str) -> str:
        return f"{prefix}{next(self.counter):06d}"
