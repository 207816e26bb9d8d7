"""A command line split into simple commands: words, redirections, here-documents, and joining
operators; and the files that a pipeline of them shows.

Only unambiguous commands are read: one with substitutions, subshells, loops or unbalanced quotes is
not understood (None), and a word with a variable or a pattern in it is marked as uncertain. One
pass, no backtracking, bounded length. Reads are `cat`, `head`, `tail`, `nl`, `sed -n`, alone or
piped into one another; any output but a run of the file's lines is not a read. Neighbour: `shell`
has the effects of commands on files.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from refold.ledger.facts import FileKind
from refold.patterns import regex

LENGTH_MAX = 200_000
PIECES_MAX = 200
END = 0  # as `last`: to the end of the file


def names(text: str) -> frozenset[str]:
    """The names in the text, for tables that are easier to read without commas."""
    return frozenset(text.split())


CONTROL = names(
    "for while until if case select function do then else elif done fi esac { } ! [[ coproc eval "
    "exec trap source ."
)

_PLAIN = regex(r"[^\s'\"\\|&;<>()$`]+")
_SINGLE = regex(r"'([^']*)'")
_DOUBLE = regex(r'"((?:[^"\\]++|\\.)*+)"', re.DOTALL)
_SUBSTITUTION = regex(r"\$\(|`")
_ESCAPED = regex(r'\\(["\\$`\n])')
_OPERATOR = regex(r"&&|\|\||\|&|&>>|&>|<<<|<<-|<<|>>|>\||>&|<&|;;|[|&;()<>]")
_PATTERN = regex(r"[*?\[{]")
_GROUPING = names("( ) ;;")
_JOINING = names("| && || |&")
_WORD_ENDS = " \t\r\f\v\n|&;<>()"
OUTWARD = names("> >> >| &> &>>")
REDIRECTIONS = frozenset({"&>>", "&>", "<<<", "<<-", "<<", ">>", ">|", ">&", "<&", "<", ">"})


class Word(NamedTuple):
    """A word without its quotes; `sure` is False if the shell would still expand it."""

    text: str
    sure: bool

    @property
    def is_option(self) -> bool:
        return self.text.startswith("-")


class Redirection(NamedTuple):
    operator: str
    fd: str
    target: Word

    @property
    def writes_file(self) -> bool:
        return self.operator in OUTWARD and not self.target.text.startswith(("/dev/", "&"))


class Simple(Struct):
    """One simple command. `joined` is the operator before it; `heredoc` its input text."""

    joined: str = ""
    words: list[Word] = field(default_factory=list)
    redirections: list[Redirection] = field(default_factory=list)
    heredoc: str | None = None

    @property
    def name(self) -> str:
        return self.words[0].text if self.words else ""

    @property
    def arguments(self) -> list[Word]:
        return self.words[1:]

    @property
    def operands(self) -> list[Word]:
        """The arguments that are not options."""
        return [word for word in self.arguments if not word.is_option]

    @property
    def is_redirected(self) -> bool:
        """Whether its output does not go to the result."""
        return any(one.operator in OUTWARD and one.fd in ("", "1") for one in self.redirections)


class _Here(NamedTuple):
    """A here-document, before its lines are read."""

    command: Simple
    delimiter: str
    is_dashed: bool


class _NotUnderstood(Exception):
    """Raised inside this module only: the command cannot be read with certainty."""


def simple_commands(text: str) -> list[Simple] | None:
    """The simple commands of a command line in order; None if it cannot be read with certainty."""
    if len(text) > LENGTH_MAX or "\x00" in text:
        return None
    scanner = _Scanner(text)
    try:
        scanner.scan()
    except _NotUnderstood:
        return None
    return scanner.done


class _Scanner:
    """Walks the text once. State: the position, the current command, and the here-documents to
    read."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.done: list[Simple] = []
        self.current = Simple()
        self.pending: list[_Here] = []
        self.redirection: tuple[str, str] | None = None

    def scan(self) -> None:
        while self.at < len(self.text):
            char = self.text[self.at]
            if char == "\n":
                self._end_line()
            elif char.isspace():
                self.at += 1
            elif self.text.startswith("\\\n", self.at):
                self.at += 2
            elif char == "#":
                self.at = self._line_end(self.at)
            elif match := _OPERATOR.match(self.text, self.at):
                self._read_operator(match[0], "")
            else:
                self._read_word()
        self._end_command("")

    def _line_end(self, at: int) -> int:
        end = self.text.find("\n", at)
        return end if end >= 0 else len(self.text)

    def _end_line(self) -> None:
        self._end_command(";")
        self.at += 1
        for here in self.pending:
            here.command.heredoc = self._here_text(here)
        self.pending = []

    def _here_text(self, here: _Here) -> str:
        """The lines up to the delimiter; without one, all the rest, as in the shell."""
        start = at = self.at
        while at < len(self.text):
            end = self._line_end(at)
            line = self.text[at:end]
            if (line.lstrip("\t") if here.is_dashed else line) == here.delimiter:
                self.at = end
                return self.text[start:at]
            at = end + 1
        self.at = len(self.text)
        return self.text[start:]

    def _read_operator(self, operator: str, fd: str) -> None:
        if operator in _GROUPING or self.redirection:
            raise _NotUnderstood
        self.at += len(operator)
        if operator in REDIRECTIONS:
            self.redirection = (operator, fd)
        else:
            self._end_command(operator)

    def _end_command(self, operator: str) -> None:
        if self.redirection or len(self.done) > PIECES_MAX:
            raise _NotUnderstood
        if self.current.words or self.current.redirections:
            if self.current.name in CONTROL:
                raise _NotUnderstood
            self.done.append(self.current)
            self.current = Simple(joined=operator)
        elif operator in _JOINING or not self.current.joined:
            # A line may end in an operator: the newline after it adds nothing.
            self.current.joined = operator or self.current.joined

    def _read_word(self) -> None:
        plain = _PLAIN.match(self.text, self.at)
        if plain and self.text[plain.end() : plain.end() + 1] in ("", " ", "\n"):
            # A shortcut for most words.
            self.at = plain.end()
            self._take(Word(plain[0], not _PATTERN.search(plain[0])))
            return
        start = self.at
        word = self._joined_parts()
        if self.at == start:
            self.at += 1  # a space only by `str.isspace`
            return
        match = _OPERATOR.match(self.text, self.at)
        # The number before a redirection, as in `2>`; quotes would make it a word.
        is_number = word.text.isdigit() and self.text[start : self.at] == word.text
        if match and is_number and match[0] in REDIRECTIONS:
            self._read_operator(match[0], word.text)
        else:
            self._take(word)

    def _joined_parts(self) -> Word:
        """The word that begins here, of quoted and plain parts."""
        parts: list[str] = []
        sure = True
        while self.at < len(self.text):
            char = self.text[self.at]
            if char in _WORD_ENDS:
                break
            part, certain = self._part(char)
            parts.append(part)
            sure = sure and certain
        return Word("".join(parts), sure)

    def _part(self, char: str) -> tuple[str, bool]:
        """A part of a word without its quotes, and whether the shell would not expand it."""
        if char == "'":
            return self._matched(_SINGLE)[1], True
        if char == '"':
            inside = self._matched(_DOUBLE)[1]
            if _SUBSTITUTION.search(inside):
                raise _NotUnderstood
            return _ESCAPED.sub(_unescaped, inside), "$" not in inside
        if char == "\\":
            self.at += 2
            return self.text[self.at - 1 : self.at].strip("\n"), True
        if char == "`" or self.text.startswith(("$(", "${"), self.at):
            raise _NotUnderstood
        if char == "$":
            self.at += 1
            return "$", False
        text = self._matched(_PLAIN)[0]
        return text, not _PATTERN.search(text)

    def _matched(self, form: re.Pattern[str]) -> re.Match[str]:
        """The match of this form at the current position, which moves to its end."""
        match = form.match(self.text, self.at)
        if match is None:
            raise _NotUnderstood
        self.at = match.end()
        return match

    def _take(self, word: Word) -> None:
        """Adds a word to the command, or to the current redirection."""
        if self.redirection is None:
            self.current.words.append(word)
            return
        operator, fd = self.redirection
        self.redirection = None
        if operator not in ("<<", "<<-"):
            self.current.redirections.append(Redirection(operator, fd, word))
        elif word.text:
            self.pending.append(_Here(self.current, word.text, operator == "<<-"))
        else:
            raise _NotUnderstood


