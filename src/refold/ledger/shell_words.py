"""A command line as its simple commands: words, redirections, here-documents, and what joins them.

Only what is certain is read: a command with substitutions, subshells, loops or unbalanced quotes is
not understood (None), and a word with a variable or a pattern in it is marked as unsure. One pass,
no backtracking, bounded length. Neighbour: `shell` says what the simple commands do to files.

Commands that show a file: `cat`, `head`, `tail`, `nl`, `sed -n`, alone or piped into one
another, and which lines.

Anything that shows other than a run of the file's lines is not a read. Neighbours: `shell_words`,
`shell`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from refold.ledger.facts import FileKind

LENGTH_MAX = 200_000
PIECES_MAX = 200


def names(text: str) -> frozenset[str]:
    """The names in a text, for tables that are easier to read without commas."""
    return frozenset(text.split())


CONTROL = names(
    "for while until if case select function do then else elif done fi esac { } ! [[ coproc eval "
    "exec trap source ."
)

_PLAIN = re.compile(r"[^\s'\"\\|&;<>()$`]+")
_SINGLE = re.compile(r"'([^']*)'")
_DOUBLE = re.compile(r'"((?:[^"\\]++|\\.)*+)"', re.DOTALL)
_SUBSTITUTION = re.compile(r"\$\(|`")
_ESCAPED = re.compile(r'\\(["\\$`\n])')
_OPERATOR = re.compile(r"&&|\|\||\|&|&>>|&>|<<<|<<-|<<|>>|>\||>&|<&|;;|[|&;()<>]")
_PATTERN = re.compile(r"[*?\[{]")
_GROUPING = names("( ) ;;")
_JOINING = names("| && || |&")
_WORD_ENDS = " \t\r\f\v\n|&;<>()"
REDIRECTIONS = frozenset({"&>>", "&>", "<<<", "<<-", "<<", ">>", ">|", ">&", "<&", "<", ">"})


class Word(NamedTuple):
    """A word without its quotes; not `sure` if the shell would still change it."""

    text: str
    sure: bool

    @property
    def is_option(self) -> bool:
        return self.text.startswith("-")


class Redirection(NamedTuple):
    operator: str
    fd: str
    target: Word


class Simple(Struct):
    """One simple command. `joined` is the operator before it; `heredoc` the text that is fed to
    it."""

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
        return [word for word in self.words[1:] if not word.text.startswith("-")]


class _Here(NamedTuple):
    """A here-document whose lines still come."""

    command: Simple
    delimiter: str
    is_dashed: bool


class _NotUnderstood(Exception):
    """Raised inside this module only: the command is beyond what can be read with certainty."""


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
    """Walks the text once. State: where it is, the command being built, here-documents whose
    bodies still come."""

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
        """The lines up to the one that is the delimiter; without one, all the rest, as the shell
        does it."""
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
            self._keep_command(operator)
        elif operator in _JOINING or not self.current.joined:
            # A line may end in an operator: the newline after it adds nothing.
            self.current.joined = operator or self.current.joined

    def _keep_command(self, operator: str) -> None:
        if self.current.name in CONTROL:
            raise _NotUnderstood
        self.done.append(self.current)
        self.current = Simple(joined=operator)

    def _read_word(self) -> None:
        plain = _PLAIN.match(self.text, self.at)
        if plain and self.text[plain.end() : plain.end() + 1] in ("", " ", "\n"):
            # Most words are like this; the general way would give the same.
            self.at = plain.end()
            self._take(Word(plain[0], not _PATTERN.search(plain[0])))
            return
        start = self.at
        word = self._joined_parts()
        if self.at == start:
            self.at += 1  # a space that only `str.isspace` knows
            return
        operator = _OPERATOR.match(self.text, self.at)
        if operator and self._is_descriptor(start, word, operator[0]):
            self._read_operator(operator[0], word.text)
        else:
            self._take(word)

    def _joined_parts(self) -> Word:
        """The word that begins here: quoted and plain parts without anything between them."""
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

    def _is_descriptor(self, start: int, word: Word, operator: str) -> bool:
        """Whether a word is the number before a redirection, as in `2>`: quotes make it a word."""
        is_quoted = self.text[start : self.at] != word.text
        return operator in REDIRECTIONS and word.text.isdigit() and not is_quoted

    def _part(self, char: str) -> tuple[str, bool]:
        """A part of a word without its quotes, and whether the shell would leave it as it is."""
        if char == "'":
            return self._matched(_SINGLE)[1], True
        if char == '"':
            return self._double_quoted()
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

    def _double_quoted(self) -> tuple[str, bool]:
        inside = self._matched(_DOUBLE)[1]
        if _SUBSTITUTION.search(inside):
            raise _NotUnderstood
        return _ESCAPED.sub(_unescaped, inside), "$" not in inside

    def _matched(self, form: re.Pattern[str]) -> re.Match[str]:
        """What has this form at the place that is read, which moves after it."""
        match = form.match(self.text, self.at)
        if match is None:
            raise _NotUnderstood
        self.at = match.end()
        return match

    def _take(self, word: Word) -> None:
        """Adds a word to the command, or gives it to the redirection that waits for it."""
        if self.redirection is None:
            self.current.words.append(word)
            return
        operator, fd = self.redirection
        self.redirection = None
        if operator in ("<<", "<<-"):
            self._await_here(word.text, operator)
        else:
            self.current.redirections.append(Redirection(operator, fd, word))

    def _await_here(self, delimiter: str, operator: str) -> None:
        if not delimiter:
            raise _NotUnderstood
        is_dashed = operator == "<<-"
        self.pending.append(_Here(self.current, delimiter, is_dashed))


def _unescaped(match: re.Match[str]) -> str:
    """What an escape in double quotes stands for; an escaped newline for nothing."""
    char: str = match[1]
    return char.strip("\n")


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
