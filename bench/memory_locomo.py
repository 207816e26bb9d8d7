"""Do memories bring more of the evidence than search alone? LoCoMo at a fixed number of tokens.

Rules take sentences from every talk, at most a fifth of its tokens, and store them with the turn
that they come from. A question is answered three ways within 2,000 tokens: by the turns that search
finds, by memories alone, and by both, as on a page: memories come first and have 600 tokens, and
turns that they do not show yet fill the rest. Recall is the share of a question's evidence turns that is shown, whole or
by a sentence of it, averaged over the questions. Both speakers are people, so both count as users.

    python -m bench.memory_locomo FOLDER
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from pathlib import Path
from statistics import fmean

from msgspec import Struct

from bench.locomo import FULL_TEXT, Question, Ranking, Turn, embedders, ours, talks
from bench.tables import Table, text_of_tables
from refold.core.model import Message, Text
from refold.memory.extraction import Taken, taken_from
from refold.memory.semantic import SemanticMemory
from refold.search.embedders import Embedder
from refold.stores.in_memory import MemoryStore
from refold.tokens.estimate import estimate

TOKENS = 2_000
MEMORY_TOKENS = 600  # of them, where both are asked
TURNS_MAX, MEMORIES_MAX = 100, 200
SHARE_MAX = 0.2
TOGETHER, GAIN, ALONE = 0.92, 0.01, 0.40

Piece = tuple[str, int]  # the turn that is shown by it, and its tokens


class Shown(Struct, frozen=True):
    """The recall of one question by search, by memories, and by both."""

    search: float
    memories: float
    together: float


def remembered(turns: list[Turn]) -> list[Taken]:
    """What rules take from a talk, each with the place of its turn as seq."""
    said = (text.partition(": ")[2] for _, _, text in turns)
    messages = (Message(role="user", blocks=(Text(text),)) for text in said)
    return taken_from(enumerate(messages))


def line(turns: list[Turn], taken: Taken) -> str:
    return f"{turns[taken.seq][2].partition(':')[0]}: {taken.content}"


def memory_of(
    turns: list[Turn], taken: Iterable[Taken], embedder: Embedder | bool
) -> SemanticMemory:
    memory = SemanticMemory(MemoryStore(), embedder=embedder, user=MemoryStore)
    for one in taken:
        memory.store(line(turns, one), source=("talk", one.seq + 1), at=turns[one.seq][1])
    return memory


def turns_found(ranking: Ranking, sizes: dict[str, int], question: str) -> Iterator[Piece]:
    for id in ranking(question, TURNS_MAX):
        yield id, sizes[id]


def memories_found(memory: SemanticMemory, turns: list[Turn], question: str) -> Iterator[Piece]:
    for entry in memory.retrieve(question, MEMORIES_MAX):
        assert entry.source is not None
        yield turns[entry.source[1] - 1][0], estimate(entry.content)


def fitting(
    pieces: Iterable[Piece], room: int, known: frozenset[str] = frozenset()
) -> tuple[set[str], int]:
    """The turns that are shown, and the room that is left. What is known already is left out."""
    shown: set[str] = set()
    for id, tokens in pieces:
        if tokens <= room and id not in shown | known:
            shown.add(id)
            room -= tokens
    return shown, room


def recalled(
    ranking: Ranking, memory: SemanticMemory, turns: list[Turn], questions: list[Question]
) -> Iterator[Shown]:
    sizes = {id: estimate(text) for id, _, text in turns}
    for text, wanted, _ in questions:
        found = list(turns_found(ranking, sizes, text))
        entries = list(memories_found(memory, turns, text))
        alone, _ = fitting(found, TOKENS)
        first, room = fitting(entries, MEMORY_TOKENS)
        rest, _ = fitting(found, TOKENS - MEMORY_TOKENS + room, frozenset(first))
        only, _ = fitting(entries, TOKENS)
        shares = (len(wanted & shown) / len(wanted) for shown in (alone, only, first | rest))
        yield Shown(*shares)


def run(folder: Path | None) -> list[Table] | str:
    if folder is None:
        return "Skipped: no data. Name a folder with --data, or set REFOLD_BENCH_DATA."
    read = talks(folder / "locomo" if (folder / "locomo").is_dir() else folder)
    makers: dict[str, Embedder | bool] = {FULL_TEXT: False, **embedders()}
    found: dict[str, list[Shown]] = {name: [] for name in makers}
    shares = []
    for turns, questions in read.values():
        taken = remembered(turns)
        said = sum(estimate(text) for _, _, text in turns)
        shares.append(sum(estimate(one.content) for one in taken) / said)
        for name, embedder in makers.items():
            memory = memory_of(turns, taken, embedder)
            found[name] += recalled(ours(turns, embedder=embedder), memory, turns, questions)
    return [_recall_table(found, shares), _goal_table(found, shares)]


def _means(rows: list[Shown]) -> Shown:
    return Shown(
        fmean(row.search for row in rows),
        fmean(row.memories for row in rows),
        fmean(row.together for row in rows),
    )


def _recall_table(found: dict[str, list[Shown]], shares: list[float]) -> Table:
    table = Table(
        f"LoCoMo, evidence turns shown in {TOKENS:,} tokens",
        ["ranking", "questions", "search", "memories", "both", "gain"],
    )
    for name, rows in found.items():
        mean = _means(rows)
        gain = mean.together - mean.search
        table.add(name, len(rows), mean.search, mean.memories, mean.together, gain)
    table.note(
        f"Memories by rules, {fmean(shares):.1%} of the tokens of a talk; with both, they have {MEMORY_TOKENS} tokens."
    )
    return table


def _goal_table(found: dict[str, list[Shown]], shares: list[float]) -> Table:
    table = Table("LoCoMo with memories, goals", ["what", "refold", "goal", "met"])
    best = list(found)[-1]
    mean = _means(found[best])
    table.at_least(f"both, {best}", mean.together, TOGETHER)
    table.at_least(f"both above search alone, {best}", mean.together - mean.search, GAIN)
    table.at_least(f"memories by rules alone, {best}", mean.memories, ALONE)
    table.at_most("share of a talk's tokens that rules take, largest", max(shares), SHARE_MAX)
    return table


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.memory_locomo")
    parser.add_argument("folder", type=Path)
    found = run(parser.parse_args().folder)
    print(found if isinstance(found, str) else text_of_tables(found))


if __name__ == "__main__":
    main()
