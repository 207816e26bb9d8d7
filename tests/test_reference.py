"""The API reference is current, has every public name, and each one is described."""

from __future__ import annotations

import inspect
from importlib import import_module

import pytest

from tests import reference


def test_the_pages_are_current() -> None:
    written = {path.name: path.read_text("utf-8") for path in reference.FOLDER.glob("*.md")}
    assert written == reference.pages(), "python -m tests.reference writes them again"


@pytest.mark.parametrize("name", reference.MODULES)
def test_every_public_name_has_its_place_and_its_description(name: str) -> None:
    module = import_module(name)
    page = reference.pages()[f"{name}.md"]
    for public in reference.names_of(module):
        assert f"\n## `{public}`\n" in page
        value = getattr(module, public)
        if inspect.isclass(value) or inspect.isfunction(value):
            assert inspect.getdoc(value), f"{name}.{public} has no docstring"


@pytest.mark.parametrize("name", reference.MODULES)
def test_no_page_depends_on_the_machine(name: str) -> None:
    page = reference.pages()[f"{name}.md"]
    assert " at 0x" not in page and str(reference.FOLDER.parent.parent) not in page
