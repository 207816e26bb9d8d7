"""What the page shows in place of a large output: what it is, how large, how to reach the rest, and
the lines of it that tell most.

The tool by which the model reaches the rest is named only if the model has it. A stub is written
once, with the result, and stays as it is. Neighbours: `kinds` find the telling lines, `describe`
has what a program says of its own tools, `intake` asks.

A text that is looked at for a stub, without the secrets that a cut could halve.

A short text loses all of its secrets before lines are chosen. A long one would hold up the append:
there private keys go, which are many lines, and each line that is shown loses its secrets whole,
before it is cut (`line_shown`). A long text that is hardly any lines is shown by its ends, which
are redacted with more around them than any secret is long. Neighbours: `stub` asks, `redaction`
knows secrets, `kinds.sample` cuts.

What a program says of its own tools: a line that describes a call, a few that sum up what the
tool gave.

Without that, a description is made of the tool's name and its first argument, and a stub shows the
first and the last lines. A function that a program registers is its own code: what it gives is cut
to size, one that fails is reported, and the usual text takes its place. Neighbours: `offload` makes
stubs, `intake` asks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import UNSET, Struct

from refold.artifacts.json_values import Written
from refold.artifacts.kinds.registry import Looked
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


class Stub(Struct, frozen=True):
    """A stub that waits for the artifact it is for: what a program says of the content (`summary`),
    the content looked at, and the tool by which the model reaches the rest, if it has one."""

    looked: Looked | None
    summary: str = ""
    tool: str = ""
    redact: Redact = str
    kept: str = "kept whole"  # how the content was kept, in words

    @property
    def kind(self) -> str:
        return self.looked.name if self.looked else ""

    def text(self, artifact: Artifact, location: str | None) -> str:
        """The stub of this artifact, which is in the file `location`, if that may be named."""
        head = self._head(artifact, location)
        room = STUB_CHARS_MAX - len(head) - 1
        shown = self.summary or (self._lines(room) if self.looked else "")
        return f"{head}\n{shown}" if shown else head

    def _head(self, artifact: Artifact, location: str | None) -> str:
        """`[Large output of run: pytest (test run): 900 lines, 50,000 bytes, kept whole as …]`."""
        name = cut(one_line(artifact.name), NAME_CHARS)
        about = self.looked.about if self.looked else ""
        what = f"Large output of {name} ({about})" if about else f"Large output of {name}"
        said = f"{what}: {_size_text(artifact)}, {self.kept} as artifact://{artifact.id}."
        if self.tool:
            said += f" {self.tool} {artifact.id} gives any part of it."
        if location and len(location) < LOCATION_CHARS:
            said += f" It is the file {location} too."
        return f"[{said}]"

    def _lines(self, room: int) -> str:
        return self.redact("\n".join(self.looked.excerpt(room))) if self.looked else ""


def stub_of(
    content: Content, origin: Origin, failed: Failed, *, tool: str, redact: Redact = str
) -> Stub:
    """The stub of a content, without secrets: they go before its lines are cut. `failed` is told
    what failed of that which the program brought: its own kinds and summaries."""
    whole = sampled_text(content)
    text = showable(whole, redact)
    if not text:
        return Stub(None, tool=tool)
    summary = summarized(lambda: sample(content), origin, failed, redact)
    redact_line = partial(line_shown, redact=redact) if is_long(whole) else None
    return Stub(Looked(text, failed, redact_line), summary, tool, redact)


def _size_text(artifact: Artifact) -> str:
    size = f"{artifact.size_bytes:,} bytes"
    if artifact.lines:
        size = f"{artifact.lines:,} {plural('line', artifact.lines)}, {size}"
    return size


# --- the text of a content ---


def sample(content: Content) -> str:
    """The text of a content; of one that is not held as text, its beginning and its end."""
    return content if isinstance(content, str) else "\n…\n".join(_ends(content, SAMPLE_CHARS))


def sampled_text(content: Content) -> str:
    """The text in which telling lines are looked for; empty if the content is not text."""
    if isinstance(content, str):
        return content
    if isinstance(content, Written) and content.whole is not None:
        return content.whole.decode()
    if isinstance(content, bytes) and not _is_text(content):
        return ""
    start, end = _ends(content, LOOKED_AT_CHARS)
    return start if len(start) < LOOKED_AT_CHARS else f"{start}\n{end}"


def _is_text(content: bytes) -> bool:
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True


def _ends(content: bytes | Written, chars: int) -> tuple[str, str]:
    """The first and the last characters of a content."""
    held = _ends_of_pieces(content, 4 * chars) if isinstance(content, Written) else content
    size = 4 * chars  # a character has at most four bytes
    start = held[:size].decode("utf-8", "ignore")
    end = held[-size:].decode("utf-8", "ignore")
    return start[:chars], end[-chars:]


def _ends_of_pieces(pieces: Iterable[bytes], size: int) -> bytes:
    """The first and the last bytes of what comes in pieces, as if nothing lay between."""
    start = end = b""
    for piece in pieces:
        start += piece[: size - len(start)]
        end = (end + piece[-size:])[-size:]
    return start + end


REDACTED_CHARS = 100_000
# No secret is longer, but for a private key inside a line.
SECRET_CHARS, KEY_CHARS = 4_000, 20_000
_KEY = "-----BEGIN "
_ENDS_CHARS = ENDS_LINES * PIECE_CHARS


def is_long(text: str) -> bool:
    return len(text) > REDACTED_CHARS


def showable(text: str, redact: Redact) -> str:
    """The text as lines of it may be chosen; of a long one, each still needs `line_shown`."""
    if not is_long(text):
        return redact(text)
    if text.count("\n") <= LONG_LINES_MAX:
        return _with_redacted_ends(text, redact)
    return "".join(_without_keys(text, redact))


def _without_keys(text: str, redact: Redact) -> Iterator[str]:
    """The text in parts, redacted wherever a key may begin. Parts end where lines do."""
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
    """A text of the same length with redacted ends; what lies between them is never shown."""
    chars = _ENDS_CHARS + KEY_CHARS
    if len(text) <= 2 * chars:
        return redact(text)
    # What a cut may have halved lies within so many characters of it, and goes.
    start = redact(text[:chars])[:-KEY_CHARS]
    end = redact(text[-chars:])[KEY_CHARS:]
    return start + " " * (len(text) - len(start) - len(end)) + end


def line_shown(line: str, before: str, redact: Redact) -> str:
    """A line without its secrets, as far as it can be shown. The name of a secret may stand on
    the line before."""
    chars = LINE_CHARS_MAX + SECRET_CHARS
    shown = redact(f"{before[-SECRET_CHARS:]}\n{line[:chars]}").rpartition("\n")[2]
    return shown if len(line) <= chars else shown[:-SECRET_CHARS] + "…"


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
