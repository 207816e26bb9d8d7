"""Writes the API reference: `python -m tests.reference` makes one page in docs/reference for each
public module, from signatures and docstrings. `test_reference` checks that the pages are current.

A class that two modules show is described once, in the module that is nearest to a caller; the
others link to it. Methods that a class inherits from one outside the package are left out.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec

FOLDER = Path(__file__).parent.parent / "docs" / "reference"
# The first that has a name describes it.
MODULES = (
    *("refold", "refold.aio", "refold.conversations", "refold.memory", "refold.register"),
    *("refold.stores", "refold.dialects", "refold.redaction"),
    *("refold.testing", "refold.types"),
)
SHOWN_CHARS = 300
_CODE = re.compile(r"(`[^`\n]*`)")


class _Verbatim:
    """An annotation, printed without quotes."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


@cache
def pages() -> dict[str, str]:
    """Every page, by file name."""
    homes: dict[int, str] = {}
    shown = {name: import_module(name) for name in MODULES}
    for name, module in shown.items():
        for public in names_of(module):
            homes.setdefault(id(getattr(module, public)), f"{name}.{public}")
    found = {f"{name}.md": _page(name, module, homes) for name, module in shown.items()}
    rows = [f"| [`{name}`]({name}.md) | {_summary(module)} |" for name, module in shown.items()]
    head = "# Reference\n\nEvery public name, from its docstring. Written by `python -m tests.reference`."
    table = "\n".join(["| module | what it has |", "| --- | --- |", *rows])
    return {"README.md": f"{head}\n\n{table}\n", **found}


def names_of(module: ModuleType) -> list[str]:
    """The public names of a module, without its submodules."""
    listed = getattr(module, "__all__", None) or _own_names(module)
    names = sorted(name for name in listed if not name.startswith("_"))
    return [name for name in names if not inspect.ismodule(getattr(module, name))]


def _own_names(module: ModuleType) -> Iterator[str]:
    for name, value in vars(module).items():
        if getattr(value, "__module__", "").startswith(module.__name__):
            yield name


def _summary(module: ModuleType) -> str:
    return _text(inspect.getdoc(module) or "").split("\n\n")[0].replace("\n", " ")


def _page(name: str, module: ModuleType, homes: dict[int, str]) -> str:
    parts = [f"# `{name}`", _text(inspect.getdoc(module) or "")]
    for public in names_of(module):
        value = getattr(module, public)
        home = homes[id(value)]
        if home != f"{name}.{public}":
            place, _, own = home.rpartition(".")
            parts += [f"## `{public}`", f"See [`{home}`]({place}.md#{own.lower()})."]
        elif inspect.isclass(value):
            parts += _class_parts(public, value)
        elif callable(value) and hasattr(value, "__code__"):
            parts += [f"## `{public}`", *_function_parts(public, value)]
        else:
            shown = _plain(repr(value))
            given = f" = {shown}" if len(shown) <= SHOWN_CHARS and " at 0x" not in shown else ""
            parts += [f"## `{public}`", f"```\n{public}{given}\n```"]
    return "\n\n".join(filter(None, parts)) + "\n"


def _class_parts(name: str, value: type) -> Iterator[str]:
    yield f"## `{name}`"
    if issubclass(value, msgspec.Struct):
        yield "```\n" + "\n".join([f"class {name}", *_fields(value)]) + "\n```"
    elif issubclass(value, BaseException) or getattr(value, "_is_protocol", False):
        yield f"```\nclass {name}({value.__mro__[1].__name__})\n```"
    else:
        yield f"```\nclass {name}{_signature(value) if _is_made_by_callers(value) else ''}\n```"
    yield _text(inspect.getdoc(value) or "")
    for method, member in sorted(vars(value).items()):
        if method.startswith("_"):
            continue
        function = member.__func__ if isinstance(member, classmethod | staticmethod) else member
        if isinstance(function, property):
            hint = (
                _annotation(function.fget.__annotations__.get("return", ""))
                if function.fget
                else ""
            )
            yield f"### `{name}.{method}`"
            yield f"```\n{method}: {hint!r}\n```"
            yield _text(inspect.getdoc(function) or "")
        elif inspect.isfunction(function):
            yield f"### `{name}.{method}`"
            yield from _function_parts(method, function)


