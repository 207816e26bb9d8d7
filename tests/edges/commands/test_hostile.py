"""Whatever is given to a command that goes back, looks back or names a file: it is done, or refused by an error
of ours; no text of it steers a terminal."""

from __future__ import annotations

import json

import pytest

from refold.errors import OUTCOMES
from tests.edges.cli.rooms import HOSTILE, run

pytestmark = pytest.mark.usefixtures("alone")

# Where a text of the user stands in each command.
PLACES = (
    ("checkpoint", "fix-login", "TEXT"),
    ("restore", "fix-login", "TEXT"),
    ("restore", "TEXT", "4"),
    ("diff", "fix-login", "TEXT"),
    ("diff", "fix-login", "4", "TEXT"),
    ("why", "fix-login", "TEXT"),
    ("pin", "fix-login", "4", "TEXT"),
    ("unpin", "fix-login", "TEXT"),
    ("revert", "fix-login", "TEXT"),
    ("fork", "fix-login", "TEXT"),
    ("fork", "fix-login", "new", "--at", "TEXT"),
    ("unfold", "fix-login", "TEXT"),
    ("unfold", "fix-login", "4", "--lines", "TEXT"),
    ("update", "fix-login", "--title", "TEXT"),
    ("update", "fix-login", "--tag", "TEXT"),
    ("update", "fix-login", "--model", "TEXT"),
    ("clear", "fix-login", "--backup", "TEXT"),
    ("export", "fix-login", "TEXT", "--format", "json"),
    ("import", "TEXT"),
)
TEXTS = (*HOSTILE, "", " ", "0", "-1", "#", "##4", "4.0", "1e3", "4-", "٤", "9" * 400, "\udce9")
INTERNAL = OUTCOMES["error"][1]


@pytest.mark.parametrize("place", PLACES, ids=" ".join)
def test_any_text_is_taken_or_refused_by_an_error_of_ours(url: str, place: tuple[str, ...]) -> None:
    for text in TEXTS:
        words = [text if word == "TEXT" else word for word in place]
        result = run(*words)
        assert result.exit_code in {status for _, status in OUTCOMES.values()} - {INTERNAL}, (
            words,
            result.output,
        )
        assert not {"\x1b", "\x9b", "\x07", "\u202e", "\x08"} & set(result.output), words
        assert result.exit_code == 0 or result.stderr.startswith("refold: "), words
    assert json.loads(run("verify", "--json").stdout)
    assert run("verify").exit_code == 0
