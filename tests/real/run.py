"""Runs the tests against real packages and servers: `python tests/real/run.py [PART ...]`.

Every folder here that holds a `requirements.txt` is a part. It has an environment of its own,
`.venv-real/PART`, with refold, pytest and the packages it lists: all of them, each with its
version, because pip installs them without looking for dependencies. An environment is kept until
one of those lists changes. System packages are listed in `apt.txt`, one a line.

A part that cannot be installed has failed, unless `absent.txt` lists it. Needs the standard library
only; `tests/test_real.py` tests what needs no installation.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
REAL = ROOT / "tests" / "real"
ENVIRONMENTS = ROOT / ".venv-real"
COMMON = ("requirements.txt", "requirements-pytest.txt")
INSTALL_S_MAX = 900
TESTS_S_MAX = float(os.environ.get("REFOLD_TESTS_S", "2400"))  # `make soak` takes longer
ABSENT_LINE = re.compile(r"(?P<part>\S+)\s+(?P<date>\d{4}-\d{2}-\d{2})\s+(?P<reason>\S.*)")


class CannotInstall(Exception):
    """What a part needs is not to be had here."""


@dataclass(frozen=True)
class Outcome:
    part: str
    passed: int = 0
    failed: int = 0
    note: str = ""


def main(arguments: Sequence[str]) -> int:
    there = parts_in(REAL)
    parser = argparse.ArgumentParser(description="Runs tests against real packages and servers.")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"one of {', '.join(there)}")
    chosen = parser.parse_args(arguments).parts or there
    if unknown := sorted(set(chosen) - set(there)):
        parser.error(f"no such part: {', '.join(unknown)}")
    absent = absent_parts(_text(REAL / "absent.txt"), there)
    outcomes = [run(part, absent.get(part)) for part in chosen]
    print(summary(outcomes), flush=True)
    return 1 if any(outcome.failed for outcome in outcomes) else 0


def parts_in(folder: Path) -> list[str]:
    return sorted(file.parent.name for file in folder.glob("*/requirements.txt"))


def absent_parts(text: str, there: Iterable[str]) -> dict[str, str]:
    """Part → since when and why it is absent. ValueError for a line that does not say it."""
    absent: dict[str, str] = {}
    for line in _lines(text):
        match = ABSENT_LINE.fullmatch(line)
        if match is None:
            raise ValueError(f"absent.txt: not PART YYYY-MM-DD reason: {line!r}")
        datetime.date.fromisoformat(match["date"])
        if match["part"] not in there:
            raise ValueError(f"absent.txt: no such part: {match['part']!r}")
        absent[match["part"]] = f"{match['reason']} ({match['date']})"
    return absent


def run(part: str, absent: str | None) -> Outcome:
    """Installs one part and runs its tests."""
    print(f"== {part}", flush=True)
    began = time.monotonic()
    try:
        python = install(part)
    except CannotInstall as error:
        if absent is not None:
            return Outcome(part, note=f"absent: {absent}")
        print(error, flush=True)
        return Outcome(part, failed=1, note=f"cannot be installed: {error}")
    if absent is not None:
        return Outcome(part, failed=1, note="can be installed: take it off tests/real/absent.txt")
    installed = time.monotonic()
    outcome = run_tests(part, python)
    times = f"{installed - began:.0f} s to install, {time.monotonic() - installed:.0f} s to run"
    return Outcome(part, outcome.passed, outcome.failed, " ".join((outcome.note, times)).strip())


def install(part: str) -> Path:
    """The python of the part's environment, which is made again if what it needs has changed."""
    folder = ENVIRONMENTS / part
    python = folder / "bin" / "python"
    install_system_packages(_lines(_text(REAL / part / "apt.txt")))
    stamp = folder / "refold-stamp"
    if _text(stamp) == stamp_of(part):
        return python
    shutil.rmtree(folder, ignore_errors=True)
    _call([sys.executable, "-m", "venv", str(folder)])
    pip = [
        str(python),
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--no-deps",
    ]
    for file in (*(ROOT / name for name in COMMON), REAL / part / "requirements.txt"):
        _call([*pip, "-r", str(file)])
    _call([*pip, "--editable", str(ROOT)])
    stamp.write_text(stamp_of(part), encoding="utf-8")
    return python


