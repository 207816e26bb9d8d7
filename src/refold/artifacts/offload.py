"""A large tool result becomes an artifact, kept whole, and a stub that says what it is and how to
get at it.

This happens at append, before the result is ever sent: nothing cached is broken, and no thinking is
bound to it. Neighbours: the store keeps the bytes, `intake` decides what is large and drafts the
artifact's event before the message that names it, `values` writes data as JSON.
"""

from __future__ import annotations

import codecs
import hashlib
import mimetypes
import os
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import get_args, get_type_hints

import msgspec
from msgspec.structs import replace

from refold.artifacts.describe import Failed, described
from refold.artifacts.output import BYTES, JSON, TEXT, Content
from refold.artifacts.search_results import Results, results_of
from refold.artifacts.values import Written
from refold.core.arguments import canonical_arguments
from refold.core.codec import artifact_id
from refold.core.model import Artifact, Origin, ToolCall
from refold.display import cut
from refold.errors import Invalid
from refold.stores.protocol import Store

TYPES = get_args(get_type_hints(Artifact)["type"])
STUB_CHARS_MAX = 2_000
CHUNK_CHARS = 256 * 1024
LINE_CHARS_MAX = 160
SAMPLE_CHARS = 100_000
OWN_TOOLS = ("refold_search", "refold_unfold", "refold_grep", "refold_artifacts")  # see `toolbox`
SUFFIXES = {
    TEXT: ".txt",
    JSON: ".json",
    "text/markdown": ".md",
    "text/html": ".html",
    "text/csv": ".csv",
    BYTES: ".bin",
}


def is_own(tool: str) -> bool:
    """Whether a tool is one of ours: what it gives is bounded already, and a stub for it would
    only lead back to it."""
    return tool in OWN_TOOLS


def keep(
    store: Store, content: Content, *, name: str, type: str, mime: str | None = None, origin: Origin
) -> Artifact:
    """Keeps the content in the store as an artifact, streamed, never copied whole. Without a
    `mime` it is what its bytes and its name say. Raises Invalid, before anything is kept, if it
    cannot be an artifact."""
    chars, lines = _measures(content)
    if type == "command_output" and chars and _search_results(content):
        type = "search_result"
    artifact = _checked_artifact(
        type=type,
        name=name,
        mime=mime or _content_mime(content, chars, _ending(name, origin)),
        size_bytes=content_bytes(content),
        size_chars=chars,
        lines=lines,
        origin=msgspec.to_builtins(origin),
    )
    digest = store.put(_chunks(content), suffix=suffix_of(artifact))
    return replace(artifact, id=artifact_id(digest), digest=digest)


def _checked_artifact(**fields: object) -> Artifact:
    """An artifact without an id, its fields checked: type, name and mime are the caller's."""
    try:
        return msgspec.convert({"id": "", "digest": "", **fields}, Artifact)
    except msgspec.ValidationError as error:
        raise Invalid(
            f"this cannot be an artifact: {error}", hint="types: " + ", ".join(TYPES)
        ) from error


def _content_mime(content: Content, chars: int, ending: str) -> str:
    if isinstance(content, Written):
        return JSON
    is_text = chars > 0 or not content
    return _mime(ending, is_text=is_text)


def _mime(ending: str, *, is_text: bool) -> str:
    """What the ending of a name says, unless the bytes say otherwise: a text may be called
    `a.ts`, which is a video elsewhere, and bytes that are not text `a.txt`."""
    named = _mimes_by_ending().get(ending, "")
    says_text = named.startswith("text/") or (named in SUFFIXES and named != BYTES)
    if is_text:
        return named if says_text else TEXT
    return BYTES if says_text else named or BYTES


def _ending(name: str, origin: Origin) -> str:
    """The ending of a file's name. The name of a tool's output describes the call: it ends as an
    argument does, and says nothing of the content."""
    return "" if name == origin.description else os.path.splitext(str(name))[1].lower()


def suffix_of(artifact: Artifact) -> str:
    """How the name of an artifact's file ends."""
    if artifact.mime == BYTES and artifact.size_chars and artifact.type != "custom":
        return ".txt"
    if artifact.mime in SUFFIXES:
        return SUFFIXES[artifact.mime]
    ending = _ending(artifact.name, artifact.origin)
    if _mimes_by_ending().get(ending) == artifact.mime:
        return ending
    return ".txt" if artifact.size_chars else ".bin"


@cache
def _mimes_by_ending() -> Mapping[str, str]:
    """Types by the ending of a name: ours, and those that Python knows, whatever this machine
    adds."""
    ours = {suffix: mime for mime, suffix in SUFFIXES.items()}
    return mimetypes.MimeTypes().types_map[True] | ours


def content_bytes(content: Content) -> int:
    if isinstance(content, Written):
        return content.size_bytes
    if isinstance(content, bytes) or content.isascii():
        return len(content)
    return sum(map(len, _chunks(content)))


