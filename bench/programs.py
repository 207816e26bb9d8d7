"""Outputs of real programs, run here and now in a folder of their own, and of programs that are
usual elsewhere, made line by line.

Each case knows which of its lines tell something: what failed, and why. A program that this machine
does not have is left out. Neighbour: `bench.stubs` asks which of these lines are on a stub.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

from msgspec import Struct

WAIT_S, CHARS_MIN = 60, 1_000


class Case(Struct, frozen=True):
    """An output, and pieces of the lines that tell something in it."""

    name: str
    text: str
    telling: tuple[str, ...]


def run(folder: Path, *command: str) -> str:
    """What a command prints, errors included."""
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "LANG": "C.UTF-8",
        "NO_COLOR": "1",
    }
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=WAIT_S,
        check=False,
    )
    return done.stdout.decode("utf-8", "replace")


def has(program: str) -> bool:
    return shutil.which(program) is not None


def _wrote(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(text), encoding="utf-8")
    return path


# --- programs that run here ---


def pytest(folder: Path) -> Iterator[Case]:
    tests = "".join(
        f"def test_payment_{n}():\n    total = {n} * 100\n    assert total == {4242 if n in (37, 81) else n * 100}\n\n"
        for n in range(120)
    )
    _wrote(folder, "test_payments.py", tests)
    text = run(folder, sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider")
    telling = ("assert 3700 == 4242", "assert 8100 == 4242", "FAILED test_payments.py::test_payment_37",
               "test_payments.py:151: AssertionError", "2 failed, 118 passed")  # fmt: skip
    yield Case("pytest -v", text, telling)


def unittest(folder: Path) -> Iterator[Case]:
    tests = "import unittest\nclass Payments(unittest.TestCase):\n" + "".join(
        f"    def test_{n}(self):\n        self.assertEqual({n}, {n + (n == 63)})\n"
        for n in range(150)
    )
    _wrote(folder, "test_unit.py", tests)
    text = run(folder, sys.executable, "-m", "unittest", "-v", "test_unit")
    telling = ("FAIL: test_63", "AssertionError: 63 != 64", "FAILED (failures=1)", "Ran 150 tests")
    yield Case("unittest -v", text, telling)


def traceback(folder: Path) -> Iterator[Case]:
    steps = "".join(f"def step_{n}(order):\n    return step_{n + 1}(order)\n\n" for n in range(60))
    last = "def step_60(order):\n    raise ValueError(f'no price for {order}')\n\nstep_0('A-17')\n"
    _wrote(folder, "orders.py", steps + last)
    telling = (
        "ValueError: no price for A-17",
        "in step_60",
        "raise ValueError(",
        "Traceback (most recent",
    )
    yield Case("python traceback", run(folder, sys.executable, "orders.py"), telling)


def gcc(folder: Path) -> Iterator[Case]:
    lines = "".join(f"int f{n}(int a) {{ int unused_{n} = a; return a; }}\n" for n in range(60))
    source = "#include <stdio.h>\n" + lines + "int main(void) { return undeclared_total + 1 }\n"
    _wrote(folder, "total.c", source)
    text = run(folder, "gcc", "-Wall", "-c", "total.c")
    telling = ("error: 'undeclared_total' undeclared", "total.c:62:", "warning: unused variable")
    quoted = tuple(one.replace("'", "\u2018", 1).replace("'", "\u2019", 1) for one in telling)
    yield Case("gcc -Wall", text, quoted if "\u2018" in text else telling)


def git(folder: Path) -> Iterator[Case]:
    run(folder, "git", "init", "-q", ".")
    names = [f"src/part{n}.py" for n in range(6)]
    for name in names:
        _wrote(folder, name, "".join(f"value_{n} = {n}\n" for n in range(300)))
    run(folder, "git", "add", "-A")
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    run(folder, "git", *identity, "commit", "-qm", "First")
    for name in names:
        text = (folder / name).read_text().replace("value_150 = 150", "timeout_s = 30")
        (folder / name).write_text(text.replace("value_250 = 250\n", "value_250 = retries\n" * 20))
    files = [f"b/{name}" for name in names]
    telling = (*files, "+timeout_s = 30", "-value_150 = 150", "+value_250 = retries")
    yield Case("git diff", run(folder, "git", "diff"), telling)
    run(folder, "git", *identity, "commit", "-qam", "Set a timeout")
    yield Case("git log -p", run(folder, "git", "log", "-p", "-1"), (*telling, "Set a timeout"))


def grep(folder: Path) -> Iterator[Case]:
    for n in range(12):
        _wrote(folder, f"src/part{n}.py", f"retries = {n}\n# some text\n" * (40 if n == 5 else 3))
    text = run(folder, "grep", "-rn", "retries", "src")
    yield Case("grep -rn", text, ("src/part5.py:",))


def listing(folder: Path) -> Iterator[Case]:
    for n in range(300):
        _wrote(folder, f"file{n:03}.dat", "x" * n)
    telling = ("total ", "file000.dat", "file299.dat")
    yield Case("ls -l", run(folder, "ls", "-l"), telling)


def pip(folder: Path) -> Iterator[Case]:
    text = run(
        folder,
        sys.executable,
        "-m",
        "pip",
        "list",
        "--format",
        "json",
        "--disable-pip-version-check",
    )
    if text.startswith("["):
        yield Case("pip list --format json", text * 1, ('"name"', '"version"'))


def mypy(folder: Path) -> Iterator[Case]:
    wrong = "".join(f"def f{n}(a: int) -> str:\n    return a\n" for n in range(80))
    _wrote(folder, "typed.py", wrong + "import missing_module_x\nprint(undefined_name_y)\n")
    text = run(folder, sys.executable, "-m", "mypy", "--no-incremental", "typed.py")
    telling = ("Incompatible return value type", 'Name "undefined_name_y" is not defined', "Found 82 errors",
               "missing_module_x")  # fmt: skip
    yield Case("mypy", text, telling)


def ruff(folder: Path) -> Iterator[Case]:
    _wrote(
        folder, "linted.py", "".join(f"import os_{n}\n" for n in range(80)) + "if x == None: pass\n"
    )
    text = run(
        folder,
        sys.executable,
        "-m",
        "ruff",
        "check",
        "--output-format",
        "concise",
        "--select",
        "F,E",
        "linted.py",
    )
    telling = ("F401", "E711", "F821", "Found ")
    yield Case("ruff check", text, telling)
    full = run(folder, sys.executable, "-m", "ruff", "check", "--select", "F,E", "linted.py")
    yield Case("ruff check (full)", full, telling)


def node(folder: Path) -> Iterator[Case]:
    steps = "".join(f"function step{n}(o) {{ return step{n + 1}(o) }}\n" for n in range(9))
    _wrote(folder, "orders.js", "console.log('working\\n'.repeat(300));\n" + steps
           + "function step9(o) { return o.price.value }\nstep0({})\n")  # fmt: skip
    telling = (
        "TypeError: Cannot read properties of undefined (reading 'value')",
        "at step9",
        "orders.js:11",
    )
    yield Case("node stack trace", run(folder, "node", "orders.js"), telling)
    tests = "".join(
        f"test('case {n}', () => assert.equal({n}, {n + (n == 44)}))\n" for n in range(120)
    )
    _wrote(
        folder,
        "cases.test.js",
        "const test=require('node:test'), assert=require('node:assert')\n" + tests,
    )
    yield Case("node --test", run(folder, "node", "--test", "--test-reporter", "tap", "cases.test.js"),
               ("not ok 45 - case 44", "# fail 1", "# pass 119", "44 !== 45"))  # fmt: skip


def java(folder: Path) -> Iterator[Case]:
    steps = "".join(
        f"  static int step{n}(int[] a) {{ return step{n + 1}(a); }}\n" for n in range(40)
    )
    _wrote(folder, "Orders.java", "public class Orders {\n" + steps
           + "  static int step40(int[] a) { try { return a[7]; } catch (Exception e) {"
           + " throw new IllegalStateException(\"no order 7\", e); } }\n"
           + "  public static void main(String[] x) { step0(new int[2]); }\n}\n")  # fmt: skip
    telling = ("IllegalStateException: no order 7", "Caused by: java.lang.ArrayIndexOutOfBoundsException",
               "Orders.step40(Orders.java:42)")  # fmt: skip
    yield Case("java stack trace", run(folder, "java", "Orders.java"), telling)
    wrong = "".join(f'  static int g{n}() {{ return "{n}"; }}\n' for n in range(60))
    _wrote(
        folder,
        "Wrong.java",
        "public class Wrong {\n" + wrong + "  int h() { return missing; }\n}\n",
    )
    yield Case("javac", run(folder, "javac", "-d", ".", "Wrong.java"),
               ("incompatible types: String cannot be converted to int", "cannot find symbol", "61 errors"))  # fmt: skip


def rustc(folder: Path) -> Iterator[Case]:
    unused = "".join(f"fn unused_{n}() {{ let x = {n}; }}\n" for n in range(40))
    _wrote(folder, "main.rs", unused + 'fn main() { let n: i32 = "seven"; undefined_call(n); }\n')
    telling = (
        "error[E0308]: mismatched types",
        "error[E0425]: cannot find function",
        "--> main.rs:41",
        "aborting due to",
    )
    yield Case("rustc", run(folder, "rustc", "main.rs"), telling)


def make(folder: Path) -> Iterator[Case]:
    rules = "".join(f"part{n}.o:\n\t@echo '  CC      src/driver/part{n}.o'\n" for n in range(400))
    objects = " ".join(f"part{n}.o" for n in range(400))
    failing = "link: " + objects + "\n\t@echo 'ld: undefined reference to `net_open`' >&2; exit 1\n"
    _wrote(folder, "Makefile", "all: link\n" + failing + rules)
    yield Case("make", run(folder, "make"), ("undefined reference to `net_open`", "*** [Makefile"))


def sqlite(folder: Path) -> Iterator[Case]:
    rows = ",".join(f"({n},'user{n}',{'NULL' if n == 333 else n * 3})" for n in range(600))
    sql = f"create table t(id, name, score); insert into t values {rows};"
    text = run(folder, "sqlite3", "-header", "-csv", ":memory:", sql + "select * from t;")
    yield Case("sqlite3 -csv", text, ("id,name,score", "0,user0,0", "599,user599"))
    column = run(folder, "sqlite3", "-header", "-column", ":memory:", sql + "select * from t;")
    yield Case("sqlite3 -column", column, ("id   name", "---", "user0", "user599"))


def source(folder: Path) -> Iterator[Case]:
    path = Path(json.__file__).parent / "decoder.py"
    numbered = "".join(f"{n:6}\t{line}\n" for n, line in enumerate(path.read_text().split("\n"), 1))
    telling = (
        "class JSONDecodeError(",
        "def JSONObject(",
        "class JSONDecoder(",
        "def raw_decode(",
        "def py_scanstring(",
    )
    yield Case("cat -n decoder.py", numbered, telling)


# --- programs that are usual elsewhere, made line by line ---


def app_log(folder: Path) -> Iterator[Case]:
    chance = random.Random(7)
    lines = []
    for n in range(4_000):
        at = f"2026-11-16 {n // 400 + 3:02}:{n // 7 % 60:02}:{n % 60:02},{n % 1000:03}"
        lines.append(
            f"{at} INFO api.http GET /orders/{chance.randrange(9999)} 200 {chance.randrange(90)}ms"
        )
        if n == 2_100:
            lines += [f"{at} ERROR api.orders order A-17 could not be priced", "Traceback (most recent call last):",
                      '  File "/srv/api/orders.py", line 88, in price', "    return table[order.sku]", "KeyError: 'SKU-9'"]  # fmt: skip
        if n == 3_300:
            lines.append(f"{at} WARNING api.db pool exhausted, 3 waiting")
    telling = (
        "order A-17 could not be priced",
        "KeyError: 'SKU-9'",
        "pool exhausted, 3 waiting",
        "03:00:00,000 INFO",
    )
    yield Case("application log", "\n".join(lines), telling)


def access_log(folder: Path) -> Iterator[Case]:
    lines = [
        f'10.0.0.{n % 250} - - [16/Nov/2026:03:{n % 60:02}:15 +0000] "GET /p/{n} HTTP/1.1" 200 {n}'
        for n in range(2_500)
    ]
    lines[1_234] = '10.0.0.9 - - [16/Nov/2026:03:14:15 +0000] "POST /pay HTTP/1.1" 502 17'
    yield Case("access log", "\n".join(lines), ('"POST /pay HTTP/1.1" 502',))


def kernel_log(folder: Path) -> Iterator[Case]:
    lines = [f"[{n / 7:12.6f}] usb 1-{n % 4}: new high-speed device number {n}" for n in range(900)]
    lines[512] = "[   73.142857] Out of memory: Killed process 4711 (worker) total-vm:8123456kB"
    lines[700] = "[  100.000000] EXT4-fs error (device sda1): ext4_find_entry: inode #2"
    yield Case(
        "kernel log", "\n".join(lines), ("Killed process 4711", "EXT4-fs error (device sda1)")
    )


def tsc(folder: Path) -> Iterator[Case]:
    lines = [
        f"src/view{n}.ts({n + 3},7): error TS2322: Type 'string' is not assignable to type 'number'."
        for n in range(90)
    ]
    lines.insert(
        55, "src/pay.ts(12,5): error TS2339: Property 'total' does not exist on type 'Order'."
    )
    lines += ["", "Found 91 errors in 91 files."]
    yield Case("tsc", "\n".join(lines), ("TS2339: Property 'total'", "TS2322", "Found 91 errors"))


def eslint(folder: Path) -> Iterator[Case]:
    lines = []
    for n in range(60):
        lines += [
            f"/app/src/view{n}.js",
            f"  {n + 1}:7   warning  'x{n}' is assigned a value but never used  no-unused-vars",
            "",
        ]
    lines += [
        "/app/src/pay.js",
        "  12:5  error  'total' is not defined  no-undef",
        "",
        "✖ 61 problems (1 error, 60 warnings)",
    ]
    yield Case(
        "eslint",
        "\n".join(lines),
        ("'total' is not defined", "61 problems (1 error", "no-unused-vars"),
    )


def npm(folder: Path) -> Iterator[Case]:
    lines = [
        f"npm http fetch GET 200 https://registry.example/pkg{n} {n}ms (cache miss)"
        for n in range(300)
    ]
    lines[200:200] = ["npm WARN deprecated left-pad@1.0.0: use String.prototype.padStart()"]
    lines += ["npm ERR! code ERESOLVE", "npm ERR! ERESOLVE unable to resolve dependency tree",
              "npm ERR! peer react@\"^17\" from old-grid@2.1.0", "npm ERR! A complete log of this run can be found in: x"]  # fmt: skip
    yield Case(
        "npm install",
        "\n".join(lines),
        (
            "code ERESOLVE",
            "unable to resolve dependency tree",
            "old-grid@2.1.0",
            "deprecated left-pad",
        ),
    )


def jest(folder: Path) -> Iterator[Case]:
    lines = []
    for n in range(80):
        lines += [f"PASS src/view{n}.test.js", f"  ✓ shows row {n} (3 ms)"]
    lines += ["FAIL src/pay.test.js", "  ✕ adds the tax (5 ms)", "", "  ● adds the tax", "",
              "    expect(received).toBe(expected) // Object.is equality", "", "    Expected: 119", "    Received: 100", "",
              "      at Object.<anonymous> (src/pay.test.js:14:21)", ""]  # fmt: skip
    lines += [f"PASS src/more{n}.test.js" for n in range(40)]
    lines += [
        "",
        "Test Suites: 1 failed, 120 passed, 121 total",
        "Tests:       1 failed, 80 passed, 81 total",
    ]
    yield Case("jest", "\n".join(lines), ("FAIL src/pay.test.js", "adds the tax", "Expected: 119", "Received: 100",
                                          "src/pay.test.js:14:21", "1 failed, 80 passed"))  # fmt: skip


def go(folder: Path) -> Iterator[Case]:
    lines = []
    for n in range(120):
        lines += [f"=== RUN   TestRow{n}", f"--- PASS: TestRow{n} (0.00s)"]
    lines[150:150] = [
        "=== RUN   TestTax",
        "    pay_test.go:14: got 100, want 119",
        "--- FAIL: TestTax (0.00s)",
    ]
    lines += ["FAIL", "FAIL\texample.org/pay\t0.123s", "FAIL"]
    yield Case(
        "go test -v",
        "\n".join(lines),
        ("pay_test.go:14: got 100, want 119", "--- FAIL: TestTax", "FAIL\texample.org/pay"),
    )
    frames = "".join(
        f"main.step{n}(0xc0000b2000)\n\t/srv/app/steps.go:{n + 10} +0x1d\n" for n in range(50)
    )
    panic = (
        "panic: runtime error: index out of range [7] with length 2\n\ngoroutine 1 [running]:\n"
        + frames
    )
    yield Case(
        "go panic",
        panic + "exit status 2\n",
        ("panic: runtime error: index out of range [7]", "main.step0", "steps.go:10"),
    )


def csv(folder: Path) -> Iterator[Case]:
    rows = ["order_id,customer,total_eur,status"] + [
        f"{n},customer {n},{n * 1.5},paid" for n in range(2_000)
    ]
    rows[1_400] = "1399,customer 1399,,failed"
    yield Case(
        "csv",
        "\n".join(rows),
        (
            "order_id,customer,total_eur,status",
            "0,customer 0",
            "1399,customer 1399,,failed",
            "1999,customer 1999",
        ),
    )


def json_rows(folder: Path) -> Iterator[Case]:
    rows = [
        {
            "id": n,
            "name": f"row {n}",
            "tags": ["a", "b"],
            "address": {"city": "Graz"},
            "status": "ok",
        }
        for n in range(1_500)
    ]
    rows[900] |= {"status": "error", "reason": "card refused"}
    telling = ('"id":0', '"city":"Graz"', '"card refused"', '"status":"ok"')
    yield Case("JSON of an API", json.dumps(rows, separators=(",", ":")), telling)
    pretty = json.dumps({"page": 1, "results": rows, "next": "/p/2"}, indent=2)
    yield Case(
        "JSON, laid out",
        pretty,
        ('"page": 1', '"results": [', '"city": "Graz"', "card refused", '"next"'),
    )
    lines = "\n".join(json.dumps(row) for row in rows)
    yield Case("JSON lines", lines, ('"id": 0', "card refused", '"id": 1499'))


SEEN: tuple[Callable[[Path], Iterator[Case]], ...] = (
    pytest, traceback, gcc, git, grep, app_log, csv, json_rows, tsc, source, jest,
)  # fmt: skip
UNSEEN: tuple[Callable[[Path], Iterator[Case]], ...] = (
    unittest, mypy, ruff, node, java, rustc, make, sqlite, listing, pip, access_log, kernel_log, eslint,
    npm, go,
)  # fmt: skip
_PROGRAMS = {
    "gcc": "gcc", "git": "git", "grep": "grep", "node": "node", "java": "java", "rustc": "rustc", "make": "make",
    "sqlite": "sqlite3", "listing": "ls",
}  # fmt: skip


def cases(makers: tuple[Callable[[Path], Iterator[Case]], ...], folder: Path) -> Iterator[Case]:
    """The outputs of those programs that are here, each made in a folder of its own."""
    for make_cases in makers:
        name = make_cases.__name__
        if name in _PROGRAMS and not has(_PROGRAMS[name]):
            continue
        place = folder / name
        place.mkdir(parents=True, exist_ok=True)
        yield from (case for case in make_cases(place) if len(case.text) > CHARS_MIN)
