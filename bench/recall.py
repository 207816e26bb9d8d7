"""Does search find what an agent is about to need? Recorded sessions, asked in the agent's own
words.

Take an action that names something (a path, an identifier, an id): the query is what the agent said
just before it, and right are the earlier messages whose lines hold that name, one to six of them.
Only what came before is in the index. recall@k is the share of those messages among the first k
hits. Plain BM25 (SQLite's own) answers beside it. Sessions are halved by their place in the list:
what was tuned, was tuned on the first half.

    python -m bench.recall FOLDER [--step 1]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import apsw

from bench.locomo import embedders
from bench.sessions import Message, names_in, schema_words, session_of, session_paths, text_of
from bench.tables import Table, text_of_tables
from refold.core.model import Message as Said
from refold.core.model import Text, ToolCall, ToolResult
from refold.log.draft import Draft
from refold.log.log import Log
from refold.search.searcher import Searcher
from refold.search.words import STOP, TOKENIZER
from refold.stores.in_memory import MemoryStore

DEPTHS = (5, 10, 25)
HOLDERS_MAX = 6
QUERIES_MAX = 8  # of one session
WORDS_MIN = 4
QUERY_CHARS = 2_000

Score = tuple[
    int, bool, tuple[float, ...]
]  # the half, whether the query names it, recall at every depth


class Ranking(Protocol):
    def add(self, number: int, message: Message) -> None: ...

    def find(self, query: str, depth: int) -> list[int]: ...


class Ours:
    """The engine's search over the conversation so far. A message's number is its seq."""

    def __init__(self, **given: Any) -> None:
        self.store = MemoryStore()
        self.log = Log(self.store, "session", clock=lambda: 0)
        self.searcher = Searcher(self.store, **given)

    def add(self, number: int, message: Message) -> None:
        self.log.append([Draft(body=said(message), by="agent")])

    def find(self, query: str, depth: int) -> list[int]:
        self.searcher.complete()
        return [hit.seq for hit in self.searcher.search(query, limit=depth, conversation="session")]


class Plain:
    """SQLite's BM25 over the same texts, stop words left out of the query."""

    def __init__(self) -> None:
        self.connection = apsw.Connection(":memory:")
        self.connection.execute(
            f"CREATE VIRTUAL TABLE said USING fts5(text, tokenize='{' '.join(TOKENIZER)}')"
        )

    def add(self, number: int, message: Message) -> None:
        self.connection.execute(
            "INSERT INTO said(rowid, text) VALUES (?, ?)", (number, text_of(message))
        )

    def find(self, query: str, depth: int) -> list[int]:
        tokenizer: Any = self.connection.fts5_tokenizer("unicode61", [])
        words = [row[2] for row in tokenizer(query.encode(), apsw.FTS5_TOKENIZE_QUERY, None)]
        match = (
            " OR ".join(f'"{word}"' for word in dict.fromkeys(words) if word not in STOP) or '""'
        )
        found = "SELECT rowid FROM said WHERE said MATCH ? ORDER BY bm25(said) LIMIT ?"
        return [row for (row,) in self.connection.execute(found, (match, depth))]


def said(message: Message) -> Said:
    text = Text(message.get("content") or "")
    if message["role"] == "tool":
        result = ToolResult(
            message.get("tool_call_id") or "", (text,), name=message.get("name") or ""
        )
        return Said(role="tool", blocks=(result,))
    calls = [
        ToolCall(call["id"], call["name"], call["arguments"])
        for call in message.get("tool_calls") or ()
    ]
    return Said(role=message["role"], blocks=(*((text,) if text.text else ()), *calls))


# --- the queries ---


