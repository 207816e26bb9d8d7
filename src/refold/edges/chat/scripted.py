"""An agent without a model: it matches the request against patterns and calls the real tools, so
that every command of a chat can be tried without a key.

Like a model, it sees only the request, and answers in the chunks of Chat Completions. It
explains what it understands (`HELP`). Nothing is sent anywhere. Neighbour: `loop` treats it like an
endpoint.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

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


_ABOUT_A_SUMMARY = re.compile(r"condense\b|this is what I say about the summary", re.I)
# The beginnings of refold's placeholders for hidden, cleared and summarized messages.
_NOTICE = re.compile(
    r"\[(?:\d+ earlier messages? (?:is|are) hidden|this earlier copy was removed|"
    r"(?:Summary of|Background on) .*not a (?:new )?request|cleared\b|erased\])",
    re.S,
)
_FILES = re.compile(r"<(file-[0-9a-f]+)[^>]*>.*?</\1>", re.S)


class Call(Struct, frozen=True):
    """A tool and its arguments."""

    name: str
    arguments: dict[str, Any]


class Step(Struct, frozen=True):
    """A call made for the request, and its result."""

    call: Call
    result: str


class Scripted:
    """The agent. It is called like an endpoint."""

    model = NamedModel(spec=SPEC, kind="openai", url="", name=SPEC)
    call: Mapping[str, Any] = {"dialect": "openai_chat", "model": SPEC, "stream": True}

    def __init__(self, word_s: float = WORD_S) -> None:
        self._word_s = word_s

    def stream(self, request: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """The chunks of the reply to a request."""
        text, steps = _turn(request["messages"])
        calls, words = _reply(text, steps, request["messages"])
        for word in re.findall(r"\s*\S+", words):
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


def _turn(messages: list[dict[str, Any]]) -> tuple[str, list[Step]]:
    """The user's newest request, and the steps since then that the page still shows."""
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
    """The text of a message; of several text blocks, the last."""
    if isinstance(content, str):
        return content
    texts = [block["text"] for block in objects_in(content) if isinstance(block.get("text"), str)]
    return texts[-1] if texts else ""


def _reply(text: str, steps: list[Step], messages: list[dict[str, Any]]) -> tuple[list[Call], str]:
    """The next tools, and the words before them; words alone end the turn."""
    for request in _requests(text):
        if _ABOUT_A_SUMMARY.match(request):
            return [], _summary(messages)
        if match := re.match(r"count to (\d{1,5})", request, re.I):
            return [], " ".join(str(n) for n in range(1, min(int(match[1]), 10_000) + 1))
        if re.match(r"read (all|everything)\b", request, re.I):
            return _read_all(steps)
        for plan in _PLANS:
            match = re.match(plan.pattern, request, re.I | re.S)
            if match is not None:
                return _run_plan(plan, match, steps)
    return [], HELP


def _requests(text: str) -> Iterator[str]:
    """Possible requests: the whole text; or a paragraph, the last first, because the page may have
    joined the request with others and with summaries. Attached files are left out."""
    text = _FILES.sub("", text).strip()
    paragraphs = text.split("\n\n")
    requests = [one for one in paragraphs if not _NOTICE.match(one)]
    if requests == paragraphs:
        yield text
    yield from (one.strip() for one in reversed(requests))


def _summary(messages: list[dict[str, Any]]) -> str:
    """The requests so far, in the user's words."""
    texts = [_text(one.get("content")) for one in messages if one["role"] == "user"]
    requests = [next(_requests(text), "") for text in texts]
    listed = [text for text in requests if text and not _ABOUT_A_SUMMARY.match(text)]
    words = "; ".join(cut(one_line(text), REQUEST_CHARS) for text in listed[-REQUESTS_MAX:])
    return f"So far you asked for: {words}."


def _read_all(steps: list[Step]) -> tuple[list[Call], str]:
    """Lists the files, then reads one after the other. A compaction may hide some of the steps:
    the last file that was read marks the position."""
    lists = [step.result for step in steps if step.call.name == "list_files"]
    if not lists:
        return [Call("list_files", {"path": "."})], "I list the files, then I read them."
    rows = lists[-1].splitlines()
    files = [row.partition("  ")[0] for row in rows if "  " in row][:FILES_MAX]
    read = [step.call.arguments["path"] for step in steps if step.call.name == "read_file"]
    done = files.index(read[-1]) + 1 if read and read[-1] in files else 0
    if done < len(files):
        return [Call("read_file", {"path": files[done]})], f"Now {files[done]}."
    return [], f"I have read {number(len(files), 'file')}."


class Plan(NamedTuple):
    """A request that one tool answers: its pattern, the tool with its arguments, and the words
    before the call, in which an argument may occur."""

    pattern: str
    tool: str
    arguments: Callable[[re.Match[str]], dict[str, Any]]
    words: str


def _run_plan(plan: Plan, match: re.Match[str], steps: list[Step]) -> tuple[list[Call], str]:
    """The call of a plan, then its result in a few words."""
    if not steps:
        arguments = plan.arguments(match)
        return [Call(plan.tool, arguments)], plan.words.format(**arguments)
    lines = [line for line in steps[-1].result.splitlines() if line.strip()]
    begins = cut(one_line(" ".join(lines[:4])), QUOTED_CHARS)
    return [], f"The tool returned {number(len(lines), 'line')}. It begins: {begins}"


_PLANS = (
    Plan(
        r"(list|ls|what is here)\b\s*(?P<folder>\S*)",
        "list_files",
        lambda match: {"path": match["folder"] or "."},
        "I look at the files.",
    ),
    Plan(
        r"(write|create) @?(?P<file>[^\s:]+):\s*(?P<text>.*)",
        "write_file",
        lambda match: {"path": match["file"], "content": match["text"].strip() + "\n"},
        "I write {path}.",
    ),
    Plan(
        r"(read|show|open|explain) @?(?P<file>\S+)",
        "read_file",
        lambda match: {"path": match["file"]},
        "I read {path}.",
    ),
    Plan(
        r"(find|grep|search( for)?) (?P<text>\S[^\n]*)",
        "grep",
        lambda match: {"pattern": match["text"].strip().strip("\"'")},
        "I look for {pattern}.",
    ),
    Plan(
        r"(run|\$) (?P<command>\S[^\n]*)",
        "run_command",
        lambda match: {"command": match["command"].strip().strip("`")},
        "I run it.",
    ),
    Plan(
        r"remember (that )?(?P<fact>\S.*)",
        "remember",
        lambda match: {"content": match["fact"].strip()},
        "I remember that.",
    ),
    Plan(
        r"recall (?P<words>\S.*)",
        "recall",
        # The page may show memories below the request.
        lambda match: {"query": match["words"].partition("\n\n")[0].strip()},
        "I try to recall it.",
    ),
    Plan(
        r"what (was|did) .*?\babout (?P<words>\S.*)",
        "refold_search",
        lambda match: {"query": match["words"].strip(" ?")},
        "I look into the past of this conversation.",
    ),
    Plan(
        r"unfold (?P<handle>\S+)",
        "refold_unfold",
        lambda match: {"handle": match["handle"]},
        "I unfold it.",
    ),
)
