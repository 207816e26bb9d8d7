"""Regular expressions that are compiled when they are first used.

Compiling all of them took two thirds of the time in which a command starts. Imports nothing of
refold, and nothing but the standard library.
"""

from __future__ import annotations

import re
from typing import Any, AnyStr, cast

_USES = (
    "search", "match", "fullmatch", "finditer", "findall", "sub", "subn", "split", "flags",
    "groups", "groupindex",
)  # fmt: skip


class _Uncompiled:
    """Acts as the compiled pattern from its first use on."""

    def __init__(self, pattern: str | bytes, flags: int) -> None:
        self.pattern, self._flags = pattern, flags

    def __getattr__(self, name: str) -> Any:
        if name not in _USES:
            raise AttributeError(f"a pattern has no {name}")
        compiled = re.compile(self.pattern, self._flags)
        # Later uses find the compiled pattern's own methods here, and cost nothing more.
        vars(self).update({use: getattr(compiled, use) for use in _USES})
        return getattr(compiled, name)


def regex(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """The pattern, compiled at its first use."""
    return cast("re.Pattern[AnyStr]", _Uncompiled(pattern, flags))
