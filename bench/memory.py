"""What a memory costs and what it is worth: time at 100,000 entries, evidence on LoCoMo, a made-up
life, and paths that lead nowhere.

Times are CPU times of whole calls in a process that has the memory open: the fold and the vectors
are kept between calls, and only what was added is read. Every second question is asked after
another process has stored something. Neighbours: `memory_locomo`, `memory_life`, `memory_paths`.

    python -m bench memory [--quick] [--data FOLDER]
"""

from __future__ import annotations

import gc
import random
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from time import process_time

import refold
from bench import memory_life, memory_locomo, memory_paths
from bench.search import texts
from bench.tables import Table
from refold.core.model import Memory
from refold.log.draft import Draft
from refold.log.log import Log
from refold.memory.semantic import SemanticMemory
from refold.search.embedders import word_vectors
from refold.stores import open_store

ENTRIES, WORDS_EACH, BATCH = 100_000, 10, 500
ASKED, PAIRS, APPENDS = 40, 7, 300
TEXT_MS, VECTORS_MS, STORE_RATIO, FIRST_RATIO = 20.0, 30.0, 1.5, 10.0
FIRST_STORE_MS = 100.0


def sentences(count: int, seed: int = 7) -> Iterator[str]:
    """Entries of ten words, some of which are common."""
    for text in texts(count, seed):
        yield " ".join(text.split()[:WORDS_EACH])


def questions(seed: int) -> list[str]:
    """Three words of an entry each, and every second time one that a third of all have."""
    chance = random.Random(seed)
    found = []
    for number, text in enumerate(sentences(ASKED)):
        asked = chance.sample(text.split(), 3)
        found.append(" ".join(asked + ["commonplace"] * (number % 2)))
    return found


def cpu_ms(work: Callable[[], object]) -> float:
    start = process_time()
    work()
    return 1e3 * (process_time() - start)


def fill(url: str, count: int) -> None:
    """Entries as other processes would have stored them, many at once."""
    store = open_store(url)
    log = Log(store, "memory.project")
    source = sentences(count)
    for start in range(0, count, BATCH):
        size = min(BATCH, count - start)
        bodies = [Memory(entry=f"mem-{start + n}", content=next(source)) for n in range(size)]
        log.append([Draft(body=body, by="user") for body in bodies])
    store.close()


# --- time ---


def retrieve_ms(url: str, *, vectors: bool) -> tuple[float, float, float]:
    """The median and the highest time of a question, and that of the first one of a process."""
    embedder = None if vectors else False
    with refold.open_memory("project", store=url, embedder=embedder) as memory:
        memory.reindex()  # keeps a bookmark, from which the next process goes on
    with (
        refold.open_memory("project", store=url, embedder=embedder) as memory,
        refold.open_memory("project", store=url, embedder=False) as other,
    ):
        first = cpu_ms(lambda: memory.retrieve("commonplace"))
        other.store("the first thing that another process stored")
        gc.collect()  # two folds in one process are the bench's doing
        times = [_asked_ms(memory, other, n, asked) for n, asked in enumerate(questions(3))]
    return median(times), max(times), first


def _asked_ms(memory: SemanticMemory, other: SemanticMemory, number: int, asked: str) -> float:
    """The time of one question; before every second, another memory stores something."""
    if number % 2:
        other.store(f"another process stored number {number}")
    return cpu_ms(lambda: memory.retrieve(asked))


def first_store_ms(url: str) -> float:
    """The first store of a process."""
    with refold.open_memory("project", store=url, embedder=False) as memory:
        return cpu_ms(lambda: memory.store("something that one more process stored"))


def store_ratios(folder: Path) -> tuple[float, float]:
    """What `store` costs, of `context.append` and of the append of one event to a log, with the
    same texts: medians over pairs."""
    of_context, of_log = [], []
    for pair in range(PAIRS):
        store = open_store(f"sqlite:{folder / f'pair-{pair}.db'}")
        context, log = refold.Context(store, "talk"), Log(store, "bare")
        memory = SemanticMemory(store, embedder=False)
        said = list(sentences(APPENDS, seed=pair))
        works: list[Callable[[str], object]] = [
            memory.store,
            lambda text, context=context: context.append({"role": "user", "content": text}),  # type: ignore[misc]
            lambda text, log=log: log.append([_draft(text)]),  # type: ignore[misc]
        ]
        stored, appended, bare = (_all_ms(work, said) for work in works)
        of_context.append(stored / appended)
        of_log.append(stored / bare)
        context.close()
        store.close()
    return median(of_context), median(of_log)


def _draft(text: str) -> Draft:
    return Draft(body=Memory(entry=f"mem-{text[:9]}", content=text), by="user")


def _all_ms(work: Callable[[str], object], said: list[str]) -> float:
    for text in said[:20]:
        work(text)
    return cpu_ms(lambda: [work(text) for text in said[20:]])


def time_table(entries: int) -> Table:
    table = Table(f"Memory at {entries:,} entries (CPU)", ["what", "refold", "goal", "met"])
    with tempfile.TemporaryDirectory(prefix="refold-bench-") as name:
        folder = Path(name)
        url = f"sqlite:{folder / 'refold.db'}"
        fill(url, entries)
        middle, most, first = retrieve_ms(url, vectors=False)
        table.at_most(f"retrieve, text, ms (highest {most:.0f})", middle, TEXT_MS)
        what = f"the first of a process ({first:.0f} ms), of a later one"
        table.at_most(what, first / middle, FIRST_RATIO)
        table.at_most("the first store of a process, ms", first_store_ms(url), FIRST_STORE_MS)
        if word_vectors() is not None:
            middle, most, _ = retrieve_ms(url, vectors=True)
            what = f"retrieve, text and vectors, ms (highest {most:.0f})"
            table.at_most(what, middle, VECTORS_MS)
        of_context, of_log = store_ratios(folder)
    table.at_most("store, of context.append with the same text", of_context, STORE_RATIO)
    table.note(
        "With a bookmark in the index, as the first process that reads the whole log keeps one."
    )
    table.note(f"store is {of_log:.1f} times the append of one event without anything around it.")
    return table


def run(folder: Path | None, *, quick: bool = False) -> list[Table]:
    tables = [time_table(5_000 if quick else ENTRIES)]
    found = [] if quick else memory_locomo.run(folder)
    if isinstance(found, list):
        tables += found
    return [*tables, *memory_life.run(), memory_paths.run(quick=quick)]
