"""Generated sessions with usage, as Claude Code and Codex write them: several projects, days and
models, cached prompts, responses in several lines, and lines that a continued session repeats."""

from __future__ import annotations

import json
import random
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

Line = dict[str, Any]
START = datetime(2026, 5, 1, 9, 0, tzinfo=UTC)
CLAUDE = ("claude-opus-4-5-20251101", "claude-sonnet-4-5-20250929")
CODEX = ("gpt-5", "gpt-5-codex")


class Clock:
    """Time that passes by minutes and, now and then, by days."""

    def __init__(self, chance: random.Random) -> None:
        self.chance, self.at = chance, START

    def tick(self) -> str:
        self.at += timedelta(minutes=self.chance.randint(1, 5))
        if self.chance.random() < 0.1:
            self.at += timedelta(days=self.chance.randint(1, 9))
        return self.at.strftime("%Y-%m-%dT%H:%M:%S.000Z")


def _id(chance: random.Random) -> str:
    return str(uuid.UUID(int=chance.getrandbits(128), version=4))


def claude_session(chance: random.Random, project: str) -> tuple[str, list[Line]]:
    """The id and lines of a session of Claude Code."""
    session, clock, parent = _id(chance), Clock(chance), None
    lines: list[Line] = []

    def add(type: str, message: Line, **more: Any) -> None:
        nonlocal parent
        own = _id(chance)
        lines.append(
            {
                "parentUuid": parent,
                "isSidechain": False,
                "cwd": project,
                "sessionId": session,
                "version": "2.1.197",
                "type": type,
                "message": message,
                "uuid": own,
                "timestamp": clock.tick(),
                **more,
            }
        )
        parent = own

    read = 0
    for turn in range(chance.randint(1, 12)):
        add("user", {"role": "user", "content": f"request {turn} of {session}"})
        response, model = f"msg_{chance.getrandbits(60):x}", chance.choice(CLAUDE)
        request = f"req_{chance.getrandbits(60):x}"
        written = chance.randint(0, 9_000)
        usage = {
            "input_tokens": chance.randint(1, 900),
            "cache_creation_input_tokens": written,
            "cache_read_input_tokens": read,
            "output_tokens": chance.randint(1, 700),
        }
        read += written
        for part in range(chance.randint(1, 3)):
            content = [{"type": "text", "text": f"part {part} of {response}"}]
            message = {"id": response, "type": "message", "role": "assistant", "model": model}
            add(
                "assistant",
                {**message, "content": content, "usage": usage},
                requestId=request,
            )
    return session, lines


def codex_session(chance: random.Random, project: str) -> tuple[str, list[Line]]:
    """The id and lines of a rollout of Codex."""
    session, clock = _id(chance), Clock(chance)
    total = {"input_tokens": 0, "cached_input_tokens": 0, "output_tokens": 0}
    lines: list[Line] = []

    def add(type: str, /, **payload: Any) -> None:
        lines.append({"timestamp": clock.tick(), "type": type, "payload": payload})

    def said(role: str, text: str) -> None:
        kind = "output_text" if role == "assistant" else "input_text"
        content = [{"type": kind, "text": text}]
        add("response_item", type="message", role=role, content=content)

    add("session_meta", id=session, cwd=project, cli_version="0.169.0")
    add("turn_context", model=chance.choice(CODEX), cwd=project)
    for turn in range(chance.randint(1, 12)):
        said("user", f"request {turn} of {session}")
        said("assistant", f"answer {turn} of {session}")
        read = chance.randint(1_000, 90_000)
        last = {
            "input_tokens": read,
            "cached_input_tokens": chance.randint(0, read),
            "output_tokens": chance.randint(1, 900),
        }
        last["total_tokens"] = read + last["output_tokens"]
        total = {name: total.get(name, 0) + count for name, count in last.items()}
        info = {"last_token_usage": last, "total_token_usage": total}
        add("event_msg", type="token_count", info={**info, "model_context_window": 258_400})
    return session, lines


def write_sessions(home: Path, seed: int) -> list[Path]:
    """Writes sessions of both agents where they keep them below a home folder; one of Claude Code
    begins with the lines of another, as a continued session did."""
    chance = random.Random(seed)
    written: list[Path] = []

    def write(path: Path, lines: list[Line]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        written.append(path)

    for place in range(chance.randint(2, 5)):
        folder = home / ".claude" / "projects" / f"-work-p{place % 2}"
        session, lines = claude_session(chance, f"/work/p{place % 2}")
        write(folder / f"{session}.jsonl", lines)
        rollout, items = codex_session(chance, f"/work/p{place % 3}")
        day = home / ".codex" / "sessions" / "2026" / "05" / "01"
        write(day / f"rollout-2026-05-01T09-0{place}-00-{rollout}.jsonl", items)
    again, more = claude_session(chance, "/work/p0")
    first = written[0].read_text(encoding="utf-8").splitlines()
    copied = [{**json.loads(line), "sessionId": again} for line in first]
    more[0]["parentUuid"] = copied[-1]["uuid"]
    write(written[0].parent / f"{again}.jsonl", [*copied, *more])
    return written
