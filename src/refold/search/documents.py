"""The searchable documents of an event: one per message, artifact piece, title, name or summary.

The caller passes in the text of an artifact. Nothing in a document is executed or trusted: names
and roles come from conversations, and are only compared. Neighbours: `core` decodes events, `index`
reads the logs and stores.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

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
from refold.patterns import regex
from refold.search.snippets import OWN_PREFIX

PIECE_CHARS = 4_000
TEXT_CHARS_MAX = 4_000_000
# In a transcript with more people than roles, a message begins with its speaker: `Caroline: …`.
_AUTHOR = regex(r"([A-Z][\w'.-]{1,30}): ")


class Document(Struct, frozen=True):
    """One row of the index. For a piece of an artifact, `start` is its position in characters, and
    `head_lines` is the number of lines before it in `text`: the artifact's name and description."""

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
    """Returns the documents of an event, and adds its tool calls to `calls`, which maps call ids to
    tool names and is shared by all events of a log. `content` is the text of its artifact."""
    try:
        body = decode(event)
    except Corrupt:
        # `verify` reports damage; here it must not keep other events from being indexed.
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
            text = " ".join([body.content, *body.tags]).strip()[:TEXT_CHARS_MAX]
            return [_text_document(event, text)] if text else []
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
    tools: dict[str, None] = {}  # those that the message calls or whose results it contains
    for block in message.blocks:
        if isinstance(block, ToolCall):
            calls[block.id] = block.name
            tools[block.name] = None
        elif isinstance(block, ToolResult):
            tools[block.name or calls.get(block.call, "")] = None
    tools.pop("", None)
    document = _text_document(event, text[:TEXT_CHARS_MAX])
    return [replace(document, role=message.role, tools=tuple(tools))]


def _text_document(event: Event, text: str) -> Document:
    match = _AUTHOR.match(text)
    author = match[1] if match else ""
    return Document(event.seq, "message", event.at_ms, text, author=author)


def message_text(message: Message) -> str:
    """The text of a message; each call begins with the name of its tool."""
    return "\n".join([text for block in message.blocks if (text := _block_text(block))])


def _block_text(block: Block) -> str:
    if not isinstance(block, ToolCall):
        return text_of(block)
    # Calls of our own tools are left out: a search would find its own query.
    return "" if block.name.startswith(OWN_PREFIX) else f"{block.name}\n{text_of(block)}"


def _artifact(event: Event, artifact: Artifact, content: str) -> Iterator[Document]:
    origin = artifact.origin
    head = "\n".join(filter(None, dict.fromkeys((artifact.name, origin.description))))
    for start, piece in pieces(content[:TEXT_CHARS_MAX]):
        # The name is in every piece: `login.py` and a word of the code must find the right piece.
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
    """Splits text into pieces, each with its start. A piece ends after the last line break in its
    second half, or at `PIECE_CHARS` if there is no such break. Empty text makes one piece."""
    start, end = 0, -1
    while end < len(content):
        end = min(start + PIECE_CHARS, len(content))
        newline = content.rfind("\n", start + PIECE_CHARS // 2, end)
        if newline > 0 and end < len(content):
            end = newline + 1
        yield start, content[start:end]
        start = end


def _note(event: Event, text: str) -> list[Document]:
    note = text.strip()[:TEXT_CHARS_MAX]
    return [Document(event.seq, event.kind, event.at_ms, note)] if note else []


def _system_text(system: object) -> str:
    """The text of a system prompt, which may be a string or a list of blocks."""
    if isinstance(system, str):
        return system
    blocks: Sequence[object] = system if isinstance(system, list) else ()
    texts = [block.get("text") for block in blocks if isinstance(block, dict)]
    return "\n".join(text for text in texts if isinstance(text, str))
