"""What a command is: a value that says what it takes, what it does, and how a person sees it.

`run` acts and gives a typed `Result`; it prints nothing. `show` prints that result on a `Screen`.
Whoever offers commands (a shell, a chat, a tool server) reads `arguments`, calls `run`, and either
calls `show` or encodes the result by `builtins_of`. Neighbours: `session` is what `run` is given,
the table of all commands is the package itself.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TextIO, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from refold.edges.commands import COMMANDS

if TYPE_CHECKING:
    from refold.edges.commands.session import Session

Part = str | tuple[str, str]  # a text, or a style and a text
Progress = Callable[[str, int, int], None]  # what is being done, how much is done, of how much

POSITIONAL = {"positional": True}  # `extra` of an argument that is given by its position
TEXT = {"positional": True, "takes_rest": True}  # the same for a text of several words


class Screen(Protocol):
    """Where a person reads: text is shown as it is and can never steer the terminal. `is_shell`
    says whether commands are given there as `refold undo ID`; else they are lines of a chat,
    `/undo`. Pictures are for a screen that `draws`, with or without colors."""

    out: TextIO
    is_shell: bool
    json_output: bool
    no_color: bool
    is_utf8: bool
    has_color: bool
    draws: bool

    @property
    def columns(self) -> int: ...
    @property
    def rows(self) -> int: ...
    @property
    def can_ask(self) -> bool: ...
    def call(self, name: str, conversation: str = "", *words: str) -> str: ...
    def line(self, *parts: Part, hang: int | None = None) -> None: ...
    def apart(self) -> AbstractContextManager[None]: ...
    def wipe(self) -> None: ...
    def text(self, text: Part) -> None: ...
    def block(self, text: str) -> None: ...
    def fields(self, pairs: Iterable[tuple[str, str]]) -> None: ...
    def table(self, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> None: ...
    def paged(self) -> AbstractContextManager[None]: ...
    def document(self, chunks: Iterable[bytes]) -> None: ...
    def note(self, text: str) -> None: ...
    def confirm(self, question: str, reason: str) -> None: ...
    def ask(self, question: str) -> bool: ...
    def secret(self, question: str) -> str | None: ...
    def progress(self, doing: str) -> AbstractContextManager[Progress | None]: ...


class Arguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a command takes. A field's `Meta` has its help (`description`), its bounds, and in
    `extra`: `positional`, `metavar`, `short` (a second, short name), `bare` (the value of an
    option that is given without one), `takes_rest` (a text up to the end of the line),
    `completes` (what kind of name is written there), `passes_on` (a command line of others)."""


class Result(Struct, frozen=True, kw_only=True):
    """What a command gives back. A field may be an iterator: then it is read once, while the
    session is still open."""

    @property
    def outcome(self) -> str:
        """How it ended: a code of `errors.OUTCOMES`."""
        return "ok"


class Document(Result, frozen=True, kw_only=True):
    """A result that is a document itself, to be written as it is."""

    chunks: Iterator[bytes]
    is_json: bool


class Pieces:
    """A long text in pieces, to be read once."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._texts = texts

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)


A = TypeVar("A", bound=Arguments)
R = TypeVar("R", bound=Result)


class Command(Struct, Generic[A, R], frozen=True, kw_only=True):
    """One command. `on` says what it works on: the session's conversation, its store, or
    neither. One that `reads` is given a store that refuses every write; one that `derives` writes
    nothing but what can be made again, and is given such a store where only reading is allowed."""

    name: str
    details: str = ""
    on: Literal["conversation", "store", "nothing"] = "conversation"
    reads: bool = False
    derives: bool = False
    arguments: type[A]
    run: Callable[[Session, A], R]
    show: Callable[[R, Screen], None]

    @property
    def summary(self) -> str:
        """What it does, in one line, as the table says."""
        return COMMANDS[self.name].summary

    def renamed(self, name: str) -> Command[A, R]:
        """The same command under another name of the table."""
        return replace(self, name=name)


def builtins_of(value: object) -> Any:
    """A result, or a part of one, as plain dicts and lists, with all its iterators read."""
    return msgspec.to_builtins(value, enc_hook=_whole)


def _whole(value: object) -> object:
    """What an iterator gives, in one piece; what stands encoded already, decoded."""
    if isinstance(value, Pieces):
        return "".join(value)
    if isinstance(value, msgspec.Raw):
        return json.loads(bytes(value))
    if isinstance(value, Iterator):
        return list(value)
    raise NotImplementedError(f"{type(value).__name__} cannot be encoded")
