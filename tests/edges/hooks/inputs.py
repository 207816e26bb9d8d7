"""Events as Claude Code gives them to hooks, and a transcript that grows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

SESSION = "77ec153f-f37a-4913-9a6f-7a0a0a73c594"


def event(name: str, folder: Path, **more: Any) -> dict[str, Any]:
    return {
        "session_id": SESSION,
        "transcript_path": str(folder / f"{SESSION}.jsonl"),
        "cwd": str(folder),
        "permission_mode": "default",
        "hook_event_name": name,
        **more,
    }


def tool(name: str, response: Any, folder: Path, **given: Any) -> dict[str, Any]:
    more = {"tool_name": name, "tool_input": given, "tool_use_id": "toolu_1"}
    return event("PostToolUse", folder, **more, tool_response=response, duration_ms=12)


def bash(stdout: str, folder: Path, command: str = "pytest -q") -> dict[str, Any]:
    response = {"stdout": stdout, "stderr": "", "interrupted": False, "isImage": False}
    return tool("Bash", response, folder, command=command, description="Run it")


def lines(count: int, text: str = "tests/test_{}.py::test_it PASSED") -> str:
    return "".join(text.format(n) + "\n" for n in range(count))


class Transcript:
    """The file that Claude Code writes: one line for each thing said."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / f"{SESSION}.jsonl"
        self.count = 0

    def say(self, role: str, content: Any, **more: Any) -> None:
        before = f"u{self.count}" if self.count else None
        self.count += 1
        message: dict[str, Any] = {"role": role, "content": content}
        if role == "assistant":
            message |= {"id": f"msg_{self.count}", "model": "claude-opus-5-5"}
        line = {"type": role, "uuid": f"u{self.count}", "parentUuid": before}
        line |= {"sessionId": SESSION, "isSidechain": False, "message": message, **more}
        line |= {"timestamp": f"2026-11-17T10:00:{self.count:02}.000Z"}
        with self.path.open("a") as file:
            file.write(json.dumps(line) + "\n")

    def call(self, id: str, command: str, output: str) -> None:
        use = {"type": "tool_use", "id": id, "name": "Bash", "input": {"command": command}}
        self.say("assistant", [use])
        self.say("user", [{"type": "tool_result", "tool_use_id": id, "content": output}])
