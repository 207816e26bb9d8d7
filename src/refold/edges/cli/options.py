"""What a command takes, as options and arguments of a command line.

A field of `Command.arguments` becomes an option: a flag (bool), one that may be repeated (tuple), a
choice (Literal) or a number in a range (`ge`, `le`). A `positional` field becomes an argument.
`--json`, `--no-color` and `--debug` are read by `app` before anything else, because they also
decide how an error is shown; here they are only part of the help.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import click
from msgspec import inspect

from refold.edges.commands.command import Command

HELP = {"help_option_names": ["-h", "--help"]}
STORE_HELP = "The store; by default the .refold folder of this project."


def parameters(command: Command[Any, Any]) -> Iterator[click.Parameter]:
    """What the command line takes: the command's own arguments, then what all commands share."""
    if command.on == "conversation":
        # or @1, the newest: see `Session.find`
        yield click.Argument(["conversation"], metavar="ID")
    info = inspect.type_info(command.arguments)
    assert isinstance(info, inspect.StructType)
    for field in info.fields:
        yield _parameter(field)
    if command.on != "nothing":
        yield click.Option(["--store"], metavar="URL", help=STORE_HELP)
    yield from output_options()


def output_options() -> Iterator[click.Option]:
    """What every command takes that says how its result is shown."""
    for name, text in (
        ("--json", "Print one JSON object and nothing else."),
        ("--no-color", "Print without colors."),
        ("--debug", "Show where an error came from."),
    ):
        yield click.Option([name], is_flag=True, expose_value=False, help=text)


def _parameter(field: inspect.Field) -> click.Parameter:
    kind, help_text, extra = _plain(field.type)
    if extra.get("positional"):
        return _argument(field, kind, str(extra.get("metavar", field.encode_name.upper())))
    return _option(field, kind, help_text, extra)


def _plain(kind: inspect.Type) -> tuple[inspect.Type, str, Mapping[str, Any]]:
    """The type without None, its help, and what else its `Meta` says."""
    if isinstance(kind, inspect.UnionType):
        [kind] = [one for one in kind.types if not isinstance(one, inspect.NoneType)]
    if not isinstance(kind, inspect.Metadata):
        return kind, "", {}
    schema = kind.extra_json_schema or {}
    return kind.type, str(schema.get("description", "")), kind.extra or {}


def _argument(field: inspect.Field, kind: inspect.Type, name: str) -> click.Argument:
    """An argument that is given by its position, many of them for a tuple."""
    is_many = isinstance(kind, inspect.VarTupleType)
    metavar = name if field.required else f"[{name}]"
    return click.Argument(
        [field.name],
        metavar=f"{metavar}..." if is_many else metavar,
        nargs=-1 if is_many else 1,
        type=_value_type(kind),
        **_presence(field, kind),
    )


def _option(
    field: inspect.Field, kind: inspect.Type, help_text: str, extra: Mapping[str, Any]
) -> click.Option:
    names = [f"--{field.encode_name.replace('_', '-')}", field.name]
    if "short" in extra:
        names.append(extra["short"])
    if isinstance(kind, inspect.BoolType):
        return click.Option(names, is_flag=True, help=help_text)
    bare = {"is_flag": False, "flag_value": extra["bare"]} if "bare" in extra else {}
    return click.Option(
        names,
        type=_value_type(kind),
        metavar=extra.get("metavar"),
        multiple=isinstance(kind, inspect.VarTupleType),
        show_default=isinstance(kind, inspect.IntType | inspect.FloatType),
        help=help_text,
        **bare,
        **_presence(field, kind),
    )


def _presence(field: inspect.Field, kind: inspect.Type) -> dict[str, Any]:
    """Whether it must be given, and what it is if it is not. For click, None is a default like
    any other, and what has one is not required."""
    if field.required or isinstance(kind, inspect.VarTupleType):
        return {"required": field.required}
    return {"required": False, "default": field.default}


def _value_type(kind: inspect.Type) -> click.ParamType[Any]:
    match kind:
        case inspect.VarTupleType():
            return _value_type(kind.item_type)
        case inspect.LiteralType():
            return click.Choice([str(value) for value in kind.values])
        case inspect.IntType():
            return click.IntRange(kind.ge, kind.le)
        case inspect.FloatType():
            return click.FloatRange(kind.ge, kind.le)
        case inspect.StrType():
            return click.STRING
    raise NotImplementedError(f"no option can be made of {kind}")
