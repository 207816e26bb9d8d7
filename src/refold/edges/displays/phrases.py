"""The standard sentences about a conversation, their numbers, questions to a person, and events in
one line each.

Numbers are cut, never rounded: 80 % is not shown before the warning. Where a short number could
puzzle, the exact one is beside it. A question is answered by a word or its first letter; an invalid
answer is explained and asked again, no answer is no. The edits of one compaction are one happening.
Neighbours: `log.notices` has the notices, the status line, the chat and `edges.commands` show the
lines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, assert_never

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
from refold.display import local_moment, number
from refold.display import percent_of as percent_of
from refold.display import short_number as short_number
from refold.display import tokens_of as tokens_of
from refold.edges.displays.wrap import harmless
from refold.tokens.models import dollars

if TYPE_CHECKING:
    from refold.log.message_states import Batch
    from refold.log.notices import Notice


def short_and_exact(count: int, noun: str) -> str:
    """`640 tokens`, `11K tokens (11,605)`: the exact number is for subtracting sizes."""
    short = short_number(count)
    named = f"{short} {noun}" + ("" if count == 1 else "s")
    return named if short == str(count) else f"{named} ({count:,})"


def status_line(product: str, version: str, model: str, used: int, window: int) -> str:
    """`mycode v0.2.0 | gpt-4o | Context: 45% (58K/128K tokens)`."""
    return f"{product} v{version} | {model} | Context: {tokens_of(used, window)}"


def header(active: int, total: int, percent: int | None = None) -> str:
    """`Context: 45/120 msgs (37%)`; empty while no message is on the page. The percentage is the
    share of messages unless another is given."""
    if active <= 0:
        return ""
    share = percent_of(active, total) if percent is None else percent
    return f"Context: {active}/{total} msgs ({share}%)"


# --- notices while an agent works ---


def warning(used: int, window: int) -> str:
    """`Context usage at 80% (102K/128K tokens)`."""
    return f"Context usage at {tokens_of(used, window)}"


def advice(used: int, window: int, compact: str = "/compact") -> str:
    """`Context usage at 82% - Consider using /compact`."""
    return f"Context usage at {percent_of(used, window)}% - Consider using {compact}"


def compacting(percent: float, strategy: str) -> str:
    """`Auto-compacting (91% usage, strategy: prune)...`."""
    return f"Auto-compacting ({int(percent)}% usage, strategy: {strategy})..."


def compacted(strategy: str) -> str:
    """`Compaction complete (prune)`."""
    return f"Compaction complete ({strategy})"


def summarized(messages: int, saved: int) -> str:
    """`Summarized 45 messages, saved 52K tokens`."""
    noun = "message" if messages == 1 else "messages"
    return f"Summarized {messages:,} {noun}, saved {short_number(max(0, saved))} tokens"


def coherence(failed: str) -> str:
    """Whether a summary is coherent: only if every check passed; otherwise the failed checks."""
    return f"Summary check failed: {failed}" if failed else "Conversation coherence preserved"


def told(notice: Notice) -> list[str]:
    """A notice for a person; None for a notice that is only for programs."""
    match notice.name:
        case "context-warning" | "context-critical":
            return [warning(notice.tokens, notice.max), "Consider using /compact"]
        case "auto-compacting":
            return [compacting(notice.percent, notice.strategy)]
        case "compaction-complete":
            return [compacted(notice.strategy), *_receipt(notice)]
        case "compaction-failed":
            return [_failure(notice)]
        case "compaction-skipped" | "budget-unreachable" | "overflow-recovered":
            return [notice.reason] if notice.reason else []
    return []


def _failure(notice: Notice) -> str:
    """A failure: of a writer, whose bill is in the notice, or of a strategy."""
    if notice.details:
        return coherence(notice.reason)
    return f"Compaction failed ({notice.strategy}): {notice.reason}"


def _receipt(notice: Notice) -> list[str]:
    """The effect of a compaction, if its receipt has it."""
    if notice.receipt is None or not notice.receipt.batch:
        return []
    receipt = notice.receipt
    lines = [summarized(receipt.messages_hidden, receipt.saved_tokens)]
    asked, accepted = notice.details.get("asked", 0), notice.details.get("accepted", 0)
    if asked and asked == accepted:
        lines.append(coherence(""))
    return lines


ANSWERS_MAX = 3
YES_NO = ("yes", "no")


def chosen(ask: Callable[[str], str], question: str, words: Sequence[str] = YES_NO) -> str:
    """The chosen word; `no` for no answer, or no understandable one."""
    shown = ", ".join(f"[{word[0]}]{word[1:]}" for word in words)
    letters = [word[0] for word in words]
    hint = ""
    for _ in range(ANSWERS_MAX):
        typed = ask(f"{hint}{question} {shown}:").strip().lower()
        for word in words:
            if typed in (word[0], word):
                return word
        if not typed:
            break
        hint = f"Please answer {', '.join(letters[:-1])} or {letters[-1]}. "
    return "no"


TEXT_CHARS = 300
# The arguments that describe a call.
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
    """One happening, at `seq`. `who` is the role of a message, else the kind of event."""

    seq: int
    at_ms: int
    who: str
    tokens: int
    text: str


def happenings(events: Sequence[Event], batches: Mapping[str, Batch]) -> Iterator[Happening]:
    """The happenings among the events; `batches` are their compactions, by id."""
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
            when = f" on {local_moment(body.erased_ms)}" if body.erased_ms else ""
            return "erased", f"#{body.seq}{when}"
        case Note():
            return "note", _noted(body)
        case Memory():
            return "remembered", body.content
        case None:
            return event.kind, "erased" if event.erased else "of a newer version of refold"
    assert_never(body)


def _noted(note: Note) -> str:
    """The kind of a note, and its text for people, if any."""
    text = note.data.get("text") if isinstance(note.data, dict) else None
    return f"{note.kind}: {text[:TEXT_CHARS]}" if isinstance(text, str) and text else note.kind


def message_text(message: Message) -> str:
    """A message in a few words: its calls, its text, its results. Calls come first, since a line
    may be too short for more."""
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
    """The argument that describes a call, else all of them."""
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
    """The effect of a compaction on the page."""
    if batch is None:
        return edit.reason
    sizes = f"{batch.tokens_before:,} -> {number(batch.tokens_after, 'token')}"
    return f"{sizes}, by {batch.strategy} ({number(batch.edits, 'edit')})"


def _settings(meta: Meta) -> str:
    """The settings in an event, with short values."""
    said = {name: value for name in SAID if (value := getattr(meta, name)) is not None}
    return ", ".join(SAID[name] + _value(name, value) for name, value in said.items())


def _value(name: str, value: object) -> str:
    if name in ("title", "model"):
        return f" {value}"
    if isinstance(value, dict) and name == "windows":
        return " " + ", ".join(f"{size:,}" for size in value.values())
    return " " + ", ".join(map(str, value)) if isinstance(value, tuple) else ""