def asked(messages: list[Message]) -> Iterator[tuple[int, str, str, set[int]]]:
    """The actions of a session worth asking for: the number of messages before, the query, the
    name, its holders."""
    known, holders, number = schema_words(messages), {}, 0
    for index, message in enumerate(messages):
        query = (message.get("content") or "").strip()
        if (
            message["role"] == "assistant"
            and message.get("tool_calls")
            and len(query.split()) >= WORDS_MIN
        ):
            names = sorted(names_in(text_of({**message, "content": ""})) - known)
            fitting = [name for name in names if 1 <= len(holders.get(name, ())) <= HOLDERS_MAX]
            if fitting:
                name = fitting[number % len(fitting)]
                yield index, query[:QUERY_CHARS], name, set(holders[name])
                number += 1
        for name in names_in(text_of(message)):
            holders.setdefault(name, set()).add(index + 1)


def spread(items: list[Any], most: int) -> list[Any]:
    """At most so many of the items, from all over the list."""
    return (
        items
        if len(items) <= most
        else [items[round(at * (len(items) - 1) / (most - 1))] for at in range(most)]
    )


def scores(
    path: Path, half: int, makers: dict[str, Callable[[], Ranking]]
) -> dict[str, list[Score]]:
    messages = session_of(path)
    rankings = {name: maker() for name, maker in makers.items()}
    out: dict[str, list[Score]] = {name: [] for name in makers}
    added = 0
    for index, query, name, right in spread(list(asked(messages)), QUERIES_MAX):
        for at in range(added, index):
            for ranking in rankings.values():
                ranking.add(at + 1, messages[at])
        added = index
        for label, ranking in rankings.items():
            found = ranking.find(query, max(DEPTHS))
            recall = tuple(len(right & set(found[:depth])) / len(right) for depth in DEPTHS)
            out[label].append((half, name in query, recall))
    return out


def run(folder: Path | None, step: int = 1) -> list[Table] | str:
    """The tables for the sessions in a folder, every `step`th of them."""
    if folder is None:
        return "Skipped: no data. Name a folder with --data, or set REFOLD_BENCH_DATA."
    makers: dict[str, Callable[[], Ranking]] = {
        "plain BM25": Plain,
        "full text": lambda: Ours(embedder=False),
    }
    for name, embedder in embedders().items():
        makers[name] = partial(Ours, embedder=embedder)
    found: dict[str, list[Score]] = {name: [] for name in makers}
    for number, path in enumerate(session_paths(folder, step)):
        for name, rows in scores(path, number % 2, makers).items():
            found[name] += rows
    return [recall_table(found), goal_table(found)]


def recall_table(found: dict[str, list[Score]]) -> Table:
    heads = ["ranking", "queries", "which", *(f"@{depth}" for depth in DEPTHS)]
    table = Table("Sessions, recall of earlier messages", heads)
    for name, rows in found.items():
        for which, part in _parts(rows).items():
            table.add(name, len(part), which, *mean(part))
    return table


def goal_table(found: dict[str, list[Score]]) -> Table:
    table = Table("Sessions, goals", ["what", "refold", "goal", "met"])
    base = _parts(found["plain BM25"])
    for name in (name for name in found if name != "plain BM25"):
        for which, part in _parts(found[name]).items():
            table.at_least(
                f"{name}, recall@10, {which}, of plain BM25's", mean(part)[1], mean(base[which])[1]
            )
    return table


def _parts(rows: list[Score]) -> dict[str, list[Score]]:
    return {
        "all": rows,
        "first half": [row for row in rows if row[0] == 0],
        "second half": [row for row in rows if row[0] == 1],
        "name in the query": [row for row in rows if row[1]],
        "name not in it": [row for row in rows if not row[1]],
    }


def mean(rows: list[Score]) -> tuple[float, ...]:
    return tuple(sum(row[2][at] for row in rows) / max(1, len(rows)) for at in range(len(DEPTHS)))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.recall")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--step", type=int, default=1)
    given = parser.parse_args()
    found = run(given.folder, given.step)
    print(found if isinstance(found, str) else text_of_tables(found))


if __name__ == "__main__":
    main()
