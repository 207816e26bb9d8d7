"""What a command takes, field by field, as whoever reads a line of text needs it.

A field of `Command.arguments` is a `Parameter`: a flag (bool), one that may be repeated (tuple), a
choice (Literal), a number in a range (`ge`, `le`) or a text. One that is `positional` is given by
its place, any other by its name (`--dry-run`). Neighbours: `edges/cli/options` makes click's
options of them, `line` reads a line of a chat by them, and both complete and help by them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Protocol

from msgspec import NODEFAULT, Struct, inspect

from refold.edges.commands.command import Arguments

Kind = Literal["flag", "text", "choice", "int", "float"]


class Taking(Protocol):
    """A command, as whoever reads, completes or explains a line needs it: one of the table, or
    one that only a chat has."""

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
