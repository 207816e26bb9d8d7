"""Handles lead back to the originals: `#41` a message, `#41-58` a span, `art-…` an artifact. Nothing expires.

A span that was summarized has three levels: its one-line form, its text, and the messages themselves. Neighbours: the
log below, `engine` above.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence

from msgspec import Struct

from refold.core.codec import decode
from refold.core.fold import text_of
from refold.core.model import Artifact, Block, Message, Opaque, Slot, Span, Summarize, Text, ToolCall, ToolResult
from refold.errors import Invalid, NotFound
from refold.log import Log

LEVELS = ("line", "paragraph", "full")
_SPAN = re.compile(r"#?(\d{1,15})(?:\s*-\s*#?(\d{1,15}))?")


class Unfolded(Struct, frozen=True, kw_only=True):
    """What stood behind a handle. `text` is readable; `messages` or `content` are the originals themselves."""

    handle: str
    level: str
    text: str
    messages: tuple[Message, ...] = ()
    content: bytes = b""

    def __str__(self) -> str:
        return self.text


def unfolded(
    log: Log, artifacts: Sequence[Artifact], handle: str, *, level: str, lines: tuple[int, int] | None
) -> Unfolded:
    """The originals behind a handle; NotFound, with the nearest, if there is no such thing."""
    if level not in LEVELS:
        raise Invalid(f"there is no level {level!r}", hint="levels: " + ", ".join(LEVELS))
    name = handle.strip().removeprefix("artifact://")
    if name.startswith("art-"):
        return _artifact(log, artifacts, name, lines)
    found = _SPAN.fullmatch(name)
    if found is None:
        raise Invalid(f"{handle!r} is not a handle", hint="handles look like #41, #41-58 or art-…")
    span = Span(int(found[1]), int(found[2] or found[1]))
    if level != "full" and (summary := summary_of(log, span)) is not None:
        text = summary.line or summary.text.split("\n", 1)[0] if level == "line" else summary.text
        return Unfolded(handle=str(span), level=level, text=_cut(text, lines))
    slots = log.originals(span) if 1 <= span.first <= span.last <= log.state.head else []
    if not slots:
        raise NotFound(f"there is no message in {span}", hint=f"the log goes from #1 to #{log.state.head}")
    text = "\n\n".join(shown(slot) for slot in slots) if len(slots) > 1 else body_text(slots[0].message)
    return Unfolded(
        handle=str(span), level="full", text=_cut(text, lines), messages=tuple(slot.message for slot in slots)
    )


def _artifact(log: Log, artifacts: Sequence[Artifact], name: str, lines: tuple[int, int] | None) -> Unfolded:
    artifact = next((known for known in artifacts if known.id == name), None)
    if artifact is None:
        near = difflib.get_close_matches(name, [known.id for known in artifacts], n=3)
        raise NotFound(
            f"there is no artifact {name!r}", hint=f"nearest: {', '.join(near)}" if near else "none are kept"
        )
    content = b"".join(log.store.get(artifact.digest))
    text = content.decode("utf-8", "replace")
    return Unfolded(handle=artifact.id, level="full", text=_cut(text, lines), content=content)


def _cut(text: str, lines: tuple[int, int] | None) -> str:
    """Lines first to last of a text, counted from 1; -1 means the end."""
    if lines is None:
        return text
    first, last = lines
    split = text.split("\n")
    last = len(split) if last == -1 else last
    if not 1 <= first <= last or first > len(split):
        raise Invalid(f"lines {first} to {last}", hint=f"there are lines 1 to {len(split)}")
    return "\n".join(split[first - 1 : last])


def summary_of(log: Log, span: Span) -> Summarize | None:
    """The newest summary of exactly this span; on the page, or further back in the log."""
    found = None
    for event in log.read():
        if event.kind == "edit":
            edit = decode(event)
            if isinstance(edit, Summarize) and edit.span == span:
                found = edit
    return found


def shown(slot: Slot) -> str:
    """A message with a heading, for reading."""
    return f"#{slot.seq} {slot.message.role}:\n{body_text(slot.message)}"


def body_text(message: Message) -> str:
    """Everything a message says, as text, exactly as it came."""
    parts = []
    for block in message.blocks:
        match block:
            case ToolCall():
                parts.append(f"[call {block.name} {block.id}]\n{text_of(block)}")
            case ToolResult():
                text = "\n".join(_exact(part) for part in block.content)
                parts.append(f"[result {block.call}]\n{text}" if len(message.blocks) > 1 else text)
            case _:
                parts.append(_exact(block))
    return "\n".join(parts)


def _exact(block: Block) -> str:
    """A block's own text; bytes that were shielded come back as the text they were."""
    if isinstance(block, Opaque) and block.data:
        return block.data.decode("utf-8", "surrogatepass")
    return text_of(block) or ("" if isinstance(block, Text) else f"[{type(block).__name__.lower()}]")
