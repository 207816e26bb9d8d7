"""What importing costs, beside decoding the same lines: CPU and memory, per source.

The floor is `msgspec.json.decode` of every line. `importer` is the walk through the file alone,
`import` writes the conversations into an empty store, `again` imports the same file once more.

    python -m bench.importers DATA [--step N]
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from bench.tables import Table, text_of_tables
from refold.config import Config
from refold.edges.importers.importer import import_file
from refold.edges.importers.lines import Lines
from refold.edges.importers.recognition import recognised
from refold.engine.context import Context
from refold.stores import open_store


def cpu_s(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def decode_all(path: Path) -> int:
    return sum(len(line) for _, line in Lines(path) if msgspec.json.decode(line) is not None)


def walk(path: Path) -> int:
    found = recognised(path)
    return sum(1 for _ in found.entries(Lines(path))) if found else 0


def measured(paths: list[Path]) -> tuple[list[float], int]:
    """CPU seconds of each way over all files, and the bytes of their lines."""
    sums, size = [0.0] * 4, 0
    for path in paths:
        with tempfile.TemporaryDirectory() as folder:
            store = open_store(f"sqlite:{folder}/bench.db")
            Context(store, "first").append({"role": "user", "content": "The store is there."})
            size += decode_all(path)
            ways = [
                lambda path=path: decode_all(path),
                lambda path=path: walk(path),
                lambda path=path, store=store: import_file(store, Config(), path),
                lambda path=path, store=store: import_file(store, Config(), path),
            ]
            for at, work in enumerate(ways):
                sums[at] += cpu_s(work)
            store.close()
    return sums, size


def run(folder: Path, step: int = 1) -> Table:
    table = Table(
        "Importing, CPU beside decoding the same lines",
        ["source", "files", "MB", "decode ms", "importer x", "import x", "again x"],
    )
    groups = {
        "claude-code": folder / "raw" / "claude-code",
        "codex": folder / "raw" / "codex",
        "messages": folder / "trajectories",
    }
    for name, place in groups.items():
        paths = sorted(place.glob("*.jsonl.gz"))[::step]
        if not paths:
            continue
        import_warm(paths[0])
        (floor, importer, whole, again), size = measured(paths)
        table.add(
            name, len(paths), size / 1e6, floor * 1_000, importer / floor, whole / floor,
            again / floor,
        )  # fmt: skip
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1_000
    table.note(f"peak memory of the whole run: {peak:,.0f} MB. Goal: import at most 3 x.")
    return table


def import_warm(path: Path) -> None:
    """Modules, counters and tables are loaded before anything is measured."""
    measured([path])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--step", type=int, default=1)
    given = parser.parse_args()
    print(text_of_tables([run(given.data, given.step)]))


if __name__ == "__main__":
    main()
