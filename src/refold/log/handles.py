"""The originals behind a handle: `#41` is a message, `#41-58` a span, `art-…` an artifact.

Nothing expires automatically, and the error for an artifact that was cleaned up says so. A
summarized span has three levels: one line, the summary's text, and the messages themselves; for
other spans, the lower levels are the beginnings of the messages. Originals are streamed, so that
reading lines from the middle of a large one takes little memory. A handle is never a path.
Neighbours: the log below, `artifacts` and `engine.toolbox` above.
"""

from __future__ import annotations

import codecs
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from msgspec import Struct

from refold.checked import quoted
from refold.core.codec import decode
from refold.core.ids import ARTIFACT_ID
from refold.core.model import (
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
    is_cleanup,
)
from refold.core.shortened import summary_text, text_of
from refold.display import moment, nearest, one_line, whole_words
from refold.errors import Invalid, NotFound
from refold.log.log import Log, runs
from refold.log.stored_logs import artifact_of
from refold.patterns import regex
from refold.system import disk

LEVELS = ("line", "paragraph", "full")
LEVEL_CHARS = {"line": 200, "paragraph": 1_000}  # of a message without a summary
MOST = sys.maxsize
SPAN_EVENTS = 200
# After `artifact://`, even a malformed id counts as a reference.
_REFERENCE = regex(rf"artifact://(art-[0-9a-z]+)|(?<![\w-])({ARTIFACT_ID.pattern})(?![\w-])")
_SPAN = regex(r"#?(\d{1,15})(?:\s*-\s*#?(\d{1,15}))?")


class Unfolded(Struct, frozen=True, kw_only=True):
    """The originals behind a handle: readable as `text`, and exact as `messages` or `content`,
    unless only some lines were requested."""

    handle: str
    level: str
    text: str
    messages: tuple[Message, ...] = ()
    content: bytes = b""

    def __str__(self) -> str:
        return self.text


class Original(Struct, frozen=True, kw_only=True):
    """An original, found but not read yet. `texts` yields it piece by piece."""

    handle: str
    level: str
    texts: Iterator[str]
    artifact: Artifact | None = None


class Part(Struct, frozen=True, kw_only=True):
    """Some lines of an original, with the numbers of the first and last; `cut` is true if not all
    of them fit."""

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
    """The originals behind a handle, or their lines first to last (-1: the end). Raises NotFound,
    with the nearest handles, if the handle matches nothing."""
    source = original(log, artifacts, handle, level=level)
    if lines is not None:
        first, last = lines
        part = lines_between(source.texts, first, None if last == -1 else last)
        return Unfolded(handle=source.handle, level=source.level, text=part.text)
    if source.artifact is not None:
        content = b"".join(content_of(log, source.artifact))
        text = content.decode("utf-8", "replace")
        return Unfolded(handle=source.handle, level="full", text=text, content=content)
    if source.level != "full":
        return Unfolded(handle=source.handle, level=source.level, text="".join(source.texts))
    slots = log.originals(span_of(source.handle))
    messages = tuple(slot.message for slot in slots)
    text = "".join(_slot_texts(iter(slots)))
    return Unfolded(handle=source.handle, level="full", text=text, messages=messages)


def original(
    log: Log, artifacts: Sequence[Artifact], handle: str, *, level: str = "full"
) -> Original:
    """The original behind a handle. Reads only as much of the log as it takes to find it."""
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
        text = summary_text(summary)
        if level == "line":
            text = summary.line or text.split("\n", 1)[0]
        return Original(handle=str(span), level=level, texts=iter([text]))
    head = log.state.head
    if not 1 <= span.first <= span.last <= head:
        raise NotFound(f"there is no message in {span}", hint=f"the log goes from #1 to #{head}")
    if not any(_messages(log, span)):
        hint = "only messages can be unfolded: refold show ID --all lists every event"
        raise NotFound(f"{span} has no message", hint=hint)
    texts = _slot_texts(_messages(log, span), level)
    return Original(handle=str(span), level=level, texts=texts)


def references(text: str) -> list[str]:
    """The ids of artifacts in the text, as `artifact://art-…` or bare handles, each once, in order.
    They need not exist."""
    return list(dict.fromkeys(match[1] or match[2] for match in _REFERENCE.finditer(text)))


def span_of(handle: str) -> Span:
    """The span of a handle; Invalid if it is not the handle of a message or span."""
    match = _SPAN.fullmatch(handle)
    if match is None:
        hint = "handles look like #41, #41-58 or art-…"
        raise Invalid(f"{quoted(handle, 200)} is not a handle", hint=hint)
    first, last = match.groups()
    return Span(int(first), int(last or first))


