"""What an agent's next action needs of what came before, and whether a prompt still gives it.

An action names things. Those that were seen before are its needs: *fresh* ones were seen within the
last ten messages, the others must have been remembered. The history does not depend on any policy,
so it is kept once per session, and all policies are judged by the same needs.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from refold.replay.texts import Message, is_telling, names_in, text_of

RECENT = 10
PIECE_CHARS = 160
LINE_CHARS_READ = 4_000
LINES_MAX = 400


@dataclass
class Need:
    """One name that an action uses, with the lines that held it before, each with the line
    beside it."""

    name: str
    fresh: bool
    held: dict[str, str]
    telling: list[str]  # those of the lines that say something of the name


class History:
    """Which lines held each name, and in which message it was seen last."""

    def __init__(self, known: set[str]) -> None:
        self.known = known  # names that stand in the tool definitions
        self.last: dict[str, int] = {}
        self.held: dict[str, dict[str, str]] = {}

    def add(self, index: int, message: Message) -> None:
        lines = [line for line in map(str.strip, text_of(message).splitlines()) if line]
        for at, line in enumerate(lines):
            for name in names_in(line[:LINE_CHARS_READ]):
                self.last[name] = index
                held = self.held.setdefault(name, {})
                if len(held) < LINES_MAX:
                    held[piece_of(line, name)] = _beside(lines, at)

    def needs_of(self, index: int, action: Message) -> list[Need]:
        names = sorted(names_in(text_of(action)) - self.known)
        return [self._need(name, index) for name in names if name in self.last]

    def _need(self, name: str, index: int) -> Need:
        held, fresh = self.held[name], self.last[name] >= index - RECENT
        return Need(
            name, fresh, held, [] if fresh else [piece for piece in held if is_telling(piece, name)]
        )


def _beside(lines: list[str], at: int) -> str:
    """The line after, or before if there is none."""
    line = lines[at + 1] if at + 1 < len(lines) else lines[at - 1] if at else ""
    return line[:PIECE_CHARS]


def piece_of(line: str, name: str) -> str:
    """What of a line counts for a name: all of it, or the 160 characters around the name."""
    if len(line) <= PIECE_CHARS:
        return line
    middle = line.find(name) + len(name) // 2
    start = max(0, min(middle - PIECE_CHARS // 2, len(line) - PIECE_CHARS))
    return line[start : start + PIECE_CHARS]


class Prompt:
    """The text of a prompt, ready to be asked for lines."""

    def __init__(self, text: str) -> None:
        self.text = text

    def holding(self, name: str) -> str:
        """The lines that hold the name. A piece of a line that held it can be nowhere else."""
        text, lines, end = self.text, list[str](), 0
        while (at := text.find(name, end)) >= 0:
            start = text.rfind("\n", end, at) + 1 or end
            end = text.find("\n", at)
            if end < 0:
                end = len(text)
            lines.append(text[start:end])
        return "\n".join(lines)

    def has(self, line: str) -> bool:
        return line in self.text


@dataclass
class Recall:
    """How many needs there were, and how many of them a policy's prompts met, in each sense of
    the word."""

    needed: int = 0
    tellable: int = 0  # needs for which a telling line was ever seen
    rich: int = 0
    line: int = 0
    ref: int = 0
    around: int = 0
    fresh: int = 0
    fresh_met: int = 0
    parts: list[float] = field(default_factory=list)  # rich per session

    def weigh(self, prompt: Prompt, need: Need) -> None:
        if need.fresh:
            self.fresh += 1
            # It was said lately, so it stands near the end.
            self.fresh_met += prompt.text.rfind(need.name) >= 0
            return
        self.needed += 1
        self.tellable += bool(need.telling)
        if holding := prompt.holding(need.name):
            self.ref += 1
            self._weigh_lines(prompt, need, holding)

    def _weigh_lines(self, prompt: Prompt, need: Need, holding: str) -> None:
        met = [piece for piece in need.held if piece in holding]
        self.line += bool(met)
        self.rich += any(piece in holding for piece in need.telling)
        self.around += any(
            beside and prompt.has(beside) for beside in map(need.held.__getitem__, met)
        )
