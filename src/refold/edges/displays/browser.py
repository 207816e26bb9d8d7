"""One conversation as a page for a browser: how full it is and with what, its size over time, its
compactions, and every message, with folded ones behind a click.

The page has no script: folds are `details`, links lead inside the page, bars are drawn. No content
can become a tag, and invisible characters are shown as escapes. Messages come in the order of the
log; a message is on the page, whole or shortened, or inside a fold, which replaces a run of
messages and may have a text of its own. Pure: the items follow from events, the view and its
history. Neighbours: `overview` has the parts of the window, `replay.page` the document around it.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct

from refold.core.codec import decode
from refold.core.model import Event, Message, Slot, View
from refold.core.shortened import ERASED
from refold.display import cut, local_moment, number, one_line, visible
from refold.edges.displays.overview import NAMES, REST, WindowPart
from refold.edges.displays.panel import tenths_of
from refold.log.handles import body_text, span_of
from refold.log.message_history import Trace
from refold.log.message_states import Batch
from refold.replay.page import TEXT_BYTES_MAX, asset, behind, document, legend, room, safe

OFF = "not on the page"
_RESTORED = re.compile(r"restored to #(\d+)")


class Entry(Struct, frozen=True, kw_only=True):
    """One message. `shown` is its form on the page, if it differs."""

    seq: int
    at_ms: int
    role: str
    tokens: int
    text: str
    shown: str | None = None
    is_pinned: bool = False


class Written(Struct, frozen=True, kw_only=True):
    """A provider's own compaction: `heading` says who wrote it and its size, `text` is its readable
    part, and `rest` says for whom the text after it is."""

    heading: str
    text: str
    rest: str


class Folded(Struct, frozen=True, kw_only=True):
    """A run of messages off the page. `text` is the text in their place, if any, `tokens` its size,
    `why` the reason. `written` is the provider's compaction for its own models."""

    handle: str
    text: str
    tokens: int
    why: str
    entries: list[Entry]
    written: Written | None = None


Item = Entry | Folded


def timeline(
    events: Iterable[Event],
    view: View,
    history: Sequence[Trace],
    written: Mapping[int, Written] | None = None,
) -> list[Item]:
    """The messages among the events, with those off the page gathered in folds. `written` are
    providers' compactions, by the seq of their slot."""
    whole = {slot.seq: slot for slot in view.slots if not slot.standin}
    folds = _Folds(view, history, written or {})
    items: list[Item] = []
    for event in events:
        if event.kind != "message":
            continue
        entry = _entry(event, whole.get(event.seq), view)
        if event.seq in whole:
            items.append(entry)
            continue
        slot, why = folds.covering(event.seq)
        last = items[-1] if items else None
        if isinstance(last, Folded) and folds.goes_on(slot, why):
            last.entries.append(entry)
        else:
            items.append(folds.begun(slot, why, entry))
    return items


def _entry(event: Event, slot: Slot | None, view: View) -> Entry:
    body = decode(event)
    is_message = isinstance(body, Message)
    return Entry(
        seq=event.seq,
        at_ms=event.at_ms,
        role=body.role if isinstance(body, Message) else "erased",
        tokens=slot.tokens if slot else event.tokens,
        text=body_text(body) if isinstance(body, Message) else ERASED,
        shown=body_text(slot.message) if slot and slot.edits and is_message else None,
        is_pinned=event.seq in view.pins,
    )


class _Taking(NamedTuple):
    """The edit that took the messages from `first` to `last` off the page."""

    first: int
    last: int
    told: str


def _takings(trace: Trace) -> Iterator[_Taking]:
    target = _RESTORED.fullmatch(trace.action)
    if target is not None:
        yield _Taking(int(target[1]) + 1, trace.seq, f"taken back: {trace.action}")
    elif trace.handle and trace.block < 0:
        span = span_of(trace.handle)
        yield _Taking(span.first, span.last, _told(trace))


def _told(trace: Trace) -> str:
    reason = f": {trace.reason}" if trace.reason else ""
    return f"{trace.action} by {trace.by}{reason}"


