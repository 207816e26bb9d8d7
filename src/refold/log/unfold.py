"""Handles lead back to the originals: `#41` a message, `#41-58` a span, `art-…` an artifact.
Nothing expires automatically; what was cleaned up says so.

A span that was summarized has three levels: its one-line form, its text, and the messages
themselves. Of one that was not, the lower levels are the beginnings of its messages. What a handle
names is read as a stream, so that lines out of the middle of a large one cost no memory. A handle
is never a path: it names what the log names. Neighbours: the log below, `artifacts` and
`engine.toolbox` above.
"""

from __future__ import annotations

import codecs
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from msgspec import Struct

from refold.checked import quoted
from refold.core.codec import ARTIFACT_ID, decode
from refold.core.model import (
    Artifact,
    Block,
    Event,
    Message,
    Opaque,
    Slot,
    Span,
    Summarize,
    Text,
    ToolCall,
    ToolResult,
    is_cleanup,
)
from refold.core.shortened import summary_text, text_of
from refold.display import moment, nearest, one_line, whole_words
from refold.errors import Invalid, NotFound
from refold.log.log import Log, runs
from refold.log.trace import artifact_of
from refold.system import disk

LEVELS = ("line", "paragraph", "full")
LEVEL_CHARS = {"line": 200, "paragraph": 1_000}  # of a message that no summary stands for
MOST = sys.maxsize
SPAN_EVENTS = 200
# After `artifact://` an id that no artifact can have is a reference as well: to nothing.
_REFERENCE = re.compile(rf"artifact://(art-[0-9a-z]+)|(?<![\w-])({ARTIFACT_ID.pattern})(?![\w-])")
_SPAN = re.compile(r"#?(\d{1,15})(?:\s*-\s*#?(\d{1,15}))?")


