"""Commands that show a file: `cat`, `head`, `tail`, `nl`, `sed -n`, alone or piped into one
another, and which lines.

Anything that shows other than a run of the file's lines is not a read. Neighbours: `shellwords`,
`shell`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from refold.ledger.shell_words import Simple, Word

END = 0  # as `last`: to the end of the file


class Effect(Struct, frozen=True):
    """What happens to one file. Lines `first` to `last`; a negative `first` counts from the end."""

    kind: str
    path: str
    first: int = 1
    last: int = END
    alone: bool = False


def piped_read(stages: list[Simple]) -> list[Effect]:
    """The files whose text a pipeline shows; filters that keep other than a run of lines end the
    certainty."""
    effects = _reads(stages[0])
    for stage in stages[1:]:
        cut = _cut(stage)
        if len(effects) != 1 or cut is None:
            return []
        effects = [_narrowed(effects[0], cut)]
    return effects


def _narrowed(effect: Effect, cut: tuple[int, int]) -> Effect:
    if effect.first == 1 and effect.last == END:
        return replace(effect, first=cut[0], last=cut[1])
    return effect if cut == (1, END) else replace(effect, alone=False)


def _reads(simple: Simple) -> list[Effect]:
    if simple.heredoc is not None or simple.name not in READERS:
        return []
    lines, files = READERS[simple.name](simple.arguments)
    if lines is None or not files or not all(word.sure and word.text != "-" for word in files):
        return []
    return [Effect("read", word.text, *lines, alone=True) for word in files if word.text]


def _cut(simple: Simple) -> tuple[int, int] | None:
    """The lines that a filter lets through."""
    if simple.name not in ("head", "tail", "sed", "cat", "nl"):
        return None
    lines, files = READERS[simple.name](simple.arguments)
    return lines if not files else None


Lines = tuple[int, int] | None
Parsed = tuple[Lines, list[Word]]


def _cat(words: Sequence[Word]) -> Parsed:
    return (1, END), [word for word in words if not word.text.startswith("-") or word.text == "-"]


def _nl(words: Sequence[Word]) -> Parsed:
    files: list[Word] = []
    takes_value = False
    for word in words:
        if takes_value:
            takes_value = False
        elif word.text.startswith("-"):
            takes_value = word.text in ("-b", "-w", "-s", "-v", "-n", "-i")
        else:
            files.append(word)
    return (1, END), files


_COUNT = re.compile(r"-(?:n|-lines=)?([+-]?\d{1,9})$")


def _counted(words: Sequence[Word]) -> tuple[str | None, list[Word]]:
    """The count of `head` or `tail` and the files; None as count if an option is not understood."""
    count, files, at = "10", [], 0
    while at < len(words):
        text = words[at].text
        if text in ("-n", "--lines") and at + 1 < len(words):
            at += 1
            count = words[at].text
        elif match := _COUNT.match(text):
            count = match.group(1)
        elif text.startswith("-") and text not in ("-q", "-v"):
            return None, []
        elif not text.startswith("-"):
            files.append(words[at])
        at += 1
    return count, files


def _head(words: Sequence[Word]) -> Parsed:
    count, files = _counted(words)
    known = count is not None and count.isdigit() and int(count) > 0
    return ((1, int(count)) if known and count else None), files


def _tail(words: Sequence[Word]) -> Parsed:
    count, files = _counted(words)
    if count is None or not count.lstrip("+-").isdigit() or int(count) == 0:
        return None, files
    return ((int(count), END) if count.startswith("+") else (-abs(int(count)), END)), files


_PRINT = re.compile(r"(\d{1,9})(?:,(\d{1,9}|\$))?p;?$")


def _sed(words: Sequence[Word]) -> Parsed:
    """`sed -n 'A,Bp' file`: anything else that sed can do is not a plain read."""
    rest = [word for word in words if word.text not in ("-n", "-e", "--quiet", "--silent", "-ne")]
    if len(rest) == len(words) or not rest or any(word.text.startswith("-") for word in rest):
        return None, []
    match = _PRINT.match(rest[0].text)
    if match is None:
        return None, rest[1:]
    first, last = int(match.group(1)), match.group(2)
    return (max(1, first), END if last == "$" else int(last or first)), rest[1:]


READERS: dict[str, Callable[[Sequence[Word]], Parsed]] = {
    "cat": _cat, "bat": _cat, "batcat": _cat, "less": _cat, "more": _cat, "type": _cat, "gc": _cat,
    "Get-Content": _cat, "nl": _nl, "head": _head, "tail": _tail, "sed": _sed,
}  # fmt: skip
