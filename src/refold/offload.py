"""A large tool result becomes an artifact, kept whole, and a stub that says what it is and how to get at it.

This happens at append, before the result is ever sent: nothing cached is broken, and no thinking is bound to it.
Neighbours: the store keeps the bytes, `engine` appends the artifact's event before the message that names it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import msgspec

from refold.core.codec import artifact_id
from refold.core.model import Artifact, Origin, ToolCall
from refold.errors import Invalid
from refold.stores.protocol import Store

STUB_CHARS_MAX = 2_000
CHUNK_CHARS = 256 * 1024
LINE_CHARS_MAX = 160
SUFFIXES = {
    "text/plain": ".txt",
    "application/json": ".json",
    "text/markdown": ".md",
    "text/html": ".html",
    "text/csv": ".csv",
    "application/octet-stream": ".bin",
}


def output_text(output: Any) -> str | bytes:
    """A tool's output as text where it can be one: JSON for plain data, bytes for what is not UTF-8."""
    if isinstance(output, str):
        return output
    if output is None:
        return ""
    if isinstance(output, bytes | bytearray | memoryview):
        try:
            return bytes(output).decode()
        except UnicodeDecodeError:
            return bytes(output)
    try:
        return msgspec.json.encode(output, enc_hook=_plain).decode()
    except (TypeError, ValueError, RecursionError, UnicodeEncodeError) as error:
        kind = type(output).__name__
        raise Invalid(f"a tool output of type {kind} is not JSON: {error}", hint="pass text or plain data") from error


def _plain(value: Any) -> Any:
    if isinstance(value, set | frozenset):
        return sorted(value, key=repr)
    if isinstance(value, BaseException):
        return f"{type(value).__name__}: {value}"
    raise TypeError(f"{type(value).__name__} is not plain data")


def kept(store: Store, content: str | bytes, *, name: str, type: str, mime: str, origin: Origin) -> Artifact:
    """The content as an artifact of the store, streamed, never copied whole."""
    digest = store.put(_chunks(content), suffix=SUFFIXES.get(mime, ".txt" if isinstance(content, str) else ".bin"))
    text = content if isinstance(content, str) else ""
    size = content_bytes(content)
    return msgspec.convert(
        {
            "id": artifact_id(digest), "digest": digest, "type": type, "name": name, "mime": mime,
            "size_bytes": size, "size_chars": len(text), "lines": count_lines(text),
            "origin": msgspec.to_builtins(origin),
        },
        Artifact,
    )  # fmt: skip


def content_bytes(content: str | bytes) -> int:
    if isinstance(content, bytes) or content.isascii():
        return len(content)
    return sum(len(chunk) for chunk in _chunks(content))


def _chunks(content: str | bytes) -> Iterator[bytes]:
    for at in range(0, len(content), CHUNK_CHARS):
        part = content[at : at + CHUNK_CHARS]
        yield part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part


def count_lines(text: str) -> int:
    """Lines as a person counts them: a final newline ends the last one."""
    return text.count("\n") + (not text.endswith("\n") if text else 0)


def stub(artifact: Artifact, content: str | bytes, location: str | None) -> str:
    """What the page shows in the artifact's place: its size, its first and last lines, its handle."""
    size = f"{artifact.lines:,} lines, " if artifact.lines else ""
    where = f" It is the file {location} too." if location and len(location) < 300 else ""
    head = (
        f"[Large output kept whole as artifact://{artifact.id} ({size}{artifact.size_bytes:,} bytes). "
        f"unfold {artifact.id} gives any part of it.{where}]"
    )
    if isinstance(content, bytes):
        return head
    room = STUB_CHARS_MAX - len(head) - 120
    first = _lines(content[: room * 2].split("\n"), room * 2 // 3)
    last = _lines(content[-room * 2 :].split("\n")[::-1], room // 3)[::-1]
    left_out = artifact.lines - len(first) - len(last)
    if left_out <= 0:
        return "\n".join([head, content[: room * 2 // 3], "…", content[-room // 3 :]])
    return "\n".join([head, *first, f"… {left_out:,} lines …", *last])


def _lines(lines: list[str], room: int) -> list[str]:
    """As many whole lines as there is room for; long ones are cut."""
    taken: list[str] = []
    for line in lines:
        cut = line if len(line) <= LINE_CHARS_MAX else line[: LINE_CHARS_MAX - 1] + "…"
        room -= len(cut) + 1
        if room < 0:
            break
        taken.append(cut)
    return taken


# --- origin -------------------------------------------------------------------------------------------------------


def origin_of(call: ToolCall | None, *, name: str = "", task: str = "", query: str = "") -> Origin:
    """Where an output came from: the tool, its arguments and their hash, a one-line description."""
    if call is None:
        return Origin(tool=name, description=name, task=task, query=query)
    encoded = arguments_text(call.arguments)
    return Origin(
        tool=call.name,
        arguments=encoded[:512],
        arguments_hash=hashlib.sha256(encoded.encode("utf-8", "surrogatepass")).hexdigest()[:12],
        description=described(call.name, call.arguments),
        task=task,
        query=query,
    )


def arguments_text(arguments: str | dict[str, Any]) -> str:
    """Arguments as canonical JSON: the order of keys does not matter."""
    if isinstance(arguments, str):
        try:
            arguments = msgspec.json.decode(arguments)
        except (msgspec.DecodeError, RecursionError):
            return str(arguments)
    return msgspec.json.encode(arguments, order="deterministic").decode()


def described(tool: str, arguments: str | dict[str, Any]) -> str:
    """`readFile: /src/index.ts`, `searchCode with 2 argument(s)`, `listFiles` (T-09)."""
    values = arguments
    if isinstance(values, str):
        try:
            values = msgspec.json.decode(values)
        except (msgspec.DecodeError, RecursionError):
            values = {"input": arguments} if arguments else {}
    if not isinstance(values, dict) or not values:
        return tool
    first = next(iter(values.values()))
    if not isinstance(first, str):
        return f"{tool} with {len(values)} argument(s)"
    return f"{tool}: {first if len(first) <= 50 else first[:50] + '...'}"
