"""The names that an agent's next action needs, and whether a prompt still has them; and the text,
size and names of a message.

An action names things. Names seen before are its needs: *fresh* ones were seen within the last ten
messages, the others must have been remembered. The history does not depend on any policy, so it is
kept once per session. A message is `{"role", "content"}`, with `tool_calls` (`id`, `name`,
`arguments`) or `tool_call_id`; its text has each call's name and a line per argument. For all
policies, a token is four characters, and a message costs four tokens more. Neighbours: `policies`
count, `run` measures.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

RECENT = 10
PIECE_CHARS = 160
LINE_CHARS_READ = 4_000
LINES_MAX = 400


@dataclass
class Need:
    """One name in an action, with the lines that had it before, each with its neighbouring line."""

    name: str
    fresh: bool
    held: dict[str, str]
    telling: list[str]  # the lines that say something about the name


class History:
    """The lines that had each name, and the message in which it was seen last."""

    def __init__(self, known: set[str]) -> None:
        self.known = known  # names in the tool definitions
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
    """The part of a line that counts for a name: all of it, or the 160 characters around the
    name."""
    if len(line) <= PIECE_CHARS:
        return line
    middle = line.find(name) + len(name) // 2
    start = max(0, min(middle - PIECE_CHARS // 2, len(line) - PIECE_CHARS))
    return line[start : start + PIECE_CHARS]


class Prompt:
    """The text of a prompt, for looking up lines."""

    def __init__(self, text: str) -> None:
        self.text = text

    def holding(self, name: str) -> str:
        """The lines with the name. A piece of a line with the name can be nowhere else."""
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
    """The number of needs, and how many of them a policy's prompts met, in each sense of the
    word."""

    needed: int = 0
    tellable: int = 0  # needs with a telling line in the history
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
            # The line is recent, so it is near the end.
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


Message = dict[str, Any]

MESSAGE_TOKENS = 4
NAME_CHARS_MIN, NAME_CHARS_MAX = 4, 120
EXTENSIONS = (
    "py|js|ts|go|rs|c|h|cpp|java|rb|md|txt|json|yaml|yml|toml|cfg|ini|sh|html|css|sql|csv|xml|lock"
)

# The order matters: at a given position in the text, the first kind that matches counts.
_KINDS = {
    "path": r"[\w.-]*/[\w./-]*\w",
    "file": rf"\b\w+\.(?:{EXTENSIONS})\b",
    "snake": r"\b[A-Za-z]+_\w+\b",
    "camel": r"\b[A-Z]?[a-z]+[A-Z]\w+\b",
    "id": r"\b(?=\w*\d\w*[A-Za-z])\w+\b",
    "code": r"#?\b[A-Z]+\d+\b",
    "number": r"\b\d{4,}\b",
}
_NAME = re.compile("|".join(_KINDS.values()))
_WORD = re.compile(r"[A-Za-z]{3,}")


# --- text ---


def text_of(message: Message) -> str:
    parts = [message.get("content") or ""]
    for call in message.get("tool_calls") or ():
        # A call is recorded as a plain name with its arguments, and sent in the provider's own
        # shape.
        made = call.get("function") or call
        parts += [made.get("name", ""), argument_text(made.get("arguments"))]
    return "\n".join(parts)


def argument_text(arguments: Any) -> str:
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except ValueError:
            return str(arguments)
    if not isinstance(arguments, dict):
        return str(arguments or "")
    return "\n".join(f"{name}: {value}" for name, value in (arguments or {}).items())


def tokens_of_text(text: str) -> int:
    return len(text) // 4


def tokens_of_said(text: str) -> int:
    """The size of a message with this text."""
    return tokens_of_text(text) + MESSAGE_TOKENS


def tokens_of(message: Message) -> int:
    return tokens_of_said(text_of(message))


def tokens_of_all(messages: list[Message]) -> int:
    return sum(map(tokens_of, messages))


# --- names ---


def names_in(text: str) -> set[str]:
    """The specific things in the text: paths, files, identifiers, ids, long numbers."""
    found = (name.strip("./-") for name in _NAME.findall(text))
    return {name for name in found if NAME_CHARS_MIN <= len(name) <= NAME_CHARS_MAX}


def words_besides(text: str, name: str) -> int:
    """The number of words of three letters or more in the text, without the name."""
    return len(_WORD.findall(text.replace(name, " ")))


def is_telling(text: str, name: str) -> bool:
    """Whether the text says something about a name: it has at least three other words. A bare list
    says nothing."""
    return words_besides(text, name) >= 3


def telling_share(text: str) -> float:
    """The share of the text's characters in lines that say something about one of their names, or
    have three words."""
    lines = [line for line in map(str.strip, text.splitlines()) if line]
    told = sum(
        len(line)
        for line in lines
        if any(is_telling(line, name) for name in names_in(line) or ("\n",))
    )
    return told / max(1, sum(map(len, lines)))


def schema_words(messages: list[Message]) -> set[str]:
    """The names of tools and of their arguments. They are in the tool definitions, so nothing has
    to remember them."""
    words: set[str] = set()
    for message in messages:
        for call in message.get("tool_calls") or ():
            words.add(call.get("name", ""))
            if isinstance(call.get("arguments"), dict):
                words.update(call["arguments"])
    return words


def opening_of(messages: list[Message]) -> int:
    """The number of messages in the opening: everything up to and including the first request."""
    return next((at for at, one in enumerate(messages) if one["role"] == "user"), len(messages)) + 1
