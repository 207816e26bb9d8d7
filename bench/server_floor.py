"""The least that a server of durable appends can do, to compare ours with: a raw ASGI function on
the same uvicorn, one INSERT for each line of the body, and an answer once it is on the disk.

It checks nothing: no token, no name, no event. On SQLite appends that wait share one commit; on
PostgreSQL each request is one commit, on a connection of its thread.
`python -m bench.server_floor PORT sqlite:FILE|postgresql://…`
"""

from __future__ import annotations

import asyncio
import queue
import re
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

PATH = re.compile(rb"/api/v1/orgs/[^/]+/context/conversations/([^/]+)/events")
GROUP_MAX = 256
CONNECTIONS = 8
Rows = list[tuple[str, int, bytes]]


class OnSqlite:
    """One thread writes; whatever waits goes into one commit."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._queue: queue.Queue[tuple[Rows, asyncio.Future[None]]] = queue.Queue()
        threading.Thread(target=self._work, daemon=True).start()

    async def insert(self, rows: Rows) -> None:
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.put((rows, answer))
        await answer

    def _work(self) -> None:
        import apsw

        connection = apsw.Connection(self._path)
        connection.execute("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL")
        connection.execute(
            "CREATE TABLE events(id TEXT, seq INTEGER, body BLOB, PRIMARY KEY(id, seq))"
        )
        while True:
            group = [self._queue.get()]
            while len(group) < GROUP_MAX and not self._queue.empty():
                group.append(self._queue.get())
            connection.execute("BEGIN IMMEDIATE")
            for rows, _ in group:
                for row in rows:
                    connection.execute("INSERT INTO events VALUES (?, ?, ?)", row)
            connection.execute("COMMIT")
            answers = [answer for _, answer in group]
            answers[0].get_loop().call_soon_threadsafe(_answer_all, answers)


def _answer_all(answers: list[asyncio.Future[None]]) -> None:
    for answer in answers:
        answer.set_result(None)


class OnPostgres:
    """A connection for each thread, a commit for each request."""

    def __init__(self, url: str) -> None:
        import psycopg

        with psycopg.connect(url) as connection:
            connection.execute(
                "CREATE TABLE IF NOT EXISTS floor(id TEXT, seq BIGINT, body BYTEA, PRIMARY KEY(id, seq))"
            )
            connection.execute("TRUNCATE floor")
        self._connections = threading.local()
        self._threads = ThreadPoolExecutor(CONNECTIONS)
        self._connect: Callable[[], Any] = lambda: psycopg.connect(url)

    async def insert(self, rows: Rows) -> None:
        await asyncio.get_running_loop().run_in_executor(self._threads, self._insert, rows)

    def _insert(self, rows: Rows) -> None:
        connection = getattr(self._connections, "it", None)
        if connection is None:
            connection = self._connections.it = self._connect()
        with connection.cursor() as cursor:
            if len(rows) == 1:
                cursor.execute("INSERT INTO floor VALUES (%s, %s, %b)", rows[0])
            else:
                cursor.executemany("INSERT INTO floor VALUES (%s, %s, %b)", rows)
        connection.commit()


class Floor:
    """The ASGI application."""

    def __init__(self, place: str) -> None:
        is_sqlite = place.startswith("sqlite:")
        self._store = OnSqlite(place.removeprefix("sqlite:")) if is_sqlite else OnPostgres(place)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        found = PATH.fullmatch(scope["raw_path"])
        if found is None:
            await _send(send, b"{}")
            return
        body = b""
        more = True
        while more:
            message = await receive()
            body += message["body"]
            more = message["more_body"]
        first = int(scope["query_string"].removeprefix(b"expect=")) + 1
        id, lines = found[1].decode(), body.splitlines()
        await self._store.insert([(id, seq, line) for seq, line in enumerate(lines, first)])
        await _send(send, b'{"head":%d}' % (first + len(lines) - 1))


async def _send(send: Any, body: bytes) -> None:
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def main(port: int, place: str) -> None:
    import uvicorn

    config = uvicorn.Config(
        Floor(place), port=port, http="h11", ws="none", loop="asyncio", lifespan="off",
        log_level="warning", access_log=False, server_header=False, date_header=False,
    )  # fmt: skip
    uvicorn.Server(config).run()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
