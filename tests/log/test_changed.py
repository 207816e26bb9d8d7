"""What is not as it was written, or not known to this version, when it is read."""

from __future__ import annotations

import os
import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

import refold
from refold.conversations.verifier import verify
from refold.core import codec
from refold.errors import Corrupt
from refold.stores.in_memory import MemoryStore


def talk(store: MemoryStore) -> refold.Context:
    context = refold.Context(store, "talk", embedder=False)
    for number in range(20):
        role = "assistant" if number % 2 else "user"
        context.append({"role": role, "content": f"m{number} " + "x" * 300})
    return context


def change(store: MemoryStore, seq: int, **fields: Any) -> None:
    events = store.logs["talk"].events
    events[seq - 1] = replace(events[seq - 1], **fields)


@pytest.mark.parametrize("seq", [1, 6, 20])
@pytest.mark.parametrize("closed", [True, False])
def test_a_changed_body_is_noticed_before_it_is_sent(seq: int, closed: bool) -> None:
    store = MemoryStore()
    context = talk(store)
    if closed:
        context.close()
    body = store.read("talk")[seq - 1].body.replace(b"xxx", b"EVI", 1)
    change(store, seq, body=body)
    with pytest.raises(Corrupt, match=f"event {seq}: its body does not match") as caught:
        refold.Context(store, "talk", embedder=False)
    assert "--repair" in (caught.value.hint or "")


def test_a_changed_body_behind_a_summary_is_noticed_by_unfold_and_undo() -> None:
    store = MemoryStore()
    context = talk(store)
    context.compact("summarize", keep=4)
    change(store, 6, body=store.read("talk")[5].body.replace(b"xxx", b"EVI", 1))
    reopened = refold.Context(store, "talk", embedder=False)
    for act in (lambda: context.unfold("#6"), reopened.undo):
        with pytest.raises(Corrupt):
            act()
    assert "EVI" not in str(reopened.request("anthropic"))
    context.undo()  # from memory, where the page before the compaction still is
    assert "EVI" not in str(context.request("anthropic"))


@given(st.integers(2, 19), st.sampled_from(["kind", "by", "at_ms", "id"]))
def test_a_changed_envelope_is_noticed_when_the_log_is_folded(seq: int, name: str) -> None:
    store = MemoryStore()
    talk(store)
    other = {"kind": "wibble", "by": "somebody", "at_ms": 7, "id": str(uuid.uuid4())}
    change(store, seq, **{name: other[name]})
    with pytest.raises(Corrupt, match="the chain is broken"):
        refold.Context(store, "talk", embedder=False)


NEWER = {
    "event wibble": ("wibble", b'{"a":1}'),
    "edit sparkle": ("edit", b'{"type":"sparkle","batch":"b","seq":1}'),
    "block hologram": ("message", b'{"role":"user","blocks":[{"type":"hologram","x":1}]}'),
    "block smell": (
        "message",
        b'{"role":"user","blocks":[{"type":"text","text":"seen"},{"type":"tool_result",'
        b'"call":"t","content":[{"type":"smell"},{"type":"text","text":"part"}]}]}',
    ),
}


@pytest.mark.parametrize("name", NEWER)
def test_what_a_newer_version_wrote_is_carried_and_told(name: str) -> None:
    kind, body = NEWER[name]
    store = MemoryStore()
    context = refold.Context(store, "talk", embedder=False)
    context.append({"role": "user", "content": "hello"})
    last = [*context.log.events()][-1]
    event = codec.seal(
        last.chain,
        2,
        id=str(uuid.uuid4()),
        at_ms=1,
        by="newer",
        kind=kind,
        body=body,
        salt=os.urandom(16),
    )
    store.append("talk", [event], expect=1)
    for one in (context, refold.Context(store, "talk", embedder=False)):
        text = str(one.request("openai_chat"))
        assert "hello" in text and "hologram" not in text and "smell" not in text
        assert ("seen" in text) == ("seen" in body.decode())
    assert store.read("talk")[1] == event
    context.append({"role": "user", "content": "goes on"})
    seq = 2 if kind == "message" else 1
    assert f"unknown {name}" in [trace.action for trace in context.log.why(seq)]
    report = verify(store)
    assert not report.problems
    assert any(name in remark.what for remark in report.remarks)