class _Folds:
    """The folds of a page: which one a message is in, and why."""

    def __init__(
        self, view: View, history: Sequence[Trace], written: Mapping[int, Written]
    ) -> None:
        self._written = written
        self._slots = sorted((one for one in view.slots if one.standin), key=lambda one: one.seq)
        self._firsts = [slot.seq for slot in self._slots]
        live = [trace for trace in history if trace.live]
        self._edits = {trace.seq: _told(trace) for trace in live}
        self._takings = [one for trace in reversed(live) for one in _takings(trace)]
        self._told: set[int] = set()
        self._newest: tuple[Slot | None, str] = (None, "")

    def covering(self, seq: int) -> tuple[Slot | None, str]:
        """The slot that replaces a message, if any, and the edit that took it off the page."""
        at = bisect_right(self._firsts, seq) - 1
        slot = self._slots[at] if at >= 0 and seq <= self._slots[at].last else None
        if slot is not None:
            return slot, self._edits.get(slot.edits[0].seq, OFF)
        told = (one.told for one in self._takings if one.first <= seq <= one.last)
        return None, next(told, OFF)

    def goes_on(self, slot: Slot | None, why: str) -> bool:
        """Whether a message belongs to the same fold as the one before it."""
        return self._newest == (slot, why)

    def begun(self, slot: Slot | None, why: str, entry: Entry) -> Folded:
        """A fold with its first message; its text is shown once, however many pins divide it."""
        self._newest = (slot, why)
        is_new = slot is not None and slot.seq not in self._told
        if slot is not None:
            self._told.add(slot.seq)
        return Folded(
            handle=str(slot.span) if slot else "",
            text=body_text(slot.message) if slot and is_new else "",
            tokens=slot.tokens if slot and is_new else 0,
            why=why,
            entries=[entry],
            written=self._written.get(slot.seq) if slot and is_new else None,
        )


MARK = "<!-- refold conversation -->"
WIDE, HIGH = 1_000, 300
LINE_CHARS = 100
LARGEST = 10
WINDOWS_DRAWN = 3  # a larger window, in pages, would flatten the curve
Redact = Callable[[str], str]


class Browsed(Struct, frozen=True, kw_only=True):
    """The content of the page. `sizes` are the page sizes after events, `left_out` is the number of
    older messages without room."""

    conversation: str
    title: str
    facts: tuple[str, ...]
    window: int
    parts: tuple[WindowPart, ...]
    sizes: tuple[tuple[int, int], ...]
    batches: tuple[Batch, ...]
    items: list[Item]
    left_out: int = 0


def browser_page(shown: Browsed, redact: Redact) -> str:
    """The whole document."""
    title = redact(shown.title)
    texts = _Texts(shown.items, redact)
    body = "\n".join(
        (
            f"<h1>{safe(title)}</h1>",
            f"<p>{safe('; '.join((shown.conversation, *shown.facts)))}</p>",
            _window(shown),
            _curve(shown),
            _lists(shown, texts, redact),
            f"<main>{_left_out(shown)}{''.join(_item(one, texts) for one in shown.items)}</main>",
        )
    )
    style = asset("refold.replay", "document.css") + asset(__package__, "browser.css")
    return document(MARK, title, body, style=style)


# --- the window and its size over time ---


def _window(shown: Browsed) -> str:
    """The window by part, as a bar and as a table."""
    used = sum(part.tokens for part in shown.parts if part.name not in REST)
    name = f"{used:,} of {shown.window:,} tokens of the window are used"
    tenths = tenths_of(shown.parts)
    rows = "".join(_part_row(part, tenths[part.name]) for part in shown.parts)
    return (
        f'<svg class="parts" viewBox="0 0 {WIDE} 20" preserveAspectRatio="none" role="img"'
        f' aria-label="{name}">{"".join(_bar(shown.parts))}</svg>'
        f'<div class="wide"><table><tbody>{rows}</tbody></table></div>'
    )


def _bar(parts: Sequence[WindowPart]) -> Iterator[str]:
    """The parts beside each other, each as wide as its share."""
    whole = max(1, sum(part.tokens for part in parts))
    left = 0.0
    for part in parts:
        wide = WIDE * part.tokens / whole
        yield f'<rect class="part {part.name}" x="{left:.2f}" width="{wide:.2f}" height="20"/>'
        left += wide


