"""An agent without a model: it follows the words of the request, and really uses the tools on the
folder, so that every command of a chat can be tried without a key.

It reads nothing but the request it is given, as a model would, and answers in the chunks of Chat
Completions. What it understands stands in `HELP`, and it says so itself. Nothing is sent anywhere.
Neighbour: `loop` treats it like an endpoint.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from refold.dialects.wire import objects_in
from refold.display import cut, number, one_line
from refold.edges.endpoints.model_names import NamedModel

SPEC = "scripted"
WINDOW = 24_000
WORD_S = 0.005
FILES_MAX = 40
QUOTED_CHARS = 160
HELP = (
    "I am a script, not a model. I understand: list [FOLDER] - read FILE - read all - "
    "find TEXT - write FILE: TEXT - run COMMAND - remember FACT - recall WORDS - "
    "what was said about WORDS - unfold HANDLE - count to N. "
    "Type /help for the commands of refold, such as /context, /compact and /undo."
)


class Call(Struct, frozen=True):
    """A tool, and what it is given."""

    name: str
    arguments: dict[str, Any]


class Scripted:
    """The agent. It is called like an endpoint."""

    model = NamedModel(spec=SPEC, kind="openai", url="", name=SPEC)
    call: Mapping[str, Any] = {"dialect": "openai_chat", "model": SPEC, "stream": True}

    def __init__(self, word_s: float = WORD_S) -> None:
        self._word_s = word_s

    def stream(self, request: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """The chunks of the reply to a request."""
        asked, results = _turn(request["messages"])
        calls, text = _reply(asked, results)
        for word in re.findall(r"\s*\S+", text):
            time.sleep(self._word_s)
            yield _chunk({"content": word})
        for index, one in enumerate(calls):
            function = {"name": one.name, "arguments": json.dumps(one.arguments)}
            id = f"call-{len(request['messages'])}-{index}"
            call = {"index": index, "id": id, "type": "function", "function": function}
            yield _chunk({"tool_calls": [call]})
        yield _chunk({}, "tool_calls" if calls else "stop")


def _chunk(delta: dict[str, Any], finished: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finished}
    return {"object": "chat.completion.chunk", "choices": [choice]}


# --- what was asked ---


def _turn(messages: list[dict[str, Any]]) -> tuple[str, list[str]]:
    """The newest request of the user, and the results of tools since."""
    results: list[str] = []
    for message in reversed(messages):
        if message["role"] == "user":
            return _text(message.get("content")), results[::-1]
        if message["role"] == "tool":
            results.append(_text(message.get("content")))
    return "", results[::-1]


def _text(content: Any) -> str:
    """The text of a message: of one in parts, that of the last."""
    if isinstance(content, str):
        return content
    texts = [part["text"] for part in objects_in(content) if isinstance(part.get("text"), str)]
    return texts[-1] if texts else ""


def _reply(asked: str, results: list[str]) -> tuple[list[Call], str]:
    """The tools that come next, and the words before them; words alone end the turn."""
    for pattern, plan in _PLANS:
        found = re.search(pattern, asked, re.I | re.S)
        if found is not None:
            return plan(found, results)
    return [], HELP


def _once(call: Call, results: list[str], said: str) -> tuple[list[Call], str]:
    """One tool, then what it gave."""
    if not results:
        return [call], said
    return [], f"{_quoted(results[-1])}"


def _quoted(result: str) -> str:
    """A result in a few words."""
    lines = [line for line in result.splitlines() if line.strip()]
    begins = cut(one_line(" ".join(lines[:4])), QUOTED_CHARS)
    return f"The tool gave {number(len(lines), 'line')}. It begins: {begins}"


# --- what it understands ---

_Found = re.Match[str]


def _list(found: _Found, results: list[str]) -> tuple[list[Call], str]:
    call = Call("list_files", {"path": found["folder"] or "."})
    return _once(call, results, "I look at the files.")


def _read(found: _Found, results: list[str]) -> tuple[list[Call], str]:
    path = found["file"]
    return _once(Call("read_file", {"path": path}), results, f"I read {path}.")


def _read_all(found: _Found, results: list[str]) -> tuple[list[Call], str]:
    """Lists the files, then reads one after the other."""
    if not results:
        return [Call("list_files", {"path": "."})], "I list the files, then I read them."
    rows = results[0].splitlines()
    files = [row.partition("  ")[0] for row in rows if "  " in row][:FILES_MAX]
    done = len(results) - 1
    if done < len(files):
        return [Call("read_file", {"path": files[done]})], f"Now {files[done]}."
    return [], f"I have read {number(len(files), 'file')}."


def _find(found: _Found, results: list[str]) -> tuple[list[Call], str]:
    text = found["text"].strip().strip("\"'")
    return _once(Call("grep", {"pattern": text}), results, f"I look for {text}.")


def _write(found: _Found, results: list[str]) -> tuple[list[Call], str]:
    arguments = {"path": found["file"], "content": found["text"].strip() + "\n"}
    return _once(Call("write_file", arguments), results, f"I write {found['file']}.")


def _run(found: _Found, results: list[str]) -> tuple[list[Call], str]:
    command = found["command"].strip().strip("`")
    return _once(Call("run_command", {"command": command}), results, "I run it.")


def _remember(found: _Found, results: list[str]) -> tuple[list[Call], str]:
    call = Call("remember", {"content": found["fact"].strip()})
    return _once(call, results, "I remember that.")


def _recall(found: _Found, results: list[str]) -> tuple[list[Call], str]:
    return _once(Call("recall", {"query": found["words"].strip()}), results, "I try to recall it.")


def _search(found: _Found, results: list[str]) -> tuple[list[Call], str]:
    call = Call("refold_search", {"query": found["words"].strip(" ?")})
    return _once(call, results, "I look into the past of this conversation.")


def _unfold(found: _Found, results: list[str]) -> tuple[list[Call], str]:
    call = Call("refold_unfold", {"handle": found["handle"]})
    return _once(call, results, "I unfold it.")


def _count(found: _Found, results: list[str]) -> tuple[list[Call], str]:
    return [], " ".join(str(n) for n in range(1, min(int(found["number"]), 10_000) + 1))


_PLANS = (
    (r"^\s*count to (?P<number>\d{1,5})", _count),
    (r"^\s*read (all|everything)\b", _read_all),
    (r"^\s*(list|ls|what is here)\b\s*(?P<folder>\S*)", _list),
    (r"^\s*(write|create) @?(?P<file>[^\s:]+):\s*(?P<text>.*)", _write),
    (r"^\s*(read|show|open|explain) @?(?P<file>\S+)", _read),
    (r"^\s*(find|grep|search( for)?) (?P<text>\S[^\n]*)", _find),
    (r"^\s*(run|\$) (?P<command>\S[^\n]*)", _run),
    (r"^\s*remember (that )?(?P<fact>\S.*)", _remember),
    (r"^\s*recall (?P<words>\S.*)", _recall),
    (r"^\s*what (was|did) .*?\babout (?P<words>\S.*)", _search),
    (r"^\s*unfold (?P<handle>\S+)", _unfold),
)
