"""How much a process grows while it imports a large file: it must not follow the file's size.

The files are made here: requests, answers with a call, results of some kilobytes, one after the
other. Each is imported in a process of its own, after a small one has loaded what is loaded once.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from itertools import count, islice
from pathlib import Path
from typing import Any

from bench.tables import Table, verdict
from refold.config import Config
from refold.edges.importers.importer import import_file
from refold.stores import open_store

GOAL_MB = 150
FEW_LINES = 30
Line = dict[str, Any]
_chance = random.Random(1)
_WORDS = ["".join(_chance.choices("abcdefghijklmnopqrstuvwxyz", k=k % 8 + 2)) for k in range(4_000)]


def _text(characters: int) -> str:
    return " ".join(_chance.choices(_WORDS, k=characters // 6))


def plain_lines() -> Iterator[Line]:
    """A list of messages in the shape of Chat Completions."""
    for number in count():
        called = {"name": "Read", "arguments": json.dumps({"path": _text(40)})}
        call = {"id": f"c{number}", "type": "function", "function": called}
        yield {"role": "user", "content": _text(200)}
        yield {"role": "assistant", "content": _text(300), "tool_calls": [call]}
        yield {"role": "tool", "tool_call_id": f"c{number}", "content": _text(6_000)}


def claude_lines() -> Iterator[Line]:
    """A transcript of Claude Code."""
    parent = None
    for number in count():
        call = {
            "type": "tool_use",
            "id": f"t{number}",
            "name": "Read",
            "input": {"path": _text(40)},
        }
        said = {"type": "text", "text": _text(300)}
        result = {"type": "tool_result", "tool_use_id": f"t{number}", "content": _text(6_000)}
        answer = {"id": f"m{number}", "role": "assistant", "model": "claude-sonnet-4-5",
                  "content": [said, call], "usage": {"input_tokens": 9, "output_tokens": 9}}  # fmt: skip
        asked = {"role": "user", "content": _text(200)}
        for message in (asked, answer, {"role": "user", "content": [result]}):
            uuid = f"{_chance.getrandbits(128):032x}"
            yield {"type": message["role"], "uuid": uuid, "parentUuid": parent, "sessionId": "s",
                   "isSidechain": False, "timestamp": "2026-01-01T10:00:00.000Z",
                   "message": message}  # fmt: skip
            parent = uuid


SOURCES: dict[str, Callable[[], Iterator[Line]]] = {
    "claude-code": claude_lines,
    "messages": plain_lines,
}


def write(path: Path, lines: Iterator[Line], size_bytes: int) -> Path:
    with path.open("wb") as file:
        while file.tell() < size_bytes:
            file.write(b"".join(json.dumps(one).encode() + b"\n" for one in islice(lines, 300)))
    return path


def grown_mb(path: Path) -> float:
    """By how much this process grows at most while it imports the file."""
    with tempfile.TemporaryDirectory() as folder:
        store = open_store(f"sqlite:{folder}/bench.db")
        small = Path(folder) / "small.jsonl"
        with path.open("rb") as file:
            small.write_bytes(b"".join(islice(file, FEW_LINES)))
        import_file(store, Config(), small, id="small")
        before = peak_mb()
        import_file(store, Config(), path, id="large")
        store.close()
        return peak_mb() - before


def peak_mb() -> float:
    """The most that this program had in memory. `getrusage` counts what started it as well."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1_000


def table(sizes_mb: tuple[int, ...]) -> Table:
    made = Table(
        "Importing, how much the process grows", ["source", "file MB", "grows MB", "goal", "met"]
    )
    for name, lines in SOURCES.items():
        for size in sizes_mb:
            with tempfile.TemporaryDirectory() as folder:
                path = write(Path(folder) / "large.jsonl", lines(), size * 1_000_000)
                command = [sys.executable, "-m", "bench.import_memory", str(path)]
                run = subprocess.run(command, capture_output=True, text=True, check=True)
            grown = float(run.stdout)
            made.add(name, size, grown, f"≤ {GOAL_MB}", verdict(grown <= GOAL_MB))
    made.note(
        "A session of one conversation, nothing compacted; what is kept per event is its place."
    )
    return made


if __name__ == "__main__":
    print(grown_mb(Path(sys.argv[1])))
