"""Counts agree with their nouns: one place is found, not `1 places`."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import refold
from refold.display import number

ROOT = Path(refold.__file__).parent
SPEAKING = sorted(
    [
        *(ROOT / "edges/commands").rglob("*.py"),
        *(ROOT / "conversations").glob("*.py"),
        ROOT / "engine/toolbox.py",
        ROOT / "search/upkeep.py",
    ]
)
NOUN = re.compile(
    r" (tokens|slots|events|lines|places|messages|conversations|artifacts|calls|bytes|contents)\b"
)
# A count that is never one, or has a fraction.
ALLOWED = {
    "compact.py: calls",  # 1.0 calls
    "compact.py: tokens",  # 41K tokens
    "import_export.py: bytes",  # fixed limits
    "importer.py: bytes",
    "page_edits.py: tokens",  # before and after
    "listing.py: conversations",  # several, or a fixed number
    "verifier.py: bytes",  # compared with another size
}


@given(count=st.integers(0, 10**9))
def test_a_count_agrees_with_its_noun(count: int) -> None:
    assert number(count, "place") == f"{count:,} place{'' if count == 1 else 's'}"


@pytest.mark.parametrize("path", SPEAKING, ids=lambda path: path.name)
def test_no_text_puts_a_plural_after_any_count(path: Path) -> None:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.JoinedStr):
            continue
        for before, after in zip(node.values, node.values[1:]):
            text = after.value if isinstance(after, ast.Constant) else ""
            noun = NOUN.match(str(text))
            if isinstance(before, ast.FormattedValue) and noun:
                found.add(f"{path.name}: {noun[1]}")
    assert found <= ALLOWED


def test_one_hit_and_one_line(tmp_path: Path) -> None:
    with refold.open("a", store=f"sqlite:{tmp_path}/x.db") as context:
        context.append({"role": "user", "content": "Where is the xylophone?"})
        artifact = context.artifacts.put("one xylophone", name="a.txt")
        found = context.toolbox.call("refold_grep", {"pattern": "xylophone"})
        assert "1 line matches" in found
        found = context.toolbox.call("refold_search", {"query": "Where is the"})
        assert "1 place found" in found
        assert "1 of 1 artifact" in context.toolbox.call("refold_artifacts", {})
        assert artifact.id in context.toolbox.call("refold_artifacts", {})
