"""A folder with some files, as a person would have them."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    home = tmp_path / "work"
    (home / "src").mkdir(parents=True)
    (home / "README.md").write_text("# A small project\n\nIt reads numbers and adds them up.\n")
    for n in range(12):
        text = "".join(
            f"value_{n}_{line} = {line * n}  # measured in step {line}\n" for line in range(90)
        )
        (home / f"src/part_{n:02}.py").write_text(text)
    return home
