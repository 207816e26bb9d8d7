"""What is timed turn by turn: refold, and the least that would do, written by hand on bare SQLite.

Both take the same turns and give the next prompt. The floor inserts each message as JSON in one
durable transaction per turn (WAL, synchronous=FULL), keeps a running sum of sizes, and sends the
opening and the newest messages that fit. It has no compaction, no laws, no second writer, no undo.
"""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any, Protocol

from bench.workload import Turn

WINDOW = 128_000


class Subject(Protocol):
    compactions: int

    def open(self, folder: Path, *, durable: bool = True) -> None: ...
    def append_opening(self, messages: list[dict[str, str]]) -> None: ...
    def append(self, turn: Turn) -> None: ...
    def request(self) -> int: ...
    def close(self) -> None: ...


class Refold:
    """The library as an agent loop uses it."""

    compactions = 0
    model: str | None = None

    def open(self, folder: Path, *, durable: bool = True) -> None:
        import refold

        config = {"durability": "turn" if durable else "none"}
        self.context = refold.open(
            "bench",
            store=f"sqlite:{folder}/refold.db",
            model=self.model,
            window=WINDOW,
            config=config,
        )
        self.context.on("compaction-complete", self._compacted)

    def _compacted(self, notice: Any) -> None:
        self.compactions += 1

    def append_opening(self, messages: list[dict[str, str]]) -> None:
        for message in messages:
            self.context.append(message)

    def append(self, turn: Turn) -> None:
        call, id, result = turn
        self.context.append(call)
        self.context.append_result(id, result)

    def request(self) -> int:
        return len(self.context.request(dialect="openai_chat")["messages"])

    def close(self) -> None:
        self.context.close()


class Exact(Refold):
    """The same with a model whose own vocabulary counts."""

    model = "gpt-4o"


class Floor:
    compactions = 0

    def open(self, folder: Path, *, durable: bool = True) -> None:
        self.database = sqlite3.connect(folder / "floor.db", isolation_level=None)
        self.database.execute("pragma journal_mode=wal")
        self.database.execute(f"pragma synchronous={'full' if durable else 'off'}")
        self.database.execute(
            "create table if not exists m(seq integer primary key, tokens int, body text)"
        )
        self.opening = self._read("where seq <= 2 order by seq")
        self.tail: list[tuple[int, dict[str, Any]]] = []
        self.tokens = sum(size for size, _ in self.opening)
        self._read_tail()

    def _read(self, which: str) -> list[tuple[int, dict[str, Any]]]:
        rows = self.database.execute(f"select tokens, body from m {which}")
        return [(size, json.loads(body)) for size, body in rows]

    def _read_tail(self) -> None:
        """The newest messages that fit, the newest first until they are turned round."""
        for size, body in self.database.execute(
            "select tokens, body from m where seq > 2 order by seq desc"
        ):
            if self.tokens + size > WINDOW:
                break
            self.tokens += size
            self.tail.append((size, json.loads(body)))
        self.tail.reverse()

    def append_opening(self, messages: list[dict[str, str]]) -> None:
        self.opening = self._insert(messages)

    def append(self, turn: Turn) -> None:
        call, id, result = turn
        self.tail += self._insert([call, {"role": "tool", "tool_call_id": id, "content": result}])

    def _insert(self, messages: list[dict[str, Any]]) -> list[tuple[int, dict[str, Any]]]:
        bodies = [json.dumps(message) for message in messages]
        sizes = [len(body) // 4 for body in bodies]
        self.database.execute("begin immediate")
        for row in zip(sizes, bodies):
            self.database.execute("insert into m(tokens, body) values(?, ?)", row)
        self.database.execute("commit")
        self.tokens += sum(sizes)
        return list(zip(sizes, messages))

    def request(self) -> int:
        first = 0
        while self.tokens > WINDOW and first < len(self.tail) - 2:
            self.tokens -= self.tail[first][0]
            first += 1
        del self.tail[:first]
        return len([message for _, message in (*self.opening, *self.tail)])

    def close(self) -> None:
        self.database.close()


SUBJECTS: dict[str, type[Refold] | type[Floor]] = {"floor": Floor, "refold": Refold}
CHOICES: dict[str, type[Refold] | type[Floor]] = {**SUBJECTS, "exact": Exact}
