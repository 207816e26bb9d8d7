"""Scripted writers, and the conversations they are asked about, for the tests of writers."""

from __future__ import annotations

import json
import threading

import refold
from refold import dialects
from refold.core.codec import decode
from refold.core.model import Summarize
from refold.writer.asker import Request
from tests.waiting import LONG_S

AWS = "AKIA" + "IOSFODNN7EXAMPLE"
GOOD = "Goal: make the login work.\nDone: looked at everything.\nNext steps: run the tests."


class Scripted:
    """A writer that plays its answers, the last one again and again, and remembers what it was
    asked."""

    def __init__(self, *answers, window=32_000):
        self.answers, self.window, self.requests = list(answers) or [GOOD], window, []

    def __call__(self, request: Request):
        self.requests.append(request)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if callable(answer):
            answer = answer(request)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    @property
    def prompt(self) -> str:
        return self.requests[-1].prompt


def opened(writer=None, *, config=None, window=100_000, store="memory:", id="work", **given):
    return refold.open(id, store=store, window=window, writer=writer, config=config or {}, **given)


def talked(context, n=45, start=0, size=300):
    for i in range(start, start + n):
        role = "user" if i % 2 == 0 else "assistant"
        context.append(
            {"role": role, "content": f"message {i} " + f"about thing {i} " * (size // 16)}
        )


def used(context, n, name, arguments, output):
    function = {"name": name, "arguments": json.dumps(arguments)}
    call = {"id": f"u{n}", "type": "function", "function": function}
    context.append({"role": "assistant", "content": None, "tool_calls": [call]})
    context.append_result(f"u{n}", output)


def heard_by(context) -> list:
    heard: list = []
    context.on("*", heard.append)
    return heard


def page(context) -> list[str]:
    request = context.request("openai_chat")
    assert dialects.dialect("openai_chat").check(request) == []
    return [str(message.get("content")) for message in request["messages"]]


def summaries(context) -> list[Summarize]:
    return [body for event in context.log.events() if isinstance(body := decode(event), Summarize)]


class Slow(Scripted):
    """A writer that waits until it is let go."""

    def __init__(self, *answers):
        super().__init__(*answers)
        self.asked, self.go = threading.Event(), threading.Event()

    def __call__(self, request: Request):
        self.asked.set()
        assert self.go.wait(LONG_S)
        return super().__call__(request)


def in_thread(function, *arguments):
    results: list = []
    thread = threading.Thread(target=lambda: results.append(function(*arguments)))
    thread.start()
    return thread, results