def _part_row(part: WindowPart, tenths: int) -> str:
    square = f'<rect class="part {part.name}" width="1" height="1"/>'
    return (
        f'<tr><td><svg class="key" viewBox="0 0 1 1">{square}</svg>{NAMES[part.name]}</td>'
        f"<td>{part.tokens:,}</td><td>{tenths / 10:.1f}%</td></tr>"
    )


def _curve(shown: Browsed) -> str:
    """The size of the page over the log, with a vertical line for every applied compaction."""
    if len(shown.sizes) < 2:
        return ""
    most, last = max(1, *(tokens for _, tokens in shown.sizes)), max(1, shown.sizes[-1][0])
    is_near = shown.window <= WINDOWS_DRAWN * most
    top = max(most, shown.window) if is_near else most
    drawn = (_line("window", top, shown.window) if is_near else "") + _cuts(shown.batches, last)
    names = {"cut": "a compaction", "window": f"the window, {shown.window:,} tokens"}
    return (
        f'<svg viewBox="0 0 {WIDE} {HIGH}" preserveAspectRatio="none" role="img"'
        f' aria-label="The size of the page over {last:,} events, at most {most:,} tokens">'
        f'{drawn}<polyline class="curve ours" points="{_points(shown.sizes, top)}"/></svg>'
        f'<div class="axis"><span>#1</span><span>height: {top:,} tokens</span>'
        f"<span>#{last:,}</span></div>"
        f'<div class="legend">{legend(drawn, names)}</div>'
    )


def _points(sizes: Sequence[tuple[int, int]], top: int) -> str:
    """The corners of the curve; the last size is at the right."""
    last = max(1, sizes[-1][0])
    places = ((WIDE * seq / last, HIGH - HIGH * tokens / top) for seq, tokens in sizes)
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in places)


def _line(kind: str, top: int, tokens: int) -> str:
    """A horizontal line at a token count."""
    y = HIGH - HIGH * tokens / top
    return f'<line class="{kind}" x1="0" x2="{WIDE}" y1="{y:.1f}" y2="{y:.1f}"/>'


def _cuts(batches: Sequence[Batch], last: int) -> str:
    places = (WIDE * one.seq / last for one in batches if one.live)
    return "".join(
        f'<line class="cut" x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{HIGH}"/>' for x in places
    )


# --- links into the messages ---


def _lists(shown: Browsed, texts: _Texts, redact: Redact) -> str:
    entries = [one for one in shown.items if isinstance(one, Entry)]
    asked = [one for one in _entries(shown.items) if one.role == "user"]
    largest = sorted(entries, key=lambda one: -one.tokens)[:LARGEST]
    return (
        _behind(number(len(asked), "request"), [_link(one, texts) for one in asked])
        + _behind("the largest on the page", [_link(one, texts) for one in largest])
        + _receipts(shown.batches, redact)
    )


def _behind(heading: str, lines: Sequence[str]) -> str:
    return behind(heading, f"<ul>{''.join(lines)}</ul>") if lines else ""


def _link(entry: Entry, texts: _Texts) -> str:
    begin = cut(one_line(texts.whole(entry.text)), LINE_CHARS)
    size = number(entry.tokens, "token")
    return f'<li><a href="#m{entry.seq}">#{entry.seq}</a> {size}: {safe(begin)}</li>'


def _receipts(batches: Sequence[Batch], redact: Redact) -> str:
    """Every compaction: its position, its strategy, and its effect on the size."""
    heads = ("batch", "at", "when", "by", "edits", "tokens before", "after", "state")
    rows = [
        (one.id, f"#{one.seq}", local_moment(one.at_ms), redact(one.strategy), f"{one.edits:,}",
         f"{one.tokens_before:,}", f"{one.tokens_after:,}", "live" if one.live else "undone")
        for one in batches
    ]  # fmt: skip
    if not rows:
        return ""
    head = "".join(f"<th>{cell}</th>" for cell in heads)
    body = "".join(f"<tr>{''.join(f'<td>{safe(cell)}</td>' for cell in row)}</tr>" for row in rows)
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return behind(number(len(rows), "compaction"), f'<div class="wide">{table}</div>')


# --- the messages ---


