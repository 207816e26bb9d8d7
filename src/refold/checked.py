"""Arguments of public functions, checked at the door against the types of the signature.

A function decorated with `checked` raises Invalid for a value of a wrong type, with the argument's
name, before it does anything. A boolean is not a number, a number has a bound, and a value fits a
protocol if it has the protocol's attributes. Arguments without a type (`Any`) are checked where
they are read. Neighbours: `Context`, its rooms, and the functions of `refold`,
`refold.conversations` and `refold.register`.
"""

from __future__ import annotations

import builtins
import re
import sys
import types
import typing
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache, wraps
from inspect import Parameter, signature
from types import ModuleType
from typing import Any, ForwardRef, Literal, ParamSpec, TypeVar, Unpack

from refold.display import plain_text, suggestion
from refold.errors import Invalid
from refold.patterns import regex

P = ParamSpec("P")
T = TypeVar("T")
SHOWN_CHARS = 60
# A secret that begins in the shown part ends before this, except for a key of many lines.
LOOKED_AT_CHARS = 4_096
# Beyond this, JSON readers cannot distinguish all whole numbers.
NUMBER_MAX = 1 << 53
_BY_PLACE = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
_BY_NAME = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
# Types whose values need no check, except that a number has a bound; a string of another class is
# converted.
_USUAL: tuple[type, ...] = (str, bool, int, type(None))
_UUID = regex(r"[0-9a-f]{8}-([0-9a-f]{4})-([0-9a-f]{4})-([0-9a-f]{4})-([0-9a-f]{12})", re.I)
CANDIDATES_SHOWN = 10
_ANY: tuple[type, ...] = (str,)  # for an argument without a type, which accepts all other values


def checked(function: Callable[P, T], *, bounds_numbers: bool = False) -> Callable[P, T]:
    """Returns the function with its arguments checked against its signature. A number beyond the
    bound is refused, or, with `bounds_numbers`, becomes the bound."""

    @wraps(function)
    def call(*args: P.args, **given: P.kwargs) -> T:
        if _is_usual(_spec(function), args, given):
            return function(*args, **given)  # `append` is called for every message
        values: Iterable[Any] = args
        named: dict[str, Any] = given
        if bounds_numbers:
            values, named = map(_bounded, args), {name: _bounded(given[name]) for name in given}
        values = list(values)
        for name, value, hint in _arguments(function, values, named):
            if hint is not Any:
                check(name, value, hint)
        named = {name: _plain(value) for name, value in named.items()}
        return function(*map(_plain, values), **named)  # type: ignore[arg-type]

    return call


def _bounded(value: Any) -> Any:
    return min(max(-NUMBER_MAX, value), NUMBER_MAX) if type(value) is int else value


def _is_usual(spec: _Spec, args: Sequence[Any], given: Mapping[str, Any]) -> bool:
    """Whether every argument has exactly a type of the signature, so that no check is needed."""
    if len(args) > len(spec.usual):
        return False
    pairs = [*zip(args, spec.usual)]
    for name, value in given.items():
        pairs.append((value, spec.usual_named.get(name, ())))
    for value, usual in pairs:
        kind = type(value)
        if usual is _ANY:
            fits = kind is str or not isinstance(value, str)
        elif kind is int:
            fits = int in usual and -NUMBER_MAX <= value <= NUMBER_MAX
        elif list in usual:  # the other is the type of its items
            fits = kind is list and all(type(one) is usual[-1] for one in value)
        else:
            fits = kind in usual
        if not fits:
            return False
    return True


def _plain(value: object) -> object:
    """A string of any class as a plain string; other values unchanged."""
    return plain_text(value) if isinstance(value, str) else value


def check(name: str, value: object, hint: Any) -> None:
    """Raises Invalid for a value of another type."""
    try:
        fits = is_of(value, hint)
    except Exception:  # noqa: BLE001 - a value's attributes may be the caller's code
        fits = False
    if not fits:
        raise Invalid(f"{name} is {shown(value)}", hint=_wanted(value, hint))


def shown(value: object) -> str:
    """A value in a few characters, with its type; only the type if its repr fails."""
    kind = type(value).__name__
    try:
        return f"{quoted(value, SHOWN_CHARS)} ({kind})"
    except Exception:  # noqa: BLE001 - a representation is the caller's code
        return f"a {kind}"