def _chunks(content: Content) -> Iterator[bytes]:
    if isinstance(content, Written):
        yield from content
        return
    for at in range(0, len(content), CHUNK_CHARS):
        part = content[at : at + CHUNK_CHARS]
        yield part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part


def count_lines(text: str) -> int:
    """Lines as a person counts them: a final newline ends the last one."""
    has_open_line = text != "" and not text.endswith("\n")
    return text.count("\n") + has_open_line


def _measures(content: Content) -> tuple[int, int]:
    """The characters and lines of a content; none if it is not text."""
    match content:
        case str():
            return len(content), count_lines(content)
        case Written():
            return content.size_chars, 1
        case bytes():
            return _measures_of_bytes(content)


def _measures_of_bytes(content: bytes) -> tuple[int, int]:
    chars = newlines = 0
    try:
        for text in codecs.iterdecode(_chunks(content), "utf-8"):
            chars += len(text)
            newlines += text.count("\n")
    except UnicodeDecodeError:
        return 0, 0
    has_open_line = chars > 0 and not content.endswith(b"\n")
    return chars, newlines + has_open_line


def stub(artifact: Artifact, content: Content, location: str | None, summary: str = "") -> str:
    """What the page shows in the artifact's place: its size, its handle, and the summary if
    there is one, else its first and last lines, or how many results a search gave and where."""
    head = _stub_head(artifact, location)
    if summary or not artifact.size_chars:
        return f"{head}\n{summary}" if summary else head
    found = _search_results(content) if artifact.type == "search_result" else None
    if found:
        return f"{head}\n{found.text()}"
    room = STUB_CHARS_MAX - len(head) - 120
    return "\n".join([head, *_excerpt(content, artifact.lines, room)])


def _excerpt(content: Content, lines: int, room: int) -> list[str]:
    """The first and the last lines of a content; of a few long lines, its first and last
    characters."""
    start, end = _ends(content, room * 2)
    first = list(_lines_that_fit(start.split("\n"), room * 2 // 3))
    last = list(_lines_that_fit(reversed(end.split("\n")), room // 3))[::-1]
    left_out = lines - len(first) - len(last)
    if left_out <= 0:
        return [start[: room * 2 // 3], "…", end[-room // 3 :]]
    return [*first, f"… {left_out:,} lines …", *last]


def _stub_head(artifact: Artifact, location: str | None) -> str:
    size = _size_text(artifact)
    where = f" It is the file {location} too." if location and len(location) < 300 else ""
    return (
        f"[Large output kept whole as artifact://{artifact.id} ({size}). "
        f"unfold {artifact.id} gives any part of it.{where}]"
    )


def _size_text(artifact: Artifact) -> str:
    size = f"{artifact.size_bytes:,} bytes"
    if artifact.lines:
        size = f"{artifact.lines:,} lines, {size}"
    return size


def _search_results(content: Content) -> Results | None:
    return None if isinstance(content, Written) else results_of(content)


def sample(content: Content) -> str:
    """The text of a content; of one that is not held as text, its beginning and its end."""
    return content if isinstance(content, str) else "\n…\n".join(_ends(content, SAMPLE_CHARS))


def _ends(content: Content, chars: int) -> tuple[str, str]:
    """The first and the last characters of a content."""
    if isinstance(content, Written):
        content = _ends_of_pieces(content, 4 * chars)
    if isinstance(content, bytes):
        return _ends_of_bytes(content, chars)
    return content[:chars], content[-chars:]


def _ends_of_bytes(content: bytes, chars: int) -> tuple[str, str]:
    size = 4 * chars  # a character has at most four bytes
    start = content[:size].decode("utf-8", "ignore")
    end = content[-size:].decode("utf-8", "ignore")
    return start[:chars], end[-chars:]


def _ends_of_pieces(pieces: Iterable[bytes], size: int) -> bytes:
    """The first and the last bytes of what comes in pieces, as if nothing lay between."""
    start = end = b""
    for piece in pieces:
        start += piece[: size - len(start)]
        end = (end + piece[-size:])[-size:]
    return start + end


def _lines_that_fit(lines: Iterable[str], room: int) -> Iterator[str]:
    """As many whole lines as there is room for; long ones are cut."""
    for line in lines:
        shown = cut(line, LINE_CHARS_MAX)
        room -= len(shown) + 1
        if room < 0:
            return
        yield shown


# --- origin ---


def origin_of(
    call: ToolCall | None, failed: Failed, *, name: str = "", task: str = "", query: str = ""
) -> Origin:
    """Where an artifact came from: the tool, its arguments and their hash, a one-line description.
    `failed` is told why a describer of the caller's had none."""
    if call is None:
        return Origin(tool=name, description=name, task=task, query=query)
    arguments = canonical_arguments(call)
    return Origin(
        tool=call.name,
        arguments=arguments[:512],
        arguments_hash=_arguments_hash(arguments),
        description=described(call.name, call.arguments, failed),
        task=task,
        query=query,
    )


def _arguments_hash(arguments: str) -> str:
    digest = hashlib.sha256(arguments.encode("utf-8", "surrogatepass"))
    return digest.hexdigest()[:12]
