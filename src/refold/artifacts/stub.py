"""The stub of a large output: what it is, its size, how to reach the rest, and its most telling
lines.

The tool that reaches the rest is named only if the model has it. A stub is written once, with the
result, and never changes. Short text loses its secrets before lines are chosen; long text loses
private keys at that point, and each shown line loses its secrets before it is cut. Of long text
with few lines both ends are shown, redacted together with more context than any secret is long. A
program may register functions that describe a call and summarize an output; their text is cut to
size, and a failure is reported. Neighbours: `kinds` find the telling lines, `redaction` knows
secrets, `intake` asks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import UNSET, Struct

from refold.artifacts.json_values import Written
from refold.artifacts.kinds.registry import ClassifiedText
from refold.artifacts.kinds.sample import ENDS_LINES, LINE_CHARS_MAX, LONG_LINES_MAX, PIECE_CHARS
from refold.core.call_arguments import decoded
from refold.core.model import Artifact, Origin
from refold.display import cut, failure, one_line, plural

if TYPE_CHECKING:
    from refold.artifacts.tool_output import Content
    from refold.redaction import Redact

STUB_CHARS_MAX = 2_000
NAME_CHARS, LOCATION_CHARS = 160, 300
SAMPLE_CHARS, LOOKED_AT_CHARS = 100_000, 2_000_000
REDACTED_CHARS = 100_000
# The longest secret, and the longest private key inside a line.
SECRET_CHARS, KEY_CHARS = 4_000, 20_000
DESCRIPTION_CHARS_MAX, SUMMARY_CHARS_MAX = 200, 800
ARGUMENT_CHARS_MAX = 50
EVERY = "*"
_KEY = "-----BEGIN "
_ENDS_CHARS = ENDS_LINES * PIECE_CHARS

Describer = Callable[[Any], str]
"""Given the arguments of a call, a one-line description of it."""
Summarizer = Callable[[str, Origin], str]
"""Given text and its origin, a summary in a few lines."""
Failed = Callable[[str], None]


class Stub(Struct, frozen=True):
    """A stub before its artifact is known: a program's `summary` of the content, the content's
    kind and lines, and the tool that reaches the rest, if the model has one."""

    looked: ClassifiedText | None
    summary: str = ""
    tool: str = ""
    redact: Redact = str
    kept: str = "kept whole"  # how the content was kept, in words

    @property
    def kind(self) -> str:
        return self.looked.name if self.looked else ""

    def text(self, artifact: Artifact, location: str | None) -> str:
        """The stub of this artifact, in the file `location`, if that may be named:
        `[Large output of run: pytest (test run): 900 lines, 50,000 bytes, kept whole as …]`."""
        name = cut(one_line(artifact.name), NAME_CHARS)
        about = self.looked.about if self.looked else ""
        size = f"{artifact.size_bytes:,} bytes"
        if artifact.lines:
            size = f"{artifact.lines:,} {plural('line', artifact.lines)}, {size}"
        what = f"Large output of {name} ({about})" if about else f"Large output of {name}"
        head = f"[{what}: {size}, {self.kept} as artifact://{artifact.id}."
        if self.tool:
            head += f" {self.tool} {artifact.id} returns any part of it."
        if location and len(location) < LOCATION_CHARS:
            head += f" It is the file {location} too."
        head += "]"
        shown = self.summary
        if not shown and self.looked:
            lines = self.looked.excerpt(STUB_CHARS_MAX - len(head) - 1)
            shown = self.redact("\n".join(lines))
        return f"{head}\n{shown}" if shown else head


def stub_of(
    content: Content, origin: Origin, failed: Failed, *, tool: str, redact: Redact = str
) -> Stub:
    """The stub of the content, without secrets, which are removed before its lines are cut.
    `failed` gets the errors of the program's own kinds and summaries."""
    text = sampled_text(content)
    clean = showable(text, redact)
    if not clean:
        return Stub(None, tool=tool)
    summary = summarized(lambda: sample(content), origin, failed, redact)
    redact_line = partial(line_shown, redact=redact) if is_long(text) else None
    return Stub(ClassifiedText(clean, failed, redact_line), summary, tool, redact)


# --- the text of a content ---


def sample(content: Content) -> str:
    """The text of the content; its beginning and its end if it is not held as text."""
    return content if isinstance(content, str) else "\n…\n".join(_ends(content, SAMPLE_CHARS))


def sampled_text(content: Content) -> str:
    """The text that is searched for telling lines; empty if the content is not text."""
    if isinstance(content, str):
        return content
    if isinstance(content, Written) and content.whole is not None:
        return content.whole.decode()
    if isinstance(content, bytes):
        try:
            content.decode()
        except UnicodeDecodeError:
            return ""
    start, end = _ends(content, LOOKED_AT_CHARS)
    return start if len(start) < LOOKED_AT_CHARS else f"{start}\n{end}"


