"""The type of an artifact follows from its tool or its name, never from what it looks like."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.artifacts.intake import type_named, type_of_output
from refold.core.model import Origin
from refold.stores import open_store
from tests.toolruns import opened, ran

TOOLS = {
    "file": ["read_file", "Read", "mcp__files__read_text_file", "str_replace_editor", "write_file"],
    "search_result": ["grep", "search_code", "web_search", "WebSearch", "Glob", "find_symbol"],
    "command_output": ["bash", "run", "run_command", "Shell", "tests", "screenshot", ""],
}
NAMED = [(tool, type) for type, tools in TOOLS.items() for tool in tools]
OUTPUTS = ("\n".join(f"src/a{n}.py:{n}: x" for n in range(4_000)), "line of text\n" * 4_000)


@pytest.mark.parametrize(("tool", "type"), NAMED)
def test_a_tool_gives_artifacts_of_one_type(tool: str, type: str) -> None:
    context = opened(open_store("memory:"))
    for output in OUTPUTS:
        ran(context, output, tool=tool or "x")
    assert [one.artifact.type for one in context.artifacts.list()] == [type] * 2


@given(st.text(max_size=30), st.text(max_size=60))
def test_any_name_and_arguments_have_a_type(tool: str, arguments: str) -> None:
    assert type_of_output(Origin(tool=tool, arguments=arguments)) in TOOLS
    assert type_named(tool) in ("file", "custom")


def test_the_configuration_says_what_a_tool_does() -> None:
    assert type_of_output(Origin(tool="slurp")) == "command_output"
    assert type_of_output(Origin(tool="slurp"), {"slurp": "read:where"}) == "file"


@pytest.mark.parametrize(
    ("name", "type"),
    [
        ("auth.ts", "file"), ("src/main.py", "file"), ("Makefile", "file"), ("a.tar.gz", "file"),
        ("my notes.md", "file"), ("notes", "custom"), ("release 1.2", "custom"), ("", "custom"),
        ("what was said.", "custom"), (".env", "file"),
    ],
)  # fmt: skip
def test_a_name_of_a_file_is_a_file(name: str, type: str) -> None:
    assert type_named(name) == type
    if name:
        context = opened(open_store("memory:"))
        assert context.artifacts.put("x", name=name).type == type
        assert context.artifacts.put("y", name=name, type="custom").type == "custom"
