"""The stub of a search says how many results there are, and in which files most of them are
(M-61)."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.artifacts.kinds.registry import SEARCH_RESULTS, ClassifiedText, kind_of
from refold.artifacts.kinds.structured import FIELDS, NAMES_MAX, RESULTS_MIN
from refold.artifacts.stub import STUB_CHARS_MAX
from refold.stores import open_store
from tests.toolruns import opened, outputs_in, ran

NAME = re.compile(r"\w+\.py")
PLACES = [f"src/part{n % 5}/file{n}.py" for n in range(15)]

SHAPES = {
    "grep": "\n".join(f"{path}:{n}: def login(): ..." for n, path in enumerate(PLACES)),
    "names": "\n".join(PLACES),
    "around a match": "\n".join(f"{path}-{n}-    pass" for n, path in enumerate(PLACES)),
    "windows": "\n".join(f"C:\\{path}:{n}:x" for n, path in enumerate(PLACES)),
    "in this folder": "\n".join(f"file{n}.py:{n}:x" for n in range(15)),
    "json": json.dumps([{"path": path, "line": n, "x": "y" * 60} for n, path in enumerate(PLACES)]),
    "short json": json.dumps([{"path": path} for path in PLACES], separators=(",", ":")),
    "json laid out": json.dumps([{"path": path, "line": 1} for path in PLACES], indent=2),
    "json of long items": json.dumps([{"file": path, "text": "word " * 90} for path in PLACES]),
    "json with matches": json.dumps(
        {"total": 15, "results": [{"file": path, "matches": [{"n": 1}]} for path in PLACES]}
    ),
    "json within": json.dumps({"results": [f"a/{path}" * 3 for path in PLACES], "took_ms": 5}),
}


def looked(text: str) -> ClassifiedText:
    found = ClassifiedText(text, print)
    assert found.name == SEARCH_RESULTS
    return found


@pytest.mark.parametrize("shape", SHAPES)
def test_fifteen_results_are_fifteen_and_at_most_five_names(shape):
    """M-61, whatever the tool and its format."""
    found = looked(SHAPES[shape])
    assert found.about == "15 results in 15 files"
    assert len(set(NAME.findall("\n".join(found.excerpt(1_500))))) == NAMES_MAX


@given(
    st.integers(RESULTS_MIN, 300),
    st.sampled_from(FIELDS),
    st.text(max_size=300),
    st.sampled_from([None, 2]),
    st.booleans(),
)
def test_however_a_list_of_results_is_written_it_is_counted(count, field, more, indent, is_within):
    """M-61: `JSON.stringify(results)`, with whatever else an item says."""
    items = [{"n": n, field: f"src/file{n}.py", "more": more} for n in range(count)]
    text = json.dumps({"ok": True, "hits": items} if is_within else items, indent=indent)
    found = looked(text)
    assert found.about == f"{count} results in {count} files"
    shown = "\n".join(found.excerpt(1_500))
    assert len(set(re.findall(r"src/file\d+\.py", shown))) == NAMES_MAX


def test_pages_of_the_web_are_no_files():
    items = [{"title": "x", "url": f"https://e{n}.org"} for n in range(7)]
    assert looked(json.dumps(items)).about == "7 results in 7 pages"


def test_the_files_with_most_results_come_first_and_what_names_none_stays():
    lines = [
        "src/few.py:1: x",
        *(f"src/many.py:{n}: login {n}" for n in range(9)),
        "10 results.",
    ]
    found = looked("\n".join(lines))
    assert found.about == "10 results in 2 files"
    assert found.excerpt(1_500) == [
        "src/few.py:1: x",
        "src/many.py:0: login 0 [+8 alike]",
        "… lines 3-10 …",
        "10 results.",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "\n".join(f"tests/test_{n}.py PASSED" for n in range(50)) + "\nE   TokenExpiredError: 401",
        "\n".join(f"tests/test_{n}.py::test_a PASSED [ 5%]" for n in range(50)) + "\n= 50 passed in 1s =",
        "\n".join(f"2026-11-16 03:14:15 INFO request {n} served" for n in range(50)),
        "\n".join(f"server.port{n}: 8080" for n in range(50)),
        "\n".join(f"10.0.0.{n}:8080" for n in range(50)),
        "\n".join(f"    self.value{n} = other.value" for n in range(50)),
        "\n".join(f"src/a{n}.c:{n}:5: warning: unused" for n in range(50)) + "\nsrc/b.c:1:2: error: x",
        "\n".join(f"src/a{n}.ts({n},5): error TS1: unused" for n in range(50)),
        "src/a.py:1: x\nsrc/b.py:2: y",
        json.dumps([{"temperature": n} for n in range(50)]),
        json.dumps([{"name": f"row {n}", "title": "t", "x": "y" * 90} for n in range(50)]),
        "[not json",
        "a/" * 500_000 + " b",
        "",
    ],
    ids=range(14),
)  # fmt: skip
def test_other_outputs_are_no_search_results(text):
    """M-61: neither is a log, what a compiler says, a run of tests, or rows of a database."""
    assert kind_of(text) != SEARCH_RESULTS


def test_a_stub_stays_small_whatever_the_names_and_lines_are():
    """T-21."""
    lines = [f"{'d/' * 100}{n}.py:{n}: {'x' * 500}" for n in range(40)] + ["and more " * 50] * 5
    context = opened(open_store("memory:"))
    ran(context, "\n".join(lines), tool="t" * 500)
    assert len(context.view.slots[-1].message.blocks[0].content[0].text) <= STUB_CHARS_MAX


def test_the_stub_of_a_large_search_says_so_and_all_of_it_is_kept():
    """M-61, T-21: 15 results on the page as a count and five names; the artifact has every line."""
    context = opened(open_store("memory:"))
    output = "\n".join(f"{path}:{n}: {'def login(): ' * 20}" for n, path in enumerate(PLACES))
    id = ran(context, output, tool="grep")
    stub = context.view.slots[-1].message.blocks[0].content[0].text
    assert "15 results in 15 files" in stub
    assert len(set(NAME.findall(stub))) == NAMES_MAX
    assert len(stub) <= STUB_CHARS_MAX
    assert outputs_in(context).list()[0].artifact.type == "search_result"
    assert context.unfold(id).text == output
    ran(context, "\n".join(f"something else, line {n}" for n in range(200)))
    assert outputs_in(context).list()[1].artifact.type == "command_output"