def _ends(content: bytes | Written, chars: int) -> tuple[str, str]:
    """The first and the last characters of the content."""
    size = 4 * chars  # a character has at most four bytes
    if isinstance(content, Written):
        first = last = b""
        for piece in content:
            first += piece[: size - len(first)]
            last = (last + piece[-size:])[-size:]
        content = first + last
    start = content[:size].decode("utf-8", "ignore")
    end = content[-size:].decode("utf-8", "ignore")
    return start[:chars], end[-chars:]


def is_long(text: str) -> bool:
    return len(text) > REDACTED_CHARS


def showable(text: str, redact: Redact) -> str:
    """The text to choose lines from; if it is long, each line still needs `line_shown`."""
    if not is_long(text):
        return redact(text)
    if text.count("\n") <= LONG_LINES_MAX:
        return _with_redacted_ends(text, redact)
    return "".join(_without_keys(text, redact))


def _without_keys(text: str, redact: Redact) -> Iterator[str]:
    """The text in parts, redacted wherever a key may begin. Parts end at line ends."""
    done, at = 0, text.find(_KEY)
    while at >= 0:
        start = max(done, text.rfind("\n", done, at) + 1)
        end = text.find("\n", at + KEY_CHARS)
        yield text[done:start]
        yield redact(text[start:] if end < 0 else text[start:end])
        done = len(text) if end < 0 else end
        at = text.find(_KEY, done)
    yield text[done:]


def _with_redacted_ends(text: str, redact: Redact) -> str:
    """Text of the same length with redacted ends; the middle is never shown."""
    chars = _ENDS_CHARS + KEY_CHARS
    if len(text) <= 2 * chars:
        return redact(text)
    # A secret that was cut in half is near the cut, and is removed.
    start = redact(text[:chars])[:-KEY_CHARS]
    end = redact(text[-chars:])[KEY_CHARS:]
    return start + " " * (len(text) - len(start) - len(end)) + end


def line_shown(line: str, before: str, redact: Redact) -> str:
    """A line without its secrets, as far as it can be shown. The name of a secret may be on the
    line before."""
    chars = LINE_CHARS_MAX + SECRET_CHARS
    shown = redact(f"{before[-SECRET_CHARS:]}\n{line[:chars]}").rpartition("\n")[2]
    return shown if len(line) <= chars else shown[:-SECRET_CHARS] + "…"


class _Functions(Struct, frozen=True):
    describe: Describer | None = None
    summarize: Summarizer | None = None


_registered: dict[str, _Functions] = {}


def register(
    tool: str, *, describe: Describer | None = None, summarize: Summarizer | None = None
) -> None:
    """Sets the functions for the outputs of a tool (`*`: of every tool without functions of its
    own), replacing earlier ones. Both are called while a result is appended, so they should not
    take long."""
    _registered[tool] = _Functions(describe, summarize)


def call_description(
    tool: str, arguments: str | dict[str, Any], failed: Failed, redact: Redact = str
) -> str:
    """`readFile: /src/index.ts`, `searchCode with 2 argument(s)`, `listFiles`, or the text of the
    registered function, without secrets."""
    values: Any = arguments
    if isinstance(arguments, str):
        values = decoded(arguments)
        if values is UNSET:
            values = {"input": arguments} if arguments else {}
    own, every = _functions(tool)
    describe = own.describe or every.describe
    if describe is None:
        return _usual_description(tool, values, redact)
    answer = _answer(lambda: describe(deepcopy(values)), f"describe {tool}", failed)
    description = one_line(cut(redact(answer), DESCRIPTION_CHARS_MAX))
    return description or _usual_description(tool, values, redact)


def summarized(
    text: Callable[[], str], origin: Origin, failed: Failed, redact: Redact = str
) -> str:
    """The registered function's summary of the text; empty if there is no function or no
    summary."""
    own, every = _functions(origin.tool)
    summarize = own.summarize or every.summarize
    if summarize is None:
        return ""
    summary = _answer(lambda: summarize(text(), origin), f"summarize {origin.tool}", failed)
    return cut(redact(summary), SUMMARY_CHARS_MAX)


def _functions(tool: str) -> tuple[_Functions, _Functions]:
    """The registered functions of a tool, and of every tool."""
    nothing = _Functions()
    return _registered.get(tool, nothing), _registered.get(EVERY, nothing)


def _answer(ask: Callable[[], Any], what: str, failed: Failed) -> str:
    """The text of a caller's function, without lone surrogates; empty if it fails, which is
    reported."""
    try:
        text = ask()
        if not isinstance(text, str | None):
            raise TypeError(f"it returned {type(text).__name__}, not text")
        return (text or "").encode("utf-8", "replace").decode().strip()
    except Exception as error:  # noqa: BLE001 - it is the caller's code and may raise anything
        failed(f"{what}: {failure(error)}")
        return ""


def _usual_description(tool: str, values: Any, redact: Redact) -> str:
    tool = redact(tool)
    if not isinstance(values, dict) or not values:
        return tool
    first = next(iter(values.values()))
    if not isinstance(first, str):
        return f"{tool} with {len(values)} argument(s)"
    first = redact(first)
    if len(first) > ARGUMENT_CHARS_MAX:
        first = first[:ARGUMENT_CHARS_MAX] + "..."
    return f"{tool}: {first}"
