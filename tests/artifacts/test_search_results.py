"""The stub of a search says how many results there are, and in which files most of them are
(M-61)."""

from __future__ import annotations

import json
import re

import pytest

from refold.artifacts.offload import STUB_CHARS_MAX
from refold.artifacts.search_results import NAMES_MAX, results_of
from refold.stores import open_store
from tests.toolruns import opened, outputs_in, ran

NAME = re.compile(r"\w+\.py")
PLACES = [f"src/part{n % 5}/file{n}.py" for n in range(15)]


def said(content: str) -> str:
    found = results_of(content)
    assert found is not None
    return found.text()


SHAPES = {
    "grep": "\n".join(f"{path}:{n}: def login(): ..." for n, path in enumerate(PLACES)),
    "names": "\n".join(PLACES),
    "around a match": "\n".join(f"{path}-{n}-    pass" for n, path in enumerate(PLACES)),
    "windows": "\n".join(f"C:\\{path}:{n}:x" for n, path in enumerate(PLACES)),
    "in this folder": "\n".join(f"file{n}.py:{n}:x" for n in range(15)),
    "json": json.dumps([{"path": path, "line": n} for n, path in enumerate(PLACES)]),
    "json within": json.dumps({"results": PLACES, "took_ms": 5}),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_fifteen_results_are_fifteen_and_at_most_five_names(shape):
    """M-61, whatever the tool and its format."""
    text = said(SHAPES[shape])
    assert text.startswith("15 results in 15 files, most in:")
    assert len(set(NAME.findall(text))) == NAMES_MAX


def test_the_files_with_most_results_come_first_and_what_names_none_stays():
    lines = [
        "src/few.py:1: x",
        *(f"src/many.py:{n}: login {n}" for n in range(9)),
        "9 errors generated.",
    ]
    assert said("\n".join(lines)).split("\n") == [
        "10 results in 2 files:",
        "src/many.py (9): 0: login 0",
        "src/few.py: 1: x",
        "9 errors generated.",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "\n".join(f"tests/test_{n}.py PASSED" for n in range(50)) + "\nE   TokenExpiredError: 401",
        "\n".join(f"2026-11-16 03:14:15 INFO request {n} served" for n in range(50)),
        "\n".join(f"server.port{n}: 8080" for n in range(50)),
        "\n".join(f"10.0.0.{n}:8080" for n in range(50)),
        "\n".join(f"    self.value{n} = other.value" for n in range(50)),
        "src/a.py:1: x\nsrc/b.py:2: y",
        json.dumps([{"temperature": n} for n in range(50)]),
        "[not json",
        "a/" * 500_000 + " b",
        "",
    ],
    ids=range(10),
)
def test_other_outputs_are_no_search_results(text):
    assert results_of(text) is None


def test_a_stub_stays_small_whatever_the_names_and_lines_are():
    """T-21."""
    lines = [f"{'d/' * 100}{n}.py:{n}: {'x' * 500}" for n in range(40)] + ["and more " * 50] * 5
    assert len(said("\n".join(lines))) <= STUB_CHARS_MAX - 500


def test_the_stub_of_a_large_search_says_so_and_all_of_it_is_kept():
    """M-61, T-21: 15 results on the page as a count and five names; the artifact has every line."""
    context = opened(open_store("memory:"))
    output = "\n".join(f"{path}:{n}: {'def login(): ' * 20}" for n, path in enumerate(PLACES))
    id = ran(context, output, tool="grep")
    stub = context.view.slots[-1].message.blocks[0].content[0].text
    assert (
        "15 results" in stub
        and len(set(NAME.findall(stub))) == NAMES_MAX
        and len(stub) <= STUB_CHARS_MAX
    )
    assert outputs_in(context).list()[0].artifact.type == "search_result"
    assert context.unfold(id).text == output
    ran(context, "\n".join(f"something else, line {n}" for n in range(200)))
    assert outputs_in(context).list()[1].artifact.type == "command_output"
