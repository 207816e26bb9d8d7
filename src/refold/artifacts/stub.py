"""What the page shows in place of a large output: what it is, how large, how to reach the rest, and
the lines of it that tell most.

The tool by which the model reaches the rest is named only if the model has it. A stub is written
once, with the result, and stays as it is. Neighbours: `kinds` find the telling lines, `describe`
has what a program says of its own tools, `intake` asks.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct

from refold.artifacts import large_text
from refold.artifacts.describe import Failed, summarized
from refold.artifacts.kinds.registry import Looked
from refold.artifacts.values import Written
from refold.core.model import Artifact, Origin
from refold.display import cut, one_line, plural

if TYPE_CHECKING:
    # Costly to load, and only their types are meant: hooks make stubs, and must be fast.
    from refold.artifacts.output import Content
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
    whole = looked_at(content)
    text = large_text.showable(whole, redact)
    if not text:
        return Stub(None, tool=tool)
    summary = summarized(lambda: sample(content), origin, failed, redact)
    redact_line = (
        partial(large_text.line_shown, redact=redact) if large_text.is_long(whole) else None
    )
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


def looked_at(content: Content) -> str:
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
