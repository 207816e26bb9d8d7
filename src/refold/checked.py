"""Arguments are checked where they enter, against the types that the signature states.

A public function that is decorated with `checked` refuses a value of a wrong type as Invalid, with
the argument's name, before anything happens: what is written later was right when it was given. A
truth value is not a number, a number has a bound, and a protocol is what has its names. Arguments
without a type (`Any`) are judged by whoever reads them. Neighbours: `Context`, its rooms, and the
functions of `refold`, `refold.conversations` and `refold.register`.
"""

from __future__ import annotations

import sys
import types
import typing
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cache, wraps
from inspect import Parameter, signature
from types import ModuleType
from typing import Any, ForwardRef, Literal, ParamSpec, TypeVar, Unpack

from refold.display import plain_text, suggestion
from refold.errors import Invalid

P = ParamSpec("P")
T = TypeVar("T")
SHOWN_CHARS = 60
# No secret that begins where it would be shown ends behind this, but for a key of many lines.
LOOKED_AT_CHARS = 4_096
# Beyond this, JSON readers no longer tell two whole numbers apart.
NUMBER_MAX = 1 << 53
_BY_PLACE = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
_BY_NAME = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
# The types whose values are right as they are: a number has a bound, and a text of another class
# becomes a plain one.
_USUAL: tuple[type, ...] = (str, bool, type(None))
_ANY: tuple[type, ...] = (str,)  # of an argument without a type, which takes all else as well


def checked(function: Callable[P, T]) -> Callable[P, T]:
    """The function, which refuses arguments that do not have the types of its signature."""

    @wraps(function)
    def call(*args: P.args, **given: P.kwargs) -> T:
        if _is_usual(_spec(function), args, given):
            return function(*args, **given)  # `append` is called for every message
        for name, value, hint in _arguments(function, args, given):
            if hint is not Any:
                check(name, value, hint)
        named = {name: _plain(value) for name, value in given.items()}
        return function(*map(_plain, args), **named)  # type: ignore[arg-type]

    return call


def _is_usual(spec: _Spec, args: Sequence[Any], given: Mapping[str, Any]) -> bool:
    """Whether every argument is of just a type that the signature names, so that there is nothing
    to look at."""
    if len(args) > len(spec.usual):
        return False
    for value, usual in zip(args, spec.usual):
        if type(value) not in usual and (usual is not _ANY or isinstance(value, str)):
            return False
    if not given:
        return True
    return all(type(value) in spec.usual_named.get(name, ()) for name, value in given.items())


def _plain(value: object) -> object:
    """A text as a plain one; any other value as it is."""
    return plain_text(value) if isinstance(value, str) else value


def check(name: str, value: object, hint: Any) -> None:
    """Refuses a value that is not of the type."""
    if not _has_type(value, hint):
        raise Invalid(f"{name} is {shown(value)}", hint=_wanted(value, hint))


def _has_type(value: object, hint: Any) -> bool:
    """Whether it is of the type; False where not even that can be told."""
    try:
        return is_of(value, hint)
    except Exception:  # noqa: BLE001 - what is asked of a value may be the caller's code
        return False


def shown(value: object) -> str:
    """A value in few characters, with its type; its type alone where it cannot be shown."""
    kind = type(value).__name__
    try:
        return f"{quoted(value, SHOWN_CHARS)} ({kind})"
    except Exception:  # noqa: BLE001 - a representation is the caller's code
        return f"a {kind}"


def quoted(value: object, chars_max: int = 100) -> str:
    """A value as an error quotes it: in few characters, without the secrets that it holds. They
    are taken out first, because half of one, where it was cut, is not known as one."""
    from refold.redaction.redact import redacted

    looked_at = value[:LOOKED_AT_CHARS] if isinstance(value, str | bytes) else value
    return redacted(repr(looked_at)[:LOOKED_AT_CHARS])[:chars_max]


# --- which argument has which type ---


def _arguments(
    function: Callable[..., Any], args: Sequence[Any], given: Mapping[str, Any]
) -> Iterator[tuple[str, Any, Any]]:
    """The arguments that were given, with their types."""
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
    rest: tuple[str, Any]  # of what comes after the positional ones
    named: dict[str, Any]
    filters: frozenset[str]  # the names it takes besides its own, if it states them
    usual: tuple[tuple[type, ...], ...]  # for each the types that need no look
    usual_named: dict[str, tuple[type, ...]]


@cache
def _spec(function: Callable[..., Any]) -> _Spec:
    parameters = list(signature(function).parameters.values())
    hints = {one.name: _hint(one.annotation, function) for one in parameters}
    positional = [one.name for one in parameters if one.kind in _BY_PLACE]
    rest = next((one.name for one in parameters if one.kind is Parameter.VAR_POSITIONAL), "")
    named = {one.name: hints[one.name] for one in parameters if one.kind in _BY_NAME}
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
    """Of the types that a hint names, those whose values are right as they are."""
    if hint is Any:
        return _ANY
    is_union = typing.get_origin(hint) in (typing.Union, types.UnionType)
    named = typing.get_args(hint) if is_union else (hint,)
    return tuple(one for one in _USUAL if one in named)


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
    if text is Parameter.empty:
        return Any
    if not isinstance(text, str):
        return annotation
    module = sys.modules[owner.__module__]
    try:
        return eval(text, vars(module), _Names(module))  # our own source
    except NameError:
        return Any


class _Names(dict[str, Any]):
    """The names of a module, also those that it imports when they are first asked for."""

    def __init__(self, module: ModuleType) -> None:
        super().__init__()
        self._module = module

    def __missing__(self, name: str) -> Any:
        try:
            return getattr(self._module, name)
        except AttributeError:
            raise KeyError(name) from None


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
        return True  # a variable: whoever calls it will see
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
    """What a value must have to be what the protocol describes."""
    own = {**vars(protocol), **vars(protocol).get("__annotations__", {})}
    return tuple(name for name in own if name == "__call__" or not name.startswith("_"))


def _is_generic(value: object, origin: Any, parts: tuple[Any, ...]) -> bool:
    if origin is Callable or not isinstance(origin, type):
        return callable(value)
    if not isinstance(value, origin) or isinstance(value, str | bytes):
        return False
    if isinstance(value, Mapping):
        return all(is_of(key, parts[0]) and is_of(one, parts[1]) for key, one in value.items())
    if isinstance(value, tuple) and origin is tuple and Ellipsis not in parts:
        return len(value) == len(parts) and all(map(is_of, value, parts))
    if parts[0] is Any or not isinstance(value, Collection):
        return True
    return all(is_of(one, parts[0]) for one in value)


def _wanted(value: object, hint: Any) -> str:
    """What to give instead of the value; of a misspelt name the nearest."""
    if typing.get_origin(hint) is Literal and isinstance(value, str):
        return suggestion(value, typing.get_args(hint))
    is_beyond = isinstance(value, int | float) and not -NUMBER_MAX <= value <= NUMBER_MAX
    return f"give {_described(hint)}" + (" of at most 2**53" if is_beyond else "")


def _described(hint: Any) -> str:
    """A type as a person reads it."""
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        return " or ".join(map(repr, parts))
    if origin in (typing.Union, types.UnionType):
        return " or ".join(_described(one) for one in parts)
    if origin is Callable:
        return "a function"
    if hint is type(None):
        return "None"
    return getattr(hint, "__name__", str(hint)) if not parts else str(hint)
