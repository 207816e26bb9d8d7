"""Events of Claude Code are answered in its own shapes, or not at all, and never disturb it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refold.edges.hooks import ABOVE_CHARS, state
from refold.edges.hooks.events import PREVIEW_CHARS, answer
from tests.edges.hooks.inputs import SESSION, bash, event, lines, tool

LARGE = lines(2_000)


def said(given: Any, above: int = ABOVE_CHARS) -> Any:
    raw = answer(json.dumps(given).encode(), above, "")
    return json.loads(raw)["hookSpecificOutput"] if raw else None


@pytest.fixture(autouse=True)
def alone(project: Path, started: list[list[str]]) -> None:
    """In a folder of its own, where nothing is started."""


def test_a_large_output_becomes_a_stub_in_the_shape_of_its_tool(project):
    given = bash(LARGE, project)
    output = said(given)
    assert output["hookEventName"] == "PostToolUse"
    updated = output["updatedToolOutput"]
    assert updated.keys() == given["tool_response"].keys()
    assert {**updated, "stdout": ""} == {**given["tool_response"], "stdout": ""}
    assert len(updated["stdout"]) < 2_200
    assert "Large output of Bash: pytest -q" in updated["stdout"]
    assert f"artifact show claude-code-{SESSION} art-" in updated["stdout"]


# --- what Claude Code cut ---


def cut(whole: str, project: Path, path: Path | str) -> Any:
    """An output of which Claude Code gives the beginning, and keeps the whole in a file."""
    given = bash(whole[:30_000], project, "seq 1 9000")
    given["tool_response"] |= {"persistedOutputPath": str(path), "persistedOutputSize": len(whole)}
    return given


def kept_contents() -> list[str]:
    folder = Path(state.folder_of(SESSION), state.PENDING)
    return [path.read_text() for path in folder.glob("*.content")]


def test_an_output_that_was_cut_is_kept_from_the_file_that_has_it_whole(project):
    whole = "".join(f"{number}\n" for number in range(1, 9_001))
    path = project / SESSION / "tool-results" / "b1.txt"
    path.parent.mkdir(parents=True)
    path.write_text(whole)
    shown = said(cut(whole, project, path))["updatedToolOutput"]["stdout"]
    assert "9,000 lines, 43,893 bytes, kept whole as" in shown
    assert kept_contents() == [whole]


def test_only_what_claude_code_would_have_sent_counts_as_saved(project):
    whole = "".join(f"{number}\n" for number in range(1, 9_001))
    shown = said(cut(whole, project, project / "gone.txt"))["updatedToolOutput"]["stdout"]
    outputs, saved = state.kept(state.folder_of(SESSION))
    assert len(shown) <= PREVIEW_CHARS and (outputs, saved) == (1, PREVIEW_CHARS - len(shown))
    shown = said(bash(LARGE, project))["updatedToolOutput"]["stdout"]
    assert state.kept(state.folder_of(SESSION)) == (2, saved + len(LARGE) - len(shown))


@pytest.mark.parametrize("place", ["gone", "link", "elsewhere", "folder", "another output"])
def test_an_output_whose_whole_cannot_be_had_is_not_called_whole(place, project, tmp_path):
    whole = "".join(f"{number}\n" for number in range(1, 9_001))
    folder = project / SESSION / "tool-results"
    folder.mkdir(parents=True)
    secret = tmp_path / "secret.txt"
    secret.write_text(whole + "secret")
    path = folder / "b1.txt"
    match place:
        case "link":
            path.symlink_to(secret)
        case "elsewhere":
            path = secret
        case "folder":
            path.mkdir()
        case "another output":
            path.write_text("something else\n" * 9_000)
    shown = said(cut(whole, project, path))["updatedToolOutput"]["stdout"]
    assert "kept whole" not in shown and "cut off by Claude Code" in shown
    assert kept_contents() == [whole[:30_000]]


def test_an_output_with_a_gap_in_it_is_not_called_whole(project):
    text = lines(500) + "\n\n... [812 lines truncated] ...\n\n" + lines(500)
    assert "kept whole" not in said(bash(text, project))["updatedToolOutput"]["stdout"]


SHAPES: dict[str, Any] = {
    "a text": LARGE,
    "parts of an MCP tool": [{"type": "text", "text": LARGE}, {"type": "text", "text": "short"}],
    "a page": {"bytes": 70_000, "code": 200, "result": LARGE, "url": "https://example.org"},
    "both ends": {"stdout": LARGE, "stderr": LARGE, "interrupted": False},
}


@pytest.mark.parametrize("name", SHAPES)
def test_every_shape_stays_what_it_was(name, project):
    def shape(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: shape(one) for key, one in value.items()}
        return [shape(one) for one in value] if isinstance(value, list) else type(value)

    updated = said(tool("mcp__docs__fetch", SHAPES[name], project))["updatedToolOutput"]
    assert shape(updated) == shape(SHAPES[name])
    assert len(json.dumps(updated)) < 6_000


LEFT: dict[str, dict[str, Any]] = {
    "small": {"tool": "Bash", "response": {"stdout": "short"}},
    "a file": {"tool": "Read", "response": {"file": {"content": LARGE}}},
    "a sub-agent": {"tool": "Task", "response": {"content": [{"type": "text", "text": LARGE}]}},
    "refold's own tool": {"tool": "mcp__refold__unfold", "response": LARGE},
    "refold in a shell": {"tool": "Bash", "response": {"stdout": LARGE}, "command": "refold show x"},
    "refold by its path": {"tool": "Bash", "response": {"stdout": LARGE}, "command": "cd a && /x/refold show @1"},
    "a picture": {"tool": "mcp__a__b", "response": [{"type": "image", "source": {"data": LARGE}}]},
    "many small ones": {"tool": "Glob", "response": {"filenames": LARGE.split()}},
}  # fmt: skip


@pytest.mark.parametrize("name", LEFT)
def test_what_is_left_as_it_is(name, project):
    given = LEFT[name]
    command = {"command": given["command"]} if "command" in given else {}
    assert said(tool(given["tool"], given["response"], project, **command)) is None


def test_a_command_that_only_speaks_of_refold_is_no_call_of_it(project):
    assert said(bash(LARGE, project, command="grep -rn refolding src")) is not None


def test_a_large_output_is_written_to_the_log_at_once(project, started):
    said(bash("short", project))
    said(bash("short", project))
    assert len(started) == 1  # then every now and then
    said(bash(LARGE, project))
    assert len(started) == 2
    assert started[0][1:4] == ["-P", "-m", "refold.edges.hooks.follower"]
    assert started[0][4:] == [SESSION, str(project / f"{SESSION}.jsonl"), ""]


@pytest.mark.parametrize("name", ["Stop", "SubagentStop", "PreCompact", "SessionEnd"])
def test_the_session_is_written_when_something_ends(name, project, started):
    assert said(event(name, project, trigger="auto")) is None
    assert len(started) == 1


def test_after_a_compaction_what_the_log_knows_is_offered(project):
    compacted = event("SessionStart", project, source="compact")
    assert said(compacted) is None
    state.write(state.folder_of(SESSION), "offer", b"Open: the login test\n" * 1_000)
    offered = said(compacted)
    assert offered["hookEventName"] == "SessionStart"
    assert offered["additionalContext"].startswith("Open: the login test")
    assert len(offered["additionalContext"]) <= 9_000
    for source in ("startup", "resume", "clear", "fork"):
        assert said(event("SessionStart", project, source=source)) is None


STRANGE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=40),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@given(
    st.sampled_from(["PostToolUse", "SessionStart", "Stop", "Nothing", None, 7]),
    st.dictionaries(
        st.sampled_from(["session_id", "transcript_path", "cwd", "tool_name", "tool_input",
                         "tool_response", "source", "trigger"]), STRANGE
    ),
)  # fmt: skip
@settings(max_examples=150, deadline=None)
def test_whatever_is_given_the_answer_is_json_or_nothing(name, fields):
    given = {"hook_event_name": name, "session_id": "s", **fields}
    raw = answer(json.dumps(given).encode(), 20, "")
    assert raw == "" or "hookSpecificOutput" in json.loads(raw)


@pytest.mark.parametrize("session", ["../../etc", "/etc/passwd", "a/b", "", ".", "x" * 500, "ä\n"])
def test_a_session_is_never_a_path(session):
    folder = state.folder_of(session)
    assert Path(folder).parent == Path(state.root())
    assert len(Path(folder).name) <= 52
    assert len(state.conversation_of(session)) <= 64
