"""Commands that show a file: `cat`, `head`, `tail`, `nl`, `sed -n`, alone or piped into one
another, and which lines.

Anything that shows other than a run of the file's lines is not a read. Neighbours: `shell_words`,
`shell`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from refold.ledger.kinds import FileKind
from refold.ledger.shell_words import Simple, Word

END = 0  # as `last`: to the end of the file

Lines = tuple[int, int]
WHOLE: Lines = (1, END)
Parsed = tuple[Lines | None, list[Word]]
"""The lines that a command shows, None if they are not known, and the files it is given."""


class Effect(Struct, frozen=True):
    """What happens to one file. Lines `first` to `last`; a negative `first` counts from the end."""

    kind: FileKind
    path: str
    first: int = 1
    last: int = END
    alone: bool = False


def piped_read(stages: list[Simple]) -> list[Effect]:
    """The files whose text a pipeline shows; filters that keep other than a run of lines end the
    certainty."""
    effects = _files_shown(stages[0])
    for stage in stages[1:]:
        lines = _lines_passed(stage)
        if len(effects) != 1 or lines is None:
            return []
        effects = [_narrowed(effects[0], lines)]
    return effects


def _narrowed(effect: Effect, lines: Lines) -> Effect:
    """A read of which a filter shows only these lines."""
    if lines == WHOLE:
        return effect
    if effect.first == 1 and effect.last == END:
        return replace(effect, first=lines[0], last=lines[1])
    return replace(effect, alone=False)


def _files_shown(simple: Simple) -> list[Effect]:
    if simple.heredoc is not None or simple.name not in READERS:
        return []
    lines, files = READERS[simple.name](simple.arguments)
    if lines is None or not all(word.sure and word.text != "-" for word in files):
        return []
    return [Effect("read", word.text, *lines, alone=True) for word in files if word.text]


def _lines_passed(simple: Simple) -> Lines | None:
    """The lines that a filter lets through; None if it is not a filter of lines."""
    if simple.name not in ("head", "tail", "sed", "cat", "nl"):
        return None
    lines, files = READERS[simple.name](simple.arguments)
    return lines if not files else None


# --- what each command shows ---

_COUNT = re.compile(r"-(?:n|-lines=)?([+-]?\d{1,9})$")
_POSITIVE = re.compile(r"0*[1-9]\d{0,17}\Z")
_NO_WORD = Word("", True)
_PRINT = re.compile(r"(\d{1,9})(?:,(\d{1,9}|\$))?p;?$")


def _cat(words: Sequence[Word]) -> Parsed:
    """Everything; `-` is the standard input."""
    files = [word for word in words if not word.is_option or word.text == "-"]
    return WHOLE, files


def _nl(words: Sequence[Word]) -> Parsed:
    files: list[Word] = []
    takes_value = False
    for word in words:
        if takes_value:
            takes_value = False
        elif word.is_option:
            takes_value = word.text in ("-b", "-w", "-s", "-v", "-n", "-i")
        else:
            files.append(word)
    return WHOLE, files


def _head(words: Sequence[Word]) -> Parsed:
    count, files = _counted(words)
    lines = (1, int(count)) if _POSITIVE.match(count) else None
    return lines, files


def _tail(words: Sequence[Word]) -> Parsed:
    count, files = _counted(words)
    if not _POSITIVE.match(count.lstrip("+-")):
        return None, files
    number = int(count.lstrip("+-"))
    return (number if count.startswith("+") else -number, END), files


def _counted(words: Sequence[Word]) -> tuple[str, list[Word]]:
    """The count of `head` or `tail` and the files; no count if an option is not understood."""
    count = "10"
    files: list[Word] = []
    rest = iter(words)
    for word in rest:
        if word.text in ("-n", "--lines"):
            count = next(rest, _NO_WORD).text
        elif match := _COUNT.match(word.text):
            count = match[1]
        elif not word.is_option:
            files.append(word)
        elif word.text not in ("-q", "-v"):
            return "", []
    return count, files


def _sed(words: Sequence[Word]) -> Parsed:
    """`sed -n 'A,Bp' file`: anything else that sed can do is not a plain read."""
    rest = [word for word in words if word.text not in ("-n", "-e", "--quiet", "--silent", "-ne")]
    if len(rest) == len(words) or not rest or any(word.is_option for word in rest):
        return None, []
    return _printed_lines(rest[0].text), rest[1:]


def _printed_lines(script: str) -> Lines | None:
    """The lines of a sed script that only prints: `5p`, `5,9p`, `5,$p`."""
    match = _PRINT.match(script)
    if match is None:
        return None
    first, last = int(match[1]), match[2]
    return max(1, first), END if last == "$" else int(last or first)


READERS: dict[str, Callable[[Sequence[Word]], Parsed]] = {
    **dict.fromkeys(("cat", "bat", "batcat", "less", "more", "type", "gc", "Get-Content"), _cat),
    "nl": _nl,
    "head": _head,
    "tail": _tail,
    "sed": _sed,
}