def _entries(items: Sequence[Item]) -> Iterator[Entry]:
    for item in items:
        yield from (item,) if isinstance(item, Entry) else item.entries


class _Texts:
    """Texts without secrets, cut so that all of them fit."""

    def __init__(self, items: Sequence[Item], redact: Redact) -> None:
        self._redact = redact
        self._known: dict[str, str] = {}
        sizes = [len(safe(self.whole(text)).encode()) for text in _texts(items)]
        self._most = room(sizes) if sizes else TEXT_BYTES_MAX

    def whole(self, text: str) -> str:
        """The text without secrets."""
        if text not in self._known:
            self._known[text] = self._redact(text)
        return self._known[text]

    def html(self, text: str) -> str:
        """As much of the text as there is room for, and the number of characters left out."""
        said = visible(self.whole(text))
        size = len(safe(said).encode())
        if size <= self._most:
            return f"<pre>{safe(said)}</pre>"
        chars = max(1, len(said) * self._most // size)
        more = number(len(said) - chars, "more character")
        return f'<pre>{safe(said[:chars])}</pre><div class="role">... {more}</div>'


def _texts(items: Sequence[Item]) -> Iterator[str]:
    """Every text that is written into the page."""
    for item in items:
        if isinstance(item, Folded) and item.text:
            yield item.text
        if isinstance(item, Folded) and item.written:
            yield item.written.text
    for entry in _entries(items):
        yield entry.text
        if entry.shown is not None:
            yield entry.shown


def _left_out(shown: Browsed) -> str:
    if not shown.left_out:
        return ""
    return f"<p>{number(shown.left_out, 'older message')} are not in this file.</p>"


def _item(item: Item, texts: _Texts) -> str:
    return _fold(item, texts) if isinstance(item, Folded) else _said(item, texts)


def _said(entry: Entry, texts: _Texts) -> str:
    """A message on the page; the original is behind a click if the page differs."""
    if entry.shown is None:
        return _box(entry, entry.role, texts.html(entry.text))
    came = behind("as it came", texts.html(entry.text))
    inside = f'{texts.html(entry.shown)}<div class="fold">{came}</div>'
    return _box(entry, f"{entry.role}, shortened", inside)


def _box(entry: Entry, who: str, content: str) -> str:
    pinned = ", pinned" if entry.is_pinned else ""
    said = (
        f"#{entry.seq} {who}{pinned}, {number(entry.tokens, 'token')}, {local_moment(entry.at_ms)}"
    )
    kind = " user" if entry.role == "user" else ""
    return (
        f'<div class="said{kind}" id="m{entry.seq}"><div class="role">{safe(said)}'
        f"{_size(entry.tokens)}</div>{content}</div>\n"
    )


def _size(tokens: int) -> str:
    """A bar that grows with the size: one unit for every ten tokens, up to a thousand."""
    wide = min(100.0, max(0.5, tokens / 10))
    return (
        '<svg class="size" viewBox="0 0 100 4" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect width="{wide:.1f}" height="4"/></svg>'
    )


def _written(written: Written | None, texts: _Texts) -> str:
    """A provider's compaction for its own models, before the text for all others."""
    if written is None:
        return ""
    text = texts.html(written.text) if written.text else ""
    heading, rest = (
        f'<div class="role">{safe(line)}</div>' for line in (written.heading, written.rest)
    )
    return f"{heading}{text}{rest}"


def _fold(fold: Folded, texts: _Texts) -> str:
    """The text in place of messages, if any, and the messages, which a click shows."""
    stands = ""
    if fold.text:
        said = f"{fold.handle} on the page, {number(fold.tokens, 'token')}"
        stands = (
            f'<div class="said new"><div class="role">{safe(said)}{_size(fold.tokens)}</div>'
            f"{_written(fold.written, texts)}{texts.html(fold.text)}</div>"
        )
    count = number(len(fold.entries), "message")
    size = number(sum(entry.tokens for entry in fold.entries), "token")
    heading = f"{count} folded here, {size}: {cut(one_line(texts.whole(fold.why)), LINE_CHARS)}"
    inside = "".join(_box(entry, entry.role, texts.html(entry.text)) for entry in fold.entries)
    return f'{stands}<div class="fold">{behind(safe(heading), inside)}</div>\n'
