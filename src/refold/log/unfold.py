"""Handles lead back to the originals: `#41` a message, `#41-58` a span, `art-…` an artifact.
Nothing expires by itself; what was cleaned up says so.

A span that was summarized has three levels: its one-line form, its text, and the messages
themselves. What stands behind a handle is read as a stream, so that lines out of the middle of a
large one cost no memory. A handle is never a path: it names what the log names. Neighbours: the log
below, `engine` and `toolbox` above.
"""

from __future__ import annotations

import codecs
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from msgspec import Struct

from refold.core.codec import decode
from refold.core.fold import text_of
from refold.core.model import (
    CLEANER,
    Artifact,
    Block,
    Message,
    Opaque,
    Slot,
    Span,
    Summarize,
    Text,
    ToolCall,
    ToolResult,
)
from refold.display import moment, nearest
from refold.errors import Invalid, NotFound
from refold.log.log import Log, runs
from refold.stores.contents import check_size

LEVELS = ("line", "paragraph", "full")
MOST = sys.maxsize
SPAN_EVENTS = 200
_REFERENCE = re.compile(r"artifact://(art-[0-9a-z]+)|(?<![\w-])(art-[a-z2-7]{12})(?![\w-])")
_SPAN = re.compile(r"#?(\d{1,15})(?:\s*-\s*#?(\d{1,15}))?")


class Unfolded(Struct, frozen=True, kw_only=True):
    """What stood behind a handle. `text` is readable; `messages` or `content` are the originals
    themselves, unless only some lines were asked for."""

    handle: str
    level: str
    text: str
    messages: tuple[Message, ...] = ()
    content: bytes = b""

    def __str__(self) -> str:
        return self.text


class Original(Struct, frozen=True, kw_only=True):
    """What a handle names, found but not read yet. `texts` gives it piece by piece."""

    handle: str
    level: str
    texts: Iterator[str]
    artifact: Artifact | None = None


class Part(Struct, frozen=True, kw_only=True):
    """Some lines of a text: `last` is the number of the last one, `cut` whether there was no
    room for all of it."""

    text: str
    first: int
    last: int
    cut: bool = False


def unfolded(
    log: Log,
    artifacts: Sequence[Artifact],
    handle: str,
    *,
    level: str,
    lines: tuple[int, int] | None,
) -> Unfolded:
    """The originals behind a handle; NotFound, with the nearest, if there is no such thing."""
    found = original(log, artifacts, handle, level=level)
    if lines is not None:
        first, last = lines
        text = lines_between(found.texts, first, None if last == -1 else last).text
        return Unfolded(handle=found.handle, level=found.level, text=text)
    if found.artifact is not None:
        content = b"".join(content_of(log, found.artifact))
        return Unfolded(
            handle=found.handle,
            level="full",
            text=content.decode("utf-8", "replace"),
            content=content,
        )
    if found.level != "full":
        return Unfolded(handle=found.handle, level=found.level, text="".join(found.texts))
    slots = log.originals(span_of(found.handle))
    messages = tuple(slot.message for slot in slots)
    return Unfolded(
        handle=found.handle, level="full", text="".join(_slot_texts(iter(slots))), messages=messages
    )


def original(
    log: Log, artifacts: Sequence[Artifact], handle: str, *, level: str = "full"
) -> Original:
    """What the handle names. Nothing but the log is read, and of it only what tells whether
    there is such a thing."""
    if level not in LEVELS:
        raise Invalid(f"there is no level {level!r}", hint="levels: " + ", ".join(LEVELS))
    name = handle.strip().removeprefix("artifact://")
    if name.startswith("art-"):
        artifact = _artifact(artifacts, name)
        return Original(
            handle=artifact.id, level="full", texts=_decoded(log, artifact), artifact=artifact
        )
    span = span_of(name)
    if level != "full" and (summary := summary_of(log, span)) is not None:
        text = summary.line or summary.text.split("\n", 1)[0] if level == "line" else summary.text
        return Original(handle=str(span), level=level, texts=iter([text]))
    if not 1 <= span.first <= span.last <= log.state.head or not any(_messages(log, span)):
        raise NotFound(
            f"there is no message in {span}", hint=f"the log goes from #1 to #{log.state.head}"
        )
    return Original(handle=str(span), level="full", texts=_slot_texts(_messages(log, span)))


