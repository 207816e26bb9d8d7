"""A key in a file in a tool call reaches neither a writer, nor a summary, an export or another
agent, and a scan finds it: in every dialect's way to carry it."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

import refold
from refold.conversations.exporter import chunks_of
from refold.conversations.scanner import scan
from refold.stores.in_memory import MemoryStore
from tests.redaction.secret_kinds import SURROUNDED

KEY, PART = SURROUNDED["RSA key"]
ACCOUNT = json.dumps({"type": "service_account", "private_key": KEY, "client_id": "1"})
FILE = {"path": "account.json", "content": ACCOUNT}


def anthropic(context: refold.Context) -> None:
    call = {"type": "tool_use", "id": "t", "name": "write_file", "input": FILE}
    context.append({"role": "assistant", "content": [call]})
    context.append_result("t", "ok")


def chat(context: refold.Context) -> None:
    function = {"name": "write_file", "arguments": json.dumps(FILE)}
    call = {"id": "t", "type": "function", "function": function}
    context.append({"role": "assistant", "content": None, "tool_calls": [call]})
    context.append_result("t", "ok")


def responses(context: refold.Context) -> None:
    call = {"call_id": "t", "name": "write_file", "arguments": json.dumps(FILE)}
    context.append({"type": "function_call", **call})
    context.append_result("t", "ok")


def gemini(context: refold.Context) -> None:
    call = {"id": "t", "name": "write_file", "args": FILE}
    context.append({"role": "model", "parts": [{"functionCall": call}]})
    context.append_result("t", "ok")


def result(context: refold.Context) -> None:
    call = {"type": "tool_use", "id": "t", "name": "read", "input": {}}
    context.append({"role": "assistant", "content": [call]})
    context.append_result("t", {"content": json.dumps({"file": ACCOUNT})})


def log_line(context: refold.Context) -> None:
    context.append({"role": "user", "content": json.dumps({"level": "info", "msg": ACCOUNT})})


def deep(context: refold.Context) -> None:
    text = ACCOUNT
    for _ in range(4):
        text = json.dumps({"message": text})
    context.append({"role": "user", "content": text})


def talk(context: refold.Context, messages: int) -> None:
    for n in range(messages):
        said = f"step {n}: look at src/form.py and all of its fields. " * 6
        context.append({"role": "assistant" if n % 2 else "user", "content": said})


@pytest.mark.parametrize("carry", [anthropic, chat, responses, gemini, result, log_line, deep])
def test_an_escaped_key_reaches_nobody(carry: Callable[[refold.Context], None]) -> None:
    store, prompts = MemoryStore(), list[str]()

    def write(request) -> str:
        prompts.append(request.prompt)
        return "Goal: the form. Done: its fields."

    with refold.open("talk", store=store, window=6_000, embedder=False, writer=write) as context:
        talk(context, 4)
        carry(context)
        talk(context, 12)
        context.compact("summarize")
        with context.spawn("scout", task="look") as scout:
            handed = json.dumps(scout.request("anthropic"))
    edits = [event.body.decode() for event in store.read("talk") if event.kind == "edit"]
    copies = [
        b"".join(chunks_of(store, "talk", form, secrets=False)).decode()
        for form in ("json", "markdown")
    ]
    assert prompts
    assert [text for text in (*prompts, *edits, *copies, handed) if PART in text] == []
    assert scan(store, ["talk"]).kinds.get("private key", 0) >= 1
