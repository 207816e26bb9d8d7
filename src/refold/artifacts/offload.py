"""A large tool result becomes an artifact, kept whole, and a stub that says what it is and how to
get at it.

This happens at append, before the result is ever sent: nothing cached is broken, and no thinking is
bound to it. Neighbours: the store keeps the bytes, `engine` appends the artifact's event before the
message that names it.
"""

from __future__ import annotations

import codecs
import hashlib
import mimetypes
import os
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any, get_args, get_type_hints

import msgspec
from msgspec.structs import replace

from refold.artifacts import values as encoding
from refold.artifacts.describe import Failed, described
from refold.artifacts.search_results import Results, results_of
from refold.core.arguments import canonical_arguments
from refold.core.codec import EVENT_BYTES_MAX, artifact_id
from refold.core.model import Artifact, Origin, ToolCall
from refold.display import cut
from refold.errors import Invalid
from refold.stores.protocol import Store

TEXT, JSON, BYTES = "text/plain", "application/json", "application/octet-stream"
TYPES = get_args(get_type_hints(Artifact)["type"])
ON_ERROR = ("raise", "degrade")
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


Content = str | bytes | encoding.Written


def output_text(output: Any, *, on_error: str = "raise") -> Content:
    """What is kept of a tool's output: text as it is, bytes as text where they are UTF-8, any
    other value as JSON. What no event could hold stays what it is, also if it is text: it goes
    to the store in pieces, and is not held twice. What cannot be written is Invalid, or its
    `repr` if `on_error` is "degrade"."""
    if on_error not in ON_ERROR:
        raise Invalid(f"on_error={on_error!r:.80}", hint="one of: " + ", ".join(ON_ERROR))
    if isinstance(output, str):
        return output
    if isinstance(output, bytes | bytearray | memoryview):
        return _text_or_bytes(bytes(output))
    try:
        return encoding.Written(output)
    except Invalid:
        if on_error == "raise":
            raise
        return encoding.degraded(output)


def value_of(content: str | bytes, mime: Any) -> Any:
    """The output of which `output_text` made this content."""
    return encoding.decoded(content) if mime == JSON else content


def _text_or_bytes(content: bytes) -> str | bytes:
    if len(content) > EVENT_BYTES_MAX:
        return content
    try:
        return content.decode()
    except UnicodeDecodeError:
        return content


def is_own(tool: str) -> bool:
    """Whether a tool is one of ours: what it gives is bounded already, and a stub for it would
    only lead back to it."""
    return tool in OWN_TOOLS


def kept(
    store: Store, content: Content, *, name: str, type: str, mime: str | None = None, origin: Origin
) -> Artifact:
    """The content as an artifact of the store, streamed, never copied whole. Without a `mime` it
    is what its bytes and its name say. Invalid, before anything is kept, if it can be no
    artifact."""
    chars, lines = _measures(content)
    size = content_bytes(content)
    if not mime:
        is_data, ending = isinstance(content, encoding.Written), _ending(name, origin)
        mime = JSON if is_data else _mime(ending, is_text=chars > 0 or not size)
    if type == "command_output" and chars and _results(content):
        type = "search_result"
    about = {
        "id": "",
        "digest": "",
        "type": type,
        "name": name,
        "mime": mime,
        "size_bytes": size,
        "size_chars": chars,
        "lines": lines,
        "origin": msgspec.to_builtins(origin),
    }
    try:
        artifact = msgspec.convert(about, Artifact)
    except msgspec.ValidationError as error:
        raise Invalid(
            f"this can be no artifact: {error}", hint="types: " + ", ".join(TYPES)
        ) from error
    digest = store.put(_chunks(content), suffix=suffix_of(artifact))
    return replace(artifact, id=artifact_id(digest), digest=digest)


def _mime(ending: str, *, is_text: bool) -> str:
    """What the ending of a name says, unless the bytes say otherwise: a text may be called
    `a.ts`, which is a video elsewhere, and bytes that are none `a.txt`."""
    named = _endings().get(ending, "")
    if is_text:
        return (
            named if named.startswith("text/") or (named in SUFFIXES and named != BYTES) else TEXT
        )
    return BYTES if named.startswith("text/") or named in SUFFIXES else named or BYTES


def _ending(name: str, origin: Origin) -> str:
    """The ending of a file's name. That of a tool's output describes the call: it ends as an
    argument does, and says nothing of the content."""
    return "" if name == origin.description else os.path.splitext(str(name))[1].lower()


def suffix_of(artifact: Artifact) -> str:
    """How the file of an artifact is to end."""
    if artifact.mime in SUFFIXES:
        return SUFFIXES[artifact.mime]
    ending = _ending(artifact.name, artifact.origin)
    return (
        ending
        if _endings().get(ending) == artifact.mime
        else ".txt"
        if artifact.size_chars
        else ".bin"
    )


