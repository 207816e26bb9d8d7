"""Copies from store to store change nothing: recorded sessions go from SQLite to plain files and
back, and every log, every content and every request is compared, in every dialect, with what it was
before.

Each session is an agent's conversation with compactions and artifacts in it; every tenth has a
fork. A request is rendered from the page as it stands, nothing is compacted for it, and the
dialect's own strict check is asked for faults. What is compared are digests of the exact bytes, and
the faults themselves.
"""

from __future__ import annotations

import hashlib
import tempfile
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec

import refold
from bench.sessions import session_of, session_paths
from bench.tables import Table, verdict
from refold.conversations.copier import Copied, copy
from refold.core.codec import decode
from refold.core.model import Artifact
from refold.dialects import DIALECTS, dialect
from refold.dialects.page import Page
from refold.errors import RefoldError
from refold.log.log import Log
from refold.log.stored_logs import conversations
from refold.replay.policies import simple
from refold.stores import open_store
from refold.stores.protocol import Store

WINDOW = 64_000
OFFLOAD_TOKENS = 2_000
REQUEST_EVERY = 40
FORK_EVERY = 10

Held = dict[tuple[str, str], Any]  # by conversation and what it is


def recorded(store: Store, paths: list[Path]) -> None:
    """Plays the sessions into a store."""
    for number, path in enumerate(paths):
        config = refold.Config(durability="none", offload_tokens=OFFLOAD_TOKENS)
        context = refold.Context(store, f"s{number:03d}", window=WINDOW, config=config)
        context.update(title=path.name.split(".")[0])
        for at, message in enumerate(session_of(path), 1):
            if message["role"] == "tool":
                context.append_result(message.get("tool_call_id", ""), message.get("content") or "")
            else:
                context.append(simple(message))
            if at % REQUEST_EVERY == 0:
                context.request()
        if number % FORK_EVERY == 0:
            fork = context.fork(f"s{number:03d}-fork")
            fork.append({"role": "user", "content": "And now something else."})
            fork.close()
        context.close()


def held(store: Store) -> Iterator[tuple[tuple[str, str], Any]]:
    """Everything of a store that a copy must not change."""
    for about in conversations(store):
        yield (about.id, "description"), _digest(about)
        log = Log(store, about.id)
        events = list(log.read())
        yield (about.id, "events"), _digest(events)
        bodies = [decode(event) for event in events if event.kind == "artifact"]
        contents = [b"".join(store.get(one.digest)) for one in bodies if isinstance(one, Artifact)]
        yield (about.id, "contents"), _digest(contents)
        for name in DIALECTS:
            request, faults = _request(log, name)
            yield (about.id, f"{name} request"), _digest(request)
            yield (about.id, f"{name} check"), faults


def _digest(value: Any) -> str:
    return hashlib.sha256(msgspec.json.encode(value)).hexdigest()


def _request(log: Log, name: str) -> tuple[Any, list[str]]:
    spoken = dialect(name)
    try:
        request = Page(spoken, bound=False).render(log.state.view()).request
    except RefoldError as error:
        return str(error), ["it has no form"]
    return request, spoken.check(request)


def run(folder: Path | None, *, quick: bool = False) -> list[Table] | str:
    if folder is None:
        return "Skipped: no data. Name a folder with --data, or set REFOLD_BENCH_DATA."
    paths = session_paths(folder, 20 if quick else 1)
    with tempfile.TemporaryDirectory() as place:
        urls = [f"sqlite:{place}/a/a.db", f"files:{place}/tree", f"sqlite:{place}/b/b.db"]
        stores = [open_store(url) for url in urls]
        recorded(stores[0], paths)
        before = dict(held(stores[0]))
        copies = Table(
            "Copies",
            ["from, to", "conversations", "events", "artifacts", "CPU µs per event", "again"],
        )
        sides: list[Held] = []
        for source, target in pairwise(stores):
            _copied(copies, source, target)
            sides.append(dict(held(target)))
        for store in stores:
            store.close()
    return [copies, _differences(before, sides, len(paths))]


def _copied(table: Table, source: Store, target: Store) -> None:
    began = time.process_time()
    results = copy(source, target)
    micros = 1e6 * (time.process_time() - began) / max(1, _events(results))
    again = copy(source, target)
    name = " → ".join(store.url.partition(":")[0] for store in (source, target))
    artifacts = sum(one.artifacts for one in results)
    table.add(name, len(results), _events(results), artifacts, micros, f"{_events(again)} written")


def _events(results: list[Copied]) -> int:
    return sum(one.events for one in results)


def _differences(before: Held, sides: list[Held], sessions: int) -> Table:
    table = Table(
        f"Differences after the copies, {sessions} sessions",
        ["what", "compared", "sqlite → files", "→ sqlite", "0"],
    )
    for what in dict.fromkeys(what for _, what in before):
        keys = [key for key in before if key[1] == what]
        differing = [sum(before[key] != side.get(key, ()) for key in keys) for side in sides]
        table.add(what, len(keys), *differing, verdict(not any(differing)))
    faults = {
        name: sum(len(value) for (_, what), value in before.items() if what == f"{name} check")
        for name in DIALECTS
    }
    table.note(
        "Faults by the strict checks, the same on all sides: "
        + ", ".join(f"{n} {c}" for n, c in faults.items())
        + "."
    )
    return table
