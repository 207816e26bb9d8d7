"""Names: the specific things an agent speaks of (paths, files, identifiers, ids, numbers), and how likely each is
needed again.

Only about one name in thirteen is ever needed after a pause. What tells them apart is mostly how often the agent itself
used a name; then how long ago, in what company, and who else did. The weights were fitted on real sessions and rounded.
Neighbour: `lines` chooses the lines that hold the needed names.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain
from math import exp, log

NAME_CHARS_MIN, NAME_CHARS_MAX = 4, 120
NAMES_MAX = 20_000
MEMORY_MAX = 100_000

PATH, FILE, NUMBER, ID, SNAKE, CAMEL = range(6)

_tokens_of = re.compile(r"[\w./#-]{4,}").findall
_EXTENSIONS = frozenset(
    ["py", "js", "ts", "tsx", "jsx", "go", "rs", "c", "h", "cpp", "java", "rb", "md", "txt", "json", "yaml", "yml",
     "toml", "cfg", "ini", "sh", "html", "css", "sql", "csv", "xml", "lock"]
)  # fmt: skip
_CAMEL = re.compile(r"[A-Z]?[a-z]+[A-Z]\w+")
_DIGIT_THEN_LETTER = re.compile(r"\d\w*[A-Za-z]")
_LETTERS_THEN_DIGITS = re.compile(r"[A-Z]+\d+")


# --- names in text ------------------------------------------------------------------------------------------------


class _Memory(dict[str, tuple[str, ...]]):
    """The names in a token. Tokens come again and again, so each is looked at once."""

    def __missing__(self, token: str) -> tuple[str, ...]:
        if len(self) >= MEMORY_MAX:
            self.clear()
        # Most tokens are plain words, and seen to be that at once.
        plain = token.isalpha() and (token.islower() or token.istitle())
        names = () if plain else tuple(n for n in _found(token) if NAME_CHARS_MIN <= len(n) <= NAME_CHARS_MAX)
        self[token] = names
        return names


_names_in = _Memory()


def names_of(line: str) -> tuple[str, ...]:
    """The distinct names on a line, in order."""
    found: list[str] = []
    for token in _tokens_of(line):
        if names := _names_in[token]:
            found += names
    return tuple(dict.fromkeys(found)) if len(found) > 1 else tuple(found)


def _found(token: str) -> Iterable[str]:
    """The names in one token: a path whole, else its parts between dots and dashes that are names by themselves."""
    if "/" in token:
        yield token.strip("./-#")  # `/testbed` and `./terminal/...` are paths as well
        return
    for piece in token.replace("#", "-").split("-"):
        parts = [part for part in piece.split(".") if part]
        if len(parts) > 1 and parts[-1] in _EXTENSIONS:
            yield f"{parts[-2]}.{parts[-1]}"
            parts = parts[:-2]
        yield from (part for part in parts if is_name(part))


def is_name(word: str) -> bool:
    """Whether a word is a specific thing: an identifier, an id or a long number."""
    if word.isdigit():
        return len(word) >= 4
    if "_" in word.strip("_"):
        return True
    return bool(_CAMEL.fullmatch(word) or _DIGIT_THEN_LETTER.search(word) or _LETTERS_THEN_DIGITS.fullmatch(word))


def kind_of(name: str) -> int:
    if "/" in name:
        return PATH
    if "." in name:
        return FILE
    if name.isdigit():
        return NUMBER
    if "_" in name:
        return SNAKE
    return ID if _DIGIT_THEN_LETTER.search(name) or _LETTERS_THEN_DIGITS.fullmatch(name) else CAMEL


# --- need ---------------------------------------------------------------------------------------------------------

BASE = -0.3
OWN = 2.2  # times the part of the messages holding it that were the agent's own
LINES = 0.55  # per log(1 + lines that held it)
USER = 1.0  # a user message held it
AGE = -0.35  # per log(1 + messages since it was last seen)
FRESH, FRESH_MESSAGES = 1.0, 10  # seen just now; falls to nothing over so many messages
CROWD = -0.3  # per log(1 + names in the least crowded message that held it)
NOW = -0.55  # per log(messages so far): the more there is, the smaller each one's part
KINDS = (0.0, 0.5, -0.4, -0.4, 0.0, 0.15)

Row = list[int]  # messages of the agent, messages, lines, last position, least crowd, in a user message


class Needs:
    """Per name: who used it how often, when it was last seen, in what company."""

    def __init__(self) -> None:
        self.now = 0
        self.rows: dict[str, Row] = {}

    def observe(self, role: str, names: Sequence[tuple[str, ...]]) -> None:
        """One more message, given the names on each of its lines."""
        self.now += 1
        counts = Counter(chain.from_iterable(names))
        own, user, crowd, now = int(role == "assistant"), int(role == "user"), len(counts), self.now
        for name, lines in counts.items():
            row = self.rows.get(name)
            if row is None:
                self.rows[name] = [own, 1, lines, now, crowd, user]
                continue
            row[0] += own
            row[1] += 1
            row[2] += lines
            row[3] = now
            row[4] = min(row[4], crowd)
            row[5] |= user

    def recall(self, now: int, rows: dict[str, Row]) -> None:
        """Takes in what an earlier gist noted of the names it kept."""
        for name, row in rows.items():
            known = self.rows.get(name)
            if known is None or row[1] > known[1]:
                self.rows[name] = list(row)
        self.now = max(self.now, now)

    def noted(self, names: Iterable[str]) -> dict[str, Row]:
        """What a later gist should know of these names."""
        return {name: self.rows[name] for name in names if name in self.rows}

    def odds(self, names: Iterable[str]) -> dict[str, float]:
        """For each name the probability that it is needed again soon."""
        starts = [BASE + NOW * log(self.now + 1) + kind for kind in KINDS]
        return {name: self._odds(name, starts) for name in names}

    def _odds(self, name: str, starts: Sequence[float]) -> float:
        row = self.rows.get(name)
        if row is None:
            return 0.0
        own, held, lines, last, crowd, user = row
        age = self.now - last
        weight = starts[kind_of(name)] + OWN * own / held + LINES * log(1 + lines) + USER * user
        weight += AGE * log(1 + age) + FRESH * max(0.0, 1 - age / FRESH_MESSAGES) + CROWD * log(1 + crowd)
        return 1.0 / (1.0 + exp(-weight))
