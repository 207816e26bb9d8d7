"""The symbols that the demo draws with, and their plain forms for a terminal that has only ASCII.

`clean` keeps control characters from files and commands away from the terminal.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

_STYLES = {
    "warn": "yellow", "drop": "red", "refuse": "bold red", "fold": "bold green",
    "stub": "bold green",
    "right": "bold green", "wrong": "bold red",
}  # fmt: skip


class Symbols(Struct, frozen=True, kw_only=True):
    """One symbol per kind of event, and what meters are made of."""

    full: str = "█"
    empty: str = "░"
    arrow: str = "▸"
    rule: str = "│"
    yes: str = "✓"
    no: str = "✗"
    warn: str = "!"
    drop: str = "✗"
    refuse: str = "✗"
    fold: str = "◆"
    stub: str = "◆"
    unicode: bool = True

    def of(self, kind: str) -> tuple[str, str]:
        """The symbol and the style of an event."""
        symbol = {"right": self.yes, "wrong": self.no}.get(kind) or getattr(self, kind)
        return str(symbol), _STYLES[kind]

    def spelled(self, text: str) -> str:
        """The text as this terminal can show it."""
        if self.unicode:
            return text
        return text.replace("→", "->").replace("…", "...").encode("ascii", "replace").decode()

    @property
    def overflow(self) -> Literal["ellipsis", "crop"]:
        """How a line that is too long ends."""
        return "ellipsis" if self.unicode else "crop"


ASCII = Symbols(
    full="#",
    empty="-",
    arrow=">",
    rule="|",
    yes="+",
    no="x",
    drop="x",
    refuse="x",
    fold="*",
    stub="*",
    unicode=False,
)


def symbols_for(encoding: str) -> Symbols:
    """The symbols that an encoding can show."""
    return Symbols() if encoding.lower().startswith("utf") else ASCII


def clean(text: str) -> str:
    """The text on one line and without control characters."""
    return "".join(character if character.isprintable() else " " for character in text)
