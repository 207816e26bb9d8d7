"""A secret in any place of a conversation, and everything that is made from it for somebody else:
summaries, handovers, stubs, notices, exports and the questions to a writer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

import refold
from refold.ledger.arguments import normal
from refold.redaction import redacted
from refold.stores import open_store
from tests.redaction.secret_kinds import PREFIXED, SURROUNDED, WORD, drawn

PASSWORD = drawn("side door", WORD, 16)
KINDS = {
    "password in a URL": (f"sftp://deploy:{PASSWORD}@host.example/srv/app.py", PASSWORD),
    "password before dots": (f"https://user:{PASSWORD}@host.example/x/../y.py", PASSWORD),
    "token in a query": (f"https://h.example/app.py?access_token={PASSWORD}", PASSWORD),
    "secret with slashes": (f"DB_PASSWORD={PASSWORD}//x./{PASSWORD}", PASSWORD),
    "long text": ("see " * 60 + f"redis://:{PASSWORD}@cache/0" + " more" * 60, PASSWORD),
    **{name: SURROUNDED[name] for name in ("RSA key", "PostgreSQL", "Slack webhook", "bearer")},
    **{
        name: ("".join(PREFIXED[name][0]),) * 2
        for name in ("AWS key", "Google refresh token", "GitHub token", "Anthropic key")
    },
}
STRATEGIES = ("summarize", "gist", "hierarchical", "dedup", "hide", "clear")
FILLER = "look at src/form.py and all of its fields. " * 60
LARGE = "a line of the file\n" * 600


def calls(secret: str) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Calls with a secret in each place: name, arguments, result."""
    patch = f"*** Begin Patch\n*** Update File: {secret}\n@@\n-a\n+b\n*** End Patch"
    yield secret, {}, "ok"
    yield secret, {"path": "a.py"}, LARGE
    yield "run", {secret: "x"}, "ok"
    yield "write_file", {"path": secret, "content": "x"}, "written"
    yield "write_file", {"path": f"/srv/./{secret}", "content": "x"}, "written"
    yield "read_file", {"path": secret}, "def f(): pass\n" * 4
    yield "read_file", {"path": secret}, "Error: no such file"
    yield "read_file", {"path": secret}, LARGE
    for _ in range(2):
        yield "read_file", {"path": secret}, "".join(f"line {n} of it\n" for n in range(90))
    yield "move_file", {"source": "a.py", "destination": secret}, "ok"
    yield "bash", {"command": f"cat {secret}"}, LARGE
    yield "bash", {"command": f"cat {secret} > out.py"}, "Error: exit 1"
    yield "bash", {"command": f"echo 1 > {secret}"}, "ok"
    yield "apply_patch", {"patch": patch}, "ok"
    yield "grep", {"pattern": "x", "path": secret}, "ok"
    yield "fetch", {"url": secret}, "ok"
    yield "note", {"text": secret}, "ok"
    yield "todo_write", {"todos": [{"content": f"use {secret}", "status": "pending"}]}, "ok"
    yield "run", {"command": "env"}, f"the value is {secret}"
    yield "run", {"command": "env"}, f"Traceback\nValueError: {secret}"


def messages(secret: str) -> Iterator[dict[str, Any]]:
    for number in range(4):
        yield {"role": ("user", "assistant")[number % 2], "content": f"step {number}: {FILLER}"}
    for number, (name, arguments, result) in enumerate(calls(secret)):
        call = {"type": "tool_use", "id": f"t{number}", "name": name, "input": arguments}
        yield {"role": "assistant", "content": [call]}
        answer = {"type": "tool_result", "tool_use_id": f"t{number}", "content": result}
        yield {"role": "user", "content": [answer]}
    yield {"role": "assistant", "content": f"I decided to use {secret}. We must always use it."}
    source = {"type": "text", "media_type": "text/plain", "data": "x"}
    document = {"type": "document", "title": secret, "source": source}
    yield {"role": "user", "content": [{"type": "text", "text": f"now use {secret}"}, document]}
    for number in range(13):
        yield {"role": ("assistant", "user")[number % 2], "content": f"step {number}: {FILLER}"}


def told(secret: str, strategy: str, asked: list[str]) -> Iterator[tuple[str, str]]:
    """What is made of such a conversation by one strategy, with the name of each text."""

    def writer(question: Any) -> str:
        asked.append(repr(question))
        return "The work on src/form.py goes on as before."

    notices: list[str] = []
    store = open_store("memory:")
    config = refold.Config(offload_tokens=500)
    context = refold.Context(
        store, "t", window=40_000, writer=writer, embedder=False, config=config
    )
    for name in ("artifact-kept", "compaction-complete", "auto-compacting", "compaction-failed"):
        context.on(name, lambda notice: notices.append(repr(notice)))
    context.update(title=secret, tags=(secret[:60],), metadata={"about": secret})
    for message in messages(secret):
        context.append(message)
    before = context.view.head
    receipt = context.compact(strategy, target=9_000)
    edits = [e.body for e in store.read("t", after=before, limit=100) if e.kind == "edit"]
    yield "edits", b"".join(edits).decode()
    yield "receipt", msgspec.json.encode(receipt).decode()
    shown = (s for s in context.view.slots if s.standin or s.edits)
    yield "page", repr([block for slot in shown for block in slot.message.blocks])
    yield "artifacts", repr([one.artifact.name for one in context.artifacts.list()])
    yield "handover", json.dumps(context.spawn("s", task="go on").request("anthropic"))
    yield "notices", "".join(notices)
    yield "question to the writer", "".join(asked)
    if strategy == "summarize":
        yield "Markdown", context.log.exported("markdown")
        yield "redacted export", context.log.exported("json", secrets=False)


@pytest.mark.parametrize("kind", KINDS)
def test_a_secret_in_any_place_reaches_nothing_made_for_others(kind: str) -> None:
    text, secret = KINDS[kind]
    hidden = {secret, json.dumps(secret)[1:-1]}
    asked: list[str] = []
    for strategy in STRATEGIES:
        for name, made in told(text, strategy, asked):
            for one in hidden:
                at = made.find(one)
                assert at < 0, (strategy, name, made[max(0, at - 300) : at + 60])
    assert asked


@pytest.mark.parametrize("kind", ["password in a URL", "password before dots", "PostgreSQL"])
def test_a_password_in_an_address_is_found_where_the_path_was_made_plain(kind: str) -> None:
    text, secret = KINDS[kind]
    assert secret in normal(text)
    assert secret not in redacted(normal(text))
