"""A command line as its simple commands: words, redirections, here-documents, and what joins them.

Only what is certain is read: a command with substitutions, subshells, loops or unbalanced quotes is
not understood (None), and a word with a variable or a pattern in it is marked as unsure. One pass,
no backtracking, bounded length. Neighbour: `shell` says what the simple commands do to files.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from msgspec import Struct, field

LENGTH_MAX = 200_000
PIECES_MAX = 200


def names(text: str) -> frozenset[str]:
    """The names in a text, for tables that are easier to read without commas."""
    return frozenset(text.split())


CONTROL = names(
    "for while until if case select function do then else elif done fi esac { } ! [[ coproc eval exec trap source ."
)

_PLAIN = re.compile(r"[^\s'\"\\|&;<>()$`]+")
_DOUBLE = re.compile(r'"((?:[^"\\]++|\\.)*+)"', re.DOTALL)
_ESCAPED = re.compile(r'\\(["\\$`\n])')
_OPERATOR = re.compile(r"&&|\|\||\|&|&>>|&>|<<<|<<-|<<|>>|>\||>&|<&|;;|[|&;()<>]")
_PATTERN = re.compile(r"[*?\[{]")
REDIRECTIONS = frozenset({"&>>", "&>", "<<<", "<<-", "<<", ">>", ">|", ">&", "<&", "<", ">"})


class Word(NamedTuple):
    """A word without its quotes; not `sure` if the shell would still change it."""

    text: str
    sure: bool


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


class _NotUnderstood(Exception):
    """Raised inside this module only: the command is beyond what can be read with certainty."""


def simple_commands(text: str) -> list[Simple] | None:
    """The simple commands of a command line in order; None if it cannot be read with certainty."""
    if len(text) > LENGTH_MAX or "\x00" in text:
        return None
    try:
        return _Scanner(text).scanned()
    except _NotUnderstood:
        return None


class _Scanner:
    """Walks the text once. State: where it is, the command being built, here-documents whose
    bodies still come."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0
        self.done: list[Simple] = []
        self.current = Simple()
        self.pending: list[tuple[Simple, str, bool]] = []
        self.redirection: tuple[str, str] | None = None

    def scanned(self) -> list[Simple]:
        while self.at < len(self.text):
            char = self.text[self.at]
            if char == "\n":
                self._newline()
            elif char.isspace() or self.text.startswith("\\\n", self.at):
                self.at += 1 if char.isspace() else 2
            elif char == "#":
                self._comment()
            elif match := _OPERATOR.match(self.text, self.at):
                self._operator(match.group(), "")
            else:
                self._word()
        self._end("")
        return self.done

    def _comment(self) -> None:
        end = self.text.find("\n", self.at)
        self.at = end if end >= 0 else len(self.text)

    def _newline(self) -> None:
        self._end(";")
        self.at += 1
        for command, delimiter, dashed in self.pending:
            command.heredoc = self._body(delimiter, dashed)
        self.pending = []

    def _body(self, delimiter: str, dashed: bool) -> str:
        """The lines up to the one that is the delimiter; without one, all the rest, as the shell
        does it."""
        start = at = self.at
        while at < len(self.text):
            end = self.text.find("\n", at)
            end = end if end >= 0 else len(self.text)
            line = self.text[at:end]
            if (line.lstrip("\t") if dashed else line) == delimiter:
                self.at = end
                return self.text[start:at]
            at = end + 1
        self.at = len(self.text)
        return self.text[start:]

    def _operator(self, operator: str, fd: str) -> None:
        if operator in "()" or operator == ";;" or self.redirection:
            raise _NotUnderstood
        self.at += len(operator)
        if operator in REDIRECTIONS:
            self.redirection = (operator, fd)
        else:
            self._end(operator)

    def _end(self, operator: str) -> None:
        if self.redirection or len(self.done) > PIECES_MAX:
            raise _NotUnderstood
        if self.current.words or self.current.redirections:
            if self.current.name in CONTROL:
                raise _NotUnderstood
            self.done.append(self.current)
            self.current = Simple(joined=operator)
        elif operator in ("|", "&&", "||", "|&") or not self.current.joined:
            # A line may end in an operator: the newline behind it adds nothing.
            self.current.joined = operator or self.current.joined

    def _word(self) -> None:
        plain = _PLAIN.match(self.text, self.at)
        if plain and self.text[plain.end() : plain.end() + 1] in ("", " ", "\n"):
            # Most words are like this; the way below would give the same.
            self.at = plain.end()
            self._take(Word(plain.group(), not _PATTERN.search(plain.group())))
            return
        parts: list[str] = []
        sure, quoted = True, False
        while self.at < len(self.text):
            char = self.text[self.at]
            if char in " \t\r\f\v\n|&;<>()":
                break
            part, certain = self._part(char)
            parts.append(part)
            sure, quoted = sure and certain, quoted or char in "'\"\\"
        text = "".join(parts)
        operator = _OPERATOR.match(self.text, self.at)
        if text.isdigit() and not quoted and operator and operator.group() in REDIRECTIONS:
            self._operator(operator.group(), text)
        elif not parts:
            self.at += 1  # a space that only `str.isspace` knows
        else:
            self._take(Word(text, sure))

    def _part(self, char: str) -> tuple[str, bool]:
        if char == "'":
            return self._single(), True
        if char == '"':
            return self._double()
        if char == "`" or self.text.startswith(("$(", "${"), self.at):
            raise _NotUnderstood
        if char == "\\":
            self.at += 2
            return self.text[self.at - 1 : self.at].strip("\n"), True
        if char == "$":
            self.at += 1
            return "$", False
        match = _PLAIN.match(self.text, self.at)
        if match is None:
            raise _NotUnderstood
        self.at = match.end()
        return match.group(), not _PATTERN.search(match.group())

    def _single(self) -> str:
        end = self.text.find("'", self.at + 1)
        if end < 0:
            raise _NotUnderstood
        start, self.at = self.at + 1, end + 1
        return self.text[start:end]

    def _double(self) -> tuple[str, bool]:
        match = _DOUBLE.match(self.text, self.at)
        if match is None or "$(" in match.group() or "`" in match.group():
            raise _NotUnderstood
        self.at = match.end()
        inside = match.group(1)
        return _ESCAPED.sub(lambda m: m.group(1).strip("\n"), inside), "$" not in inside

    def _take(self, word: Word) -> None:
        if self.redirection is None:
            self.current.words.append(word)
            return
        operator, fd = self.redirection
        self.redirection = None
        if operator in ("<<", "<<-"):
            if not word.text:
                raise _NotUnderstood
            self.pending.append((self.current, word.text, operator == "<<-"))
        else:
            self.current.redirections.append(Redirection(operator, fd, word))
