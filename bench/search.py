"""What search costs at a million messages, and what it costs those who append.

A store of ten conversations is written, indexed in bulk, and asked: for the newest, for a rare and
for a common term. Times are CPU times of whole `search` calls, the catching up and the reading of
hits included; full text only. Words are drawn as in real text, a few very often and most of them
rarely. The append is measured in pairs, with the index of the store made and its searcher open, and
without.

    python -m bench.search [--messages 1000000]
"""

from __future__ import annotations

import argparse
import random
import tempfile
from collections.abc import Callable
from functools import partial
from itertools import accumulate
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any

import refold
from bench.tables import Table
from refold.core.codec import SALT_BYTES, ZERO, encode, seal
from refold.core.ids import uuid7
from refold.core.model import Event, Message, Text
from refold.search.searcher import Searcher
from refold.stores import open_store

MESSAGES, CONVERSATIONS = 1_000_000, 10
WORDS_EACH, VOCABULARY, COMMON_SHARE, RARE_EVERY = 25, 50_000, 0.3, 50_000
BATCH, ASKED, PAIRS, APPENDS = 500, 30, 7, 400
START_MS = 1_700_000_000_000


def texts(count: int, seed: int = 7) -> Any:
    """Messages of about 150 characters; `commonplace` stands in a third of them, a `rare` one in
    a few."""
    chance = random.Random(seed)
    names = [
        "".join(chance.choice("bcdfglmprst") + chance.choice("aeiou") for _ in range(4))
        for _ in range(VOCABULARY)
    ]
    weights = list(accumulate(1 / (rank + 10) for rank in range(VOCABULARY)))
    for number in range(count):
        words = chance.choices(names, cum_weights=weights, k=WORDS_EACH)
        if chance.random() < COMMON_SHARE:
            words[3] = "commonplace"
        if number % 5_000 == 17:
            words[7] = rare(number % RARE_EVERY)
        yield " ".join(words)


def rare(number: int) -> str:
    return "rare" + "".join("abcdefghij"[int(digit)] for digit in str(number))


def written(path: Path, count: int) -> None:
    """A store with that many messages, without syncs in between."""
    store = open_store(f"sqlite:{path}")
    each, source = count // CONVERSATIONS, texts(count)
    for number in range(CONVERSATIONS):
        chain, batch = ZERO, list[Event]()
        for seq in range(1, each + 1):
            at_ms = START_MS + (number * each + seq) * 1_000
            body = encode(
                Message(role="user" if seq % 2 else "assistant", blocks=(Text(next(source)),))
            )
            batch.append(
                seal(
                    chain,
                    seq,
                    id=uuid7(at_ms, bytes(10)),
                    at_ms=at_ms,
                    by="bench",
                    kind="message",
                    body=body,
                    salt=bytes([1]) * SALT_BYTES,
                )
            )
            chain = batch[-1].chain
            if len(batch) == BATCH or seq == each:
                store.append(f"talk-{number}", batch, expect=seq - len(batch))
                batch = []
    store.close()


def cpu_ms(work: Callable[[], object]) -> float:
    start = process_time()
    work()
    return 1e3 * (process_time() - start)


def asked(searcher: Searcher, queries: list[str], **given: Any) -> float:
    """The median CPU time of these searches, each a new question."""
    searcher.search("warm up", **given)
    return median(cpu_ms(lambda query=query: searcher.search(query, **given)) for query in queries)  # type: ignore[misc]


def append_ratio(folder: Path) -> float:
    """What an append costs with the index on, of one without: the median over pairs."""
    ratios = []
    for pair in range(PAIRS):
        costs = []
        for searched in (False, True) if pair % 2 else (True, False):
            store = open_store(f"sqlite:{folder / f'{pair}-{searched}' / 'refold.db'}")
            context = refold.Context(store, "work")
            source = texts(APPENDS + 10, seed=pair)
            for _ in range(10):
                context.append({"role": "user", "content": next(source)})
            searcher = Searcher(store, embedder=False)
            if searched:
                searcher.search("commonplace")
            rest = [{"role": "user", "content": text} for text in source]
            costs.append((searched, cpu_ms(partial(list, map(context.append, rest)))))
            searcher.close()
            context.close()
            store.close()
        ratios.append(dict(costs)[True] / dict(costs)[False])
    return median(ratios)


def run(messages: int = MESSAGES) -> list[Table]:
    with tempfile.TemporaryDirectory(prefix="refold-bench-") as name:
        folder = Path(name)
        written(folder / "refold.db", messages)
        store = open_store(f"sqlite:{folder / 'refold.db'}")
        searcher = Searcher(store, embedder=False)
        indexed_us = 1e3 * cpu_ms(searcher.rebuild) / messages
        size = Path(searcher.path).stat().st_size / messages
        seldom = [rare(number) for number in range(17, RARE_EVERY, 5_000)] * 3
        common = [f"commonplace {text.split()[10]}" for text in texts(6)]
        figures = {
            "newest first, common term, ms": (
                asked(searcher, ["commonplace"] * ASKED, newest=True),
                1.0,
            ),
            "newest first, rare term, ms": (asked(searcher, seldom[:ASKED], newest=True), 1.0),
            "ranked, rare term, ms": (asked(searcher, seldom[:ASKED]), 10.0),
            "ranked, common term, ms": (asked(searcher, ["commonplace"] * 10), 50.0),
            "ranked, common and rarer term, ms": (asked(searcher, common), 50.0),
            "ranked, common term, one conversation, ms": (
                asked(searcher, ["commonplace"] * 10, conversation="talk-3"),
                50.0,
            ),
        }
        searcher.close()
        store.close()
        ratio = append_ratio(folder)
    table = Table(
        f"Search at {messages:,} messages, full text (CPU)", ["what", "refold", "goal", "met"]
    )
    for what, (value, goal) in figures.items():
        table.at_most(what, value, goal)
    table.at_most("indexing in bulk, µs per message", indexed_us, 60.0)
    table.at_most("append with the index on, of without", ratio, 1.1)
    table.note(f"Messages of {WORDS_EACH} words; the index has {size:.0f} bytes per message.")
    return [table]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.search")
    parser.add_argument("--messages", type=int, default=MESSAGES)
    print("\n\n".join(map(str, run(parser.parse_args().messages))))


if __name__ == "__main__":
    main()
