"""What calls did, whatever tool made them (C-14, C-17, C-18, C-19, C-22, C-23, Y-45)."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.config import Config
from refold.core.model import Message, Slot, Text, ToolCall, ToolResult
from refold.errors import Invalid
from refold.ledger.actions import Action, actions_in, actions_of
from refold.ledger.arguments import normal
from refold.ledger.calls import failed
from refold.ledger.shell import reading_of


def done(
    name: str,
    arguments: Any,
    result: str = "fine",
    *,
    error: bool = False,
    config: Config | None = None,
) -> list[Action]:
    """The actions of one call with its result."""
    call = Message(role="assistant", blocks=(Text("now"), ToolCall("c1", name, arguments)))
    answer = Message(role="tool", blocks=(ToolResult("c1", (Text(result),), is_error=error),))
    return actions_in([(7, call), (8, answer)], config or Config())


def told(name: str, arguments: Any) -> list[tuple[str, str, int, int]]:
    return [
        (action.kind, action.path, action.first, action.last) for action in done(name, arguments)
    ]


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("Read", {"file_path": "/r/a.py"}, [("read", "/r/a.py", 1, 0)]),
        ("Read", {"file_path": "a.py", "offset": 10, "limit": 20}, [("read", "a.py", 10, 29)]),
        ("Read", {"file_path": "a.py", "offset": "10", "limit": "20"}, [("read", "a.py", 10, 29)]),
        ("read_file", {"path": "./a.py"}, [("read", "a.py", 1, 0)]),
        ("readFile", {"filePath": "a.py", "startLine": 3, "endLine": 9}, [("read", "a.py", 3, 9)]),
        ("mcp__files__read_text_file", {"path": "a.py", "head": 5}, [("read", "a.py", 1, 5)]),
        ("mcp__files__read_text_file", {"path": "a.py", "tail": 5}, [("read", "a.py", -5, 0)]),
        ("read_file", {"path": "a.py", "first": 51, "last": 100}, [("read", "a.py", 51, 100)]),
        (
            "read_file",
            {"target_file": "a", "should_read_entire_file": True, "end_line": 9},
            [("read", "a", 1, 0)],
        ),
        ("view", {"path": "a.py", "view_range": [5, -1]}, [("read", "a.py", 5, 0)]),
        (
            "str_replace_editor",
            {"command": "view", "path": "a", "view_range": [1, 5]},
            [("read", "a", 1, 5)],
        ),
        (
            "str_replace_based_edit_tool",
            {"command": "insert", "path": "a"},
            [("modify", "a", 1, 0)],
        ),
        (
            "str_replace_editor",
            {"command": "create", "path": "a", "file_text": "x"},
            [("create", "a", 1, 0)],
        ),
        ("read_many_files", {"paths": ["a", "b"]}, [("read", "a", 1, 0), ("read", "b", 1, 0)]),
        ("Write", {"file_path": "a", "content": "x"}, [("create", "a", 1, 0)]),
        ("write_to_file", {"path": "a", "content": "x"}, [("create", "a", 1, 0)]),
        ("replace_in_file", {"path": "a", "diff": "x"}, [("modify", "a", 1, 0)]),
        ("MultiEdit", {"file_path": "a", "edits": []}, [("modify", "a", 1, 0)]),
        ("NotebookEdit", {"notebook_path": "a.ipynb"}, [("modify", "a.ipynb", 1, 0)]),
        ("delete_file", {"target_file": "a"}, [("delete", "a", 1, 0)]),
        (
            "move_file",
            {"source": "a", "destination": "b"},
            [("delete", "a", 1, 0), ("create", "b", 1, 0)],
        ),
        ("Grep", {"pattern": "x"}, [("search", "", 1, 0)]),
        ("search_direct_flight", {"origin": "ATL"}, [("search", "", 1, 0)]),
        ("TodoWrite", {"todos": []}, [("todo", "", 1, 0)]),
        ("update_plan", {"plan": []}, [("todo", "", 1, 0)]),
        ("create_issue", {"title": "x"}, [("other", "", 1, 0)]),
        ("think", {"thought": "x"}, [("other", "", 1, 0)]),
        ("Read", {"__unparsed": "x"}, [("other", "", 1, 0)]),
        ("Bash", {"command": "make"}, [("run", "", 1, 0)]),
        ("shell", {"command": ["bash", "-lc", "cat a.txt"]}, [("read", "a.txt", 1, 0)]),
        ("exec_command", {"cmd": "cat b", "workdir": "/w"}, [("read", "/w/b", 1, 0)]),
        (
            "apply_patch",
            "*** Begin Patch\n*** Update File: a.py\n@@\n*** End Patch",
            [("modify", "a.py", 1, 0)],
        ),
        ("apply_patch", {"input": "*** Begin Patch\n*** Add File: n\n+x"}, [("create", "n", 1, 0)]),
        ("sandbox_exec", {"command": "rm x"}, [("run", "", 1, 0), ("delete", "x", 1, 0)]),
        ("remote_bash_tool", {"cmd": "make"}, [("run", "", 1, 0)]),
        ("mcp__box__launch", {"script": "make"}, [("run", "", 1, 0)]),
    ],
)
def test_a_call_is_known_by_its_name_and_arguments(
    name: str, arguments: Any, expected: list[Any]
) -> None:
    assert told(name, arguments) == expected


@pytest.mark.parametrize("key", ["script", "command", "cmd", "command_line"])
@pytest.mark.parametrize(
    "name",
    [
        "ticket_lookup",
        "anything",
        "explain_shell",
        "check_run",
        "approve_command",
        "ticket",
        "update_shell",
        "save_command",
        "",
    ],
)
def test_an_argument_alone_does_not_say_that_a_command_ran(name: str, key: str) -> None:
    """Only a tool whose name, or configured kind, says that it runs commands has run one."""
    arguments = {"ticket": 1, key: "rm wipe_1.sh"}
    assert {action.kind for action in done(name, arguments)}.isdisjoint({"run", "delete"})
    config = Config(tool_kinds={name: "run"})
    assert done(name, arguments, config=config)[0].kind == "run"


def test_arguments_may_be_json_text() -> None:
    assert told("Read", '{"file_path": "a.py", "limit": 5}') == [("read", "a.py", 1, 5)]


def test_a_configured_kind_comes_first_and_names_the_path_argument() -> None:
    """Y-45: `{"save": "modify:path"}`."""
    config = Config(tool_kinds={"save": "modify:path", "Read": "other", "peek": "read:where"})
    assert [
        (a.kind, a.path) for a in done("save", {"path": "a.py", "file": "no"}, config=config)
    ] == [("modify", "a.py")]
    assert done("Read", {"file_path": "a.py"}, config=config)[0].kind == "other"
    assert done("peek", {"where": "b.py"}, config=config)[0].path == "b.py"
    with pytest.raises(Invalid):
        done("x", {}, config=Config(tool_kinds={"x": "reed"}))


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("cat a b", [("read", "a", 1, 0), ("read", "b", 1, 0)]),
        ("sed -n '10,20p' f", [("read", "f", 10, 20)]),
        ("sed -n 10,\\$p f", [("read", "f", 10, 0)]),
        ("sed -n '5p' f", [("read", "f", 5, 5)]),
        ("head -n 20 f", [("read", "f", 1, 20)]),
        ("head -20 f", [("read", "f", 1, 20)]),
        ("tail -n 5 f", [("read", "f", -5, 0)]),
        ("tail -n +5 f", [("read", "f", 5, 0)]),
        ("nl -ba f | sed -n '1,80p'", [("read", "f", 1, 80)]),
        ("cat -n f | head -50", [("read", "f", 1, 50)]),
        ("cd /w && cat f 2>/dev/null", [("read", "/w/f", 1, 0)]),
        ("cd sub; cat ../f", [("read", "sub/../f", 1, 0)]),
        ('bash -lc "cat a.txt"', [("read", "a.txt", 1, 0)]),
        ("git mv a b", [("delete", "a", 1, 0), ("create", "b", 1, 0)]),
        ("mv a dir/", [("delete", "a", 1, 0), ("create", "dir/a", 1, 0)]),
        ("cp a b", [("create", "b", 1, 0)]),
        ("rm -rf a", [("delete", "a", 1, 0)]),
        ("rm a || true", [("delete", "a", 1, 0)]),
        ("echo x > f", [("create", "f", 1, 0)]),
        ("echo x >> f", [("modify", "f", 1, 0)]),
        ("make 2>&1 | tee log", [("create", "log", 1, 0)]),
        ("make | tee -a log", [("modify", "log", 1, 0)]),
        ("sed -i 's/a/b/' x y", [("modify", "x", 1, 0), ("modify", "y", 1, 0)]),
        ("sed -i '' -e 's/a/b/' x", [("modify", "x", 1, 0)]),
        ("sed -i.bak -e 's/a/b/' -e 1d x", [("modify", "x", 1, 0)]),
        ("perl -pi -e 's/a/b/' x", [("modify", "x", 1, 0)]),
        ("cat > f <<'EOF'\n$(rm -rf /) `x` 'unbalanced\nEOF\n", [("create", "f", 1, 0)]),
        ("cat <<'EOF' > f\nrm z\nEOF\nrm y", [("create", "f", 1, 0), ("delete", "y", 1, 0)]),
        ("touch a", [("create", "a", 1, 0)]),
        ("mkdir -p d", [("create", "d/", 1, 0)]),
        (
            "apply_patch <<'EOF'\n*** Begin Patch\n*** Delete File: q\n*** End Patch\nEOF",
            [("delete", "q", 1, 0)],
        ),
        ("FOO=1 sudo rm 'a b'", [("delete", "a b", 1, 0)]),
        ("git checkout -- f", [("modify", "f", 1, 0)]),
        # Unsure: nothing is said about files.
        ("for f in *; do rm $f; done", []),
        ("rm $FILE", []),
        ("rm *.pyc", []),
        ("echo `cat f`", []),
        ("cat $(ls)", []),
        ("(cd x; rm y)", []),
        ("cat 'unbalanced", []),
        ("cat f | grep x", []),
        ("sed 's/a/b/' f", []),
        ("make > /dev/null", []),
        ("false || rm f", []),
        ("if test -f x; then rm x; fi", []),
        ("cd $X && rm y", []),
        ("python - <<'EOF'\nopen(name,'w')\nEOF", []),
        ("find . -name '*.py' -delete", []),
    ],
)
def test_a_command_is_read_as_far_as_it_is_certain(command: str, expected: list[Any]) -> None:
    assert [(e.kind, e.path, e.first, e.last) for e in reading_of(command).effects] == expected


@pytest.mark.parametrize(
    ("command", "alone"),
    [
        ("cat f", True),
        ("cd /w && set -e && cat f", True),
        ("rm x; cat f", True),
        ("cat f; echo done", False),
        ("cat a b", False),
        ("make && cat f", False),
        ("sed -n '1,5p' f | head -2", False),
        ("cat f | head -2", True),
    ],
)
def test_a_read_is_alone_only_if_nothing_else_is_in_the_output(command: str, alone: bool) -> None:
    reads = [effect for effect in reading_of(command).effects if effect.kind == "read"]
    assert any(effect.alone for effect in reads) is alone


@pytest.mark.parametrize(
    ("command", "kinds"),
    [
        ("cat f", ["read"]),
        ("grep x f | head", ["search"]),
        ("git status && git diff", ["search"]),
        ("ls; cat f", ["read"]),
        ("pytest -q", ["run"]),
        ("sed -i 1d f", ["run", "modify"]),
        ("open src/a.py 10", ["read"]),
        ("create new.py", ["create"]),
    ],
)
def test_a_command_that_only_looks_is_no_run(command: str, kinds: list[str]) -> None:
    assert [action.kind for action in done("bash", {"command": command})] == kinds


def test_an_editor_in_the_shell_works_on_the_file_opened_last() -> None:
    messages = [
        (
            1,
            Message(
                role="assistant", blocks=(ToolCall("a", "shell", {"command": "open src/a.py 10"}),)
            ),
        ),
        (
            2,
            Message(
                role="tool", blocks=(ToolResult("a", (Text("[File: src/a.py (90 lines total)]"),)),)
            ),
        ),
        (
            3,
            Message(
                role="assistant",
                blocks=(ToolCall("b", "shell", {"command": "edit 1:2\nx\nend_of_edit"}),),
            ),
        ),
    ]
    assert [(a.kind, a.path, a.ok) for a in actions_in(messages, Config())][1] == (
        "modify",
        "src/a.py",
        None,
    )


def test_failures_are_known_by_flag_status_and_words() -> None:
    assert done("Read", {"file_path": "a"}, "text", error=True)[0].ok is False
    assert done("Bash", {"command": "make"}, "Exit code 2\nx")[0].exit == 2
    assert done("Bash", {"command": "make"}, "all good")[0].ok is True
    assert (
        done("Edit", {"file_path": "a"}, "<tool_use_error>String to replace not found")[0].ok
        is False
    )
    assert done("Read", {"file_path": "a"}, "[no result recorded]")[0].ok is None
    assert not failed("1→error: in a numbered file")


def test_a_change_before_a_failing_step_may_have_happened() -> None:
    both = done("bash", {"command": "sed -i 1d f && pytest"}, "<returncode>1</returncode>")
    assert [(action.kind, action.ok) for action in both] == [("run", False), ("modify", None)]
    assert done("bash", {"command": "sed -i 1d f"}, "<returncode>1</returncode>")[1].ok is False


def test_calls_are_paired_with_their_results_by_seq_and_block() -> None:
    calls = Message(
        role="assistant",
        blocks=(ToolCall("a", "Read", {"path": "x"}), ToolCall("b", "Read", {"path": "y"})),
    )
    results = Message(
        role="user", blocks=(ToolResult("b", (Text("yy"),)), ToolResult("a", (Text("xx"),)))
    )
    found = actions_of([Slot(3, 3, calls, 1), Slot(4, 4, results, 1)], Config())
    places = [(a.path, a.seq, a.block, a.result_seq, a.result_block, a.output) for a in found]
    assert places == [("x", 3, 0, 4, 1, "xx"), ("y", 3, 1, 4, 0, "yy")]


def test_a_result_given_as_text_is_an_action_in_both_forms() -> None:
    """C-11: the content is the next block (old form) or stands behind the header (new form)."""
    old = Message(role="user", blocks=(Text("[read_file for 'a.txt'] Result:"), Text("body")))
    new = Message(role="user", blocks=(Text("[read_file for 'a.txt'] Result:\nbody"),))
    ran = Message(role="user", blocks=(Text("[execute_command for 'npm test'] Result:\nok"),))
    first, second, third = actions_in([(1, old), (2, new), (3, ran)], Config())
    assert (first.path, first.result_block, first.start, first.output) == ("a.txt", 1, 0, "body")
    assert (second.path, second.result_block, second.start, second.output) == (
        "a.txt",
        0,
        32,
        "body",
    )
    assert (third.kind, third.command) == ("run", "npm test")


def test_where_case_does_not_count_the_first_spelling_stands_for_all() -> None:
    """C-17: `A.py` and `a.py` are two files, unless configured."""
    calls = [
        ToolCall(path, "Read", {"path": path})
        for path in ("README.md", "src/A.py", "readme.MD", "./src/a.py")
    ]
    messages = [(1, Message(role="assistant", blocks=tuple(calls)))]
    configured = Config(strategy={"actions": {"ignore_case": True}})
    assert [action.path for action in actions_in(messages, configured)] == [
        "README.md",
        "src/A.py",
    ] * 2
    assert len({action.path for action in actions_in(messages, Config())}) == 4


def test_a_path_under_the_configured_folder_is_relative() -> None:
    """C-17: absolute under cwd."""
    assert normal("/w/src/a.py", "/w") == normal("src/a.py", "/w") == "src/a.py"
    assert normal("/ws/a.py", "/w/") == "/ws/a.py"
    config = Config(strategy={"actions": {"cwd": "/w"}})
    assert done("Read", {"path": "/w/a"}, config=config)[0].path == "a"


# --- nothing raises ---

_deep: Any = []
for _ in range(5_000):
    _deep = [_deep]
_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from(["a/b", "cat x", "1-2"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)
_keys = st.sampled_from(
    ["path", "file_path", "command", "cmd", "offset", "limit", "view_range", "todos", "plan", "paths", "files",
     "source", "destination", "input", "content", "workdir", "taskId", "status", "lines", ""]
)  # fmt: skip
_names = st.sampled_from(
    [
        "Read",
        "Edit",
        "Bash",
        "apply_patch",
        "move_file",
        "TodoWrite",
        "TaskUpdate",
        "x",
        "",
        "str_replace_editor",
        "a__",
        ".",
    ]
)


@given(
    _names,
    st.dictionaries(_keys, _values, max_size=4) | st.text(max_size=60),
    st.text(max_size=60),
    st.booleans(),
)
def test_no_arguments_and_no_result_raise(
    name: str, arguments: Any, result: str, error: bool
) -> None:
    assert done(name, arguments, result, error=error)


@pytest.mark.parametrize(
    "arguments",
    [
        "{not json",
        '{"a":' * 5_000,
        "[" * 100_000,
        '"text"',
        "null",
        "\x00",
        '{"path": "\ud800"}',
        {"path": _deep},
        {"command": "x" * 1_000_000},
        {"command": "'" * 99_999},
        {"command": '"' + "\\" * 99_999},
        {"command": "a\x00b"},
        {"command": "cat <<E\n" + "EE\n" * 60_000},
        {"command": "a|" * 90_000},
        {"command": "<<''\n"},
        {"command": ">" * 1_000},
        {"command": ["cat", 1]},
        {"path": "a" * 100_000},
        {"path": ""},
        {"todos": _deep},
        {"files": [{"path": _deep}]},
    ],
)
@pytest.mark.parametrize("name", ["Read", "Bash", "apply_patch", "TodoWrite"])
def test_hostile_arguments_are_read_or_left_alone(name: str, arguments: Any) -> None:
    assert done(name, arguments)


@pytest.mark.soak
def test_a_large_page_is_read_in_milliseconds() -> None:
    """30 ms for a page of 200,000 tokens, with room for a busy machine."""
    slots = []
    for n in range(400):
        name, arguments = [
            ("Read", {"file_path": f"/r/{n}.py"}),
            ("Bash", {"command": f"cd /r && pytest -q {n} | tail"}),
        ][n % 2]
        slots.append(
            Slot(
                2 * n + 1,
                2 * n + 1,
                Message(role="assistant", blocks=(ToolCall(f"c{n}", name, arguments),)),
                1,
            )
        )
        output = "".join(f"{line:6}→some text of a line\n" for line in range(70))
        slots.append(
            Slot(
                2 * n + 2,
                2 * n + 2,
                Message(role="tool", blocks=(ToolResult(f"c{n}", (Text(output),)),)),
                1,
            )
        )
    times = []
    for _ in range(5):
        started = time.process_time()
        assert len(actions_of(slots, Config())) == 400
        times.append(time.process_time() - started)
    assert min(times) < 0.09