class Unfolded(Struct, frozen=True, kw_only=True):
    """What a handle gave back. `text` is readable; `messages` or `content` are the originals
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
    """The originals that a handle names; NotFound, with the nearest, if there is no such thing."""
    source = original(log, artifacts, handle, level=level)
    if lines is not None:
        return _some_lines(source, *lines)
    if source.artifact is not None:
        return _whole_artifact(log, source.artifact)
    if source.level != "full":
        return Unfolded(handle=source.handle, level=source.level, text="".join(source.texts))
    return _whole_span(log, span_of(source.handle))


def _some_lines(source: Original, first: int, last: int) -> Unfolded:
    """Lines first to last of an original; -1 means the end."""
    part = lines_between(source.texts, first, None if last == -1 else last)
    return Unfolded(handle=source.handle, level=source.level, text=part.text)


def _whole_artifact(log: Log, artifact: Artifact) -> Unfolded:
    """All bytes of an artifact, and as text."""
    content = b"".join(content_of(log, artifact))
    text = content.decode("utf-8", "replace")
    return Unfolded(handle=artifact.id, level="full", text=text, content=content)


def _whole_span(log: Log, span: Span) -> Unfolded:
    """The messages of a span, and as text."""
    slots = log.originals(span)
    messages = tuple(slot.message for slot in slots)
    text = "".join(_slot_texts(iter(slots)))
    return Unfolded(handle=str(span), level="full", text=text, messages=messages)


def original(
    log: Log, artifacts: Sequence[Artifact], handle: str, *, level: str = "full"
) -> Original:
    """What the handle names. Nothing but the log is read, and of it only what shows whether there
    is such a thing."""
    if level not in LEVELS:
        raise Invalid(f"there is no level {level!r}", hint="levels: " + ", ".join(LEVELS))
    name = handle.strip().removeprefix("artifact://")
    if name.startswith("art-"):
        artifact = _artifact(artifacts, name)
        texts = _artifact_texts(log, artifact)
        return Original(handle=artifact.id, level="full", texts=texts, artifact=artifact)
    span = span_of(name)
    summary = summary_of(log, span) if level != "full" else None
    if summary is not None:
        return _summary_original(summary, level)
    return _span_original(log, span, level)


def _summary_original(summary: Summarize, level: str) -> Original:
    """A summary: its one-line form, or its text."""
    whole = summary_text(summary)
    text = (summary.line or whole.split("\n", 1)[0]) if level == "line" else whole
    return Original(handle=str(summary.span), level=level, texts=iter([text]))


def _span_original(log: Log, span: Span, level: str) -> Original:
    """The messages of a span, at most so much of each as the level gives; NotFound if it has
    none."""
    head = log.state.head
    is_inside = 1 <= span.first <= span.last <= head
    if not is_inside:
        raise NotFound(f"there is no message in {span}", hint=f"the log goes from #1 to #{head}")
    if not any(_messages(log, span)):
        hint = "only messages can be unfolded: refold show ID --all lists every event"
        raise NotFound(f"{span} has no message", hint=hint)
    texts = _slot_texts(_messages(log, span), level)
    return Original(handle=str(span), level=level, texts=texts)


def references(text: str) -> list[str]:
    """The ids of the artifacts that a text names, as `artifact://art-…` or by the handle alone,
    each once, in order. Whether there is such an artifact is another question."""
    return list(dict.fromkeys(match[1] or match[2] for match in _REFERENCE.finditer(text)))


def span_of(handle: str) -> Span:
    """The span that a handle names; Invalid if it is not the handle of a message or span."""
    match = _SPAN.fullmatch(handle)
    if match is None:
        hint = "handles look like #41, #41-58 or art-…"
        raise Invalid(f"{quoted(handle, 200)} is not a handle", hint=hint)
    first, last = match.groups()
    return Span(int(first), int(last or first))


def lines_between(
    texts: Iterable[str], first: int, last: int | None, *, skip: int = 0, most: int = MOST
) -> Part:
    """Lines first to last of a text that comes in pieces, counted from 1; None means the end.
    `skip` leaves out so many characters of them, `most` is how many there is room for."""
    _check_lines(first, last)
    taken: list[str] = []
    room, at, reached = most + 1, 1, first
    is_ended = False
    for text in texts:
        is_ended = text.endswith("\n") if text else is_ended
        here = text.split("\n")
        end = None if last is None else max(0, last + 1 - at)
        part = "\n".join(here[max(0, first - at) : end])
        kept = part[skip : skip + room]
        reached += part.count("\n", 0, skip + len(kept))
        skip, room = max(0, skip - len(part)), room - len(kept)
        taken.append(kept)
        if room <= 0:
            reached -= kept.endswith("\n")
            return Part(text="".join(taken)[:most], first=first, last=reached, cut=True)
        at += len(here) - 1
        if last is not None and at > last:
            return Part(text="".join(taken), first=first, last=last)
    lines = at - is_ended  # nobody counts the empty one behind the newline at the end
    if first > at:
        raise Invalid(f"there is no line {first}", hint=f"there are lines 1 to {lines}")
    return Part(text="".join(taken), first=first, last=max(first, lines))


def _check_lines(first: int, last: int | None) -> None:
    if first < 1 or (last is not None and last < first):
        hint = "lines are counted from 1, and the first comes first"
        raise Invalid(f"lines {first} to {last or 'the end'}", hint=hint)


# --- artifacts ---


def _artifact(artifacts: Sequence[Artifact], name: str) -> Artifact:
    known = {artifact.id: artifact for artifact in artifacts}
    if name in known:
        return known[name]
    near = ", ".join(nearest(name, known, limit=3))
    hint = f"nearest: {near}" if near else "refold artifact list ID has their ids"
    raise NotFound(f"there is no artifact {quoted(name, 200)} in this conversation", hint=hint)


def content_of(log: Log, artifact: Artifact) -> Iterator[bytes]:
    """The bytes of an artifact. NotFound says when it was cleaned up and what it was, if that is
    why they are gone; Corrupt, before the first byte, if a file of another size is in their
    place: who reads a part of it would never come to the end, where the digest is checked."""
    try:
        if path := log.store.location(artifact.digest):
            disk.check_size(path, artifact.size_bytes)
        yield from log.store.get(artifact.digest)
    except NotFound as error:
        at_ms = cleaned_ms(log, artifact)
        if not at_ms:
            raise
        raise _cleaned_up(artifact, at_ms) from error


def _cleaned_up(artifact: Artifact, at_ms: int) -> NotFound:
    """The error for an artifact whose content was cleaned up."""
    what = f"{artifact.size_bytes:,} bytes of {quoted(artifact.name)}"
    gone = f"{artifact.id} was cleaned up on {moment(at_ms)}: {what}"
    return NotFound(gone, hint="run the tool again to get it again")


def cleaned_ms(log: Log, artifact: Artifact) -> int:
    """When the artifact was cleaned up for the last time; 0 if never."""
    at_ms = 0
    for event in _cleanups(log):
        cleaned = artifact_of(event)
        if cleaned is not None and cleaned.digest == artifact.digest:
            at_ms = event.at_ms
    return at_ms


def _cleanups(log: Log) -> Iterator[Event]:
    """The events that say that the content of an artifact was removed."""
    for span in runs(log.state.artifacts):
        for event in log.read(span.first - 1, span.last):
            if is_cleanup(event):
                yield event


def _artifact_texts(log: Log, artifact: Artifact) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    for chunk in content_of(log, artifact):
        yield decoder.decode(chunk)
    yield decoder.decode(b"", True)


# --- messages ---


def _messages(log: Log, span: Span) -> Iterator[Slot]:
    """The messages of a span as they came, a few at a time."""
    for first in range(span.first, span.last + 1, SPAN_EVENTS):
        yield from log.originals(Span(first, min(first + SPAN_EVENTS - 1, span.last)))


def _slot_texts(slots: Iterator[Slot], level: str = "full") -> Iterator[str]:
    """A message alone is its text; several have headings."""
    first, second = next(slots), next(slots, None)
    if second is None:
        yield _at_level(body_text(first.message), level)
        return
    yield shown(first, level)
    between = "\n" if level == "line" else "\n\n"
    for slot in chain([second], slots):
        yield between + shown(slot, level)


def _at_level(text: str, level: str) -> str:
    """The beginning of a message, as long as the level allows, and how long it is; all of it if
    that is no longer."""
    if level == "full":
        return text
    most, said = LEVEL_CHARS[level], one_line(text) if level == "line" else text
    if len(said) <= most:
        return said
    left = f" … ({len(text):,} characters)"
    return whole_words(said, most - len(left)).rstrip() + left


def summary_of(log: Log, span: Span) -> Summarize | None:
    """The newest summary of exactly this span; on the page, or further back in the log."""
    newest = None
    for event in log.read():
        edit = decode(event) if event.kind == "edit" else None
        if isinstance(edit, Summarize) and edit.span == span:
            newest = edit
    return newest


def shown(slot: Slot, level: str = "full") -> str:
    """A message with a heading, for reading."""
    text = _at_level(body_text(slot.message), level)
    between = " " if level == "line" else "\n"
    return f"#{slot.seq} {slot.message.role}:{between}{text}"


def body_text(message: Message) -> str:
    """Everything a message says, as text, exactly as it came."""
    is_alone = len(message.blocks) == 1
    return "\n".join(_block_text(block, is_alone=is_alone) for block in message.blocks)


def _block_text(block: Block, *, is_alone: bool) -> str:
    match block:
        case ToolCall():
            return f"[call {block.name} {block.id}]\n{text_of(block)}"
        case ToolResult():
            text = "\n".join(_exact_text(part) for part in block.content)
            return text if is_alone else f"[result {block.call}]\n{text}"
        case _:
            return _exact_text(block)


def _exact_text(block: Block) -> str:
    """A block's own text; bytes that were shielded come back as the text they were."""
    if isinstance(block, Opaque) and block.data:
        return block.data.decode("utf-8", "surrogatepass")
    text = text_of(block)
    if text or isinstance(block, Text):
        return text
    return f"[{type(block).__name__.lower()}]"
