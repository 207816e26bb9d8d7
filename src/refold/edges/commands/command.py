"""What a command is: a function that acts, its arguments, and a result that shows itself.

`@command` declares a function; its keyword-only parameters become `Command.arguments`, which a door
(shell or chat) reads as `Parameter`s: a flag, a repeated one (tuple), a choice (Literal), a number
in a range or a text. Also here: options that several commands share, short texts they print in the
same way, and how a person writes a position in the log (`41`, `#41`, a checkpoint's name; a name
wins over a number). Neighbours: the function is given a `session`, the package has the table.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cache
from inspect import signature
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Generic,
    Literal,
    Protocol,
    TextIO,
    TypeVar,
    get_type_hints,
)

import msgspec
from msgspec import NODEFAULT, Meta, Struct, field, inspect
from msgspec.structs import asdict

from refold.checked import quoted
from refold.core.model import ADOPTED, BY_HAND, CLEARED, MADE_ROOM, NATIVE, Role, View
from refold.display import nearest
from refold.display import number as number
from refold.edges.commands import COMMANDS
from refold.errors import Invalid, NotFound

if TYPE_CHECKING:
    from refold.edges.commands.session import Session

Part = str | tuple[str, str]  # a text, or a style and a text
Progress = Callable[[str, int, int], None]  # what is being done, how much is done, of how much

# Options that several commands take: the same name and the same help, declared once.
Yes = Annotated[bool, Meta(description="Do not ask.")]
DryRun = Annotated[bool, Meta(description="Say what would be done, and change nothing.")]
Limit = Annotated[int, Meta(description="At most this many.", ge=1, le=20_000)]
Window = Annotated[int, Meta(description="The model's window, in tokens.", ge=1, le=100_000_000)]
Lines = Annotated[str, Meta(description="Only these lines, from 1.", extra={"metavar": "A-B"})]
OnlyRole = Annotated[Role, Meta(description="Only messages of this role.")]
Force = Annotated[bool, Meta(description="Replace FILE if it exists.")]
Scope = Annotated[str, Meta(description="Whose memory: project, user or agent.NAME.")]
Project = Annotated[str, Meta(description="The folder of the project; by default this one.")]
Tag = Annotated[str, Meta(description="A tag.")]
Tags = Annotated[tuple[str, ...], Meta(description="A tag; may be repeated.")]
FORMAT = Meta(description="How the result is printed.")  # of a Literal with the command's forms

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
    `completes` (what kind of name is written there), `passes_on` (another program's line)."""


class Result(Struct, frozen=True, kw_only=True):
    """What a command gives back. A field may be an iterator: then it is read once, while the
    session is still open."""

    @property
    def outcome(self) -> str:
        """How it ended: a code of `errors.OUTCOMES`."""
        return "ok"

    def show(self, screen: Screen) -> None:
        """Prints the result for a person."""
        raise NotImplementedError(f"{type(self).__name__} does not say how it is shown")


class Document(Result, frozen=True, kw_only=True):
    """A result that is a document itself, to be written as it is."""

    chunks: Iterator[bytes]
    is_json: bool

    def show(self, screen: Screen) -> None:
        screen.document(self.chunks)


