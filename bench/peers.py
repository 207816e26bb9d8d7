"""refold beside other libraries: append of a turn and the next prompt, durable, at 100 to 10,000
messages.

The harness is not part of this repository: a folder with `run_all.py`, `run_one.py`, `workload.py`
and `adapters/`, by default the one beside the repository, or `REFOLD_BENCH_PEERS`. It is copied to
a scratch folder, refold's adapter is put in, each library gets an environment of its own, and one
sweep runs them all. What cannot be installed or run is listed with the reason.

    python -m bench peers
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from math import log
from pathlib import Path
from typing import Any

from bench import GIVEN
from bench.tables import Table

SIZES = (100, 1_000, 10_000)
FLOOR, OURS = "floor:sqlite_full", "ours:refold"
SWEEP_S, INSTALL_S = 3_600, 600
PYTHON = "python3.12"  # what the harness was written for; else the one that runs this
# Environments of the harness by name, what is installed in each, and which peers they serve.
ENVIRONMENTS: dict[str, tuple[list[str], str]] = {
    "openai": (["openai-agents", "sqlalchemy", "aiosqlite", "greenlet"], "openai_agents"),
    "langchain": (["langgraph", "langgraph-checkpoint-sqlite", "langchain"], "lang"),
    "strands": (["strands-agents"], "strands"),
    "pydanticai": (["pydantic-ai-slim"], "pydantic_ai"),
    "llamaindex": (
        ["llama-index-core", "aiosqlite", "pydantic<2.12"],
        "llamaindex",
    ),  # its buffer breaks on newer ones
    "adk": (["google-adk", "aiosqlite", "sqlalchemy", "greenlet"], "adk"),
}

Row = dict[str, Any]


def harness_folder() -> Path | None:
    beside = Path(__file__).resolve().parents[1].parent / "shared" / "bench" / "peers"
    folder = Path(GIVEN.get("REFOLD_BENCH_PEERS") or beside)
    return folder if (folder / "run_all.py").exists() else None


# --- setting up ---


def scratch_copy(source: Path, scratch: Path) -> Path:
    """The harness with our adapter in it, and one more line in its list of peers."""
    harness = scratch / "harness"
    shutil.copytree(source, harness)
    (harness / "results").mkdir(exist_ok=True)
    for stale in (harness / "results").iterdir():
        stale.unlink()
    shutil.copy(Path(__file__).with_name("peers_adapter.py"), harness / "adapters" / "ours.py")
    sweep = harness / "run_all.py"
    line = f'PEERS = [\n    ("phys", "{OURS}", {SIZES}),'
    sweep.write_text(sweep.read_text().replace("PEERS = [", line, 1))
    return harness


def own_environment(folder: Path) -> None:
    """The floor and refold run on the interpreter that runs this, with refold as it is installed
    there."""
    environment = folder / "phys" / "bin"
    environment.mkdir(parents=True)
    start = environment / "python"
    start.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    start.chmod(0o755)


def starts(python: str) -> bool:
    """Whether this interpreter is really there: a version manager may have a name for one that
    it does not have."""
    found = shutil.which(python)
    return (
        bool(found) and subprocess.run([found, "-c", "pass"], capture_output=True).returncode == 0
    )


def installed(folder: Path, name: str, packages: list[str]) -> str:
    """Makes an environment; gives back why it could not be made, or nothing."""
    python = PYTHON if starts(PYTHON) else sys.executable
    pip = [
        str(folder / name / "bin" / "python"),
        "-m",
        "pip",
        "install",
        "--quiet",
        "psutil",
        *packages,
    ]
    for command in ([python, "-m", "venv", str(folder / name)], pip):
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_S)
        except subprocess.TimeoutExpired:
            return f"not installed within {INSTALL_S} s"
        if done.returncode:
            return (done.stderr.strip().splitlines() or ["pip failed"])[-1][:160]
    return ""


def shim(harness: Path) -> str:
    """The library that counts syncs, if it can be compiled."""
    out = harness / "fsync_count.so"
    compiler = shutil.which("gcc")
    if compiler is None:
        return ""
    command = [
        compiler,
        "-O2",
        "-shared",
        "-fPIC",
        "-o",
        str(out),
        str(harness / "fsync_count.c"),
        "-ldl",
    ]
    return str(out) if subprocess.run(command, capture_output=True).returncode == 0 else ""


# --- running ---


def sweep(
    harness: Path, scratch: Path, environments: Path, peers: list[str], sizes: tuple[int, ...]
) -> list[Row]:
    """One sweep of the harness over these peers; what it found is what it wrote."""
    runs = scratch / "runs"
    runs.mkdir()
    environment = {
        **os.environ,
        "BENCH_VENVS": str(environments),
        "BENCH_TMP": str(runs),
        "BENCH_SHIM": shim(harness),
        "BENCH_NS": ",".join(map(str, sizes)),
        "BENCH_RESUMES": "3",
    }
    command = [sys.executable, str(harness / "run_all.py"), *peers]
    subprocess.run(command, env=environment, stdout=sys.stderr, timeout=SWEEP_S, check=True)
    rows: list[Row] = json.loads((harness / "results" / "turns.json").read_text())
    return rows


def run(*, quick: bool = False, sizes: tuple[int, ...] = SIZES) -> list[Table] | str:
    source = harness_folder()
    if source is None:
        return "Skipped: no peers harness. Set REFOLD_BENCH_PEERS to its folder."
    with tempfile.TemporaryDirectory(prefix="refold-peers-") as folder:
        scratch = Path(folder)
        harness, environments = scratch_copy(source, scratch), scratch / "environments"
        own_environment(environments)
        wanted = {} if quick else ENVIRONMENTS
        failed = {
            name: installed(environments, name, packages) for name, (packages, _) in wanted.items()
        }
        peers = [ENVIRONMENTS[name][1] for name, reason in failed.items() if not reason]
        rows = sweep(
            harness, scratch, environments, ["ours", FLOOR, *peers], sizes[:2] if quick else sizes
        )
    return [table_of(rows, {name: reason for name, reason in failed.items() if reason})]


# --- table ---


def table_of(rows: list[Row], failed: dict[str, str]) -> Table:
    sizes = sorted({row["n"] for row in rows})
    head = ["peer", *(f"µs {n:,}" for n in sizes), *(f"× floor {n:,}" for n in sizes), "growth"]
    table = Table(
        "Append + next prompt per turn, CPU", [*head, "written", "syncs", "open ms", "prompt"]
    )
    by_peer: dict[str, dict[int, Row]] = {}
    for row in rows:
        by_peer.setdefault(row["peer"], {})[row["n"]] = row
    floor = by_peer.get(FLOOR, {})
    for peer, cells in sorted(by_peer.items(), key=lambda one: _order(one[0])):
        table.add(*_row(peer, cells, floor, sizes))
        reason = next((cell["error"] for cell in cells.values() if "error" in cell), "")
        if reason:
            table.note(f"{peer}: {reason}")
    for name, reason in failed.items():
        table.note(f"{name} was not installed: {reason}")
    table.note(
        "written, syncs, open ms, prompt (messages): at the largest size. growth: exponent of the last two."
    )
    return table


def _order(peer: str) -> tuple[bool, bool, str]:
    return peer != FLOOR, peer != OURS, peer


def _row(peer: str, cells: dict[int, Row], floor: dict[int, Row], sizes: list[int]) -> list[object]:
    cpu = [cells.get(n, {}).get("turn_cpu_us_median") for n in sizes]
    bare = [floor.get(n, {}).get("turn_cpu_us_median") for n in sizes]
    ratios = [a / b if a and b else None for a, b in zip(cpu, bare)]
    last = next(
        (cells[n] for n in reversed(sizes) if cells.get(n, {}).get("turn_cpu_us_median")), {}
    )
    known = [(n, value) for n, value in zip(sizes, cpu) if value][-2:]
    growth = (
        log(known[1][1] / known[0][1]) / log(known[1][0] / known[0][0]) if len(known) == 2 else None
    )
    others = [
        last.get(name)
        for name in ("wchar_per_turn", "fsyncs_per_turn", "resume_cpu_ms", "prompt_msgs")
    ]
    return [peer, *("–" if value is None else value for value in (*cpu, *ratios, growth, *others))]
