"""What a store is made of stays inside `stores/`: the rest of refold asks the protocol."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import refold

ROOT = Path(refold.__file__).parent
ALLOWED = tuple(f"refold.stores{part}" for part in ("", ".protocol", ".terms", ".contract"))
OUTSIDE = sorted(path for path in ROOT.rglob("*.py") if "stores" not in path.parts)


def imported(tree: ast.Module) -> Iterator[str]:
    """The modules that a module imports, those behind `from refold import stores` included."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            if (ROOT.parent / Path(*node.module.split("."))).is_dir():
                yield from (f"{node.module}.{name.name}" for name in node.names)


def is_module(name: str) -> bool:
    path = ROOT.parent / Path(*name.split("."))
    return path.is_dir() or path.with_suffix(".py").exists()


def test_outside_of_stores_only_the_protocol_and_open_store_are_imported() -> None:
    found = {
        f"{path.relative_to(ROOT)} imports {name}"
        for path in OUTSIDE
        for name in imported(ast.parse(path.read_text(encoding="utf-8")))
        if name.startswith("refold.stores") and is_module(name) and name not in ALLOWED
    }
    assert found == set()


@pytest.mark.parametrize("code", ["store.url", "self.store.url", "f(there.url)"])
def test_the_url_of_a_store_is_recognized(code: str) -> None:
    assert list(urls_taken_apart(ast.parse(f"{code}.partition(':')"))) == ["partition"]
    assert list(urls_taken_apart(ast.parse(f"{code}"))) == []


def urls_taken_apart(tree: ast.AST) -> Iterator[str]:
    """The methods of `str` that are called on something's `url`, or on what a call gave for it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in dir(str):
            owner = node.value
            while isinstance(owner, ast.Call) and owner.args:
                owner = owner.args[0]
            if isinstance(owner, ast.Attribute) and owner.attr == "url":
                yield node.attr


def test_outside_of_stores_nobody_takes_the_url_of_a_store_apart() -> None:
    found = {
        f"{path.relative_to(ROOT)}: .url.{method}"
        for path in OUTSIDE
        if not {"dialects", "tokens"} & set(path.parts)  # there a url is where an image lies
        for method in urls_taken_apart(ast.parse(path.read_text(encoding="utf-8")))
    }
    assert found == set()
