"""A conversation for reading, as Markdown: every original message, and the artifacts.

All content is in fences longer than any fence inside it, and every name on a line of its own is
escaped: no text from a model or a tool can forge a heading or break out of its section. Streamed.
Neighbours: `display` makes text safe to look at, `exporter` redacts this export, and has the one
that can be imported again.
"""

from __future__ import annotations

import codecs
from collections import Counter as Tally
from collections.abc import Iterable, Iterator
from typing import NamedTuple, assert_never

from refold.conversations.listing import UNTITLED, title_of
from refold.core import codec
from refold.core.model import (
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
    is_cleanup,
)
from refold.core.shortened import ERASED, text_of
from refold.display import counted, inline, markdown_fence, moment, number, plural, visible
from refold.log.stored_logs import events_of
from refold.stores.protocol import Store


def markdown_chunks(store: Store, conversation: str) -> Iterator[bytes]:
    """The conversation for reading: a section per message, then the artifacts."""
    about = store.conversation(conversation)
    summary = _summarized(events_of(store, about))
    title = about.title or title_of(store, conversation, "")
    yield _heading(about, title, summary).encode()
    for event in events_of(store, about):
        if event.kind == "message":
            yield _section(event).encode()
    if summary.artifacts:
        yield b"\n## Artifacts\n"
    for artifact in summary.artifacts.values():
        yield from _artifact_section(store, artifact, summary.cleaned[artifact.digest])


class _Summary(NamedTuple):
    """The numbers for the heading: messages by role, and artifacts by digest, with the time of
    their cleanup (0 if they still exist)."""

    roles: Tally[str]
    artifacts: dict[str, Artifact]
    cleaned: dict[str, int]


def _summarized(events: Iterable[Event]) -> _Summary:
    summary = _Summary(Tally(), {}, {})
    for event in events:
        body = codec.decode(event)
        if event.kind == "message":
            role = body.role if isinstance(body, Message) else "erased"
            summary.roles[role] += 1
        elif isinstance(body, Artifact):
            summary.artifacts.setdefault(body.digest, body)
            summary.cleaned[body.digest] = event.at_ms if is_cleanup(event) else 0
    return summary


def _heading(about: Conversation, title: str, summary: _Summary) -> str:
    there = [one for digest, one in summary.artifacts.items() if not summary.cleaned[digest]]
    types: Tally[str] = Tally(artifact.type for artifact in there)
    artifacts = Tally({plural(name, count): count for name, count in types.items()})
    lines = [
        f"# {inline(title) or UNTITLED}",
        "",
        f"- Conversation: {about.id}",
        f"- Created: {moment(about.at_ms)}",
        f"- Updated: {moment(about.updated_ms)}",
        f"- Messages: {counted(summary.roles)}",
        f"- Artifacts: {counted(artifacts)}",
    ]
    return "\n".join(lines) + "\n"


def _section(event: Event) -> str:
    body = codec.decode(event)
    role, blocks = "message", _in_fence(ERASED)
    if isinstance(body, Message):
        role, blocks = body.role, "".join(map(_shown_block, body.blocks))
    return f"\n## #{event.seq} {role} ({moment(event.at_ms)})\n{blocks}"


def _shown_block(block: Block) -> str:
    match block:
        case Text():
            label = ""
        case ToolCall():
            label = f"\n*Call:* {inline(block.name)} ({inline(block.id)})\n"
        case ToolResult():
            outcome = ", failed" if block.is_error else ""
            label = f"\n*Result:* {inline(block.name)} ({inline(block.call)}{outcome})\n"
        case Thinking():
            label = "\n*Thinking:*\n"
        case Media():
            names = (block.media, block.mime, block.url or block.name)
            return f"\n*Media:* {' '.join(map(inline, names))}\n"
        case Opaque():
            label = "\n*Other:*\n"
        case _:
            assert_never(block)
    return label + _in_fence(text_of(block))


def _in_fence(text: str) -> str:
    fence = markdown_fence([text])
    shown = visible(text)
    end = "" if not shown or shown.endswith("\n") else "\n"
    return f"\n{fence}\n{shown}{end}{fence}\n"


def _artifact_section(store: Store, artifact: Artifact, cleaned_ms: int) -> Iterator[bytes]:
    lines = f", {number(artifact.lines, 'line')}" if artifact.lines else ""
    size = f"{number(artifact.size_bytes, 'byte')}"
    yield f"\n### {artifact.id}: {inline(artifact.name)} ({artifact.type}{lines})\n".encode()
    if cleaned_ms:
        yield f"\nCleaned up on {moment(cleaned_ms)}: {size}.\n".encode()
    elif not is_text(store.get(artifact.digest)):
        yield f"\nNot text: {size} of {inline(artifact.mime)}.\n".encode()
    else:
        fence = markdown_fence(_decoded_chunks(store.get(artifact.digest))).encode()
        yield b"\n" + fence + b"\n"
        last = "\n"
        for text in _decoded_chunks(store.get(artifact.digest)):
            yield visible(text).encode()
            last = text or last
        yield fence + b"\n" if last.endswith("\n") else b"\n" + fence + b"\n"


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


def _decoded_chunks(chunks: Iterable[bytes]) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder("utf-8")()
    return (decoder.decode(chunk) for chunk in chunks)
