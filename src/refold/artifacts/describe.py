"""What a program says of its own tools: a line that describes a call, a few that sum up what the
tool gave.

Without that, a description is made of the tool's name and its first argument, and a stub shows the
first and the last lines. A function that a program registers is its own code: what it gives is cut
to size, one that fails is reported, and the usual text takes its place. Neighbours: `offload` makes
stubs, `intake` asks.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import TYPE_CHECKING, Any

from msgspec import UNSET, Struct

from refold.core.arguments import decoded
from refold.core.model import Origin
from refold.display import cut, failure, one_line

if TYPE_CHECKING:
    # Rules for secrets are costly to load, and not every stub needs them.
    from refold.redaction import Redact

DESCRIPTION_CHARS_MAX, SUMMARY_CHARS_MAX = 200, 800
ARGUMENT_CHARS_MAX = 50
EVERY = "*"

Describer = Callable[[Any], str]
"""Given the arguments of a call, what it does, in a line."""
Summarizer = Callable[[str, Origin], str]
"""Given a text and where it came from, what it says, in a few lines."""
Failed = Callable[[str], None]


class _Functions(Struct, frozen=True):
    describe: Describer | None = None
    summarize: Summarizer | None = None


_registered: dict[str, _Functions] = {}


def register(
    tool: str, *, describe: Describer | None = None, summarize: Summarizer | None = None
) -> None:
    """What is said of the outputs of a tool (`*`: of every tool that has nothing of its own), in
    place of what was registered before. Both are called while a result is appended, so they
    should not take long."""
    _registered[tool] = _Functions(describe, summarize)


def described(
    tool: str, arguments: str | dict[str, Any], failed: Failed, redact: Redact = str
) -> str:
    """`readFile: /src/index.ts`, `searchCode with 2 argument(s)`, `listFiles`, or what the
    registered function says, without secrets."""
    values = _values(arguments)
    own, every = _functions(tool)
    describe = own.describe or every.describe
    if describe is None:
        return _usual_description(tool, values, redact)
    answer = _answer(lambda: describe(deepcopy(values)), f"describe {tool}", failed)
    said = one_line(cut(redact(answer), DESCRIPTION_CHARS_MAX))
    return said or _usual_description(tool, values, redact)


def summarized(
    text: Callable[[], str], origin: Origin, failed: Failed, redact: Redact = str
) -> str:
    """What the registered function says of a text; nothing if there is none, or it has nothing
    to say."""
    own, every = _functions(origin.tool)
    summarize = own.summarize or every.summarize
    if summarize is None:
        return ""
    summary = _answer(lambda: summarize(text(), origin), f"summarize {origin.tool}", failed)
    return cut(redact(summary), SUMMARY_CHARS_MAX)


def _functions(tool: str) -> tuple[_Functions, _Functions]:
    """What is registered for a tool, and for every tool."""
    nothing = _Functions()
    return _registered.get(tool, nothing), _registered.get(EVERY, nothing)


def _answer(ask: Callable[[], Any], what: str, failed: Failed) -> str:
    """What the caller's function gives; nothing if it fails, which is reported."""
    try:
        return _storable(ask())
    except Exception as error:  # noqa: BLE001 - it is the caller's code and may raise anything
        failed(f"{what}: {failure(error)}")
        return ""


def _storable(text: Any) -> str:
    """A text as an event can have it, without lone surrogates; nothing for None."""
    if not isinstance(text, str | None):
        raise TypeError(f"it gave {type(text).__name__}, not text")
    return (text or "").encode("utf-8", "replace").decode().strip()


def _values(arguments: str | dict[str, Any]) -> Any:
    if not isinstance(arguments, str):
        return arguments
    value = decoded(arguments)
    if value is not UNSET:
        return value
    return {"input": arguments} if arguments else {}


def _usual_description(tool: str, values: Any, redact: Redact) -> str:
    if not isinstance(values, dict) or not values:
        return tool
    first = next(iter(values.values()))
    if not isinstance(first, str):
        return f"{tool} with {len(values)} argument(s)"
    first = redact(first)
    if len(first) > ARGUMENT_CHARS_MAX:
        first = first[:ARGUMENT_CHARS_MAX] + "..."
    return f"{tool}: {first}"
