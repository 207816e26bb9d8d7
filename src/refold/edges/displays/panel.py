"""A conversation as a picture for a terminal, with or without colors: the window by part, its size
over time, the largest and pinned messages, and advice.

Lines are lists of texts and styled texts, never wider than the given columns. The window is a bar
of cells, dealt out by largest remainder, so they always fill it; every part has at least one cell
while there are enough. Without colors, each part has its own letter. The sparkline has positions by
`seq`, so a gap repeats the size before it, with a mark under every compaction. Neighbour:
`overview` has the parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

from refold.core.model import Span
from refold.display import number
from refold.edges.displays.overview import NAMES, REST, Overview, WindowPart
from refold.edges.displays.phrases import percent_of
from refold.edges.displays.wrap import Styled, fitted, harmless, padded, width
from refold.tokens.models import dollars

Text = str | tuple[str, str]
Line = list[Text]
Call = Callable[..., str]  # the written form of a command: its name, then its words

COLUMNS_MIN, COLUMNS_MAX = 20, 100
SQUARE = "■"
LEVELS = {"ok": "green", "warn": "yellow", "compact": "red", "critical": "red"}
PINS_SHOWN, TOOLS_SHOWN = 10, 3
TEXT_COLUMNS_MIN = 8
NARROW = 36  # columns; below, token counts are left out
PERCENT_MAX = 999


class Large(Struct, frozen=True, kw_only=True):
    """A large slot of the page."""

    seq: int
    last: int
    part: str
    tokens: int
    text: str
    is_pinned: bool = False
    is_request: bool = False


class Panel(Struct, frozen=True, kw_only=True):
    """The values of the picture."""

    overview: Overview
    model: str
    level: str
    warn_at: int
    compact_at: int
    parts: tuple[WindowPart, ...]
    history: tuple[tuple[int, int], ...]
    compactions: tuple[int, ...]
    largest: tuple[Large, ...]
    pins: tuple[int, ...]
    tools: tuple[tuple[str, int], ...] = ()
    has_color: bool = True


def panel_lines(shown: Panel, columns: int, call: Call) -> list[Line]:
    """The picture, in the given columns."""
    room = max(COLUMNS_MIN, min(columns, COLUMNS_MAX))
    return [
        *_heading(shown, room),
        [],
        *_window(shown, room),
        *_tools(shown, room, call),
        *_over_time(shown, room),
        *_largest(shown, room, call),
        [],
        *_next(shown, room, call),
    ]


def _heading(shown: Panel, room: int) -> Iterator[Line]:
    seen = shown.overview
    title = harmless(f"{seen.conversation}: {seen.title}")
    yield [("bold", fitted(title, room, "…"))]
    yield _fullness(shown, room)
    yield [("dim", fitted(_counts(shown), room, "…"))]


def _fullness(shown: Panel, room: int) -> Line:
    """`45.3% full, 7,255 / 16,000 tokens, MODEL`."""
    seen = shown.overview
    used = seen.recorded or seen.current
    full = f"{_share(used, seen.window)} full"
    model = harmless(shown.model or "unknown model")
    recorded = " as recorded" if seen.recorded else ""
    sizes = f", {used:,} / {seen.window:,} tokens{recorded}, {model}"
    return [(LEVELS.get(shown.level, "green"), full), fitted(sizes, room - len(full), "…")]


def _counts(shown: Panel) -> str:
    seen = shown.overview
    messages = number(sum(seen.messages.values()), "message")
    messages += f" and {seen.off_page:,} off the page" if seen.off_page else ""
    artifacts = number(sum(seen.artifacts.values()), "artifact")
    compactions = number(len(shown.compactions), "compaction")
    return f"{messages}, {artifacts}, {compactions}, {dollars(seen.cost)}"


def _window(shown: Panel, room: int) -> Iterator[Line]:
    yield [*bar(shown.parts, room, colors=shown.has_color)]
    yield [("dim", _thresholds(shown, room))]
    tenths = tenths_of(shown.parts)
    for part in shown.parts:
        yield _legend(part, tenths[part.name], room, colors=shown.has_color)


def tenths_of(parts: Sequence[WindowPart]) -> dict[str, int]:
    """The share of every part in tenths of a percent: all of them sum to 1000, and the page's parts
    to its fullness."""
    page = {part.name: part.tokens for part in parts if part.name not in REST}
    rest = {part.name: part.tokens for part in parts if part.name in REST}
    used, left = sum(page.values()), sum(rest.values())
    full = 1_000 * used // max(1, used + left) if left else 1_000
    divided = [*shares([*page.values()], full), *shares([*rest.values()], 1_000 - full)]
    return dict(zip([*page, *rest], divided, strict=True))


def _legend(part: WindowPart, tenths: int, room: int, *, colors: bool) -> Line:
    """One part: its color, its name, its size."""
    size = f"{tenths / 10:>5.1f}%"
    if room >= NARROW:
        size = f"{part.tokens:>11,} {size}"
    left = min(24, room - 3 - len(size))
    name = padded(fitted(NAMES[part.name], left, "…"), left)
    return [_square(part.name, colors=colors), f" {name} {size}"]


def _square(part: str, *, colors: bool) -> Text:
    """The mark of a part in a list."""
    style, cell = LOOKS[part].sign(colors=colors)
    return style, SQUARE if cell == "█" else cell


def _thresholds(shown: Panel, room: int) -> str:
    """The marks under the bar: the warning and the compaction."""
    window = max(1, shown.overview.window)
    compacts, warns = "^compacts", "^warns"
    last = max(0, min(room - len(compacts), room * shown.compact_at // window))
    first = room * shown.warn_at // window
    # If there is no room for both, the compaction's mark stays.
    before = " " * first + warns if first + len(warns) < last else ""
    return fitted(before.ljust(last) + compacts, room)


def _share(part: int, whole: int) -> str:
    return f"{1_000 * part // max(1, whole) / 10:.1f}%"


def _over_time(shown: Panel, room: int) -> Iterator[Line]:
    line = sparkline(shown.history, shown.overview.window, room)
    if not line:
        return
    yield []
    yield [("bold", fitted("Size over the conversation", room, "…"))]
    yield [("cyan", line)]
    if shown.compactions:
        first, last = shown.history[0][0], shown.history[-1][0]
        yield [("yellow", marks(shown.compactions, first, last, room))]
        noun = "compaction" if len(shown.compactions) == 1 else "compactions"
        yield [("yellow", "▲"), ("dim", f" {len(shown.compactions)} {noun}")]


def _largest(shown: Panel, room: int, call: Call) -> Iterator[Line]:
    if not shown.largest:
        return
    yield []
    yield [("bold", "Largest")]
    size = max(len(_handle(one)) for one in shown.largest)
    for one in shown.largest:
        share = percent_of(one.tokens, shown.overview.current)
        head = f" {_handle(one).ljust(size)} {one.tokens:>9,} {share:>3}% "
        square = _square(one.part, colors=shown.has_color)
        yield [square, *_item(head, harmless(one.text), _advice(one, call), room - 1)]


def _tools(shown: Panel, room: int, call: Call) -> Iterator[Line]:
    """The largest tools, and the command that shows all of them with their calls."""
    if not shown.tools:
        return
    yield []
    yield [("bold", "Tools"), ("dim", fitted(f" (all: {call('stats', '--tools')})", room - 5, "…"))]
    total = sum(tokens for _, tokens in shown.tools)
    largest = sorted(shown.tools, key=lambda one: -one[1])[:TOOLS_SHOWN]
    for name, tokens in largest:
        size = f"{tokens:>11,} {percent_of(tokens, total):>3}%"
        left = min(24, room - 3 - len(size))
        name = padded(fitted(harmless(name), left, "…"), left)
        yield [_square("tools", colors=shown.has_color), f" {name} {size}"]


def _handle(one: Large) -> str:
    return str(Span(one.seq, one.last))


def _item(head: str, text: str, advice: str, room: int) -> Line:
    """An item with its text and, if there is room for both, its advice."""
    left = room - len(head) - width(advice) - 2
    if left < TEXT_COLUMNS_MIN:
        return [fitted(f"{head}{text}", room, "…")]
    return [head, padded(fitted(text, left, "…"), left), ("dim", f"  {advice}")]


def _advice(one: Large, call: Call) -> str:
    """The commands for an item."""
    if one.is_pinned:
        return f"pinned; {call('pin', str(one.seq), '--off')}"
    if one.is_request:
        return "the latest request stays"
    if one.part == "summaries":
        # Without the #: in a shell it would begin a comment.
        return call("show", _handle(one).removeprefix("#"))
    return call("hide", str(one.seq))


def _next(shown: Panel, room: int, call: Call) -> Iterator[Line]:
    pins = ", ".join(f"#{seq}" for seq in shown.pins[:PINS_SHOWN])
    more = len(shown.pins) - PINS_SHOWN
    pinned = f"Pinned: {pins or 'nothing'}" + (f" and {more:,} more" if more > 0 else "")
    yield [fitted(pinned, room, "…")]
    todo, more_words = _todo(shown, call)
    whole = f"{todo}{more_words}"
    yield [("bold", "Next: "), fitted(whole if width(whole) <= room - 6 else todo, room - 6, "…")]


def _todo(shown: Panel, call: Call) -> tuple[str, str]:
    """The next step for the person, with more words if there is room."""
    left = shown.compact_at - shown.overview.current
    if shown.level == "ok":
        return "nothing", f"; {number(max(0, left), 'token')} until a compaction"
    if left > 0:
        return call("compact"), f" (by itself in {number(left, 'token')})"
    return call("compact"), ", or the next request does it"


def comparison_lines(before: int, after: int, window: int, columns: int) -> list[Line]:
    """The window before and after a compaction, as two bars."""
    room = max(COLUMNS_MIN, min(columns, COLUMNS_MAX))
    return [
        _measure("Before", before, window, room, "red"),
        _measure("After", after, window, room, "green"),
    ]


def meter(tokens: int, window: int, level: str, columns: int) -> Line:
    """The fullness of the window in one line."""
    room = max(COLUMNS_MIN, min(columns, COLUMNS_MAX))
    return _measure("Window", tokens, window, room, LEVELS.get(level, "green"))


def _measure(name: str, tokens: int, window: int, room: int, style: str) -> Line:
    size = f" {min(PERCENT_MAX, percent_of(tokens, window)):>3}%"
    if room >= NARROW:
        size += f" {tokens:>10,}"
    cells = room - 7 - len(size)
    filled = min(cells, round(cells * tokens / max(1, window)))
    return [f"{name:<7}", (style, "█" * filled), ("dim", "░" * (cells - filled)), size]


class PartStyle(Struct, frozen=True):
    """The style of a part: its color, its cell in color, and its cell without."""

    style: str
    cell: str
    letter: str

    def sign(self, *, colors: bool) -> Styled:
        """One cell of it."""
        return self.style, self.cell if colors else self.letter


# Free and reserve differ also without colors.
LOOKS = {
    "system": PartStyle("magenta", "█", "S"),
    "tools": PartStyle("blue", "█", "T"),
    "memory": PartStyle("bright_cyan", "█", "M"),
    "summaries": PartStyle("yellow", "█", "Z"),
    "user": PartStyle("green", "█", "U"),
    "assistant": PartStyle("cyan", "█", "A"),
    "outputs": PartStyle("red", "█", "O"),
    "free": PartStyle("dim", "░", "░"),
    "reserve": PartStyle("dim", "▒", "▒"),
}


LEFT = ("free", "reserve")


def bar(parts: Sequence[WindowPart], cells: int, *, colors: bool = True) -> list[Styled]:
    """The bar, part by part."""
    drawn: list[Styled] = []
    for part, count in zip(parts, _bar_counts(parts, cells), strict=True):
        style, cell = LOOKS[part.name].sign(colors=colors)
        drawn.append((style, cell * count))
    return [one for one in drawn if one[1]]


def _bar_counts(parts: Sequence[WindowPart], cells: int) -> list[int]:
    """The cells of each part. First the length of the page, which matches the marks below the bar;
    then its parts, however small, within that."""
    taken = [part.tokens for part in parts if part.name not in LEFT]
    rest = [part.tokens for part in parts if part.name in LEFT]
    reach = shares([sum(taken), *rest], cells)[0]
    # Only a page with fewer cells than parts is longer than its size.
    reach = min(cells, max(reach, sum(size > 0 for size in taken)))
    inside, outside = iter(dealt(taken, reach)), iter(dealt(rest, cells - reach))
    return [next(outside if part.name in LEFT else inside) for part in parts]


def dealt(sizes: Sequence[int], cells: int) -> list[int]:
    """Cells dealt out by size. A part that would have none takes one from the largest."""
    counts = shares(sizes, cells)
    if sum(size > 0 for size in sizes) <= cells:
        counts = [max(count, 1) if size else 0 for count, size in zip(counts, sizes, strict=True)]
    while sum(counts) > max(0, cells):
        counts[counts.index(max(counts))] -= 1
    return counts


def shares(sizes: Sequence[int], whole: int) -> list[int]:
    """A whole number divided by size, so that the parts sum to it: the remainder goes to those that
    lost most by rounding down."""
    total = sum(sizes)
    if not total or whole <= 0:
        return [0] * len(sizes)
    counts = [size * whole // total for size in sizes]
    order = sorted(range(len(sizes)), key=lambda at: -(sizes[at] * whole % total))
    for at in order[: whole - sum(counts)]:
        counts[at] += 1
    return counts


SPARKLINE_LEVELS = "▁▂▃▄▅▆▇█"
MARK = "▲"


def sparkline(history: Sequence[tuple[int, int]], whole: int, columns: int) -> str:
    """The largest size in every column, relative to a whole (the window). Empty if fewer than two
    sizes are known."""
    if len(history) < 2 or columns < 2:
        return ""
    largest = _columns(history, columns)
    steps = (
        min(len(SPARKLINE_LEVELS) - 1, size * len(SPARKLINE_LEVELS) // max(1, whole))
        for size in largest
    )
    return "".join(SPARKLINE_LEVELS[step] for step in steps)


def _columns(history: Sequence[tuple[int, int]], columns: int) -> list[int]:
    first, last = history[0][0], history[-1][0]
    found: dict[int, int] = {}
    for seq, tokens in history:
        column = column_of(seq, first, last, columns)
        found[column] = max(tokens, found.get(column, 0))
    sizes, latest = [], history[0][1]
    for column in range(columns):
        latest = found.get(column, latest)
        sizes.append(latest)
    return sizes


def column_of(seq: int, first: int, last: int, columns: int) -> int:
    """The column of a seq."""
    return min(columns - 1, max(0, (seq - first) * columns // max(1, last - first + 1)))


def marks(seqs: Sequence[int], first: int, last: int, columns: int) -> str:
    """A mark in every column that has one of the seqs."""
    marked = {column_of(seq, first, last, columns) for seq in seqs}
    return "".join(MARK if column in marked else " " for column in range(columns)).rstrip()
