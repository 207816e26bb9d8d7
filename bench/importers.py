"""What importing and replaying other agents' sessions costs: CPU and memory, per source.

The measure of an import is `msgspec.json.decode` of every line, unpacked. `importer` is the walk
through the file alone, `import` writes the conversations into a store that is there, `again`
imports the same file once more; modules and vocabularies are loaded before. Beside it stands the
least that keeping a session takes (`import_floor`). Then how memory grows (`import_memory`), where
the time goes by the profiler's own sums, and every trajectory played through all policies.

    python -m bench importers [--data FOLDER]
"""

from __future__ import annotations

import cProfile
import pstats
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import msgspec

from bench import import_floor, import_memory
from bench.replay import BUDGET_MIN
from bench.sessions import tokens_of_all
from bench.tables import Table
from refold.config import Config
from refold.edges.importers.importer import import_file
from refold.edges.importers.lines import Lines
from refold.edges.importers.recognition import recognised
from refold.engine.context import Context
from refold.replay.run import OURS, replay
from refold.replay.session import messages_of
from refold.stores import open_store
from refold.stores.protocol import Store

IMPORT_GOAL, REPLAY_GOAL_S, LONG_TOKENS = 3.0, 5.0, 100_000
# What each part of an import is, by the function whose time and that of all below it counts.
PARTS = {
    "reading the file": ("importers/", "entries"),
    "parsing messages": ("engine/recorder.py", "parse"),
    "counting tokens": ("tokens/counter.py", "count_message"),
    "encoding, and reading it back": ("log/draft.py", "__post_init__"),
    "sealing": ("log/log.py", "_sealed"),
    "folding": ("log/log.py", "_fold"),
    "inserting": ("stores/sqlite/store.py", "append"),
    "facts of adopted compactions": ("ledger/ledger.py", "facts_of"),
    "closing: bookmark and sync": ("log/open_log.py", "close"),
}


def groups_in(folder: Path, step: int) -> dict[str, list[Path]]:
    places = {
        "claude-code": folder / "raw" / "claude-code",
        "codex": folder / "raw" / "codex",
        "messages": folder / "trajectories",
    }
    found = {name: sorted(place.glob("*.jsonl.gz"))[::step] for name, place in places.items()}
    return {name: paths for name, paths in found.items() if paths}


