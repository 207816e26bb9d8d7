"""What a program says of its own tools' outputs: a line that describes the call, a few that sum up
what it gave.

Without that, a description is made of the tool's name and its first argument, and a stub shows the
first and the last lines. A function that a program registers is its own code: what it gives is cut
to size, one that fails is told, and what would have been said without it stands. Neighbours:
`offload` makes stubs, `drafting` asks.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

from msgspec import UNSET, Struct

from refold.core.arguments import decoded
from refold.core.model import Origin
from refold.display import cut, one_line

DESCRIPTION_CHARS_MAX, SUMMARY_CHARS_MAX = 200, 800
EVERY = "*"

Describer = Callable[[Any], str]
"""Given the arguments of a call, what it does, in a line."""
Summarizer = Callable[[str, Origin], str]
"""Given a text and where it came from, what it says, in a few lines."""
Failed = Callable[[str], None]


class _Known(Struct, frozen=True):
    describe: Describer | None = None
    summarize: Summarizer | None = None


_registered: dict[str, _Known] = {}


def register(
    tool: str, *, describe: Describer | None = None, summarize: Summarizer | None = None
) -> None:
    """What is said of the outputs of a tool (`*`: of every tool that has nothing of its own), in
    place of what was registered before. Both are called while a result is appended, so they
    should not take long."""
    _registered[tool] = _Known(describe, summarize)


def described(tool: str, arguments: str | dict[str, Any], failed: Failed) -> str:
    """`readFile: /src/index.ts`, `searchCode with 2 argument(s)`, `listFiles`, or what was
    registered (T-09)."""
    values = _values(arguments)
    describe = _of(tool, "describe")
    said = (
        _said(lambda: describe(deepcopy(values)), DESCRIPTION_CHARS_MAX, f"describe {tool}", failed)
        if describe
        else ""
    )
    return one_line(said) or _usual(tool, values)


def summarized(text: Callable[[], str], origin: Origin, failed: Failed) -> str:
    """What the registered function says of a text; nothing if there is none, or it has nothing
    to say."""
    summarize = _of(origin.tool, "summarize")
    if summarize is None:
        return ""
    return _said(
        lambda: summarize(text(), origin), SUMMARY_CHARS_MAX, f"summarize {origin.tool}", failed
    )


def _of(tool: str, name: str) -> Callable[..., Any] | None:
    own, every = (getattr(_registered.get(key), name, None) for key in (tool, EVERY))
    return own or every


def _said(ask: Callable[[], Any], chars_max: int, what: str, failed: Failed) -> str:
    try:
        text = ask()
        if not isinstance(text, str | None):
            raise TypeError(f"it gave {type(text).__name__}, not text")
    except Exception as error:  # noqa: BLE001 - it is the caller's code and may raise anything
        failed(f"{what}: {type(error).__name__}: {error}")
        return ""
    # No event holds a lone surrogate.
    said = (text or "").encode("utf-8", "replace").decode().strip()
    return cut(said, chars_max)


def _values(arguments: str | dict[str, Any]) -> Any:
    if not isinstance(arguments, str):
        return arguments
    value = decoded(arguments)
    if value is not UNSET:
        return value
    return {"input": arguments} if arguments else {}


def _usual(tool: str, values: Any) -> str:
    if not isinstance(values, dict) or not values:
        return tool
    first = next(iter(values.values()))
    if not isinstance(first, str):
        return f"{tool} with {len(values)} argument(s)"
    return f"{tool}: {first if len(first) <= 50 else first[:50] + '...'}"
