"""Turns of an agent for the tests of a Context: what it calls, what it is answered, what a request
must be."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import refold
from refold import dialects

LONG = "a line of output that is long enough to count for something\n"


def opened(store: str = "memory:", id: str = "work", **given: Any) -> refold.Context:
    given.setdefault("window", 24_000)
    return refold.open(id, store=store, **given)


def opened_in_characters(**given: Any) -> refold.Context:
    """A context to which every character is a token."""
    return refold.open("work", store="memory:", **{"window": 20_000, "counter": len, **given})


def call(n: int, name: str = "bash", arguments: str = '{"command":"ls"}') -> dict[str, Any]:
    """A message that calls a tool once, by the id `c` and `n`."""
    function = {"name": name, "arguments": arguments}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": f"c{n}", "type": "function", "function": function}],
    }


def checked(context: refold.Context, dialect: str = "openai_chat") -> dict[str, Any]:
    """The next request, which its provider would take."""
    request = context.request(dialect)
    assert dialects.dialect(dialect).check(request) == []
    return request


def work(context: refold.Context, turns: int, size: int = 40) -> None:
    """Calls a tool in every turn; `size` lines are its result."""
    for n in range(turns):
        context.append(call(n))
        context.append_result(f"c{n}", f"turn {n}\n" + LONG * size)
        checked(context)


def talk(context: refold.Context, turns: int, size: int = 200) -> None:
    """A question and an answer in every turn, each of them `size` characters long and a few
    more."""
    for n in range(turns):
        context.append({"role": "user", "content": f"question {n} " + "q" * size})
        context.append({"role": "assistant", "content": f"answer {n} " + "a" * size})


def names(notices: list[refold.Notice]) -> list[str]:
    return [notice.name for notice in notices]


def response(n: int, text: str = "ok", prompt: int = 100) -> dict[str, Any]:
    """A chat completion that was billed `prompt` tokens and ten."""
    message = {"role": "assistant", "content": text}
    usage = {"prompt_tokens": prompt, "completion_tokens": 10, "total_tokens": prompt + 10}
    choice = {"index": 0, "finish_reason": "stop", "message": message}
    return {
        "id": f"r{n}",
        "object": "chat.completion",
        "model": "gpt-4o",
        "choices": [choice],
        "usage": usage,
    }


def worked(turns: int = 60, size: int = 40, **given: Any) -> refold.Context:
    """A context in which every turn ran another command and got another output."""
    context = refold.open("work", **{"store": "memory:", "window": 128_000, **given})
    context.append({"role": "user", "content": "Fix the login test. The port is 8443."})
    for n in range(turns):
        context.append(call(n, arguments=json.dumps({"command": f"step {n}"})))
        output = "".join(f"{n}.{i} {LONG}" for i in range(size))
        context.append_result(f"c{n}", f"turn {n}\n{output}")
    return context


def page_of(context: refold.Context) -> str:
    """A hash of the next request: the same page, the same text."""
    return hashlib.sha256(json.dumps(context.request("openai_chat")).encode()).hexdigest()