class Pieces:
    """A long text in pieces, to be read once."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._texts = texts

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)


A = TypeVar("A", bound=Arguments)
R = TypeVar("R", bound=Result)


On = Literal["conversation", "either", "store", "nothing"]


class Command(Struct, Generic[A, R], frozen=True, kw_only=True):
    """One command. `on` says what it works on: the session's conversation, a conversation if one
    is named and else the store (`either`), the store, or nothing. One that `reads` gets a store
    that refuses every write, unless one of the options in `writes_with` is given; one that
    `derives` writes only what can be made again, and gets such a store where it may only read."""

    name: str
    details: str = ""
    on: On = "conversation"
    reads: bool = False
    writes_with: tuple[str, ...] = ()
    derives: bool = False
    arguments: type[A]
    run: Callable[[Session, A], R]
    show: Callable[[R, Screen], None]

    @property
    def summary(self) -> str:
        """What it does, in one line, as the table says."""
        return COMMANDS[self.name].summary

    def is_read_only(self, arguments: A) -> bool:
        """Whether it only reads, with these arguments."""
        return self.reads and not any(getattr(arguments, name) for name in self.writes_with)


# Commands of the modules imported so far; each is made when it is first loaded.
DECLARED: dict[str, Callable[[], Command[Any, Any]]] = {}
Function = TypeVar("Function", bound=Callable[..., Result])


def command(
    name: str,
    *,
    details: str = "",
    on: On = "conversation",
    reads: bool = False,
    writes_with: tuple[str, ...] = (),
    derives: bool = False,
) -> Callable[[Function], Function]:
    """Declares a function as the command `name`: its keyword-only parameters are the command's
    arguments, and its result shows itself. The function stays an ordinary function."""

    def declare(function: Function) -> Function:
        @cache
        def declared() -> Command[Any, Any]:
            return Command(
                name=name,
                details=details,
                on=on,
                reads=reads,
                writes_with=writes_with,
                derives=derives,
                arguments=signature_arguments(function),
                run=lambda session, arguments: function(session, **asdict(arguments)),
                show=lambda result, screen: result.show(screen),
            )

        DECLARED[name] = declared
        return function

    return declare


def signature_arguments(function: Callable[..., Any]) -> type[Arguments]:
    """The keyword-only parameters of a function, as a struct. A parameter named like `in_`, because
    `in` is a word of Python, is the argument `in`."""
    hints = get_type_hints(function, include_extras=True)
    fields: list[Any] = []
    for one in signature(function).parameters.values():
        if one.kind is one.KEYWORD_ONLY:
            default = NODEFAULT if one.default is one.empty else one.default
            argument = field(name=one.name.rstrip("_"), default=default)
            fields.append((one.name, hints[one.name], argument))
    struct = msgspec.defstruct(
        function.__name__, fields, bases=(Arguments,), frozen=True, kw_only=True
    )
    assert issubclass(struct, Arguments)
    return struct


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


Kind = Literal["flag", "text", "choice", "int", "float"]


class Taking(Protocol):
    """A command to be read, completed or explained: one of the table, or one of the chat's own."""

    @property
    def name(self) -> str: ...
    @property
    def summary(self) -> str: ...
    @property
    def details(self) -> str: ...
    @property
    def on(self) -> str: ...
    @property
    def arguments(self) -> type[Arguments]: ...


class Parameter(Struct, frozen=True, kw_only=True):
    """One thing that a command takes. `option` is its name in a line, empty if its place says
    what it is. `takes_rest` is a text of several words, up to the end of the line. `bare` is its
    value where it is given without one, None if it must have one. `completes` says what kind of
    name is written there (`file`, `folder`, `artifact`, ...). With `passes_on`, the first word and
    all after it are somebody else's command line."""

    name: str
    option: str = ""
    short: str = ""
    metavar: str = ""
    help: str = ""
    kind: Kind = "text"
    choices: tuple[str, ...] = ()
    least: float | None = None
    most: float | None = None
    is_many: bool = False
    is_required: bool = False
    default: Any = None
    takes_rest: bool = False
    bare: str | None = None
    completes: str = ""
    passes_on: bool = False

    @property
    def shown(self) -> str:
        """How a usage line names it: `ID`, `[NAME]...`, `--limit N`."""
        if self.option:
            value = self.metavar or ("TEXT" if self.kind == "text" else "N")
            return self.option if self.kind == "flag" else f"{self.option} {value}"
        name = self.metavar if self.is_required else f"[{self.metavar}]"
        return f"{name}..." if self.is_many or self.takes_rest else name


def parameters_of(command: Taking) -> tuple[Parameter, ...]:
    """What the command takes, in the order in which places are filled."""
    info = inspect.type_info(command.arguments)
    assert isinstance(info, inspect.StructType)
    return tuple(map(_parameter, info.fields))


def _parameter(field: inspect.Field) -> Parameter:
    kind, help_text, extra = _plain(field.type)
    is_many = isinstance(kind, inspect.VarTupleType)
    item = kind.item_type if isinstance(kind, inspect.VarTupleType) else kind
    option = "" if extra.get("positional") else f"--{field.encode_name.replace('_', '-')}"
    fallback = field.encode_name.upper() if not option else ""
    return Parameter(
        name=field.name,
        option=option,
        short=str(extra.get("short", "")),
        metavar=str(extra.get("metavar", fallback)),
        help=help_text,
        is_many=is_many,
        is_required=field.required,
        default=None if field.default is NODEFAULT else field.default,
        takes_rest=bool(extra.get("takes_rest")),
        bare=extra.get("bare"),
        completes=str(extra.get("completes", "")),
        passes_on=bool(extra.get("passes_on")),
        **_values(item),
    )


def _plain(kind: inspect.Type) -> tuple[inspect.Type, str, Mapping[str, Any]]:
    """The type without None, its help, and what else its `Meta` says."""
    if isinstance(kind, inspect.UnionType):
        [kind] = [one for one in kind.types if not isinstance(one, inspect.NoneType)]
    if not isinstance(kind, inspect.Metadata):
        return kind, "", {}
    schema = kind.extra_json_schema or {}
    return kind.type, str(schema.get("description", "")), kind.extra or {}


