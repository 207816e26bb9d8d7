"""Names: the specific things in an agent's work (paths, files, identifiers, ids, numbers), and the
probability that each is needed again.

Only about one name in thirteen is ever needed after a pause. The best predictor is how often the
agent itself used a name; then how long ago, in what company, and who else did. The weights were
fitted on real sessions, made flatter, and rounded. Neighbours: `passages` finds the names on lines,
`choice` chooses the lines with the needed names.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from functools import lru_cache
from itertools import chain
from math import exp, log

from msgspec import Struct
from msgspec.structs import astuple

NAME_CHARS_MIN, NAME_CHARS_MAX = 4, 120
TOKENS_REMEMBERED = 20_000

PATH, FILE, NUMBER, ID, SNAKE, CAMEL = range(6)

# ASCII letters and digits are also in \w, but a set that lists them is matched by a single table
# lookup.
_TOKEN = re.compile(r"[A-Za-z0-9_./#\w-]{4,}")
_EXTENSIONS = frozenset(
    ["py", "js", "ts", "tsx", "jsx", "go", "rs", "c", "h", "cpp", "java", "rb", "md", "txt", "json",
     "yaml", "yml", "toml", "cfg", "ini", "sh", "html", "css", "sql", "csv", "xml", "lock"]
)  # fmt: skip
_CAMEL = re.compile(r"[A-Z]?[a-z]+[A-Z]\w+")
_DIGIT_THEN_LETTER = re.compile(r"\d\w*[A-Za-z]")
_LETTERS_THEN_DIGITS = re.compile(r"[A-Z]+\d+")


# --- names in text ---


def names_of(line: str) -> tuple[str, ...]:
    """The distinct names on a line, in order."""
    found: tuple[str, ...] = ()
    for names in map(_names_in, _TOKEN.findall(line)):
        if names:
            found += names
    return tuple(dict.fromkeys(found)) if len(found) > 1 else found


@lru_cache(maxsize=TOKENS_REMEMBERED)  # most tokens occur many times
def _names_in(token: str) -> tuple[str, ...]:
    """The distinct names in one token: the whole token if it is a path, else the names between dots
    and dashes; a file name includes its extension."""
    # Most tokens are plain words, and recognized at once.
    if token.isalpha() and (token.islower() or token.istitle()):
        return ()
    stripped = token.strip("./#-")
    is_path = "/" in token  # `/testbed` and `./terminal/...` are paths as well
    if is_path or stripped.replace("_", "a").isalnum():
        is_fitting = NAME_CHARS_MIN <= len(stripped) <= NAME_CHARS_MAX
        return (stripped,) if is_fitting and (is_path or is_name(stripped)) else ()
    names: dict[str, None] = {}
    for piece in stripped.replace("#", "-").split("-"):
        parts = [part for part in piece.split(".") if part]
        if len(parts) > 1 and parts[-1] in _EXTENSIONS:
            names[f"{parts[-2]}.{parts[-1]}"] = None
            parts = parts[:-2]
        names.update((part, None) for part in parts if is_name(part))
    return tuple(name for name in names if NAME_CHARS_MIN <= len(name) <= NAME_CHARS_MAX)


def is_name(word: str) -> bool:
    """Whether a word is a specific thing: an identifier, an id or a long number."""
    if word.isdigit():
        return len(word) >= 4
    if "_" in word.strip("_") or _DIGIT_THEN_LETTER.search(word):
        return True
    if word.islower():
        return False
    return bool(_CAMEL.fullmatch(word) or _LETTERS_THEN_DIGITS.fullmatch(word))


def kind_of(name: str) -> int:
    """The kind of a name, as far as its need depends on it."""
    if "/" in name:
        return PATH
    if "." in name:
        return FILE
    if name.isdigit():
        return NUMBER
    if "_" in name:
        return SNAKE
    if name.isalpha():
        return CAMEL
    return ID if _DIGIT_THEN_LETTER.search(name) or _LETTERS_THEN_DIGITS.fullmatch(name) else CAMEL


# --- need ---

BASE = -0.85
OWN = 1.75  # times the agent's share of the messages with the name
LINES = 0.45  # per log(1 + lines with it)
USER = 0.8  # if a user message has it
AGE = -0.28  # per log(1 + messages since it was last seen)
FRESH, FRESH_MESSAGES = 0.8, 10  # seen just now; falls to 0 over this number of messages
CROWD = -0.24  # per log(1 + names in the least crowded message with it)
NOW = -0.45  # per log(messages so far): the more there are, the smaller the share of each
KINDS = (0.0, 0.4, -0.3, -0.3, 0.0, 0.12)

Note = list[int]  # a row as a gist notes it


class Row(Struct, gc=False):
    """The use of a name. There are thousands of rows, so they are exempt from garbage
    collection."""

    own: int  # messages of the agent with it
    held: int  # messages with it
    lines: int
    last: int  # position of the last message with it
    crowd: int  # names in the least crowded message with it
    user: int  # 1 if a user message has it


class Needs:
    """The use of names: by whom, how often, how long ago, and in what company; of all names, or
    `only` of some."""

    def __init__(self, only: Set[str] | None = None) -> None:
        self.now = 0
        self.only = only
        self.rows: dict[str, Row] = {}

    def observe(self, role: str, names: Sequence[tuple[str, ...]]) -> None:
        """Counts one more message, given the names on each of its lines."""
        self.now += 1
        counts = Counter(chain.from_iterable(names))
        own, user = int(role == "assistant"), int(role == "user")
        crowd, now, rows = len(counts), self.now, self.rows
        for name in self._counted(counts):
            row = rows.get(name)
            if row is None:
                rows[name] = Row(own, 1, counts[name], now, crowd, user)
                continue
            row.own += own
            row.held += 1
            row.lines += counts[name]
            row.last = now
            if crowd < row.crowd:
                row.crowd = crowd
            row.user |= user

    def recall(self, now: int, notes: Mapping[str, Note]) -> None:
        """Takes in the notes of an earlier gist."""
        self.now = max(self.now, now)
        for name in self._counted(notes):
            row = Row(*notes[name])
            known = self.rows.get(name)
            if known is None or row.held > known.held:
                self.rows[name] = row

    def _counted(self, names: Mapping[str, object]) -> Iterable[str]:
        """The names, limited to `only`."""
        return names if self.only is None else names.keys() & self.only

    def noted(self, names: Iterable[str]) -> dict[str, Note]:
        """The rows of these names, as notes for a later gist."""
        known = [name for name in names if name in self.rows]
        return {name: list(astuple(self.rows[name])) for name in known}

    def odds(self, names: Iterable[str]) -> dict[str, float]:
        """The probability that each name is needed again soon."""
        base = BASE + NOW * log(self.now + 1)
        starts = [base + kind for kind in KINDS]
        return {name: self._odds(name, starts) for name in names}

    def _odds(self, name: str, starts: Sequence[float]) -> float:
        row = self.rows.get(name)
        if row is None:
            return 0.0
        use = OWN * row.own / row.held
        weight = starts[kind_of(name)] + use + LINES * log(1 + row.lines) + USER * row.user
        age = self.now - row.last
        fresh = FRESH * max(0.0, 1 - age / FRESH_MESSAGES)
        weight += AGE * log(1 + age) + fresh + CROWD * log(1 + row.crowd)
        return 1.0 / (1.0 + exp(-weight))
