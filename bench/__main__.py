"""Runs the measures, prints their tables, and keeps them in `bench/RESULTS.md`.

    python -m bench [turns|compaction|fidelity|probes|peers|all …] [--quick] [--data FOLDER] [--date DATE]

Sections that are not run keep their former text. `peers` (it installs other libraries), `likelihood`
(a small model reads every page) and `schedules` take long and are not in `all`.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import sys
from collections.abc import Callable
from datetime import date
from pathlib import Path

from bench import (
    compaction,
    copies,
    days_later,
    exact,
    fidelity,
    forecast,
    growth,
    hooks,
    hostile,
    importers,
    likelihood,
    locomo,
    memory,
    mirror,
    outputs,
    peers,
    probes,
    proxy,
    recall,
    schedules,
    search,
    server,
    statements,
    sync,
    terminal,
    tokens,
    turns,
    web_view,
    words,
)
from bench.sessions import data_folder, session_paths
from bench.tables import Table, text_of_tables

RESULTS = Path(__file__).with_name("RESULTS.md")
TITLE = """# Results

Written by `python -m bench`; each section says when, where and how it was run. Times are CPU times of the process;
other programs ran on the machine, so compare figures within a section only.
"""


def run_turns(given: argparse.Namespace) -> list[Table]:
    return turns.run((100, 1_000), turns=100, repeats=1) if given.quick else turns.run()


def run_compaction(given: argparse.Namespace) -> list[Table]:
    return compaction.run((50_000, 100_000), seeds=1, tries=1) if given.quick else compaction.run()


def run_probes(given: argparse.Namespace) -> list[Table]:
    return probes.run(1, 60_000, per_kind=10) if given.quick else probes.run()


def run_fidelity(given: argparse.Namespace) -> list[Table] | str:
    folder = data_folder(given.data)
    if folder is None:
        return "Skipped: no data. Name a folder with --data, or set REFOLD_BENCH_DATA."
    if given.quick:
        return fidelity.run(folder, shares=(0.3,), step=20, agents=False)
    return fidelity.run(folder, jobs=os.cpu_count() or 1)


def run_importers(given: argparse.Namespace) -> list[Table] | str:
    folder = data_folder(given.data)
    if folder is None:
        return "Skipped: no data. Name a folder with --data, or set REFOLD_BENCH_DATA."
    return importers.run(folder, 20, (5, 50)) if given.quick else importers.run(folder)


def sessions_of(given: argparse.Namespace) -> list[Path]:
    """The files of the shared sessions; none without data."""
    folder = data_folder(given.data)
    step = max(given.step, 20 if given.quick else 1)
    return session_paths(folder, step, given.first) if folder else []


def with_sessions(run: Callable[[list[Path]], list[Table]]) -> Callable[..., list[Table] | str]:
    """A measure that says so if there are no sessions to measure with."""

    def run_if_any(given: argparse.Namespace) -> list[Table] | str:
        paths = sessions_of(given)
        hint = "Name a folder with --data, or set REFOLD_BENCH_DATA."
        return run(paths) if paths else f"Skipped: no data. {hint}"

    return run_if_any


def run_forecast(given: argparse.Namespace) -> list[Table] | str:
    folder = data_folder(given.data)
    if folder is None:
        return "Skipped: no data. Name a folder with --data, or set REFOLD_BENCH_DATA."
    return forecast.run(folder, 4 if given.quick else forecast.STREAMS)


def run_likelihood(given: argparse.Namespace) -> list[Table] | str:
    points = 2 if given.quick else likelihood.POINTS
    return likelihood.run(data_folder(given.data), points=points)


def run_peers(given: argparse.Namespace) -> list[Table] | str:
    return peers.run(quick=given.quick)


SECTIONS: dict[str, Callable[[argparse.Namespace], list[Table] | str]] = {
    "turns": run_turns,
    "compaction": run_compaction,
    "fidelity": run_fidelity,
    "words": lambda given: words.run(sessions_of(given)),
    "exact": with_sessions(exact.run),
    "survival": with_sessions(exact.run_survival),
    "statements": with_sessions(statements.run),
    "likelihood": run_likelihood,
    "probes": run_probes,
    "outputs": lambda given: outputs.run((20,)) if given.quick else outputs.run(),
    "peers": run_peers,
    "tokens": lambda given: tokens.run(data_folder(given.data), quick=given.quick),
    "locomo": lambda given: locomo.run(data_folder(given.data)),
    "recall": lambda given: recall.run(data_folder(given.data), step=20 if given.quick else 1),
    "search": lambda given: search.run(20_000) if given.quick else search.run(),
    "memory": lambda given: memory.run(data_folder(given.data), quick=given.quick),
    "days_later": lambda given: days_later.run(data_folder(given.data)),
    "growth": lambda given: growth.run((500, 2_000), 3) if given.quick else growth.run(),
    "web_view": lambda given: web_view.run(500, 50, 1) if given.quick else web_view.run(),
    "copies": lambda given: copies.run(data_folder(given.data), quick=given.quick),
    "importers": run_importers,
    "mirror": lambda given: mirror.run(500, 300) if given.quick else mirror.run(),
    "proxy": lambda given: proxy.run(data_folder(given.data), 2 if given.quick else 100),
    "forecast": run_forecast,
    "server": lambda given: server.run(3_200) if given.quick else server.run(),
    "sync": lambda given: sync.run(1_000, 500) if given.quick else sync.run(),
    "schedules": lambda given: schedules.run(100) if given.quick else schedules.run(),
    "hooks": lambda given: hooks.run(3) if given.quick else hooks.run(),
    "hostile": lambda given: hostile.run(200) if given.quick else hostile.run(),
    "terminal": lambda given: terminal.run(1_000, runs=5) if given.quick else terminal.run(),
}
LONG = ("peers", "likelihood", "schedules")
ALL = [name for name in SECTIONS if name not in LONG]


# --- the file ---


def facts_of_machine(day: str) -> str:
    load = "/".join(f"{one:.1f}" for one in os.getloadavg())
    return f"{day}, {os.cpu_count()} cores ({platform.machine()}), Python {platform.python_version()}, load {load}."


def section(name: str, command: str, facts: str, found: list[Table] | str) -> str:
    body = found if isinstance(found, str) else text_of_tables(found)
    return f"## {name}\n\n    {command}\n\n{facts}\n\n{body}\n"


def merged(former: str, sections: dict[str, str]) -> str:
    """The file with these sections new, and all others as they were."""
    kept = {
        text.split("\n", 1)[0].strip(): f"## {text}"
        for text in re.split(r"^## ", former, flags=re.M)[1:]
    }
    known = [*SECTIONS, *(name for name in kept if name not in SECTIONS)]
    texts = [sections.get(name) or kept.get(name) for name in known]
    return "\n".join([TITLE, *(text.rstrip() + "\n" for text in texts if text)])


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench")
    parser.add_argument(
        "what",
        nargs="*",
        choices=[*SECTIONS, "all", []],
        help=f"default: all, which leaves out {', '.join(LONG)}",
    )
    parser.add_argument(
        "--quick", action="store_true", help="small sizes, to see that it runs; writes no file"
    )
    parser.add_argument(
        "--step", type=int, default=1, help="every Nth session, of those measured by file"
    )
    parser.add_argument(
        "--from", type=int, default=0, dest="first", help="the first of these, from 0"
    )
    parser.add_argument("--data", help="folder with recorded sessions (default: REFOLD_BENCH_DATA)")
    parser.add_argument(
        "--date", default=date.today().isoformat(), help="the day to write above each section"
    )
    given = parser.parse_args(arguments)
    command = " ".join(["python -m bench", *(sys.argv[1:] if arguments is None else arguments)])
    names = ALL if not given.what or "all" in given.what else given.what
    for name in names:
        text = section(name, command, facts_of_machine(given.date), SECTIONS[name](given))
        print(text, flush=True)
        if not given.quick:
            former = RESULTS.read_text(encoding="utf-8") if RESULTS.exists() else ""
            RESULTS.write_text(merged(former, {name: text}), encoding="utf-8")


if __name__ == "__main__":
    main()
