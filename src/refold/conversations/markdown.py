"""A conversation for reading, as Markdown: every message as it came, and the artifacts, whatever a
page shows of them.

All content is in fences longer than any fence inside it, and every name on a line of its own is
escaped: nothing that a model or a tool wrote can forge a heading or leave its section. Streamed.
Neighbours: `display` makes any text harmless to look at, `exporter` has the export that can be
imported again and redacts this one.
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
from refold.log.trace import events_of
from refold.stores.protocol import Store


def markdown_chunks(store: Store, conversation: str) -> Iterator[bytes]:
    """The conversation for reading: a section per message, then the artifacts."""
    about = store.conversation(conversation)
    summary = _summarized(events_of(store, about))
    title = title_of(store, conversation, about.title)
    yield _heading(about, title, summary).encode()
    for event in events_of(store, about):
        if event.kind == "message":
            yield _section(event).encode()
    yield from _artifact_sections(store, summary)


class _Summary(NamedTuple):
    """What the heading tells: messages by role, and artifacts by digest, with the time at which
    each was cleaned up (0: it is there)."""

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
    lines = [
        f"# {inline(title) or UNTITLED}",
        "",
        f"- Conversation: {about.id}",
        f"- Created: {moment(about.at_ms)}",
        f"- Updated: {moment(about.updated_ms)}",
        f"- Messages: {counted(summary.roles)}",
        f"- Artifacts: {counted(_types(summary))}",
    ]
    return "\n".join(lines) + "\n"


def _types(summary: _Summary) -> Tally[str]:
    """How many artifacts still have their bytes, of each type, under the plural of its name."""
    there = [one for digest, one in summary.artifacts.items() if not summary.cleaned[digest]]
    types: Tally[str] = Tally(artifact.type for artifact in there)
    return Tally({plural(name, count): count for name, count in types.items()})


def _section(event: Event) -> str:
    body = codec.decode(event)
    if not isinstance(body, Message):
        return _section_heading(event, "message") + _in_fence(ERASED)
    return _section_heading(event, body.role) + "".join(map(_shown_block, body.blocks))


def _section_heading(event: Event, role: str) -> str:
    return f"\n## #{event.seq} {role} ({moment(event.at_ms)})\n"


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


def _artifact_sections(store: Store, summary: _Summary) -> Iterator[bytes]:
    """The artifacts under a heading of their own, if there are any."""
    if summary.artifacts:
        yield b"\n## Artifacts\n"
    for artifact in summary.artifacts.values():
        yield from _artifact_section(store, artifact, summary.cleaned[artifact.digest])


def _artifact_section(store: Store, artifact: Artifact, cleaned_ms: int) -> Iterator[bytes]:
    lines = f", {number(artifact.lines, 'line')}" if artifact.lines else ""
    size = f"{number(artifact.size_bytes, 'byte')}"
    yield f"\n### {artifact.id}: {inline(artifact.name)} ({artifact.type}{lines})\n".encode()
    if cleaned_ms:
        yield f"\nCleaned up on {moment(cleaned_ms)}: {size}.\n".encode()
    elif not is_text(store.get(artifact.digest)):
        yield f"\nNot text: {size} of {inline(artifact.mime)}.\n".encode()
    else:
        yield from _content(store, artifact.digest)


def _content(store: Store, digest: str) -> Iterator[bytes]:
    fence = markdown_fence(_decoded_chunks(store.get(digest))).encode()
    yield b"\n" + fence + b"\n"
    last = "\n"
    for text in _decoded_chunks(store.get(digest)):
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
