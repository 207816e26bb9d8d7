"""What is written can be read again; what cannot be is never written."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import refold
from refold.core import codec
from refold.core.active_events import switches
from refold.core.fold import folded
from refold.core.model import (
    Artifact,
    Checkpoint,
    Erase,
    Event,
    GistNotes,
    Hide,
    Message,
    Meta,
    Pin,
    Replace,
    Restore,
    Revert,
    Span,
    Summarize,
    Text,
    ToolCall,
    ToolResult,
    Usage,
)
from refold.errors import Invalid, RefoldError, Unavailable
from refold.log import log
from refold.log.draft import Draft
from refold.log.log import Log
from refold.stores.in_memory import MemoryStore

CALL = {
    "role": "assistant",
    "content": [{"type": "tool_use", "id": "t1", "name": "b", "input": {}}],
}
BODIES = (
    Message(role="user", blocks=(Text("a"),), dialect="anthropic", metadata={"a": 1}),
    Message(role="assistant", blocks=(ToolCall("t", "bash", {"a": 1}),)),
    Message(role="tool", blocks=(ToolResult("t", (Text("a"),), name="bash"),)),
    Artifact(id="art-a", digest="0" * 64, name="a", size_bytes=7),
    Usage(response="r", model="m", input=1, cost=0.5),
    Replace(batch="b", seq=1, block=0, keep=(Span(1, 2),)),
    Hide(batch="b", span=Span(1, 2), notice="n"),
    Summarize(batch="b", span=Span(1, 2), text="t", gist=GistNotes(now=1)),
    Revert(batch="b"),
    Restore(seq=1),
    Checkpoint(name="n", seq=1),
    Meta(title="t", tags=("a",), tools=[], metadata={}),
    Pin(seq=1),
    Erase(seq=1, calls=("a",)),
)
ODD: st.SearchStrategy[Any] = st.sampled_from(
    [
        None,
        True,
        7,
        -1,
        2**64,
        1.5,
        float("nan"),
        "x",
        "\ud800",
        b"x",
        object(),
        {},
        {1: 2},
        [],
        [7],
        ["\udcff"],
        {"a": object()},
        ((1,),),
        {"x"},
        Exception,
        Text("a"),
        Span(1, 2),
    ]
)


def talk(store: refold.Store | None = None, id: str = "talk") -> refold.Context:
    context = refold.Context(store or MemoryStore(), id, window=8_000, embedder=False)
    for number in range(3):
        context.append({"role": "user", "content": f"important {number}"})
    context.append(CALL)
    return context


WRONG = {
    "an id that is None": lambda c: c.append_result(None, "x"),
    "an id that is a number": lambda c: c.append_result(7, "x"),
    "is_error=None": lambda c: c.append_result("t1", "x", is_error=None),
    "is_error=2": lambda c: c.append_result("t1", "x", is_error=2),
    "a checkpoint 7": lambda c: c.checkpoint(7),
    "a title 7": lambda c: c.update(title=7),
    "tags of numbers": lambda c: c.update(tags=[7]),
    "metadata that is a text": lambda c: c.update(metadata="x"),
    "tools in an object": lambda c: c.update(tools={"name": "x"}),
    "restore(True)": lambda c: c.restore(True),
    "a role that is not known": lambda c: c.append(Message(role="bot")),  # type: ignore[arg-type]
    "a block that is a text": lambda c: c.append(Message(role="user", blocks=("x",))),  # type: ignore[arg-type]
    "a lone surrogate in the title": lambda c: c.update(title="report \ud800"),
    "a path from os.listdir": lambda c: c.update(metadata={"cwd": "/home/\udce9t"}),
    "an object in the metadata": lambda c: c.update(metadata={"at": object()}),
    "a system prompt of 20 MB": lambda c: c.update(system="x" * 20_000_000),
    "metadata nested too deep": lambda c: c.update(metadata=nested(100)),
}


def nested(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels - 1):
        value = {"a": value}
    return value


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_argument_is_invalid_and_the_conversation_goes_on(name: str) -> None:
    store = MemoryStore()
    context = talk(store)
    head = context.view.head
    with pytest.raises((RefoldError, TypeError)):
        WRONG[name](context)
    context.append({"role": "user", "content": "goes on"})
    context.request("anthropic")
    again = refold.Context(store, "talk", window=8_000, embedder=False)
    assert [slot.message for slot in again.view.slots] == [
        slot.message for slot in context.view.slots
    ]
    assert again.view.head == head + 1


def test_an_error_names_the_field() -> None:
    with pytest.raises(Invalid, match=r"meta\.title: Expected `str \| null`, got `int`"):
        Draft(body=Meta(title=7), by="user")  # type: ignore[arg-type]


@given(st.sampled_from(BODIES), st.data())
def test_every_draft_can_be_read_again(body: Any, data: st.DataObject) -> None:
    field = data.draw(st.sampled_from(body.__struct_fields__))
    changed = msgspec.structs.replace(body, **{field: data.draw(ODD)})
    try:
        draft = Draft(body=changed, by="test")
    except Invalid:
        return
    store = MemoryStore()
    [event] = Log(store, "log").append([draft])
    assert codec.decode(event) == draft.body
    assert Log(store, "log").state.head == 1


@given(ODD, ODD, ODD)
def test_an_envelope_that_cannot_be_kept_is_invalid(by: Any, tokens: Any, counter: Any) -> None:
    try:
        draft = Draft(body=Pin(seq=1), by=by, tokens=tokens, counter=counter)
    except Invalid:
        return
    log = Log(MemoryStore(), "log")
    assert log.append([draft])[0].by == by


class Interrupted(MemoryStore):
    """Lets another writer do something after a number of reads."""

    meanwhile: Any = None
    reads = 0

    def read(
        self, conversation: str, *, after: int = 0, last: int | None = None, limit: int = 1_000
    ) -> list[Event]:
        events = super().read(conversation, after=after, last=last, limit=limit)
        if self.meanwhile is not None:
            self.reads -= 1
            if self.reads < 0:
                act, self.meanwhile = self.meanwhile, None
                act()
        return events


@pytest.mark.parametrize("reads", range(5))
def test_a_fold_sees_one_state_of_the_log(reads: int) -> None:
    store = Interrupted()
    one, other = (refold.Context(store, "talk", window=8_000, embedder=False) for _ in "ab")
    for number in range(12):
        one.append({"role": "user", "content": f"message {number} " + "words " * 40})
    one.compact(target=200)
    other.restore(3)
    other.undo()
    batch = next(batch for _, batch in other.view.undoable if batch)
    store.meanwhile, store.reads = lambda: other.undo(batch), reads
    shown = one.view
    store.meanwhile = None
    events = store.read("talk", limit=10_000)
    seen = events[: shown.head]
    assert shown.slots == tuple(folded(seen, switches(seen)).slots)
    assert one.view.slots == tuple(folded(events, switches(events)).slots)
    now = one.view.slots
    one.close()
    assert refold.Context(store, "talk", window=8_000, embedder=False).view.slots == now


class Full(MemoryStore):
    """A disk that has room for events, but for nothing else."""

    def keep_bookmark(self, conversation: str, data: bytes, *, at: int | None = None) -> None:
        raise Unavailable("no space left on device")


def test_a_bookmark_that_cannot_be_kept_does_not_refuse_what_was_written() -> None:
    store = Full()
    context = refold.Context(store, "talk", embedder=False)
    told: list[refold.Notice] = []
    context.on("bookmark-failed", told.append)
    for number in range(300):
        context.append({"role": "user", "content": f"m{number}"})
    context.close()
    assert len(store.read("talk", limit=999)) == 300
    assert "no space left" in told[0].reason
    assert len(told) == 2


@pytest.mark.parametrize("overtaken", [0, 3, 6])
@pytest.mark.parametrize("body", [Text("a"), None])
def test_an_append_in_parts_survives_another_writer_between_them(
    overtaken: int, body: Text | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether its events reach back (reverts) or not."""

    class Overtaken(MemoryStore):
        def append(self, conversation: str, events: Any, *, expect: int) -> None:
            if expect == 5 + overtaken and armed:
                armed.clear()
                theirs = Log(self, conversation)
                theirs.append([Draft(body=Message(role="user", blocks=(Text("theirs"),)), by="x")])
            super().append(conversation, events, expect=expect)

    monkeypatch.setattr(log, "APPEND_EVENTS_MAX", 3)
    armed: list[bool] = []
    store = Overtaken()
    ours = Log(store, "x")
    first = [Message(role="user", blocks=(Text(str(n)),)) for n in range(5)]
    ours.append([Draft(body=one, by="x") for one in first])
    armed.append(True)
    more = [
        Message(role="user", blocks=(body,)) if body else Revert(seq=1 + n % 5) for n in range(8)
    ]
    written = ours.append([Draft(body=one, by="x") for one in more])
    stored = store.read("x", limit=100)
    assert [event.id for event in written] == [e.id for e in stored[5:] if e in written]
    assert len(stored) == 5 + 8 + 1
    full = folded(stored, switches(stored))
    assert (ours.state.head, ours.state.chain) == (full.head, full.chain)
    assert ours.state.view().slots == full.view().slots