def _values(kind: inspect.Type) -> dict[str, Any]:
    """What may be given for a field of this type."""
    match kind:
        case inspect.BoolType():
            return {"kind": "flag"}
        case inspect.LiteralType():
            return {"kind": "choice", "choices": tuple(map(str, kind.values))}
        case inspect.IntType():
            return {"kind": "int", "least": kind.ge, "most": kind.le}
        case inspect.FloatType():
            return {"kind": "float", "least": kind.ge, "most": kind.le}
        case inspect.StrType():
            return {"kind": "text"}
    raise NotImplementedError(f"no option can be made of {kind}")


_LINES = re.compile(r"(\d{1,9})(?:-(\d{0,9}))?")


def short_line(text: str, most: int) -> str:
    """A text as a part of one line: line ends and tabs are shown, and a long text is cut."""
    shown = text.replace("\n", "\\n").replace("\t", "\\t")
    return shown if len(shown) <= most else shown[: most - 3] + "..."


def show_damage(damaged: Mapping[str, str], screen: Screen) -> None:
    """Prints which conversations are damaged."""
    for id, reason in damaged.items():
        advice = f"{short_line(reason, 300)}; {screen.call('verify', '', id)} says more."
        screen.line(("red", f"{id} is damaged: "), advice)


def line_span(lines: str) -> tuple[int, int]:
    """`5`, `5-9` or `5-` as a first and last line; -1 is the end. Invalid for anything else."""
    found = _LINES.fullmatch(lines)
    if found is None:
        raise Invalid(
            f"--lines {quoted(lines, 40)} is not of the form 5-9, 5- or 5",
            hint="lines are counted from 1",
        )
    first, last = int(found[1]), found[2]
    if last is None:
        return first, first
    return first, int(last or -1)


def show_undo(
    conversation: str, screen: Screen, command: str = "undo", *, files: bool = False
) -> None:
    """Prints the command that takes a change back, with its files."""
    words = ("--files",) if files else ()
    screen.line(("dim", f"Undo with: {screen.call(command, conversation, *words)}"))


COMPACTION = "compaction"
BATCHES = {
    MADE_ROOM: "removal of the oldest",
    BY_HAND: "hide",
    CLEARED: "clear",
    ADOPTED: COMPACTION,
    NATIVE: COMPACTION,
}


def batch_noun(purpose: str) -> str:
    """What a batch is called: `compaction`, `hide`, `clear`."""
    return BATCHES.get(purpose, COMPACTION)


POINT_HELP = "A seq such as 41 or #41, or the name of a checkpoint."
NAMES_SHOWN = 5
_SEQ = re.compile(r"#?([0-9]{1,15})")
MESSAGES = Meta(
    description="The messages, by seq: 41 or #41.",
    min_length=1,
    extra={"positional": True, "metavar": "SEQ"},
)


def is_seq(text: str) -> bool:
    """Whether the text is a number, as `41` or `#41`."""
    return _SEQ.fullmatch(text.strip()) is not None


def check_checkpoint(name: str) -> None:
    """Invalid for a name that would be taken for a seq."""
    if is_seq(name):
        reason = f"{short_line(name, 80)!r} is the name of an event, not of a checkpoint"
        raise Invalid(reason, hint="choose a name that is not a number")


def seq_of(text: str) -> int:
    """The seq that `41` or `#41` names; Invalid for anything else."""
    found = _SEQ.fullmatch(text.strip())
    if found is None:
        reason = f"{short_line(text, 80)!r} is not the seq of an event"
        raise Invalid(reason, hint="give it as 41 or #41")
    return int(found[1])


def point_seq(view: View, text: str) -> int:
    """The seq of a checkpoint, or the seq itself. NotFound if the log has neither."""
    if text in view.checkpoints:
        return view.checkpoints[text]
    if not is_seq(text):
        reason = f"there is no checkpoint {short_line(text, 80)!r}"
        raise NotFound(reason, hint=_known_points(text, list(view.checkpoints)))
    seq = seq_of(text)
    if not 1 <= seq <= view.head:
        raise NotFound(f"there is no event #{seq}", hint=f"the log goes from #1 to #{view.head}")
    return seq


def _known_points(text: str, names: Sequence[str]) -> str:
    """Which checkpoints may have been meant."""
    near = nearest(text, names, limit=NAMES_SHOWN) or names[-NAMES_SHOWN:]
    known = ", ".join(short_line(name, 80) for name in near)
    return f"checkpoints: {known or 'none'}; a seq such as 41 will do as well"
