"""How a call ended, read from its result."""

from __future__ import annotations

import pytest

from refold.ledger.calls import exit_status


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("Exit code 1\nboom", 1),
        ("Exit code: 0\nWall time: 1\nOutput:\nx", 0),
        ("<returncode>2</returncode>\n<output>", 2),
        ("Chunk ID: 1\nProcess exited with code 127\nOutput:\n", 127),
        ("x\n\nCommand exited with code 3", 3),
        ("out\n<shellId: 0 completed with exit code 0>", 0),
        ('{"output":"x","metadata":{"exit_code":4}}', 4),
        ("x\n[The command completed with exit code 5.]\n[Current working directory: /]", 5),
        ("go: exit status 1", 1),
        (
            "a script with exit code 7 in the middle\nof its text\nand more\nand more\nand more",
            None,
        ),
        ("fine", None),
        ("", None),
    ],
)
def test_the_exit_status_is_read_where_it_is_stated(text: str, status: int | None) -> None:
    assert exit_status(text) == status
