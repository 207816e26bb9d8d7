"""A command: a function, its arguments, and a result that shows itself.

`@command` declares a function; its keyword-only parameters become `Command.arguments`, which a
shell or a chat reads as `Parameter`s: a flag, a repeated one (tuple), a choice (Literal), a number
in a range or a text. Also here: options and short text that several commands share, and the
notation for positions in the log (`41`, `#41`, a checkpoint's name; a name wins over a number).
Neighbours: `session` has the environment of a command, the package has the table.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cache
from inspect import signature
from pathlib import Path
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
from refold.display import ago, nearest
from refold.display import number as number
from refold.edges.commands import COMMANDS
from refold.errors import Invalid, NotFound

if TYPE_CHECKING:
    from refold.edges.commands.session import Session

Part = str | tuple[str, str]  # text, or a style and text
Progress = Callable[[str, int, int], None]  # activity, done, total

# Options that several commands take: the same name and the same help, declared once.
Yes = Annotated[bool, Meta(description="Do not ask.")]
DryRun = Annotated[bool, Meta(description="Say what would be done, and change nothing.")]
Limit = Annotated[int, Meta(description="At most this many.", ge=1, le=20_000)]
Window = Annotated[int, Meta(description="The model's window, in tokens.", ge=1, le=100_000_000)]
Lines = Annotated[str, Meta(description="Only these lines, from 1.", extra={"metavar": "A-B"})]
Since = Annotated[
    str,
    Meta(
        description="From then on: 2026-11-16, 2026-11-16T09:30, 90m, 12h, 7d or 2w ago.",
        extra={"metavar": "WHEN"},
    ),
]
OnlyRole = Annotated[Role, Meta(description="Only messages of this role.")]
Force = Annotated[bool, Meta(description="Replace FILE if it exists.")]
Scope = Annotated[str, Meta(description="Whose memory: project, user or agent.NAME.")]
Project = Annotated[str, Meta(description="The folder of the project; by default this one.")]
Tag = Annotated[str, Meta(description="A tag.")]
Tags = Annotated[tuple[str, ...], Meta(description="A tag; may be repeated.")]
PROJECT = Meta(
    description="Only conversations of this folder or below it, or of a project by its name; "
    "without a PATH, of the current folder.",
    extra={"metavar": "PATH", "bare": ".", "completes": "folder"},
)


def project_of(typed: str | None) -> str:
    """The wanted folder, absolute; a name without such a folder here stays as it was typed. Empty
    for nothing."""
    if not typed or (Path(typed).name == typed and not Path(typed).exists()):
        return typed or ""
    return str(Path(typed).resolve())


AGENT = Meta(description="Only those of an agent, such as claude-code or codex.")
FORMAT = Meta(description="How the result is printed.")  # for a Literal of the command's forms

POSITIONAL = {"positional": True}  # `extra` of a positional argument
TEXT = {"positional": True, "takes_rest": True}  # `extra` of text with several words


class Screen(Protocol):
    """The output for a person: text is shown verbatim and can never steer the terminal. With
    `is_shell`, commands are written as `refold undo ID`, otherwise as chat lines, `/undo`. Pictures
    are for a screen that `draws`, with or without colors."""

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
    """The arguments of a command. A field's `Meta` has its help (`description`), its bounds, and in
    `extra`: `positional`, `metavar`, `short` (a second, short name), `bare` (the value of an option
    given without one), `takes_rest` (text up to the end of the line), `completes` (the kind of name
    to complete), `passes_on` (another program's command line)."""


class Result(Struct, frozen=True, kw_only=True):
    """The result of a command. A field may be an iterator, which is read once while the session is
    open."""

    @property
    def outcome(self) -> str:
        """A code of `errors.OUTCOMES`."""
        return "ok"

    def show(self, screen: Screen) -> None:
        """Prints the result for a person."""
        raise NotImplementedError(f"{type(self).__name__} does not say how it is shown")


class Document(Result, frozen=True, kw_only=True):
    """A result that is a document, written verbatim."""

    chunks: Iterator[bytes]
    is_json: bool

    def show(self, screen: Screen) -> None:
        screen.document(self.chunks)


class Removable(Struct, frozen=True, kw_only=True):
    """One thing that a command removes for good: its title, its time, and its size in units."""

    id: str
    title: str
    at_ms: int
    size: int
    unit: str


def show_removable(items: Iterable[Removable], screen: Screen) -> None:
    """Prints what is removed, or would be."""
    now_ms = time.time_ns() // 1_000_000
    rows = [
        (one.id, one.title, ago(max(0, now_ms - one.at_ms)), number(one.size, one.unit))
        for one in items
    ]
    if rows:
        screen.table(("ID", "TITLE", "WRITTEN", ">SIZE"), rows)


class Pieces:
    """Long text in pieces, read once."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._texts = texts

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)


A = TypeVar("A", bound=Arguments)
R = TypeVar("R", bound=Result)


On = Literal["conversation", "either", "store", "nothing"]


class Command(Struct, Generic[A, R], frozen=True, kw_only=True):
    """One command. `on` is its subject: the session's conversation, a conversation if one is named
    and otherwise the store (`either`), the store, or nothing. With `reads`, the store refuses every
    write unless one of the options in `writes_with` is given; with `derives`, the command writes
    only derived files, and reads a store without write permission."""

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
        """The summary in the table, one line."""
        return COMMANDS[self.name].summary

    def is_read_only(self, arguments: A) -> bool:
        """Whether the command only reads, given these arguments."""
        return self.reads and not any(getattr(arguments, name) for name in self.writes_with)


# Commands of the modules imported so far; each is constructed when it is first loaded.
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
    """Declares a function as the command `name`, with its keyword-only parameters as arguments. The
    function stays an ordinary function."""

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
    """The keyword-only parameters of a function, as a struct. A trailing underscore, as in `in_`,
    is removed: `in` is a Python keyword."""
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
    return msgspec.to_builtins(value, enc_hook=_plain_value)


def _plain_value(value: object) -> object:
    """The items of an iterator, or encoded JSON as its value."""
    if isinstance(value, Pieces):
        return "".join(value)
    if isinstance(value, msgspec.Raw):
        return json.loads(bytes(value))
    if isinstance(value, Iterator):
        return list(value)
    raise NotImplementedError(f"{type(value).__name__} cannot be encoded")


Kind = Literal["flag", "text", "choice", "int", "float"]


class Taking(Protocol):
    """A command to parse, complete or explain: from the table, or one of the chat's own."""

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
    """One parameter of a command. `option` is its name, empty if it is positional. `takes_rest` is
    text of several words, up to the end of the line. `bare` is the value of an option given without
    one, None if a value is required. `completes` is the kind of name to complete (`file`, `folder`,
    `artifact`, ...). With `passes_on`, the first word and all after it are another program's
    command line."""

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
        """Its form in a usage line: `ID`, `[NAME]...`, `--limit N`."""
        if self.option:
            kinds = {"text": "TEXT", "choice": "|".join(self.choices)}
            value = self.metavar or kinds.get(self.kind, "N")
            return self.option if self.kind == "flag" else f"{self.option} {value}"
        name = self.metavar if self.is_required else f"[{self.metavar}]"
        return f"{name}..." if self.is_many or self.takes_rest else name


def parameters_of(command: Taking) -> tuple[Parameter, ...]:
    """The parameters of the command, positional ones in order."""
    info = inspect.type_info(command.arguments)
    assert isinstance(info, inspect.StructType)
    return tuple(map(_parameter, info.fields))


def _parameter(field: inspect.Field) -> Parameter:
    kind, help_text = field.type, ""
    extra: Mapping[str, Any] = {}
    if isinstance(kind, inspect.UnionType):
        [kind] = [one for one in kind.types if not isinstance(one, inspect.NoneType)]
    if isinstance(kind, inspect.Metadata):
        help_text = str((kind.extra_json_schema or {}).get("description", ""))
        extra = kind.extra or {}
        kind = kind.type
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


def _values(kind: inspect.Type) -> dict[str, Any]:
    """The kind and the allowed values of a parameter of this type."""
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


def more_line(shown: int) -> str:
    """The line below a list that `--limit` cut."""
    return f"There are more than these {shown:,}: use a larger --limit."


def short_line(text: str, most: int) -> str:
    """Text as part of one line: newlines and tabs are escaped, and long text is cut."""
    shown = text.replace("\n", "\\n").replace("\t", "\\t")
    return shown if len(shown) <= most else shown[: most - 3] + "..."


def show_damage(damaged: Mapping[str, str], screen: Screen) -> None:
    """Prints the damaged conversations."""
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
    """Prints the command that reverts a change, with its files."""
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
    """The noun for a batch: `compaction`, `hide`, `clear`."""
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
    """Raises Invalid for a name that looks like a seq."""
    if is_seq(name):
        reason = f"{short_line(name, 80)!r} is the name of an event, not of a checkpoint"
        raise Invalid(reason, hint="choose a name that is not a number")


def seq_of(text: str) -> int:
    """The seq that `41` or `#41` names; Invalid for anything else."""
    found = _SEQ.fullmatch(text.strip())
    if found is None:
        reason = f"{short_line(text, 80)!r} is not the seq of an event"
        raise Invalid(reason, hint="pass it as 41 or #41")
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
    """A hint with the nearest checkpoints, or the newest."""
    near = nearest(text, names, limit=NAMES_SHOWN) or names[-NAMES_SHOWN:]
    known = ", ".join(short_line(name, 80) for name in near)
    return f"checkpoints: {known or 'none'}; a seq such as 41 will do as well"
