"""Gemini contents, repaired: a part that came in a shape that the provider refuses goes out in one
that it takes.

A part holds one thing; what is not whole is said as a note or left out; only the model thinks and
signs. Neighbours: `render` sends every content through here, `dialects.repair` has what the
dialects share.
"""

from __future__ import annotations

import re
from typing import Any

from refold.checked import quoted
from refold.dialects.gemini.fields import HELD, NAME, snake, text_at, value_in
from refold.dialects.repair import is_base64, refused_text
from refold.dialects.wire import EMPTY, plain_id, present, report

_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}")
_NAME_LENGTH_MAX = 127
_BLANK: tuple[Any, ...] = (None, "", False)
_NAMED = ("functionCall", "functionResponse")
_SIGNED = ("thought", "thoughtSignature", "thought_signature")
_ROLE_OF = {"functionCall": "model", "functionResponse": "user", "executableCode": "model"}
# What is read of a part that holds several things, in this order.
_FIRST = (*_NAMED, *HELD)

Wire = dict[str, Any]


def repaired(wire: Wire, lost: list[str]) -> Wire:
    """The content without empty parts, and never empty, in a role that this provider knows."""
    role = wire.get("role")
    if role not in ("user", "model"):
        wire = {"role": "user", **{key: wire[key] for key in wire if key != "role"}}
    parts = wire["parts"] if type(wire.get("parts")) is list else []
    kept = present(_part(part, wire["role"], lost) for part in parts)
    return {**wire, "parts": kept or [{"text": EMPTY}]}


def _part(part: Any, role: str, lost: list[str]) -> Wire | None:
    """A part as the provider takes it; None for nothing."""
    if type(part) is not dict:
        return _as_text(part, lost)
    if all(value in _BLANK for key, value in part.items() if key != "thought"):
        return None
    part = _with_fitting_signature(part, role)
    held = [name for name in _FIRST if value_in(part, name) is not None]
    if not held:
        return part or None
    return _holding(part, held[0], role, lost)


def _holding(part: Wire, name: str, role: str, lost: list[str]) -> Wire | None:
    """A part that holds one thing, and that whole."""
    part = _with_one(part, name)
    value = value_in(part, name)
    is_signed = value_in(part, "thoughtSignature") is not None
    if name == "text":
        return part if type(value) is str and (value or is_signed) else None
    if type(value) is not dict or role != _ROLE_OF.get(name, role):
        return _as_text(value, lost)
    if name in _NAMED:
        return _named(part, name, value, lost)
    return part if _is_whole(name, value) else _as_text({"type": name}, lost)


def _as_text(value: Any, lost: list[str]) -> Wire | None:
    text = refused_text(value, NAME, lost)
    return {"text": text} if text else None


def _with_one(part: Wire, name: str) -> Wire:
    """The part with nothing else in it than the thing of that name."""
    others = {spelling for other in HELD if other != name for spelling in (other, snake(other))}
    is_alone = all(part.get(other) is None for other in others)
    return part if is_alone else _without(part, others)


def _without(part: Wire, keys: set[str] | tuple[str, ...]) -> Wire:
    return {key: value for key, value in part.items() if key not in keys}


def _with_fitting_signature(part: Wire, role: str) -> Wire:
    """The part without what only the model may say, and without a signature that is none."""
    if role != "model":
        return part if all(key not in part for key in _SIGNED) else _without(part, _SIGNED)
    signature = value_in(part, "thoughtSignature")
    if signature is None or is_base64(signature):
        return part
    return _without(part, _SIGNED[1:])


def _is_whole(name: str, value: Wire) -> bool:
    """Whether media has what the provider needs of it."""
    if name == "inlineData":
        return is_base64(value.get("data")) and "/" in text_at(value, "mimeType")
    return name != "fileData" or bool(text_at(value, "fileUri"))


# --- calls and answers ---


def _named(part: Wire, name: str, value: Wire, lost: list[str]) -> Wire:
    """A call or an answer under a name that the provider takes, with an object in it."""
    made = {**value, "name": _fitting_name(value.get("name"), lost)}
    if name == "functionResponse" and type(value.get("response")) is not dict:
        made["response"] = {}
    if type(made.get("id", "")) not in (str, type(None)):
        made.pop("id")
    if made == value:
        return part
    key = name if name in part else snake(name)
    return {**part, key: made}


def _fitting_name(name: Any, lost: list[str]) -> str:
    if type(name) is str and _NAME.fullmatch(name):
        return name
    fit = f"_{plain_id(str(name), _NAME_LENGTH_MAX - 1)}"
    report(lost, f"the tool {quoted(name, 80)} is called {fit} here: {NAME} takes no such name")
    return fit
