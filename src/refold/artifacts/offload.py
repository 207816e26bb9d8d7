"""A content becomes an artifact: kept whole, measured, with a type and where it came from.

This happens at append, before the result is ever sent: nothing cached is broken, and no thinking is
bound to it. Neighbours: the store keeps the bytes, `intake` decides what is large and drafts the
artifact's event before the message that names it, `stub` says what the page shows instead.
"""

from __future__ import annotations

import codecs
import hashlib
import mimetypes
import os
from collections.abc import Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, get_args, get_type_hints

import msgspec
from msgspec.structs import replace

from refold import decoding
from refold.artifacts.describe import Failed, described
from refold.artifacts.output import BYTES, JSON, TEXT, Content
from refold.artifacts.values import Written
from refold.core.arguments import canonical_arguments
from refold.core.codec import artifact_id
from refold.core.model import Artifact, Origin, ToolCall
from refold.errors import Invalid
from refold.stores import is_redacting
from refold.stores.protocol import Store

if TYPE_CHECKING:
    # Rules for secrets are costly to load, and not every stub needs them.
    from refold.redaction import Redact

TYPES = get_args(get_type_hints(Artifact)["type"])
CHUNK_CHARS = 256 * 1024
ARGUMENTS_BYTES = 512
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
    cannot be an artifact. A store that takes secrets out gets none."""
    if is_redacting(store):
        mime = mime or (JSON if isinstance(content, Written) else None)
        content = _redacted(content)
    chars, lines = _measures(content)
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


def _redacted(content: Content) -> Content:
    """The content without secrets. Bytes that are no text stay as they are."""
    from refold.log.redacted import bytes_redacted, value_redacted
    from refold.redaction import redacted

    match content:
        case str():
            return redacted(content)
        case bytes():
            return bytes_redacted(content)
        case Written():
            text = b"".join(_chunks(content)).decode()
            plain = msgspec.json.decode(text)
            clean = value_redacted(plain)
            return content if clean == plain else msgspec.json.encode(clean).decode()


def _checked_artifact(**fields: object) -> Artifact:
    """An artifact without an id, its fields checked: type, name and mime are the caller's."""
    try:
        return decoding.convert({"id": "", "digest": "", **fields}, Artifact)
    except msgspec.ValidationError as error:
        raise Invalid(
            f"this cannot be kept as an artifact: {error}", hint="types: " + ", ".join(TYPES)
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
    is_output = bool(artifact.origin.tool) or artifact.type in ("search_result", "command_output")
    if artifact.mime == BYTES and artifact.size_chars and is_output:
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


# --- origin ---


def origin_of(
    call: ToolCall | None,
    failed: Failed,
    *,
    name: str = "",
    task: str = "",
    query: str = "",
    redact: Redact = str,
) -> Origin:
    """Where an artifact came from: the tool, its arguments and their hash, a one-line description.
    `failed` is told why a describer of the caller's had none. Secrets go before anything is
    cut."""
    if call is None:
        return Origin(tool=name, description=name, task=task, query=query)
    arguments = canonical_arguments(call)
    is_long = len(arguments.encode(errors="replace")) > ARGUMENTS_BYTES
    return Origin(
        tool=call.name,
        arguments=_beginning(redact(arguments)) if is_long else arguments,
        arguments_hash=_arguments_hash(arguments),
        description=described(call.name, call.arguments, failed, redact),
        task=task,
        query=query,
    )


def _beginning(arguments: str) -> str:
    """As much of the arguments as is kept, without half a character at its end."""
    kept = arguments[:ARGUMENTS_BYTES].encode(errors="replace")[:ARGUMENTS_BYTES]
    return kept.decode(errors="ignore")


def _arguments_hash(arguments: str) -> str:
    digest = hashlib.sha256(arguments.encode("utf-8", "surrogatepass"))
    return digest.hexdigest()[:12]