@cache
def _endings() -> Mapping[str, str]:
    """Types by the ending of a name: ours, and those that Python knows, whatever this machine
    adds."""
    return mimetypes.MimeTypes().types_map[True] | {
        suffix: mime for mime, suffix in SUFFIXES.items()
    }


def content_bytes(content: Content) -> int:
    if isinstance(content, encoding.Written):
        return content.size_bytes
    if isinstance(content, bytes) or content.isascii():
        return len(content)
    return sum(len(chunk) for chunk in _chunks(content))


def _chunks(content: Content) -> Iterator[bytes]:
    if isinstance(content, encoding.Written):
        yield from content
        return
    for at in range(0, len(content), CHUNK_CHARS):
        part = content[at : at + CHUNK_CHARS]
        yield part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part


def count_lines(text: str) -> int:
    """Lines as a person counts them: a final newline ends the last one."""
    return text.count("\n") + (not text.endswith("\n") if text else 0)


def _measures(content: Content) -> tuple[int, int]:
    """The characters and lines of a content; none if it is no text."""
    if isinstance(content, str):
        return len(content), count_lines(content)
    if isinstance(content, encoding.Written):
        return content.size_chars, 1
    decoder = codecs.getincrementaldecoder("utf-8")()
    chars = newlines = 0
    try:
        for chunk in _chunks(content):
            text = decoder.decode(chunk)
            chars, newlines = chars + len(text), newlines + text.count("\n")
        decoder.decode(b"", True)
    except UnicodeDecodeError:
        return 0, 0
    return chars, newlines + (chars > 0 and not content.endswith(b"\n"))


def stub(artifact: Artifact, content: Content, location: str | None, summary: str = "") -> str:
    """What the page shows in the artifact's place: its size, its handle, and the summary if
    there is one, else its first and last lines, or how many results a search gave and where."""
    size = f"{artifact.lines:,} lines, " if artifact.lines else ""
    where = f" It is the file {location} too." if location and len(location) < 300 else ""
    head = (
        f"[Large output kept whole as artifact://{artifact.id} ({size}{artifact.size_bytes:,} bytes). "
        f"unfold {artifact.id} gives any part of it.{where}]"
    )
    if summary or not artifact.size_chars:
        return f"{head}\n{summary}" if summary else head
    if artifact.type == "search_result" and (found := _results(content)):
        return f"{head}\n{found.said()}"
    room = STUB_CHARS_MAX - len(head) - 120
    start, end = _ends(content, room * 2)
    first = _lines(start.split("\n"), room * 2 // 3)
    last = _lines(end.split("\n")[::-1], room // 3)[::-1]
    left_out = artifact.lines - len(first) - len(last)
    if left_out <= 0:
        return "\n".join([head, start[: room * 2 // 3], "…", end[-room // 3 :]])
    return "\n".join([head, *first, f"… {left_out:,} lines …", *last])


def _results(content: Content) -> Results | None:
    return None if isinstance(content, encoding.Written) else results_of(content)


def sample(content: Content) -> str:
    """The text of a content; of one that is not held as text, its beginning and its end."""
    return content if isinstance(content, str) else "\n…\n".join(_ends(content, SAMPLE_CHARS))


def _ends(content: Content, chars: int) -> tuple[str, str]:
    """The first and the last characters of a content."""
    if isinstance(content, str):
        return content[:chars], content[-chars:]
    size = 4 * chars
    if isinstance(content, encoding.Written):
        content = _ends_of(content, size)
    start, end = content[:size].decode("utf-8", "ignore"), content[-size:].decode("utf-8", "ignore")
    return start[:chars], end[-chars:]


def _ends_of(pieces: Iterable[bytes], size: int) -> bytes:
    """The first and the last bytes of what comes in pieces, as if nothing lay between."""
    start = end = b""
    for piece in pieces:
        start += piece[: size - len(start)]
        end = (end + piece[-size:])[-size:]
    return start + end


def _lines(lines: list[str], room: int) -> list[str]:
    """As many whole lines as there is room for; long ones are cut."""
    taken: list[str] = []
    for line in lines:
        shown = cut(line, LINE_CHARS_MAX)
        room -= len(shown) + 1
        if room < 0:
            break
        taken.append(shown)
    return taken


# --- origin ---


def origin_of(
    call: ToolCall | None, failed: Failed, *, name: str = "", task: str = "", query: str = ""
) -> Origin:
    """Where an output came from: the tool, its arguments and their hash, a one-line description.
    `failed` hears why a describer of the caller's had none."""
    if call is None:
        return Origin(tool=name, description=name, task=task, query=query)
    encoded = canonical_arguments(call)
    return Origin(
        tool=call.name,
        arguments=encoded[:512],
        arguments_hash=hashlib.sha256(encoded.encode("utf-8", "surrogatepass")).hexdigest()[:12],
        description=described(call.name, call.arguments, failed),
        task=task,
        query=query,
    )