def lines_between(
    texts: Iterable[str], first: int, last: int | None, *, skip: int = 0, most: int = MOST
) -> Part:
    """Lines `first` to `last`, counted from 1, of text that arrives in pieces; None means the end.
    Skips `skip` characters of them, and returns at most `most`."""
    if first < 1 or (last is not None and last < first):
        hint = "lines are counted from 1, and the first must not be after the last"
        raise Invalid(f"invalid lines: {first} to {last or 'the end'}", hint=hint)
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
    lines = at - is_ended  # the empty line after a final newline does not count
    if first > at:
        raise Invalid(f"there is no line {first}", hint=f"it has lines 1 to {lines}")
    return Part(text="".join(taken), first=first, last=max(first, lines))


def _artifact(artifacts: Sequence[Artifact], name: str) -> Artifact:
    by_id = {artifact.id: artifact for artifact in artifacts}
    if name in by_id:
        return by_id[name]
    near = ", ".join(nearest(name, by_id, limit=3))
    hint = f"nearest: {near}" if near else "refold artifact list ID shows the ids"
    raise NotFound(f"there is no artifact {quoted(name, 200)} in this conversation", hint=hint)


def content_of(log: Log, artifact: Artifact) -> Iterator[bytes]:
    """The bytes of an artifact. Raises NotFound if they are gone, with the time if they were
    cleaned up. Raises Corrupt before the first byte if the file has the wrong size: the digest
    is checked only at the end, which a partial read never reaches."""
    try:
        if path := log.store.location(artifact.digest):
            disk.check_size(path, artifact.size_bytes)
        yield from log.store.get(artifact.digest)
    except NotFound as error:
        at_ms = cleaned_ms(log, artifact)
        if not at_ms:
            raise
        size = f"{artifact.size_bytes:,} bytes of {quoted(artifact.name)}"
        what = f"{artifact.id} was cleaned up on {moment(at_ms)}: {size}"
        raise NotFound(what, hint="run the tool again") from error


def cleaned_ms(log: Log, artifact: Artifact) -> int:
    """The time of the artifact's last cleanup; 0 if there was none."""
    at_ms = 0
    for span in runs(log.state.artifacts):
        for event in log.read(span.first - 1, span.last):
            cleaned = artifact_of(event) if is_cleanup(event) else None
            if cleaned is not None and cleaned.digest == artifact.digest:
                at_ms = event.at_ms
    return at_ms


def _artifact_texts(log: Log, artifact: Artifact) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    for chunk in content_of(log, artifact):
        yield decoder.decode(chunk)
    yield decoder.decode(b"", True)


def _messages(log: Log, span: Span) -> Iterator[Slot]:
    """The original messages of a span, read a few at a time."""
    for first in range(span.first, span.last + 1, SPAN_EVENTS):
        yield from log.originals(Span(first, min(first + SPAN_EVENTS - 1, span.last)))


def _slot_texts(slots: Iterator[Slot], level: str = "full") -> Iterator[str]:
    """The text of each message, with headings if there are several."""
    first, second = next(slots), next(slots, None)
    if second is None:
        yield _at_level(body_text(first.message), level)
        return
    yield shown(first, level)
    between = "\n" if level == "line" else "\n\n"
    for slot in chain([second], slots):
        yield between + shown(slot, level)


def _at_level(text: str, level: str) -> str:
    """The beginning of a message at a level, with its full length if it is cut."""
    if level == "full":
        return text
    most, short = LEVEL_CHARS[level], one_line(text) if level == "line" else text
    if len(short) <= most:
        return short
    note = f" … ({len(text):,} characters)"
    return whole_words(short, most - len(note)).rstrip() + note


def summary_of(log: Log, span: Span) -> Summarize | None:
    """The newest summary of exactly this span in the log, whether or not it is on the page."""
    newest = None
    for event in log.read():
        edit = decode(event) if event.kind == "edit" else None
        if isinstance(edit, Summarize) and edit.span == span:
            newest = edit
    return newest


def shown(slot: Slot, level: str = "full") -> str:
    """A message with a heading, for a person to read."""
    text = _at_level(body_text(slot.message), level)
    between = " " if level == "line" else "\n"
    return f"#{slot.seq} {slot.message.role}:{between}{text}"


def body_text(message: Message) -> str:
    """The exact text of a message, with all its blocks."""
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
    """A block's own text. Text with lone surrogates was stored as bytes, and is decoded again."""
    if isinstance(block, Opaque) and block.data:
        return block.data.decode("utf-8", "surrogatepass")
    text = text_of(block)
    if text or isinstance(block, Text):
        return text
    return f"[{type(block).__name__.lower()}]"
