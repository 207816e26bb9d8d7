"""Arguments are checked where they enter, against the types that the signature states.

A public method that is decorated with `checked` refuses a value of a wrong type as Invalid, with
the argument's name, before anything happens: what is written later was right when it was given. A
truth value is not a number. Arguments without a type (`Any`) are judged by whoever reads them.
Neighbours: the methods of `Context` and of its rooms.
"""

from __future__ import annotations

import sys
import types
import typing
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cache, wraps
from inspect import Parameter, signature
from typing import Any, Concatenate, ForwardRef, Literal, ParamSpec, TypeVar, Unpack

from refold.display import suggestion
from refold.errors import Invalid

P = ParamSpec("P")
T = TypeVar("T")
Owner = TypeVar("Owner")
SHOWN_CHARS = 60
_BY_NAME = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)


def checked(
    method: Callable[Concatenate[Owner, P], T],
) -> Callable[Concatenate[Owner, P], T]:
    """The method, which refuses arguments that do not have the types of its signature."""

    @wraps(method)
    def call(self: Owner, /, *args: P.args, **given: P.kwargs) -> T:
        for name, value, hint in _arguments(method, args, given):
            check(name, value, hint)
        return method(self, *args, **given)

    return call


def check(name: str, value: object, hint: Any) -> None:
    """Refuses a value that is not of the type."""
    if not is_of(value, hint):
        wanted = _described(hint)
        raise Invalid(f"{name} is {_shown(value)}", hint=f"give {wanted}")


def _shown(value: object) -> str:
    """A value in few characters; its type alone where it cannot be shown."""
    kind = type(value).__name__
    try:
        return f"{value!r:.{SHOWN_CHARS}} ({kind})"
    except Exception:  # noqa: BLE001 - a representation is the caller's code
        return f"a {kind}"


# --- which argument has which type ---


def _arguments(
    method: Callable[..., Any], args: Sequence[Any], given: Mapping[str, Any]
) -> Iterator[tuple[str, Any, Any]]:
    """The arguments that were given, with their types."""
    spec = _spec(method)
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
    """The types of a method's arguments."""

    positional: tuple[str, ...]
    hints: tuple[Any, ...]
    rest: tuple[str, Any]  # of what comes after the positional ones
    named: dict[str, Any]
    filters: frozenset[str]  # the names that a method takes besides its own, if it states them


@cache
def _spec(method: Callable[..., Any]) -> _Spec:
    parameters = list(signature(method).parameters.values())[1:]
    hints = {one.name: _hint(one.annotation, method) for one in parameters}
    positional = [one.name for one in parameters if one.kind is Parameter.POSITIONAL_OR_KEYWORD]
    rest = next((one.name for one in parameters if one.kind is Parameter.VAR_POSITIONAL), "")
    named = {one.name: hints[one.name] for one in parameters if one.kind in _BY_NAME}
    filters = _filters(parameters, hints)
    return _Spec(
        positional=tuple(positional),
        hints=tuple(hints[name] for name in positional),
        rest=(rest, hints.get(rest, Any)),
        named={**named, **filters},
        filters=frozenset({**named, **filters} if filters else ()),
    )


def _filters(parameters: Sequence[Parameter], hints: Mapping[str, Any]) -> dict[str, Any]:
    """The names and types that `**filters: Unpack[...]` states."""
    for one in parameters:
        hint = hints[one.name]
        if one.kind is Parameter.VAR_KEYWORD and typing.get_origin(hint) is Unpack:
            [table] = typing.get_args(hint)
            return {name: _hint(text, table) for name, text in table.__annotations__.items()}
    return {}


def _hint(annotation: Any, owner: Any) -> Any:
    """The type that an annotation of a function or class stands for. One that its module imports
    for type checkers only is not known here: whoever reads the argument judges it."""
    text = annotation.__forward_arg__ if isinstance(annotation, ForwardRef) else annotation
    if not isinstance(text, str):
        return annotation
    try:
        return eval(text, vars(sys.modules[owner.__module__]))  # our own source
    except NameError:
        return Any


# --- whether a value has a type ---


def is_of(value: object, hint: Any) -> bool:
    """Whether a value is of a type, as far as that can be told without calling or reading it."""
    origin = typing.get_origin(hint)
    if hint is Any:
        return True
    if origin is Literal:
        return any(value is one or value == one for one in typing.get_args(hint))
    if origin in (typing.Union, types.UnionType):
        return any(is_of(value, one) for one in typing.get_args(hint))
    if origin is not None:
        return _is_generic(value, origin, typing.get_args(hint))
    if hint is None or hint is type(None):
        return value is None
    return _is_plain(value, hint)


def _is_plain(value: object, hint: Any) -> bool:
    if not isinstance(hint, type):
        return True  # a protocol or a variable: whoever calls it will see
    if isinstance(value, bool):
        return hint in (bool, object)
    if hint is float:
        return isinstance(value, int | float)
    return getattr(hint, "_is_protocol", False) or isinstance(value, hint)


def _is_generic(value: object, origin: Any, parts: tuple[Any, ...]) -> bool:
    if origin is Callable or not isinstance(origin, type):
        return callable(value)
    if not isinstance(value, origin) or isinstance(value, str | bytes):
        return False
    if isinstance(value, Mapping):
        return all(is_of(key, parts[0]) and is_of(one, parts[1]) for key, one in value.items())
    if isinstance(value, tuple) and origin is tuple and Ellipsis not in parts:
        return len(value) == len(parts) and all(map(is_of, value, parts))
    return not isinstance(value, Collection) or all(is_of(one, parts[0]) for one in value)


def _described(hint: Any) -> str:
    """A type as a person reads it."""
    if typing.get_origin(hint) is Literal:
        return " or ".join(map(repr, typing.get_args(hint)))
    parts = typing.get_args(hint)
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return " or ".join(_described(one) for one in parts)
    if hint is type(None):
        return "None"
    return getattr(hint, "__name__", str(hint)) if not parts else str(hint)