def cpu_s(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def decode_all(path: Path) -> int:
    return sum(len(line) for _, line in Lines(path) if msgspec.json.decode(line) is not None)


def walk(path: Path) -> int:
    lines = Lines(path)
    found = recognised(lines)
    return sum(1 for _ in found.entries(lines)) if found else 0


@contextmanager
def store_there() -> Iterator[Store]:
    """An empty store that was written to, so that its tables are there."""
    with tempfile.TemporaryDirectory() as folder:
        store = open_store(f"sqlite:{folder}/bench.db")
        Context(store, "first").append({"role": "user", "content": "The store is there."})
        yield store
        store.close()


def measured(paths: list[Path]) -> tuple[list[float], int]:
    """CPU seconds of each way over all files, and the bytes of their lines."""
    sums, size = [0.0] * 4, 0
    for path in paths:
        with store_there() as store:
            size += decode_all(path)
            ways = [
                lambda path=path: decode_all(path),
                lambda path=path: walk(path),
                lambda path=path, store=store: import_file(store, Config(), path),
                lambda path=path, store=store: import_file(store, Config(), path),
            ]
            for at, work in enumerate(ways):
                sums[at] += cpu_s(work)
    return sums, size


def import_table(groups: dict[str, list[Path]]) -> Table:
    table = Table(
        "Importing, CPU beside decoding the same lines",
        ["source", "files", "MB", "decode ms", "importer x", "import x", "goal", "again x"],
    )
    for name, paths in groups.items():
        measured(paths[:20])  # what is loaded once is loaded before
        (floor, importer, whole, again), size = measured(paths)
        table.add(
            name, len(paths), size / 1e6, floor * 1_000, importer / floor, whole / floor,
            f"≤ {IMPORT_GOAL:.0f}", again / floor,
        )  # fmt: skip
    return table


def floor_table(groups: dict[str, list[Path]]) -> Table:
    """The import held against the least that keeping the same events takes."""
    head = ["source", "decode", *import_floor.PARTS, "sum x", "import x", "import, of the sum"]
    table = Table("Importing, beside the least that keeping it takes (decode = 1)", head)
    for name, paths in groups.items():
        (decode, _, whole, _), _ = measured(paths)
        sums = dict.fromkeys(import_floor.PARTS, 0.0)
        for path in paths:
            with store_there() as store:
                for part, spent in import_floor.floor_of(path, store, cpu_s).items():
                    sums[part] += spent
        least = decode + sum(sums.values())
        parts = (spent / decode for spent in sums.values())
        table.add(name, 1.0, *parts, least / decode, whole / decode, whole / least)
    table.note("No message is parsed there, and nothing is checked, read back, folded or redacted.")
    return table


def parts_table(groups: dict[str, list[Path]]) -> Table:
    """Where the time goes. A profiler makes small calls look dear: these are shares, no times."""
    table = Table("Importing, where the time goes", ["part", *groups])
    shares = [_shares(paths) for paths in groups.values()]
    for part in [*PARTS, "everything else"]:
        table.add(part, *(f"{one[part]:.0%}" for one in shares))
    return table


def _shares(paths: list[Path]) -> dict[str, float]:
    profile = cProfile.Profile()
    for path in paths:
        with store_there() as store:
            profile.runcall(import_file, store, Config(), path)
    stats = pstats.Stats(profile).stats  # type: ignore[attr-defined]
    sums = {part: 0.0 for part in PARTS}
    for (file, _, function), (_, _, _, cumulated, _) in stats.items():
        for part, (place, name) in PARTS.items():
            if place in file and function == name:
                sums[part] += cumulated
    whole = sum(own for _, _, own, _, _ in stats.values())
    shares = {part: size / whole for part, size in sums.items()}
    return {**shares, "everything else": max(0.0, 1 - sum(shares.values()))}


def replay_table(paths: list[Path]) -> Table:
    """Every session through all policies, in a window that it fills three times."""
    table = Table("Replaying, all policies", ["what", "sessions", "value", "goal", "met"])
    unread = faults = 0
    long: list[float] = []
    for path in paths:
        store = open_store("memory:")
        report = import_file(store, Config(), path)
        unread += report.unread_total
        context = Context(store, report.sessions[0].conversation)
        messages, model = messages_of(context), context.view.model
        began = time.process_time()
        window = max(BUDGET_MIN, tokens_of_all(messages) // 3)
        played = replay(messages, window, model)
        spent = time.process_time() - began
        faults += sum(played.outcome(OURS).faults.values())
        long += [spent] if played.tokens > LONG_TOKENS else []
    table.add("lines that were not understood", len(paths), unread, "0", _met(unread == 0))
    table.add("faults of refold, invalid requests", len(paths), faults, "0", _met(faults == 0))
    if long:
        goal = f"≤ {REPLAY_GOAL_S:.0f}"
        middle, most = median(long), max(long)
        name = f"more than {LONG_TOKENS:,} tokens, CPU s"
        table.add(f"{name}, median", len(long), middle, goal, _met(middle <= REPLAY_GOAL_S))
        table.add(f"{name}, longest", len(long), most, goal, _met(most <= REPLAY_GOAL_S))
    return table


def _met(is_met: bool) -> str:
    return "yes" if is_met else "no"


def run(folder: Path, step: int = 1, sizes_mb: tuple[int, ...] = (50, 500)) -> list[Table]:
    groups = groups_in(folder, step)
    tables = [import_table(groups), floor_table(groups), parts_table(groups)] if groups else []
    tables.append(import_memory.table(sizes_mb))
    return [*tables, replay_table(groups["messages"])] if "messages" in groups else tables
