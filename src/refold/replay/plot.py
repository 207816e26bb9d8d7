"""How full the page was, turn by turn, drawn with characters.

Columns are runs of turns, rows are shares of the largest page. refold's page is solid, what sending
everything would have taken is dotted, a mark under the axis is a turn at which refold compacted.
Neighbours: `run` has the turns, `edges.commands.replay` shows the lines.
"""

from __future__ import annotations

from collections.abc import Sequence

from refold.replay.run import ALL, OURS, Replayed, Turn

HEIGHT, WIDTH = 10, 72
UTF8, ASCII = ("█", "·", "▲", "│", "└", "─"), ("#", ".", "^", "|", "+", "-")


def plot(replayed: Replayed, *, width: int = WIDTH, is_utf8: bool = True) -> list[str]:
    """The lines of the drawing; none if there was no turn."""
    ours, whole = replayed.outcome(OURS).turns, replayed.outcome(ALL).turns
    if not ours:
        return []
    solid, dotted, mark, side, corner, floor = UTF8 if is_utf8 else ASCII
    columns = min(width, len(ours))
    pages, all_pages = _columns(ours, columns), _columns(whole, columns)
    top = max(*pages, *all_pages, 1)
    lines = []
    for row in range(HEIGHT, 0, -1):
        level = top * (row - 0.5) / HEIGHT
        drawn = [
            solid if page >= level else dotted if everything >= level else " "
            for page, everything in zip(pages, all_pages)
        ]
        lines.append(f"{_label(row, top):>9} {side}{''.join(drawn)}".rstrip())
    lines.append(f"{'0':>9} {corner}{floor * columns}")
    compacted = {
        (one.turn - 1) * columns // len(ours) for one in replayed.receipts if one.turn <= len(ours)
    }
    marks = "".join(mark if at in compacted else " " for at in range(columns))
    return [*lines, f"{'':>9}  {marks}".rstrip()] if compacted else lines


def _label(row: int, top: int) -> str:
    return f"{top * row // HEIGHT:,}" if row in (HEIGHT, HEIGHT // 2) else ""


def _columns(turns: Sequence[Turn], columns: int) -> list[int]:
    """The largest prompt in each run of turns."""
    largest = [0] * columns
    for at, turn in enumerate(turns):
        column = at * columns // len(turns)
        largest[column] = max(largest[column], turn.tokens)
    return largest
