"""What happened in a conversation, event by event, as a person reads it: who, how much, and what in
one line. The edits of one compaction are one happening, with the size before and after.

Neighbours: `edges.commands.watch` shows happenings as they come.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import assert_never

from msgspec import Struct

from refold.core.call_arguments import arguments_object, arguments_text
from refold.core.codec import decode
from refold.core.model import (
    Artifact,
    Block,
    Body,
    Checkpoint,
    Erase,
    Event,
    Hide,
    Media,
    Memory,
    Message,
    Meta,
    Note,
    Opaque,
    Pin,
    Replace,
    Restore,
    Revert,
    Summarize,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
)
from refold.core.shortened import text_of
from refold.display import number
from refold.edges.displays.phrases import percent_of
from refold.edges.displays.wrap import harmless
from refold.log.points import Batch
from refold.tokens.models import dollars

TEXT_CHARS = 300
# The arguments that say what a call is about.
TELLING = ("command", "pattern", "path", "query", "handle", "id", "content")
SAID = {
    "title": "title",
    "model": "model",
    "system": "system prompt",
    "system_seq": "system prompt",
    "tools": "tools",
    "tools_seq": "tools",
    "windows": "window",
    "tags": "tags",
    "names": "names",
    "metadata": "metadata",
}


class Happening(Struct, frozen=True, kw_only=True):
    """One thing that happened, at `seq`. `who` is the role of a message, else what kind of thing
    it is."""

    seq: int
    at_ms: int
    who: str
    tokens: int
    text: str


def happenings(events: Sequence[Event], batches: Mapping[str, Batch]) -> Iterator[Happening]:
    """What the events say; `batches` are the compactions among them, by their ids."""
    told: set[str] = set()
    for event in events:
        body = decode(event)
        batch = body.batch if isinstance(body, Hide | Replace | Summarize) else ""
        if batch in told:
            continue
        told |= {batch} - {""}
        who, text = _said(body, event, batches)
        yield Happening(
            seq=event.seq,
            at_ms=event.at_ms,
            who=who,
            tokens=event.tokens if event.kind == "message" else 0,
            text=harmless(text[:TEXT_CHARS]),
        )


def _said(body: Body | None, event: Event, batches: Mapping[str, Batch]) -> tuple[str, str]:
    match body:
        case Message():
            return body.role, message_text(body)
        case Usage():
            return "billed", _billed(body)
        case Hide() | Replace() | Summarize():
            return "compacted", _compacted(body, batches.get(body.batch))
        case Revert():
            what = f"the batch {body.batch}" if body.batch else f"what #{body.seq} did"
            return "undone", what
        case Restore():
            return "restored", f"the page is as it was at #{body.seq}"
        case Checkpoint():
            return "checkpoint", f"{body.name} at #{body.seq}"
        case Pin():
            return "pinned" if body.on else "unpinned", f"#{body.seq}"
        case Meta():
            return "set", _settings(body)
        case Artifact():
            return "kept", f"{body.id} {body.name} ({number(body.size_bytes, 'byte')})"
        case Erase():
            return "erased", f"#{body.seq}"
        case Note():
            return "note", _noted(body)
        case Memory():
            return "remembered", body.content
        case None:
            return event.kind, "erased" if event.erased else "of a newer version of refold"
    assert_never(body)


def _noted(note: Note) -> str:
    """The kind of a note, and the text that it has for people, if it has one."""
    text = note.data.get("text") if isinstance(note.data, dict) else None
    return f"{note.kind}: {text[:TEXT_CHARS]}" if isinstance(text, str) and text else note.kind


def message_text(message: Message) -> str:
    """What a message calls, what it says, and what a tool gave, in a few words. Calls come first:
    a line may be too short for both."""
    blocks = sorted(message.blocks, key=lambda block: not isinstance(block, ToolCall))
    words = [_block_text(block) for block in blocks]
    return " ".join(word for word in words if word)


def _block_text(block: Block) -> str:
    match block:
        case ToolCall():
            return f"-> {block.name} {argument_text(block)}"
        case ToolResult():
            said = " ".join(text_of(part)[:TEXT_CHARS] for part in block.content)
            return f"failed: {said}" if block.is_error else said
        case Media():
            return f"[{block.media}]"
        case Text() | Thinking() | Opaque():
            return text_of(block)[:TEXT_CHARS]
    assert_never(block)


def argument_text(call: ToolCall) -> str:
    """What a call is about: the argument that says it, else all of them."""
    given = arguments_object(call) or {}
    for name in TELLING:
        if isinstance(given.get(name), str):
            return str(given[name])
    return arguments_text(call)


def _billed(usage: Usage) -> str:
    cached = f"{percent_of(usage.cache_read, usage.input)}% from the cache"
    tokens = f"{number(usage.input, 'token')} in ({cached}), {usage.output:,} out"
    return f"{dollars(usage.cost)}: {tokens}" if usage.cost is not None else tokens


def _compacted(edit: Hide | Replace | Summarize, batch: Batch | None) -> str:
    """What a compaction did to the page."""
    if batch is None:
        return edit.reason
    sizes = f"{batch.tokens_before:,} -> {number(batch.tokens_after, 'token')}"
    return f"{sizes}, by {batch.strategy} ({number(batch.edits, 'edit')})"


def _settings(meta: Meta) -> str:
    """Which settings an event says, with those values that are short."""
    said = {name: value for name in SAID if (value := getattr(meta, name)) is not None}
    return ", ".join(SAID[name] + _value(name, value) for name, value in said.items())


def _value(name: str, value: object) -> str:
    if name in ("title", "model"):
        return f" {value}"
    if isinstance(value, dict) and name == "windows":
        return " " + ", ".join(f"{size:,}" for size in value.values())
    return " " + ", ".join(map(str, value)) if isinstance(value, tuple) else ""
