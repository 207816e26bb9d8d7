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
from refold.edges.endpoints.model_names import SCRIPTED, NamedModel

SPEC = SCRIPTED
WINDOW = 24_000
WORD_S = 0.005
FILES_MAX = 40
QUOTED_CHARS = 160
REQUESTS_MAX, REQUEST_CHARS = 40, 80
HELP = (
    "I am a script, not a model. I understand: list [FOLDER] - read FILE - read all - "
    "find TEXT - write FILE: TEXT - run COMMAND - remember FACT - recall WORDS - "
    "what was said about WORDS - unfold HANDLE - count to N - condense. "
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
        asked, steps = _turn(request["messages"])
        calls, text = _reply(asked, steps, request["messages"])
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
    return {"object": "chat.completion.chunk", "model": SPEC, "choices": [choice]}


# --- what was asked ---


class Step(Struct, frozen=True):
    """A call that was made for the request, and what it gave."""

    call: Call
    result: str


def _turn(messages: list[dict[str, Any]]) -> tuple[str, list[Step]]:
    """The newest request of the user, and the steps since that the page still shows."""
    steps: list[Step] = []
    results: dict[str, str] = {}
    for message in reversed(messages):
        content = _text(message.get("content"))
        if message["role"] == "user":
            return content, steps[::-1]
        if message["role"] == "tool":
            results[str(message.get("tool_call_id"))] = content
        for call in reversed(objects_in(message.get("tool_calls"))):
            function = call["function"]
            made = Call(function["name"], json.loads(function["arguments"]))
            steps.append(Step(made, results.get(call["id"], "")))
    return "", steps[::-1]


def _text(content: Any) -> str:
    """The text of a message: of one in parts, that of the last."""
    if isinstance(content, str):
        return content
    texts = [part["text"] for part in objects_in(content) if isinstance(part.get("text"), str)]
    return texts[-1] if texts else ""


def _reply(asked: str, steps: list[Step], messages: list[dict[str, Any]]) -> tuple[list[Call], str]:
    """The tools that come next, and the words before them; words alone end the turn."""
    for text in _requests(asked):
        if _ABOUT_A_SUMMARY.match(text):
            return [], _summary(messages)
        for pattern, plan in _PLANS:
            found = re.match(pattern, text, re.I | re.S)
            if found is not None:
                return plan(found, steps)
    return [], HELP


def _requests(asked: str) -> Iterator[str]:
    """What may be meant: the whole text; or a paragraph of it, the last first, where the page
    joined the request with others and with summaries, which say that they are none. Files that
    go along are left out."""
    asked = _FILES.sub("", asked).strip()
    paragraphs = asked.split("\n\n")
    if not any(map(_is_summary, paragraphs)):
        yield asked
    yield from (one.strip() for one in reversed(paragraphs) if not _is_summary(one))


def _is_summary(paragraph: str) -> bool:
    return _NOTICE.match(paragraph) is not None


def _summary(messages: list[dict[str, Any]]) -> str:
    """What was asked for, in the user's words."""
    said = [_text(one.get("content")) for one in messages if one["role"] == "user"]
    requests = [next(_requests(text), "") for text in said]
    asked = [text for text in requests if text and not _ABOUT_A_SUMMARY.match(text)]
    told = "; ".join(cut(one_line(text), REQUEST_CHARS) for text in asked[-REQUESTS_MAX:])
    return f"So far you asked for: {told}."


def _once(call: Call, steps: list[Step], said: str) -> tuple[list[Call], str]:
    """One tool, then what it gave."""
    if not steps:
        return [call], said
    return [], _quoted(steps[-1].result)


def _quoted(result: str) -> str:
    """A result in a few words."""
    lines = [line for line in result.splitlines() if line.strip()]
    begins = cut(one_line(" ".join(lines[:4])), QUOTED_CHARS)
    return f"The tool gave {number(len(lines), 'line')}. It begins: {begins}"


# --- what it understands ---

_Found = re.Match[str]
_ABOUT_A_SUMMARY = re.compile(r"condense\b|this is what I say about the summary", re.I)
# How the texts begin that refold writes in the place of messages.
_NOTICE = re.compile(
    r"\[(?:\d+ earlier messages? (?:is|are) hidden|this earlier copy was removed|"
    r"(?:Summary of|Background on) .*not a (?:new )?request|cleared\b|erased\])",
    re.S,
)
_FILES = re.compile(r"<(file-[0-9a-f]+)[^>]*>.*?</\1>", re.S)


def _list(found: _Found, steps: list[Step]) -> tuple[list[Call], str]:
    call = Call("list_files", {"path": found["folder"] or "."})
    return _once(call, steps, "I look at the files.")


def _read(found: _Found, steps: list[Step]) -> tuple[list[Call], str]:
    path = found["file"]
    return _once(Call("read_file", {"path": path}), steps, f"I read {path}.")


def _read_all(found: _Found, steps: list[Step]) -> tuple[list[Call], str]:
    """Lists the files, then reads one after the other, also where a compaction took the list or
    some of them off the page: the last one that was read says where it is."""
    listed = [step.result for step in steps if step.call.name == "list_files"]
    if not listed:
        return [Call("list_files", {"path": "."})], "I list the files, then I read them."
    rows = listed[-1].splitlines()
    files = [row.partition("  ")[0] for row in rows if "  " in row][:FILES_MAX]
    read = [step.call.arguments["path"] for step in steps if step.call.name == "read_file"]
    done = files.index(read[-1]) + 1 if read and read[-1] in files else 0
    if done < len(files):
        return [Call("read_file", {"path": files[done]})], f"Now {files[done]}."
    return [], f"I have read {number(len(files), 'file')}."


def _find(found: _Found, steps: list[Step]) -> tuple[list[Call], str]:
    text = found["text"].strip().strip("\"'")
    return _once(Call("grep", {"pattern": text}), steps, f"I look for {text}.")


def _write(found: _Found, steps: list[Step]) -> tuple[list[Call], str]:
    arguments = {"path": found["file"], "content": found["text"].strip() + "\n"}
    return _once(Call("write_file", arguments), steps, f"I write {found['file']}.")


def _run(found: _Found, steps: list[Step]) -> tuple[list[Call], str]:
    command = found["command"].strip().strip("`")
    return _once(Call("run_command", {"command": command}), steps, "I run it.")


def _remember(found: _Found, steps: list[Step]) -> tuple[list[Call], str]:
    call = Call("remember", {"content": found["fact"].strip()})
    return _once(call, steps, "I remember that.")


def _recall(found: _Found, steps: list[Step]) -> tuple[list[Call], str]:
    # What stands below the request are memories that the page shows with it.
    words = found["words"].partition("\n\n")[0].strip()
    return _once(Call("recall", {"query": words}), steps, "I try to recall it.")


def _search(found: _Found, steps: list[Step]) -> tuple[list[Call], str]:
    call = Call("refold_search", {"query": found["words"].strip(" ?")})
    return _once(call, steps, "I look into the past of this conversation.")


def _unfold(found: _Found, steps: list[Step]) -> tuple[list[Call], str]:
    call = Call("refold_unfold", {"handle": found["handle"]})
    return _once(call, steps, "I unfold it.")


def _count(found: _Found, steps: list[Step]) -> tuple[list[Call], str]:
    return [], " ".join(str(n) for n in range(1, min(int(found["number"]), 10_000) + 1))


_PLANS = (
    (r"count to (?P<number>\d{1,5})", _count),
    (r"read (all|everything)\b", _read_all),
    (r"(list|ls|what is here)\b\s*(?P<folder>\S*)", _list),
    (r"(write|create) @?(?P<file>[^\s:]+):\s*(?P<text>.*)", _write),
    (r"(read|show|open|explain) @?(?P<file>\S+)", _read),
    (r"(find|grep|search( for)?) (?P<text>\S[^\n]*)", _find),
    (r"(run|\$) (?P<command>\S[^\n]*)", _run),
    (r"remember (that )?(?P<fact>\S.*)", _remember),
    (r"recall (?P<words>\S.*)", _recall),
    (r"what (was|did) .*?\babout (?P<words>\S.*)", _search),
    (r"unfold (?P<handle>\S+)", _unfold),
)