def stamp_of(part: str, root: Path = ROOT) -> str:
    """A hash of everything an environment is made from."""
    files = [root / "pyproject.toml", *(root / name for name in COMMON)]
    digest = hashlib.sha256(f"{sys.version}\n{root}\n".encode())
    for file in (*files, root / "tests" / "real" / part / "requirements.txt"):
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()


def install_system_packages(packages: Sequence[str]) -> None:
    missing = [package for package in packages if not _is_installed(package)]
    if not missing:
        return
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        raise CannotInstall(f"needs root and apt-get to install {', '.join(missing)}")
    _update_package_lists()
    _call(["apt-get", "install", "-y", "-qq", "--no-install-recommends", *missing])


def _is_installed(package: str) -> bool:
    if shutil.which("dpkg-query") is None:
        return False
    asked = ["dpkg-query", "--show", "--showformat=${db:Status-Status}", package]
    return subprocess.run(asked, capture_output=True, text=True).stdout == "installed"


@cache
def _update_package_lists() -> None:
    _call(["apt-get", "update", "-qq"])


def _call(command: Sequence[str]) -> None:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    try:
        done = subprocess.run(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=INSTALL_S_MAX,
            text=True,
        )
    except subprocess.TimeoutExpired as error:
        raise CannotInstall(f"{' '.join(command)}: not done in {INSTALL_S_MAX} s") from error
    if done.returncode != 0:
        raise CannotInstall(f"{' '.join(command)}: exit {done.returncode}\n{done.stdout[-2_000:]}")


def run_tests(part: str, python: Path) -> Outcome:
    """Runs pytest on the part's folder, in a process group of its own that is ended if it takes
    too long."""
    report = ENVIRONMENTS / part / "report.xml"
    report.unlink(missing_ok=True)
    # The options of pyproject.toml leave tests/real out.
    options = ["-o", "addopts=", "-q", "--strict-markers", "--strict-config", "-rxX"]
    command = [str(python), "-m", "pytest", *options, f"--junitxml={report}", f"tests/real/{part}"]
    process = subprocess.Popen(command, cwd=ROOT, start_new_session=True)
    try:
        code = process.wait(TESTS_S_MAX)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return Outcome(part, failed=1, note=f"not done in {TESTS_S_MAX:g} s")
    passed, failed = counts_in(_text(report))
    if not failed and (code != 0 or not passed):
        return Outcome(part, passed, 1, f"pytest exited with {code}, and {passed} tests passed")
    return Outcome(part, passed, failed)


def counts_in(report: str) -> tuple[int, int]:
    """How many tests passed and failed, by pytest's own report. An expected failure is neither."""
    passed = failed = 0
    for suite in ElementTree.fromstring(report or "<testsuites/>").iter("testsuite"):
        all_tests, skipped = int(suite.get("tests", 0)), int(suite.get("skipped", 0))
        broken = int(suite.get("failures", 0)) + int(suite.get("errors", 0))
        passed, failed = passed + all_tests - skipped - broken, failed + broken
    return passed, failed


def summary(outcomes: Sequence[Outcome]) -> str:
    """A line for every part, and the sum."""
    lines = [""]
    for one in outcomes:
        note = one.note.partition("\n")[0]
        lines.append(f"{one.part}: {one.passed} passed, {one.failed} failed  {note}".rstrip())
    passed, failed = sum(one.passed for one in outcomes), sum(one.failed for one in outcomes)
    return "\n".join([*lines, f"{passed} passed, {failed} failed"])


def _text(file: Path) -> str:
    return file.read_text(encoding="utf-8") if file.exists() else ""


def _lines(text: str) -> list[str]:
    stripped = (line.split("#")[0].strip() for line in text.splitlines())
    return [line for line in stripped if line]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
