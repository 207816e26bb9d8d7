"""Transcripts written by hand in the shapes that the programs write: small, and all of it ours."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

SESSION = "0b5e1c9e-0000-4000-8000-000000000001"
Line = dict[str, Any]


def write(path: Path, lines: list[Line]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def user(uuid: str, parent: str | None, content: Any, **more: Any) -> Line:
    return {
        "type": "user", "uuid": uuid, "parentUuid": parent, "sessionId": SESSION,
        "timestamp": "2026-05-01T10:11:12.000Z", "isSidechain": False,
        "message": {"role": "user", "content": content}, **more,
    }  # fmt: skip


def block(uuid: str, parent: str, response: str, content: Line, **more: Any) -> Line:
    usage = {"input_tokens": 12, "output_tokens": 7, "cache_read_input_tokens": 100}
    message = {
        "id": response, "role": "assistant", "type": "message", "model": "claude-opus-4-5",
        "content": [content], "usage": usage,
    }  # fmt: skip
    return {
        "type": "assistant", "uuid": uuid, "parentUuid": parent, "sessionId": SESSION,
        "timestamp": "2026-05-01T10:11:13.000Z", "isSidechain": False, "message": message, **more,
    }  # fmt: skip


def call(id: str) -> Line:
    return {"type": "tool_use", "id": id, "name": "Bash", "input": {"command": f"ls {id}"}}


def result(id: str, text: str = "a.py") -> list[Line]:
    return [{"type": "tool_result", "tool_use_id": id, "content": text}]


def text(said: str) -> Line:
    return {"type": "text", "text": said}


def parallel() -> list[Line]:
    """One response in three lines, a result between its blocks, and results that fork the tree."""
    return [
        {"type": "summary", "summary": "Listing folders", "leafUuid": "r2"},
        user("u1", None, "List both folders."),
        block("a1", "u1", "msg_1", text("Both at once.")),
        block("a2", "a1", "msg_1", call("t1")),
        user("r1", "a2", result("t1", "one.py")),
        block("a3", "a2", "msg_1", call("t2")),
        user("r2", "a3", result("t2", "two.py")),
        block("a4", "r2", "msg_2", text("one.py and two.py.")),
    ]


def rollout() -> list[Line]:
    """A Codex session: two items, their usage, a compaction, a turn that was rolled back."""

    def line(type: str, /, **payload: Any) -> Line:
        return {"timestamp": "2026-06-18T08:59:18.573Z", "type": type, "payload": payload}

    def said(role: str, text: str) -> Line:
        kind = "output_text" if role == "assistant" else "input_text"
        content = [{"type": kind, "text": text}]
        return line("response_item", type="message", role=role, content=content)

    info = {
        "last_token_usage": {"input_tokens": 120, "cached_input_tokens": 20, "output_tokens": 9}
    }
    return [
        line("session_meta", id="s-1", cwd="/home/user", base_instructions={"text": "Be brief."}),
        line("turn_context", model="gpt-5.5"),
        said("user", "What is in src?"),
        line("response_item", type="function_call", name="exec", arguments="{}", call_id="c1"),
        line("response_item", type="function_call_output", call_id="c1", output="main.py"),
        line("event_msg", type="token_count", info=info),
        said("assistant", "main.py."),
        line("event_msg", type="agent_message", message="main.py."),
        line("compacted", message="The folder src holds main.py."),
        said("user", "Delete it."),
        said("assistant", "Deleted."),
        line("event_msg", type="thread_rolled_back", num_turns=1),
        said("user", "Keep it."),
    ]
