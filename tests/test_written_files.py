"""No file is opened for writing through a link that somebody else may have planted.

A project is a clone: a link may wait under every name in it that can be guessed. So a file is
created with O_EXCL, which takes no existing name, or opened with O_NOFOLLOW. The calls below are
those that need neither, each with its reason.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import refold

ROOT = Path(refold.__file__).parent
# Functions that add O_NOFOLLOW to the flags that they are given.
OPENERS = {"open_own", "opened"}
WRITING = set("wa+")
# The function that writes, and why no link can wait for it.
ALLOWED = {
    ("edges/commands/handover.py", "_written"): "in a folder that it has just made",
    ("edges/commands/import_export.py", "_kept_stdin"): "in a folder of tempfile.mkdtemp",
    (
        "stores/contract/logs.py",
        "what_lies_at_a_derived_path_does_not_disturb_the_store",
    ): "a test of a store, in a folder of the test",
}


def name_of(function: ast.expr) -> str:
    match function:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
    return ""


def flags_in(tree: ast.AST, constants: dict[str, ast.expr]) -> set[str]:
    """The names of the flags in an expression, also of those in constants of the module."""
    found = set()
    for node in ast.walk(tree):
        name = name_of(node) if isinstance(node, ast.expr) else ""
        found |= flags_in(constants[name], {}) if name in constants else {name}
    return found


def mode_of(call: ast.Call, position: int) -> str:
    """The mode in a call of `open`; reading if there is none."""
    given = [word.value for word in call.keywords if word.arg == "mode"] or call.args[position:]
    return given[0].value if given and isinstance(given[0], ast.Constant) else "r"


def opens_by_name(call: ast.Call) -> bool:
    """Whether a call writes to a path, existing or not, without looking for a link."""
    match call.func:
        case ast.Attribute(attr="write_text" | "write_bytes"):
            # argparse has a formatter with a method of this name.
            return name_of(call.func.value) != "formatter"
        case ast.Attribute(attr="open", value=ast.Name(id="os" | "codecs" | "wave")):
            return False
        case ast.Attribute(attr="open"):
            return bool(WRITING & set(str(mode_of(call, 0))))
        case ast.Name(id="open"):
            first = call.args[0]
            is_descriptor = isinstance(first, ast.Name) and first.id == "fd"
            is_opened = isinstance(first, ast.Call) and name_of(first.func) in {"open", *OPENERS}
            is_writing = bool(WRITING & set(str(mode_of(call, 1))))
            return is_writing and not is_descriptor and not is_opened
    return False


def faults(source: str) -> Iterator[tuple[str, int]]:
    """The function and line of every file opened for writing through a possible link."""
    tree = ast.parse(source)
    constants = {
        target.id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }

    def walk(node: ast.AST, function: str, is_safe: bool) -> Iterator[tuple[str, int]]:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            function = node.name
        if isinstance(node, ast.Call):
            if opens_by_name(node):
                yield function, node.lineno
            is_safe = is_safe or name_of(node.func) in OPENERS
        if isinstance(node, ast.BinOp | ast.Attribute) and not is_safe:
            flags = flags_in(node, constants)
            if "O_CREAT" in flags and not flags & {"O_EXCL", "O_NOFOLLOW"}:
                yield function, node.lineno
            is_safe = True  # one answer for the whole expression
        for child in ast.iter_child_nodes(node):
            # Calls inside an attribute or an operation are looked at for themselves.
            yield from walk(child, function, is_safe and not isinstance(child, ast.Call))

    yield from walk(tree, "", False)


def test_no_file_is_written_through_a_planted_link() -> None:
    found = {
        (str(path.relative_to(ROOT)), function): line
        for path in sorted(ROOT.rglob("*.py"))
        for function, line in faults(path.read_text(encoding="utf-8"))
    }
    assert {place: line for place, line in found.items() if place not in ALLOWED} == {}
    assert set(ALLOWED) <= set(found), "a reason for a call that is gone"


def test_only_one_function_opens_a_database() -> None:
    """It looks for a planted journal first."""
    found = [
        str(path.relative_to(ROOT))
        for path in ROOT.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) in ("apsw.Connection", "sqlite3.connect")
    ]
    assert found == ["system/sqlite_file.py"]


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)", 1),
        ("open(os.open(path, os.O_CREAT | os.O_WRONLY), 'w')", 1),
        ("os.open(path, os.O_CREAT)", 1),
        ("FLAGS = os.O_RDWR | os.O_CREAT", 1),
        ("flags = os.O_RDWR | os.O_CREAT", 1),
        ("open(path, 'w')", 1),
        ("open(path, mode='ab')", 1),
        ("open(str(path), 'r+b')", 1),
        ("path.open('wb')", 1),
        ("path.write_text('x')", 1),
        ("path.with_name('x').write_bytes(b'')", 1),
        ("os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)", 0),
        ("SAFE = posix.O_NOFOLLOW\nos.open(path, os.O_CREAT | SAFE)", 0),
        ("open_own(path, os.O_RDWR | os.O_CREAT)", 0),
        ("open(state.opened(path, os.O_RDWR | os.O_CREAT), 'wb')", 0),
        ("open(fd, 'wb')", 0),
        ("open(path, 'x')", 0),
        ("open(path)", 0),
        ("path.open('rb')", 0),
    ],
)
def test_the_check_knows_a_write_through_a_link(source: str, count: int) -> None:
    assert len(list(faults(source))) == count
