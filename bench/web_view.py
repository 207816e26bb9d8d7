"""What the web view costs: the first screen of a long conversation as a multiple of one fold of it,
the bytes that are sent, and what it costs while nobody writes.

Figures are CPU time of this process, the median of several. The conversation is on SQLite, with
calls, results, and compactions when due. Neighbours: `growth` makes it, `refold.edges.ui` answers.

    python -m bench web_view
"""

from __future__ import annotations

import gzip
import json
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

import msgspec

import refold
from bench.growth import grown, timed
from bench.tables import Table
from refold.core.fold import fold
from refold.edges.ui import app
from refold.edges.ui.answers import Answers
from refold.stores import open_store

MESSAGES, SESSIONS, REPEATS = 10_000, 1_000, 3
LOOKS_PER_S = 1 / app.LOOK_S
GIVEN = {"id": "long"}


def middle(act: Callable[[], object], repeats: int) -> float:
    return median(timed(act) for _ in range(repeats))


def run(messages: int = MESSAGES, sessions: int = SESSIONS, repeats: int = REPEATS) -> list[Table]:
    table = Table("Web view", ["figure", "value", "goal", ""])
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:{folder}/log.db"
        grown(url, messages).close()
        store = open_store(url, read_only=True)
        head = store.head("long") or 0

        def folded() -> None:
            log = [
                event
                for at in range(0, head, 500)
                for event in store.read("long", after=at, limit=500)
            ]
            fold(log)

        once = middle(folded, repeats)
        table.note(f"One fold of {messages:,} messages, with reading: {once:,.0f} ms of CPU.")

        def first() -> None:
            answers = Answers(url)
            msgspec.json.encode(answers.conversation(GIVEN))
            answers.close()

        answers = Answers(url)
        body = msgspec.json.encode(answers.conversation(GIVEN))
        sent = len(gzip.compress(body, app.GZIP_LEVEL))
        table.at_most("first screen, cold, in folds", middle(first, repeats) / once, 3.0)
        warm = middle(lambda: answers.conversation(GIVEN), repeats)
        table.at_most("first screen, warm, in folds", warm / once, 0.5)
        table.at_most("kB sent for it", sent / 1e3, 300.0 * messages / MESSAGES)
        for name in ("undo", "compact"):
            act = json.dumps({"act": name}).encode()
            price = middle(partial(answers.rehearse, GIVEN, act), repeats)
            table.at_most(f"price of an act: {name}, in folds", price / once, 1.5)
        looks = 200
        started = time.process_time()
        for _ in range(looks):
            answers.heads()
        idle = (time.process_time() - started) / looks * LOOKS_PER_S
        table.at_most("idle, % of a core", 100 * idle, 0.5)
        saved = len(answers.save(GIVEN))
        table.at_most("saved file, kB per message", saved / 1e3 / messages, 2.0)
        answers.close()
        many = f"sqlite:{folder}/many.db"
        for number in range(sessions):
            with refold.open(
                f"s{number}", store=many, model="claude-sonnet-4-5", embedder=False
            ) as one:
                one.append({"role": "user", "content": f"Look into part {number}."})
                one.append({"role": "assistant", "content": "It is done."})
        overview = middle(lambda: Answers(many).overview({}), repeats)
        table.at_most(f"overview of {sessions:,} sessions, s", overview / 1e3, 1.0)
    files = [path.read_bytes() for path in (Path(app.__file__).parent / "static").iterdir()]
    table.at_most("static files, kB", sum(map(len, files)) / 1e3, 120.0)
    table.at_most("static files, gzipped, kB", len(gzip.compress(b"".join(files))) / 1e3, 40.0)
    return [table]