def references(text: str) -> list[str]:
    """The ids of the artifacts that a text names, as `artifact://art-…` or by the handle alone,
    each once, in order. Whether there is such an artifact is another question."""
    return list(dict.fromkeys(match[1] or match[2] for match in _REFERENCE.finditer(text)))


def span_of(handle: str) -> Span:
    found = _SPAN.fullmatch(handle)
    if found is None:
        raise Invalid(
            f"{handle!r:.200} is not a handle", hint="handles look like #41, #41-58 or art-…"
        )
    return Span(int(found[1]), int(found[2] or found[1]))


def lines_between(
    texts: Iterable[str], first: int, last: int | None, *, skip: int = 0, most: int = MOST
) -> Part:
    """Lines first to last of a text that comes in pieces, counted from 1; None means the end.
    `skip` leaves out so many characters of them, `most` is how many there is room for."""
    if first < 1 or (last is not None and last < first):
        raise Invalid(
            f"lines {first} to {last or 'the end'}",
            hint="lines are counted from 1, the first comes first",
        )
    taken: list[str] = []
    room, at, reached = most + 1, 1, first
    for text in texts:
        here = text.split("\n")
        part = "\n".join(here[max(0, first - at) : None if last is None else max(0, last + 1 - at)])
        kept = part[skip : skip + room]
        reached += part.count("\n", 0, skip + len(kept))
        skip, room = max(0, skip - len(part)), room - len(kept)
        taken.append(kept)
        if room <= 0:
            return Part(
                text="".join(taken)[:most],
                first=first,
                last=reached - kept.endswith("\n"),
                cut=True,
            )
        at += len(here) - 1
        if last is not None and at > last:
            return Part(text="".join(taken), first=first, last=last)
    if first > at:
        raise Invalid(f"there is no line {first}", hint=f"there are lines 1 to {at}")
    return Part(text="".join(taken), first=first, last=at)


# --- artifacts ---


def _artifact(artifacts: Sequence[Artifact], name: str) -> Artifact:
    artifact = next((known for known in artifacts if known.id == name), None)
    if artifact is None:
        near = nearest(name, [known.id for known in artifacts], limit=3)
        raise NotFound(
            f"there is no artifact {name!r:.200} in this conversation",
            hint=f"nearest: {', '.join(near)}"
            if near
            else "the outputs that are listed have one each",
        )
    return artifact


def content_of(log: Log, artifact: Artifact) -> Iterator[bytes]:
    """The bytes of an artifact. NotFound says when it was cleaned up and what it was, if that is
    why they are gone; Corrupt, before the first byte, if a file of another size stands in their
    place: who reads a part of it would never come to the end, where the digest tells."""
    try:
        if path := log.store.location(artifact.digest):
            check_size(path, artifact.size_bytes)
        yield from log.store.get(artifact.digest)
    except NotFound as error:
        cleaned = cleaned_ms(log, artifact)
        if not cleaned:
            raise
        what = f"{artifact.size_bytes:,} bytes of {artifact.name!r:.100}"
        raise NotFound(
            f"{artifact.id} was cleaned up on {moment(cleaned)}: {what}",
            hint="run the tool again to get it anew",
        ) from error


def cleaned_ms(log: Log, artifact: Artifact) -> int:
    """When the artifact was cleaned up for the last time; 0 if never."""
    found = 0
    for span in runs(log.state.artifacts):
        for event in log.read(span.first - 1, span.last):
            body = decode(event) if event.by == CLEANER else None
            if isinstance(body, Artifact) and body.digest == artifact.digest:
                found = event.at_ms
    return found


def _decoded(log: Log, artifact: Artifact) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    for chunk in content_of(log, artifact):
        yield decoder.decode(chunk)
    yield decoder.decode(b"", True)


# --- messages ---


def _messages(log: Log, span: Span) -> Iterator[Slot]:
    """The messages of a span as they came, a few at a time."""
    for first in range(span.first, span.last + 1, SPAN_EVENTS):
        yield from log.originals(Span(first, min(first + SPAN_EVENTS - 1, span.last)))


def _slot_texts(slots: Iterator[Slot]) -> Iterator[str]:
    """A message alone is its text; several stand under headings."""
    one, more = next(slots), next(slots, None)
    if more is None:
        yield body_text(one.message)
        return
    yield shown(one)
    for slot in chain([more], slots):
        yield "\n\n" + shown(slot)


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
    return text_of(block) or (
        "" if isinstance(block, Text) else f"[{type(block).__name__.lower()}]"
    )
