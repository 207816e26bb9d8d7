"""Types are read by one thread at a time: msgspec alone ends the process where two read one type
for the first time at once."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import refold
from refold.patterns import regex

ROOT = Path(refold.__file__).parent
OURS = sorted(path for path in ROOT.rglob("*.py") if path.name != "decoding.py")
THREADS, KINDS = 4, 40

# Each kind is new, nested, and used first by several threads that change places all the time.
FIRST_USES = f"""
import sys, threading, types
import msgspec
from refold import decoding
from refold.patterns import regex

sys.setswitchinterval(1e-6)
FIELDS = "; ".join(f"f{{n}}: {{'{{0}}'}} | None = None" for n in range(8))
CODE = "from __future__ import annotations\\nimport msgspec\\n" + "".join(
    f"class C{{n}}(msgspec.Struct, frozen=True): {{FIELDS.format('int' if not n else f'C{{n - 1}}')}}\\n"
    for n in range(6)
)
BODY = b'{{"f0": {{"f7": {{"f1": {{"f2": {{"f3": {{"f4": 1}}}}}}}}}}}}'

for number in range({KINDS}):
    module = types.ModuleType(f"kinds_{{number}}")
    sys.modules[module.__name__] = module
    exec(CODE, module.__dict__)
    together = threading.Barrier({THREADS})
    def use():
        together.wait()
        found = decoding.decode(BODY, module.C5)
        assert found.f0.f7.f1.f2.f3.f4 == 1
    threads = [threading.Thread(target=use) for _ in range({THREADS})]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
print("alive")
"""


def test_a_type_that_several_threads_use_first_is_read_whole() -> None:
    done = subprocess.run([sys.executable, "-c", FIRST_USES], capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip()) == (0, "alive"), done.stderr


@pytest.mark.parametrize("code", ["msgspec.convert(a, B)", "json.Decoder(B)", "decode(a, type=B)"])
def test_a_reading_of_types_is_recognized(code: str) -> None:
    assert list(readings(ast.parse(code)))


def readings(tree: ast.AST) -> Iterator[int]:
    """The lines where msgspec itself is asked for a value of a type."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        is_typed = called.endswith("decode") and any(one.arg == "type" for one in node.keywords)
        if is_typed or called.endswith("Decoder") or called in ("msgspec.convert", "convert"):
            yield node.lineno


@pytest.mark.parametrize("path", OURS, ids=lambda path: str(path.relative_to(ROOT)))
def test_nobody_else_asks_msgspec_for_a_type(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    if "msgspec" in text:
        assert list(readings(ast.parse(text))) == []


def test_a_pattern_is_compiled_at_its_first_use_and_acts_as_one():
    late = regex(r"(?P<word>\w+)-(\d)", re.I)
    assert not {"search", "sub"} & vars(late).keys()
    once = re.compile(r"(?P<word>\w+)-(\d)", re.I)
    text = "one-1 two-2"
    assert late.sub(r"\2", text) == once.sub(r"\2", text)
    assert [match.span() for match in late.finditer(text)] == [(0, 5), (6, 11)]
    assert late.search.__self__.pattern == late.pattern == once.pattern
    assert (late.flags, late.groups, late.groupindex) == (once.flags, 2, {"word": 1})


def test_every_pattern_compiles():
    code = """
import gc, importlib, pathlib, refold
from refold import patterns as ours
root = pathlib.Path(refold.__file__).parent
for path in root.rglob("*.py"):
    name = ".".join(("refold", *path.relative_to(root).with_suffix("").parts))
    if "regex(" in path.read_text() and not name.endswith("__main__"):
        importlib.import_module(name)
patterns = [one for one in gc.get_objects() if isinstance(one, ours._Uncompiled)]
print(len([one.pattern for one in patterns]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 200
