"""Runs the Python of a guide in the environment of its framework, as `tests/test_docs.py` does for
the guides that need refold only."""

from __future__ import annotations

import re
from pathlib import Path

GUIDES = Path(__file__).parent.parent.parent / "docs" / "guides" / "frameworks"


def run_guide(name: str) -> dict[str, object]:
    """Runs every block of a guide, each by itself; gives the names of the last one."""
    names: dict[str, object] = {}
    for code in re.findall(r"```python\n(.*?)```", (GUIDES / name).read_text("utf-8"), re.DOTALL):
        names = {"__name__": "guide"}
        exec(compile(code, name, "exec"), names)
    return names