def beginning(
    typed: str, ids: Iterable[str], kind: str, described: Callable[[str], str] = str
) -> str | None:
    """The one id that begins with the typed text, or whose random part does, because ids made at
    about the same time begin alike; None without a match. Raises Invalid, with the candidates, for
    several matches. A complete id always wins."""
    found = [
        id for id in ids if typed and any(id.startswith(typed, at) for at in _random_parts(id))
    ]
    if len(found) > 1 and typed not in found:
        named = "; ".join(map(described, found[:CANDIDATES_SHOWN]))
        more = f"; {len(found) - CANDIDATES_SHOWN:,} more" if found[CANDIDATES_SHOWN:] else ""
        problem = f"several {kind} begin with {quoted(typed, 40)}: {named}{more}"
        raise Invalid(problem, hint="type more of the id")
    return typed if typed in found else next(iter(found), None)


def check_whole(typed: str, id: str) -> None:
    """Raises Invalid if something to be removed permanently was not named by its complete id: a
    number, or the beginning of an id, may mean something else later."""
    if typed != id:
        problem = f"{quoted(typed)} is not a complete id; at the moment it means {id}"
        raise Invalid(problem, hint=f"pass the complete id, {id}")


def _random_parts(id: str) -> Iterator[int]:
    """The positions where an id may begin: its start, what follows `mem-` or `art-`, and the
    groups of a UUID in it."""
    yield 0
    if id.startswith(("art-", "mem-")):
        yield 4
    for uuid in _UUID.finditer(id):
        yield uuid.start()
        yield from (uuid.start(group) for group in range(1, 5))


def quoted(value: object, chars_max: int = 100) -> str:
    """A value for an error message: redacted, then cut, because part of a secret would not be
    recognized."""
    from refold.redaction.redact import redacted

    beginning = value[:LOOKED_AT_CHARS] if isinstance(value, str | bytes) else value
    return redacted(repr(beginning)[:LOOKED_AT_CHARS])[:chars_max]


# --- the types of arguments ---


def _arguments(
    function: Callable[..., Any], args: Sequence[Any], given: Mapping[str, Any]
) -> Iterator[tuple[str, Any, Any]]:
    """The names, values and types of the arguments."""
    spec = _spec(function)
    yield from zip(spec.positional, args, spec.hints)
    for value in args[len(spec.positional) :]:
        yield spec.rest[0], value, spec.rest[1]
    for name, value in given.items():
        if name in spec.named:
            yield name, value, spec.named[name]
        elif spec.filters:
            raise Invalid(
                f"there is no argument {name!r}", hint=suggestion(name, sorted(spec.filters))
            )


class _Spec(typing.NamedTuple):
    """The types of a function's arguments."""

    positional: tuple[str, ...]
    hints: tuple[Any, ...]
    rest: tuple[str, Any]  # for further positional arguments
    named: dict[str, Any]
    filters: frozenset[str]  # names from `**filters: Unpack[...]`, with its own
    usual: tuple[tuple[type, ...], ...]  # types that need no check, by position
    usual_named: dict[str, tuple[type, ...]]


@cache
def _spec(function: Callable[..., Any]) -> _Spec:
    parameters = list(signature(function).parameters.values())
    hints = {each.name: _hint(each.annotation, function) for each in parameters}
    positional = [each.name for each in parameters if each.kind in _BY_PLACE]
    rest = next((each.name for each in parameters if each.kind is Parameter.VAR_POSITIONAL), "")
    named = {each.name: hints[each.name] for each in parameters if each.kind in _BY_NAME}
    filters = _filters(parameters, hints)
    return _Spec(
        positional=tuple(positional),
        hints=tuple(hints[name] for name in positional),
        rest=(rest, hints.get(rest, Any)),
        named={**named, **filters},
        filters=frozenset({**named, **filters} if filters else ()),
        usual=tuple(_usual_types(hints[name]) for name in positional),
        usual_named={name: _usual_types(hint) for name, hint in named.items()},
    )


def _usual_types(hint: Any) -> tuple[type, ...]:
    """The types in a hint whose values need no check."""
    if hint is Any:
        return _ANY
    if typing.get_origin(hint) is Sequence:
        [item] = typing.get_args(hint)
        return (list, item) if isinstance(item, type) and item not in (int, float) else ()
    is_union = typing.get_origin(hint) in (typing.Union, types.UnionType)
    members = typing.get_args(hint) if is_union else (hint,)
    return tuple(kind for kind in _USUAL if kind in members)