def _unescaped(match: re.Match[str]) -> str:
    """The character of an escape in double quotes; empty for a newline."""
    char: str = match[1]
    return char.strip("\n")


# --- reads ---

Lines = tuple[int, int]
WHOLE: Lines = (1, END)
Parsed = tuple[Lines | None, list[Word]]
"""The lines that a command shows, None if they are unknown, and its files."""


class Effect(Struct, frozen=True):
    """The effect on one file. Lines `first` to `last`; a negative `first` counts from the end."""

    kind: FileKind
    path: str
    first: int = 1
    last: int = END
    alone: bool = False


def piped_read(stages: list[Simple]) -> list[Effect]:
    """The files that a pipeline shows; empty after a filter whose output is not a run of lines."""
    effects = _files_shown(stages[0])
    for stage in stages[1:]:
        if len(effects) != 1 or stage.name not in ("head", "tail", "sed", "cat", "nl"):
            return []
        lines, files = READERS[stage.name](stage.arguments)
        if lines is None or files:
            return []
        effect = effects[0]
        if lines != WHOLE and (effect.first, effect.last) == WHOLE:
            effects = [replace(effect, first=lines[0], last=lines[1])]
        elif lines != WHOLE:
            effects = [replace(effect, alone=False)]
    return effects


def _files_shown(simple: Simple) -> list[Effect]:
    if simple.heredoc is not None or simple.name not in READERS:
        return []
    lines, files = READERS[simple.name](simple.arguments)
    if lines is None or not all(word.sure and word.text != "-" for word in files):
        return []
    return [Effect("read", word.text, *lines, alone=True) for word in files if word.text]


# --- the lines shown by each command ---

_COUNT = regex(r"-(?:n|-lines=)?([+-]?\d{1,9})$")
_POSITIVE = regex(r"0*[1-9]\d{0,17}\Z")
_NO_WORD = Word("", True)
_PRINT = regex(r"(\d{1,9})(?:,(\d{1,9}|\$))?p;?$")


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
    """The count of `head` or `tail` and the files; no count after an unknown option."""
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
    """`sed -n 'A,Bp' file`, `5p` or `5,$p`: any other script is not a plain read."""
    rest = [word for word in words if word.text not in ("-n", "-e", "--quiet", "--silent", "-ne")]
    if len(rest) == len(words) or not rest or any(word.is_option for word in rest):
        return None, []
    match = _PRINT.match(rest[0].text)
    if match is None:
        return None, rest[1:]
    first, last = int(match[1]), match[2]
    return (max(1, first), END if last == "$" else int(last or first)), rest[1:]


READERS: dict[str, Callable[[Sequence[Word]], Parsed]] = {
    **dict.fromkeys(("cat", "bat", "batcat", "less", "more", "type", "gc", "Get-Content"), _cat),
    "nl": _nl,
    "head": _head,
    "tail": _tail,
    "sed": _sed,
}
