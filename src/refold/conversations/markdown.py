"""A conversation for reading, as Markdown: every message as it came, and the artifacts, whatever a
page shows of them.

All content stands in fences longer than any fence inside it, and every name on a line of its own is
escaped: nothing that a model or a tool wrote can forge a heading or leave its section. `visible` is
what makes any text harmless to look at. Streamed. Neighbours: `transfer` has the export that can be
imported again and redacts this one, the command line prints.
"""

from __future__ import annotations

import codecs
from collections import Counter as Tally
from collections.abc import Iterable, Iterator
from typing import assert_never

from refold.core import codec
from refold.core.fold import ERASED, text_of
from refold.core.model import (
    CLEANER,
    Artifact,
    Block,
    Conversation,
    Event,
    Media,
    Message,
    Opaque,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from refold.display import counted, inline, markdown_fence, moment, plural, visible
from refold.log.reading import events_of
from refold.stores.protocol import Store


def markdown_chunks(store: Store, conversation: str) -> Iterator[bytes]:
    """The conversation for reading: a section per message, then the artifacts."""
    about = store.conversation(conversation)
    roles: Tally[str] = Tally()
    artifacts: dict[str, Artifact] = {}
    cleaned: dict[str, int] = {}
    for event in events_of(store, about):
        body = codec.decode(event)
        roles.update(
            [body.role] if isinstance(body, Message) else ["erased"] if _is_erased(event) else []
        )
        if isinstance(body, Artifact):
            artifacts.setdefault(body.digest, body)
            cleaned[body.digest] = event.at_ms if event.by == CLEANER else 0
    yield _heading(about, roles, artifacts).encode()
    for event in events_of(store, about):
        if event.kind == "message":
            yield _section(event).encode()
    if artifacts:
        yield b"\n## Artifacts\n"
    for artifact in artifacts.values():
        yield from _artifact_section(store, artifact, cleaned[artifact.digest])


def _is_erased(event: Event) -> bool:
    return event.kind == "message" and event.erased


def _heading(about: Conversation, roles: Tally[str], artifacts: dict[str, Artifact]) -> str:
    types = Tally(artifact.type for artifact in artifacts.values())
    lines = [
        f"# {inline(about.title) or 'Untitled'}",
        "",
        f"- Conversation: {about.id}",
        f"- Created: {moment(about.at_ms)}",
        f"- Updated: {moment(about.updated_ms)}",
        f"- Messages: {counted(roles)}",
        f"- Artifacts: {counted(Tally({plural(name, n): n for name, n in types.items()}))}",
    ]
    return "\n".join(lines) + "\n"


def _section(event: Event) -> str:
    body = codec.decode(event)
    role = body.role if isinstance(body, Message) else "message"
    parts = (
        [_shown(block) for block in body.blocks] if isinstance(body, Message) else [_fenced(ERASED)]
    )
    return f"\n## #{event.seq} {role} ({moment(event.at_ms)})\n" + "".join(parts)


def _shown(block: Block) -> str:
    text = text_of(block)
    match block:
        case Text():
            return _fenced(text)
        case ToolCall():
            return f"\n*Call:* {inline(block.name)} ({inline(block.id)})\n" + _fenced(text)
        case ToolResult():
            outcome = ", failed" if block.is_error else ""
            return f"\n*Result:* {inline(block.name)} ({inline(block.call)}{outcome})\n" + _fenced(
                text
            )
        case Thinking():
            return "\n*Thinking:*\n" + _fenced(text)
        case Media():
            return f"\n*Media:* {inline(block.media)} {inline(block.mime)} {inline(block.url or block.name)}\n"
        case Opaque():
            return "\n*Other:*\n" + _fenced(text)
        case _:
            assert_never(block)


def _fenced(text: str) -> str:
    fence = markdown_fence([text])
    shown = visible(text)
    return f"\n{fence}\n{shown}{'' if shown.endswith(chr(10)) or not shown else chr(10)}{fence}\n"


def _artifact_section(store: Store, artifact: Artifact, cleaned_ms: int) -> Iterator[bytes]:
    lines = f", {artifact.lines:,} lines" if artifact.lines else ""
    yield f"\n### {artifact.id}: {inline(artifact.name)} ({artifact.type}{lines})\n".encode()
    if cleaned_ms:
        yield f"\nCleaned up on {moment(cleaned_ms)}: {artifact.size_bytes:,} bytes.\n".encode()
        return
    if not is_text(store.get(artifact.digest)):
        yield f"\nNot text: {artifact.size_bytes:,} bytes of {inline(artifact.mime)}.\n".encode()
        return
    fence = markdown_fence(_texts(store.get(artifact.digest)))
    yield f"\n{fence}\n".encode()
    last = "\n"
    for text in _texts(store.get(artifact.digest)):
        yield visible(text).encode()
        last = text or last
    yield ("" if last.endswith("\n") else "\n").encode() + f"{fence}\n".encode()


def is_text(chunks: Iterable[bytes]) -> bool:
    """Whether the bytes are UTF-8."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for chunk in chunks:
            decoder.decode(chunk)
        decoder.decode(b"", True)
    except UnicodeDecodeError:
        return False
    return True


def _texts(chunks: Iterable[bytes]) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder("utf-8")()
    return (decoder.decode(chunk) for chunk in chunks)
