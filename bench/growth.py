"""What going back costs in a long conversation, as a multiple of what it costs in a short one.

Both conversations are on SQLite, with turns alike and compactions when due. Every figure is CPU
time of this process, and the median of several; a ratio compares the two in one run. "near"
concerns the last 200 events, "far" the middle of the log. The same for lists and searches in a store
of many conversations. Neighbours: `turns` has the way forward.

    python -m bench growth
"""

from __future__ import annotations

import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from statistics import median

import refold
from bench.tables import Table
from refold.search.searcher import Searcher
from refold.search.snippets import Hit
from refold.stores import open_store, together

SIZES, REPEATS = (2_000, 20_000), 5
WINDOW, TEXT_WORDS, NEAR, PLACES = 24_000, 60, 200, 100
GOAL_NEAR, GOAL_FAR, GOAL_PAGE_MS = 1.5, 2.0, 10.0

Times = dict[str, list[float]]


def grown(store: str, messages: int) -> refold.Context:
    """A conversation of calls and results, compacted when it is due."""
    context = refold.open("long", store=store, window=WINDOW, embedder=False, counter="estimate")
    rng = random.Random(1)
    for number in range(0, messages, 4):
        call = {"id": f"c{number}", "type": "function"}
        call["function"] = {"name": "read", "arguments": f'{{"path": "src/f{number % 97}.py"}}'}
        text = " ".join(f"w{rng.randrange(10_000)}" for _ in range(TEXT_WORDS))
        context.append({"role": "user", "content": f"Step {number}: {text}"})
        context.append({"role": "assistant", "tool_calls": [call]})
        context.append({"role": "tool", "tool_call_id": f"c{number}", "content": text * 4})
        context.append({"role": "assistant", "content": f"Done {number}. {text}"})
        context.request()
    return context


def timed(act: Callable[[], object]) -> float:
    start = time.process_time()
    act()
    return 1e3 * (time.process_time() - start)


def measured(messages: int, repeats: int) -> dict[str, float]:
    """Milliseconds of CPU for each way back."""
    times: Times = {}

    def note(what: str, act: Callable[[], object]) -> None:
        times.setdefault(what, []).append(timed(act))

    with tempfile.TemporaryDirectory() as folder:
        store = f"sqlite:{folder}/log.db"
        context = grown(store, messages)
        places = random.Random(2).sample(range(1, context.view.head), PLACES)
        note("first page at a place", lambda: context.page(at=places[0]))
        for place in places:
            note("page at a place", lambda place=place: context.page(at=place))  # type: ignore[misc]
        for number in range(repeats):
            context.compact(target=WINDOW // 4)
            note("undo", context.undo)
            note("redo", context.redo)
            head = context.view.head
            note("diff near", lambda: context.log.diff(head - NEAR))  # noqa: B023
            for name, at in (("near", head - NEAR), ("far", head // 2)):
                forked = f"fork-{name}-{number}"
                note(f"fork {name}", lambda: context.fork(forked, at=at).close())  # noqa: B023
                note(f"restore {name}", lambda: context.restore(at))  # noqa: B023
                note(f"undo of restore {name}", context.undo)
        context.close()
        for _ in range(repeats):
            opened = refold.open("long", store=store, window=WINDOW, embedder=False)
            note("open", lambda: opened.view)  # noqa: B023
            note("page at a place, first of a process", lambda: opened.page(at=head // 2))  # noqa: B023
            opened.close()
    return {what: median(found) for what, found in times.items()}


def run(sizes: tuple[int, int] = SIZES, repeats: int = REPEATS) -> list[Table]:
    short, long = (measured(size, repeats) for size in sizes)
    head = ["going back", *(f"{size:,} messages, ms" for size in sizes), "ratio", "goal", ""]
    table = Table("Going back", head)
    for what in short:
        ratio = long[what] / max(short[what], 0.01)
        goal = GOAL_FAR if "far" in what or "place" in what else GOAL_NEAR
        table.add(
            what, short[what], long[what], ratio, f"≤ {goal}", "" if ratio <= goal else "over"
        )
    return [table, run_crowds()]


# --- many conversations ---

CROWDS, SHOWN = (1, 1_000, 10_000), 20
GOAL_LIST, GOAL_START, GOAL_RARE = 1.5, 7.0, 2.0


def crowd(path: str, count: int) -> None:
    """A store of short conversations, each with a word of its own."""
    with closing(open_store(f"sqlite:{path}")) as store:
        for first in range(0, count, 500):
            with together(store):
                for number in range(first, min(count, first + 500)):
                    with refold.open(
                        f"c{number:06}", store=store, embedder=False, counter="estimate"
                    ) as context:
                        context.append({"role": "user", "content": f"Fix login test n{number}"})
                        context.append({"role": "assistant", "content": "Done."})


def process_ms(*command: str) -> float:
    """CPU of a whole process, start included."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1e3 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def crowded(folder: str, count: int) -> dict[str, float]:
    """What one list and three searches cost in a store of so many conversations."""
    path = f"{folder}/{count}.db"
    crowd(path, count)
    listing = ("-m", "refold", "list", "--limit", str(SHOWN), "--store", f"sqlite:{path}")
    found = {
        "list": median(process_ms(sys.executable, *listing) for _ in range(REPEATS)),
        "start": median(process_ms(sys.executable, "-c", "pass") for _ in range(REPEATS)),
    }
    with closing(open_store(f"sqlite:{path}")) as store:
        searcher = Searcher(store, embedder=False)
        searcher.complete()
        found["rare"] = median(timed(lambda: searcher.search("n0")) for _ in range(REPEATS))
        found["none"] = median(timed(lambda: searcher.search("zanzibar")) for _ in range(REPEATS))
        with refold.open("c000000", store=store, embedder=False) as context:
            context.append({"role": "user", "content": "Where is the marmalade?"})
        hits: list[Hit] = []
        found["new"] = timed(lambda: hits.extend(searcher.search("marmalade")))
        assert [hit.conversation for hit in hits] == ["c000000"], "the newest message is found"
        searcher.close()
    return found


def run_crowds(counts: tuple[int, int, int] = CROWDS) -> Table:
    with tempfile.TemporaryDirectory() as folder:
        one, few, many = (crowded(folder, count) for count in counts)
    head = ["many conversations", *(f"{count:,}, ms" for count in counts), "ratio", "goal", ""]
    table = Table("Lists and searches of many conversations", head)
    rows = (
        (f"`refold list`, first {SHOWN}", "list", many["list"] / one["list"], GOAL_LIST),
        ("the same, of `python -c pass`", "list", one["list"] / one["start"], GOAL_START),
        ("search of a rare word", "rare", many["rare"] / few["rare"], GOAL_RARE),
        ("search of a word that is nowhere", "none", many["none"] / few["none"], GOAL_RARE),
        ("first search after an append", "new", many["new"] / few["new"], GOAL_RARE),
    )
    for what, name, ratio, goal in rows:
        times = (one[name], few[name], many[name])
        table.add(what, *times, ratio, f"≤ {goal}", "" if ratio <= goal else "over")
    return table
