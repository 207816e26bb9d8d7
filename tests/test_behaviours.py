"""`docs/behaviours.md` and the tests agree: a test that is named there exists, an id that a test
names is there, and a line says what shows its behaviour or why nothing does."""

from __future__ import annotations

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "behaviours.md"
ID = re.compile(r"\b[MTYCGX]-\d{2,3}\b")
LINE = re.compile(r"\| ([MTYCGX]-\d{2,3}) \| (\S.*) \| (\S.*) \|")
NAMED = re.compile(r"`(tests/[^`]+\.py)::(test_\w+)`")
ENDS = re.compile(r"; (?=settled otherwise: |not yet: )")


def lines() -> list[tuple[str, str, str]]:
    """Id, behaviour and what shows it."""
    rows = [row for row in PAGE.read_text("utf-8").splitlines() if ID.match(row[2:])]
    return [match.groups() for row in rows if (match := LINE.fullmatch(row))]


@cache
def names_in(file: str) -> frozenset[str]:
    path = ROOT / file
    if not path.is_file():
        return frozenset()
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    body = ast.parse(path.read_text("utf-8")).body
    return frozenset(node.name for node in body if isinstance(node, functions))


def faults(shown: str) -> list[str]:
    """What is wrong with the last column of a line."""
    return [fault for part in ENDS.split(shown) if (fault := _fault(part))]


def _fault(part: str) -> str:
    kind, _, rest = part.partition(": ")
    missing = [
        f"{file}::{name}" for file, name in NAMED.findall(part) if name not in names_in(file)
    ]
    if missing:
        return f"no such test: {', '.join(missing)}"
    if kind in ("settled otherwise", "not yet"):
        return "" if rest else f"{kind}, but not why"
    only_tests = not NAMED.sub("", part).replace(", ", "")
    return "" if only_tests else f"neither a test nor a reason: {part}"


def test_every_line_has_a_test_or_a_reason() -> None:
    assert {id: wrong for id, _, shown in lines() if (wrong := faults(shown))} == {}


def test_every_row_of_the_page_can_be_read_and_no_id_stands_twice() -> None:
    text = PAGE.read_text("utf-8")
    rows = [row for row in text.splitlines() if re.match(r"\| [A-Z]-", row)]
    assert [row for row in rows if not LINE.fullmatch(row)] == []
    assert [id for id, count in Counter(id for id, *_ in lines()).items() if count > 1] == []
    assert len(rows) == len(lines()) == 349


def test_every_id_that_a_test_names_is_on_the_page() -> None:
    known = {id for id, *_ in lines()}
    files = [path for path in (ROOT / "tests").rglob("*.py") if path != Path(__file__)]
    named = {path.name: set(ID.findall(path.read_text("utf-8"))) - known for path in files}
    assert {name: ids for name, ids in named.items() if ids} == {}


@pytest.mark.parametrize(
    ("shown", "fault"),
    [
        ("`tests/test_behaviours.py::test_nobody`", "no such test"),
        ("`tests/test_nowhere.py::test_nobody`", "no such test"),
        ("settled otherwise: see `tests/test_nowhere.py::test_nobody`", "no such test"),
        ("to come: later", "neither a test nor a reason"),
        ("not yet: ", "not why"),
        ("it works", "neither a test nor a reason"),
        ("`tests/test_behaviours.py::test_every_line_has_a_test_or_a_reason` mostly", "neither"),
    ],
)
def test_a_line_that_says_nothing_is_found(shown: str, fault: str) -> None:
    assert [fault in found for found in faults(shown)] == [True]
