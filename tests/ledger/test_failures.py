"""What failed, and until when it is open."""

from __future__ import annotations

import pytest

from refold.ledger.failures import telling_line
from refold.ledger.ledger import merged
from tests.ledger.messages import does, learnt, states


def test_an_error_is_open_until_the_same_succeeds() -> None:
    fails = does(
        "Bash",
        "Exit code 1\nValueError: no port\n",
        error=True,
        command="cd /w && pytest -q 2>&1 | tail -5",
    )
    first = learnt(*fails)
    assert states(first, "error") == {"pytest -q → ValueError: no port": "open"}
    later = learnt(*does("Bash", "3 passed", command="pytest -q"), known=first, first=10)
    assert states(later, "error") == {"pytest -q → ValueError: no port": "resolved"}
    assert states(merged(first, later), "error") == {"pytest -q → ValueError: no port": "resolved"}
    (failed,), (resolved,) = (
        [fact.seq for fact in facts if fact.kind == "error"] for facts in (first, later)
    )
    assert resolved == failed, "a resolved error leads to where it failed"
    other = learnt(*does("Bash", "fine", command="make"), known=first, first=10)
    assert not states(other, "error")


def test_a_test_run_behind_a_pipe_is_judged_by_its_own_count() -> None:
    """A pipe hides the exit status; "0 failed" and a file that speaks of failures are no
    failures."""
    output = "collecting\nFAILED tests/test_port.py::test_open - assert 1 == 0\n1 failed, 12 passed in 3.1s"
    facts = learnt(*does("Bash", output, command="pytest -q | tail"))
    assert states(facts, "error") == {
        "pytest -q → FAILED tests/test_port.py::test_open - assert 1 == 0": "open"
    }
    assert states(facts, "command") == {"pytest -q | tail": "failed"}
    for fine in (
        "13 passed, 0 failed",
        "Tests: 12 passed",
        "3 failed attempts: see login\n" + "line\n" * 9,
    ):
        assert not states(learnt(*does("Bash", fine, command="make")), "error")
    assert not states(learnt(*does("Read", output, file_path="notes.txt")), "error")


def test_the_same_try_failing_otherwise_replaces_the_error() -> None:
    first = learnt(*does("Bash", "TypeError: a", error=True, command="make"))
    facts = merged(
        first,
        learnt(*does("Bash", "KeyError: b", error=True, command="make"), known=first, first=5),
    )
    assert states(facts, "error") == {
        "make → TypeError: a": "resolved",
        "make → KeyError: b": "open",
    }


@pytest.mark.parametrize(
    ("output", "line"),
    [
        ("Exit code 1\n\nok so far\nsrc/a.go:3: undefined: x\nmore", "src/a.go:3: undefined: x"),
        (
            'Traceback (most recent call last):\n  File "a"\n    raise X("fail")\nValueError: bad',
            "ValueError: bad",
        ),
        ("===== FAILURES =====\nE   assert error", "E   assert error"),
        ("just words", "just words"),
        ("\x1b[31mError: red\x1b[0m", "Error: red"),
        ("The user doesn't want to proceed", ""),
        ("", ""),
    ],
)
def test_the_telling_line_of_a_failure(output: str, line: str) -> None:
    assert telling_line(output) == line
