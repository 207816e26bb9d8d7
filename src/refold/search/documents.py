"""What of an event is searched: a document per message, per piece of an artifact, per title, name
or summary.

The text of an artifact is handed in. Nothing here is executed or trusted: names and roles come from
content and are only compared. Neighbours: `core` decodes, `sources` reads and `index` keeps.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from msgspec import Struct

from refold.core.codec import decode
from refold.core.model import (
    Artifact,
    Block,
    Checkpoint,
    Event,
    Memory,
    Message,
    Meta,
    Summarize,
    ToolCall,
    ToolResult,
)
from refold.core.shortened import summary_text, text_of
from refold.errors import Corrupt
from refold.search.snippets import OWN_PREFIX

PIECE_CHARS = 4_000
TEXT_CHARS_MAX = 4_000_000
# `Caroline: …` at the beginning of a message names who speaks, where a transcript has more people
# than roles.
_AUTHOR = re.compile(r"([A-Z][\w'.-]{1,30}): ")


class Document(Struct, frozen=True):
    """One row of the index. `start` is where a piece of an artifact begins, in characters; its
    text begins with so many `head_lines` that name the artifact."""

    seq: int
    kind: str
    at_ms: int
    text: str
    role: str = ""
    tools: tuple[str, ...] = ()
    author: str = ""
    start: int = 0
    artifact: str = ""
    head_lines: int = 0


def documents_of(event: Event, calls: dict[str, str], content: str = "") -> list[Document]:
    """What an event gives the index. `calls` remembers which tool each call is of, from event to
    event; `content` is the text of the artifact that the event names."""
    try:
        body = decode(event)
    except Corrupt:
        # Damage is for `verify` to explain; what cannot be read cannot be found, and must not stop
        # the rest.
        return []
    match body:
        case Message():
            return _message(event, body, calls)
        case Artifact():
            return list(_artifact(event, body, content))
        case Meta():
            texts = [body.title or "", *(body.tags or ()), _system_text(body.system)]
            return _note(event, " ".join(texts))
        case Memory():
            return _memory(event, body)
        case Checkpoint():
            return _note(event, body.name)
        case Summarize():
            return _note(event, summary_text(body))
        case _:
            return []


def _message(event: Event, message: Message, calls: dict[str, str]) -> list[Document]:
    text = message_text(message)
    if not text.strip():
        return []
    author = _AUTHOR.match(text)
    document = Document(
        seq=event.seq,
        kind="message",
        at_ms=event.at_ms,
        text=text[:TEXT_CHARS_MAX],
        role=message.role,
        tools=_tools(message, calls),
        author=author[1] if author else "",
    )
    return [document]


def _tools(message: Message, calls: dict[str, str]) -> tuple[str, ...]:
    """The tools that a message calls or answers for. Its own calls are remembered in `calls`."""
    tools: dict[str, None] = {}
    for block in message.blocks:
        if isinstance(block, ToolCall):
            calls[block.id] = block.name
            tools[block.name] = None
        elif isinstance(block, ToolResult):
            tools[block.name or calls.get(block.call, "")] = None
    tools.pop("", None)
    return tuple(tools)


def message_text(message: Message) -> str:
    """Everything a message says, calls with their tool's name."""
    return "\n".join([text for block in message.blocks if (text := _block_text(block))])


def _block_text(block: Block) -> str:
    if not isinstance(block, ToolCall):
        return text_of(block)
    # A query to our own tools would answer itself.
    return "" if block.name.startswith(OWN_PREFIX) else f"{block.name}\n{text_of(block)}"


def _artifact(event: Event, artifact: Artifact, content: str) -> Iterator[Document]:
    origin = artifact.origin
    head = "\n".join(filter(None, dict.fromkeys((artifact.name, origin.description))))
    for start, piece in pieces(content[:TEXT_CHARS_MAX]):
        # The name belongs to every piece: `login.py` finds the part of it that speaks of the rest
        # of the query.
        yield Document(
            seq=event.seq,
            kind="artifact",
            at_ms=event.at_ms,
            text=f"{head}\n{piece}",
            role="tool",
            tools=(origin.tool,) if origin.tool else (),
            start=start,
            artifact=artifact.id,
            head_lines=head.count("\n") + 1,
        )


def pieces(content: str) -> Iterator[tuple[int, str]]:
    """A long text in pieces of whole lines, where lines end in time, each with its start. An empty
    text is one piece."""
    start, end = 0, -1
    while end < len(content):
        end = _piece_end(content, start)
        yield start, content[start:end]
        start = end


def _piece_end(content: str, start: int) -> int:
    """Where a piece ends: after the last line that ends in its second half, or anywhere."""
    end = start + PIECE_CHARS
    if end >= len(content):
        return len(content)
    newline = content.rfind("\n", start + PIECE_CHARS // 2, end)
    return newline + 1 if newline > 0 else end


def _note(event: Event, text: str) -> list[Document]:
    note = text.strip()[:TEXT_CHARS_MAX]
    return [Document(event.seq, event.kind, event.at_ms, note)] if note else []


def _memory(event: Event, memory: Memory) -> list[Document]:
    """What an entry of a memory says, with its tags."""
    text = " ".join([memory.content, *memory.tags]).strip()[:TEXT_CHARS_MAX]
    author = _AUTHOR.match(text)
    name = author[1] if author else ""
    return [Document(event.seq, "message", event.at_ms, text, author=name)] if text else []


def _system_text(system: object) -> str:
    """The text of a system prompt: a text, or blocks that have one."""
    if isinstance(system, str):
        return system
    blocks: Sequence[object] = system if isinstance(system, list) else ()
    texts = [block.get("text") for block in blocks if isinstance(block, dict)]
    return "\n".join(text for text in texts if isinstance(text, str))
