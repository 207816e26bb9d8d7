"""A text that is looked at for a stub, without the secrets that a cut could halve.

A short text loses all of its secrets before lines are chosen. A long one would hold up the append:
there private keys go, which are many lines, and each line that is shown loses its secrets whole,
before it is cut (`line_shown`). A long text that is hardly any lines is shown by its ends, which
are redacted with more around them than any secret is long. Neighbours: `stub` asks, `redaction`
knows secrets, `kinds.sample` cuts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from refold.artifacts.kinds.sample import ENDS_LINES, LINE_CHARS_MAX, LONG_LINES_MAX, PIECE_CHARS

if TYPE_CHECKING:
    # Rules for secrets are costly to load, and not every stub needs them.
    from refold.redaction import Redact

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
