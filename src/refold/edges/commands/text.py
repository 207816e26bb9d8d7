"""Texts that several commands read and write in the same way: counts (`number`), short lines, spans
of lines, damage, the way back."""

from __future__ import annotations

import re
from collections.abc import Mapping

from refold.checked import quoted
from refold.display import number as number
from refold.edges.commands.command import Screen
from refold.errors import Invalid

_LINES = re.compile(r"(\d{1,9})(?:-(\d{0,9}))?")


def short_line(text: str, most: int) -> str:
    """A text as a part of one line: line ends and tabs are shown, and a long text is cut."""
    shown = text.replace("\n", "\\n").replace("\t", "\\t")
    return shown if len(shown) <= most else shown[: most - 3] + "..."


def show_damage(damaged: Mapping[str, str], screen: Screen) -> None:
    """Says which conversations could not be read."""
    for id, reason in damaged.items():
        advice = f"{short_line(reason, 300)}; {screen.call('verify', '', id)} says more."
        screen.line(("red", f"{id} is damaged: "), advice)


def line_span(lines: str) -> tuple[int, int]:
    """`5`, `5-9` or `5-` as a first and last line; -1 is the end. Invalid for anything else."""
    found = _LINES.fullmatch(lines)
    if found is None:
        raise Invalid(
            f"--lines {quoted(lines, 40)} is not of the form 5-9, 5- or 5",
            hint="lines are counted from 1",
        )
    first, last = int(found[1]), found[2]
    if last is None:
        return first, first
    return first, int(last or -1)


def show_undo(
    conversation: str, screen: Screen, command: str = "undo", *, files: bool = False
) -> None:
    """Says how to take back what was done, to files as well."""
    words = ("--files",) if files else ()
    screen.line(("dim", f"Undo with: {screen.call(command, conversation, *words)}"))