def _is_made_by_callers(value: type) -> bool:
    """Whether the arguments of a class are public: the parts of a context take inner ones."""
    if "__init__" not in vars(value):
        return False
    public = {name for module in map(import_module, MODULES) for name in names_of(module)}
    hints = " ".join(str(one.annotation) for one in inspect.signature(value).parameters.values())
    return {*re.findall(r"\b[A-Z]\w+", hints)} <= {*public, "None", "Sequence", "Path", "Any"}


def _fields(value: type[msgspec.Struct]) -> Iterator[str]:
    hints: dict[str, Any] = {}
    for base in reversed(value.__mro__):
        hints.update(vars(base).get("__annotations__", {}))
    # Not `msgspec.structs.fields`: that needs names which are imported for type checking only.
    names, defaults = value.__struct_fields__, value.__struct_defaults__
    required = (msgspec.NODEFAULT,) * (len(names) - len(defaults))
    for field, default in zip(names, (*required, *defaults), strict=True):
        made = getattr(default, "factory", None)
        shown = _plain(repr(made() if made else default))
        given = (
            "" if default is msgspec.NODEFAULT else f" = {'...' if ' at 0x' in shown else shown}"
        )
        yield f"    {field}: {_annotation(hints[field])!r}{given}"


def _function_parts(name: str, function: Any) -> Iterator[str]:
    yield f"```\n{name}{_signature(function)}\n```"
    yield _text(inspect.getdoc(function) or "")


def _signature(function: Any) -> str:
    try:
        plain = inspect.signature(function)
    except ValueError:
        return "(...)"
    own = [one for one in plain.parameters.values() if one.name != "self"]
    shown = [
        one.replace(annotation=_annotation(one.annotation), default=_shown_default(one))
        for one in own
    ]
    result = plain.return_annotation
    given = result if result is plain.empty else _annotation(result)
    text = _plain(str(plain.replace(parameters=shown, return_annotation=given)))
    if len(text) <= 80:
        return text
    lines = ",\n".join(f"    {one!s}" for one in shown)
    arrow = "" if result is plain.empty else f" -> {given!r}"
    star = next((at for at, one in enumerate(shown) if one.kind is one.KEYWORD_ONLY), None)
    if star is not None and not any(one.kind is one.VAR_POSITIONAL for one in shown):
        rows = [f"    {one}" for one in shown]
        lines = ",\n".join([*rows[:star], "    *", *rows[star:]])
    return _plain(f"(\n{lines},\n){arrow}")


def _shown_default(one: inspect.Parameter) -> Any:
    is_plain = one.default is one.empty or " at 0x" not in repr(one.default)
    return one.default if is_plain else _Verbatim("...")


def _annotation(value: Any) -> Any:
    if value is inspect.Parameter.empty:
        return value
    if isinstance(value, str):
        return _Verbatim(value)
    return _Verbatim(value.__name__ if isinstance(value, type) else str(value))


def _plain(text: str) -> str:
    """Without addresses, and without names of inner modules."""
    return re.sub(r"<class '?([\w.]+)[^>]*>", r"\1", text)


def _text(doc: str) -> str:
    """A docstring as Markdown: only code may have angle brackets."""
    blocks = []
    for block in doc.split("\n\n"):
        if block.startswith("    "):
            blocks.append(f"```\n{inspect.cleandoc(block)}\n```")
            continue
        parts = _CODE.split(block)
        blocks.append(
            "".join(
                part if at % 2 else re.sub(r"([<*_])", r"\\\1", part)
                for at, part in enumerate(parts)
            )
        )
    return "\n\n".join(blocks)


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for old in FOLDER.glob("*.md"):
        old.unlink()
    for name, text in pages().items():
        (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
