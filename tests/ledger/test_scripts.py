"""Files that are changed by scripts and patches which the agent writes and runs (Y-45)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.config import Config
from refold.core.model import Message, Text, ToolCall, ToolResult
from refold.ledger.actions import actions_in
from refold.ledger.scripts import files_written

READ_AND_WRITTEN = "p = 'src/a.py'\nwith open(p) as f:\n    t = f.read()\nwith open(p, 'w') as f:\n    f.write(t)\n"


def changed(
    *calls: tuple[str, dict[str, Any]], result: str = "fine"
) -> list[tuple[str, str, bool | None]]:
    """What calls, one after the other, changed."""
    messages = []
    for at, (name, arguments) in enumerate(calls):
        messages.append(
            (2 * at + 1, Message(role="assistant", blocks=(ToolCall(str(at), name, arguments),)))
        )
        messages.append(
            (2 * at + 2, Message(role="tool", blocks=(ToolResult(str(at), (Text(result),)),)))
        )
    kinds = ("create", "modify", "delete")
    return [(a.kind, a.path, a.ok) for a in actions_in(messages, Config()) if a.kind in kinds]


def bash(command: str) -> tuple[str, dict[str, Any]]:
    return "bash", {"command": command}


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (READ_AND_WRITTEN, [("modify", "src/a.py")]),
        ("open('a', 'w').write('x')", [("create", "a")]),
        ('with open("a", mode="a") as f: pass', [("modify", "a")]),
        ("open('a', 'r').read(); open('b', 'rb')", []),
        ("Path('a.txt').write_text('x')", [("create", "a.txt")]),
        ("p = Path('a.txt')\nt = p.read_text()\np.write_text(t)", [("modify", "a.txt")]),
        ("const fs = require('fs');\nfs.writeFileSync('a.js', x)", [("create", "a.js")]),
        # What is computed is not known.
        ("open(f'{x}.py', 'w')", []),
        ("open(name, 'w')", []),
        ("open(os.path.join('a', b), 'w')", []),
        ("open('/dev/null', 'w')", []),
    ],
)
def test_a_script_names_the_files_it_writes(code: str, expected: list[tuple[str, str]]) -> None:
    assert files_written(code) == expected


def test_scripts_inside_a_command_are_read() -> None:
    assert changed(bash(f"python3 - <<'EOF'\n{READ_AND_WRITTEN}EOF")) == [
        ("modify", "src/a.py", True)
    ]
    assert changed(bash("python -c \"open('a', 'w').write('x')\"")) == [("create", "a", True)]


def test_a_script_changes_files_when_it_is_run_not_when_it_is_written() -> None:
    written = bash(f"cat > fix.py <<'EOF'\n{READ_AND_WRITTEN}EOF")
    assert changed(written) == [("create", "fix.py", True)]
    assert changed(written, bash("cd . && python fix.py")) == [
        ("create", "fix.py", True),
        ("modify", "src/a.py", True),
    ]
    tool = ("Write", {"file_path": "/w/fix.py", "content": READ_AND_WRITTEN})
    assert ("modify", "src/a.py", True) in changed(tool, bash("python /w/fix.py"))
    assert changed(bash("python unknown.py")) == []


def test_a_patch_file_changes_files_when_it_is_applied() -> None:
    written = bash("cat > x.patch <<'EOF'\n--- a/m.py\n+++ b/m.py\n@@\nEOF")
    for applied in ("git apply x.patch", "patch -p1 < x.patch", "patch -p1 -i x.patch"):
        assert changed(written, bash(applied))[-1] == ("modify", "m.py", True)


@given(st.text(alphabet="open(Path)'\"w,=.\n_text", max_size=200))
def test_any_code_can_be_read(code: str) -> None:
    files_written(code)


@pytest.mark.parametrize(
    "code",
    ["open(" * 60_000, "open('" * 60_000, "a = 'b'\n" * 30_000 + "open(a,'w')", "'" * 200_000],
)
def test_hostile_code_is_read_without_harm(code: str) -> None:
    files_written(code)