def _filters(parameters: Sequence[Parameter], hints: Mapping[str, Any]) -> dict[str, Any]:
    """The names and types in `**filters: Unpack[...]`."""
    for parameter in parameters:
        hint = hints[parameter.name]
        if parameter.kind is Parameter.VAR_KEYWORD and typing.get_origin(hint) is Unpack:
            [table] = typing.get_args(hint)
            return {name: _hint(text, table) for name, text in table.__annotations__.items()}
    return {}


def _hint(annotation: Any, owner: Any) -> Any:
    """The type of an annotation in a function or class."""
    text = annotation.__forward_arg__ if isinstance(annotation, ForwardRef) else annotation
    if text is Parameter.empty:
        return Any
    if not isinstance(text, str):
        return annotation
    module = sys.modules[owner.__module__]
    return eval(text, vars(module), _Names(module))  # our own source


class _Names(dict[str, Any]):
    """The names of a module, including those that it imports lazily. A type that it imports only
    for type checkers is unknown here and counts as `Any`."""

    def __init__(self, module: ModuleType) -> None:
        super().__init__()
        self._module = module

    def __missing__(self, name: str) -> Any:
        found = getattr(self._module, name, None)
        return found if found is not None else getattr(builtins, name, Any)


# --- the type of a value ---


def is_of(value: object, hint: Any) -> bool:
    """Whether a value fits a type, as far as visible without calling or consuming it."""
    origin = typing.get_origin(hint)
    if hint is Any:
        return True
    if origin is Literal:
        return any(value is choice or value == choice for choice in typing.get_args(hint))
    if origin in (typing.Union, types.UnionType):
        return any(is_of(value, member) for member in typing.get_args(hint))
    if origin is not None:
        return _is_generic(value, origin, typing.get_args(hint))
    if hint is None or hint is type(None):
        return value is None
    if not isinstance(hint, type):
        return True  # a type variable
    if isinstance(value, bool):
        return hint in (bool, object)
    if hint is float:
        return isinstance(value, int | float) and -NUMBER_MAX <= value <= NUMBER_MAX
    if hint is int:
        return isinstance(value, int) and -NUMBER_MAX <= value <= NUMBER_MAX
    if getattr(hint, "_is_protocol", False):
        return all(hasattr(value, name) for name in _protocol_names(hint))
    return isinstance(value, hint)


@cache
def _protocol_names(protocol: type) -> tuple[str, ...]:
    """The attributes that a value needs to fit a protocol."""
    own = {**vars(protocol), **vars(protocol).get("__annotations__", {})}
    return tuple(name for name in own if name == "__call__" or not name.startswith("_"))


def _is_generic(value: object, origin: Any, parts: tuple[Any, ...]) -> bool:
    if origin is Callable or not isinstance(origin, type):
        return callable(value)
    if not isinstance(value, origin) or isinstance(value, str | bytes):
        return False
    if isinstance(value, Mapping):
        return all(is_of(key, parts[0]) and is_of(item, parts[1]) for key, item in value.items())
    if isinstance(value, tuple) and origin is tuple and Ellipsis not in parts:
        return len(value) == len(parts) and all(map(is_of, value, parts))
    if parts[0] is Any or not isinstance(value, Collection):
        return True
    return all(is_of(item, parts[0]) for item in value)


def _wanted(value: object, hint: Any) -> str:
    """The hint for a wrong value; for a misspelled name, the nearest known one."""
    if typing.get_origin(hint) is Literal and isinstance(value, str):
        return suggestion(value, typing.get_args(hint))
    is_beyond = isinstance(value, int | float) and not -NUMBER_MAX <= value <= NUMBER_MAX
    return f"pass {_described(hint)}" + (" of at most 2**53" if is_beyond else "")


def _described(hint: Any) -> str:
    """A type in readable form."""
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        return " or ".join(map(repr, parts))
    if origin in (typing.Union, types.UnionType):
        return " or ".join(map(_described, parts))
    if origin is Callable:
        return "a function"
    if hint is type(None):
        return "None"
    return getattr(hint, "__name__", str(hint)) if not parts else str(hint)
