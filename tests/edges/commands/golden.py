"""What a command prints, with times, batches and sizes in tokens left open, so that it can be compared as text."""

from __future__ import annotations

import re

from tests.edges.cli.rooms import run


def printed(*args: str) -> str:
    """The text that a command prints, without what differs from run to run."""
    result = run(*args)
    assert result.exit_code == 0, result.output
    text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "TIME", result.stdout)
    text = re.sub(r"[\d,]+ -> [\d,]+ tokens", "N -> N tokens", text)
    return re.sub(r"\b[0-9a-f]{16}\b", "BATCH", text)


def refused(*args: str) -> str:
    """What a command says that fails; it prints nothing else."""
    result = run(*args)
    assert result.exit_code in (2, 3, 4) and result.stdout == "", result.output
    return result.stderr.removeprefix("refold: ").rstrip("\n")
