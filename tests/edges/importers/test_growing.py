"""A response is written line by line, and the file may be imported after any of them: whatever the
cuts, the page and the bill are those of one import of the whole file, and what a user did stays."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from refold.config import Config
from refold.conversations.eraser import erase
from refold.core.model import Totals
from refold.edges.importers.entry import Session
from refold.edges.importers.importer import import_file
from refold.engine.context import Context
from refold.errors import Invalid, NotFound
from refold.stores import open_store
from refold.stores.protocol import Store
from tests.edges.importers.test_importing import CLAUDE, texts
from tests.edges.importers.transcripts import Line, block, call, result, text, user, write

ACTS = ("pin", "hide", "erase", "append", "note", "checkpoint")


def imported(store: Store, path: Path, lines: list[Line]) -> Session:
    [session] = import_file(store, Config(), write(path / "a.jsonl", lines)).sessions
    return session


def bill(store: Store) -> Totals:
    totals = Context(store, CLAUDE).view.totals
    return replace(totals, cost=round(totals.cost, 9))


@st.composite
def transcripts(draw: st.DrawFn) -> list[Line]:
    """Turns of a user, and responses of several lines whose usage grows; the results of their
    calls come between the lines, or after them."""
    lines = [user("u0", None, "word-u0")]
    for turn in range(draw(st.integers(1, 3))):
        waiting: list[str] = []
        for part in range(draw(st.integers(1, 4))):
            name = f"{turn}{part}"
            said = draw(st.sampled_from([text(f"word-a{name}"), call(f"t{name}")]))
            line = block(f"a{name}", lines[-1]["uuid"], f"msg_{turn}", said)
            line["timestamp"] = f"2026-05-01T10:{turn:02}:{part:02}.000Z"
            line["message"]["usage"] = {"input_tokens": 12, "output_tokens": 1 + part * 100}
            lines.append(line)
            waiting += [f"t{name}"] if said["type"] == "tool_use" else []
            while waiting and draw(st.booleans()):
                lines.append(answer(waiting.pop(0), lines[-1]["uuid"]))
        while waiting:
            lines.append(answer(waiting.pop(0), lines[-1]["uuid"]))
        if draw(st.booleans()):
            asked = user(f"u{turn + 1}", lines[-1]["uuid"], f"word-u{turn + 1}")
            lines.append({**asked, "timestamp": f"2026-05-01T12:{turn:02}:00.000Z"})
    return lines


def answer(id: str, parent: str) -> Line:
    line = user(f"r{id}", parent, result(id, f"word-r{id}"))
    line["timestamp"] = f"2026-05-01T11:{id[1]:0>2}:{id[2]:0>2}.000Z"
    return line


TRIES = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@TRIES
@given(transcripts(), st.data())
def test_any_cuts_give_what_the_whole_file_gives(
    tmp_path: Path, lines: list[Line], data: st.DataObject
) -> None:
    cuts = data.draw(st.sets(st.integers(1, len(lines))))
    store, whole = open_store("memory:"), open_store("memory:")
    new = 0
    for cut in [*sorted(cuts), len(lines)]:
        session = imported(store, tmp_path, lines[:cut])
        assert (session.restored, session.left_at, session.missing) == (0, 0, 0)
        new += session.new
    once = imported(whole, tmp_path, lines)
    assert new == once.new
    assert texts(store, CLAUDE) == texts(whole, CLAUDE)
    assert bill(store) == bill(whole)
    assert Context(store, CLAUDE).request() == Context(whole, CLAUDE).request()
    head = store.conversation(CLAUDE).head
    assert imported(store, tmp_path, lines).new == 0 and store.conversation(CLAUDE).head == head


@TRIES
@given(transcripts(), st.data())
def test_what_a_user_did_to_a_part_of_a_response_stays(
    tmp_path: Path, lines: list[Line], data: st.DataObject
) -> None:
    store, whole = open_store("memory:"), open_store("memory:")
    erased: set[str] = set()
    pinned: set[int] = set()
    names: set[str] = set()
    for cut in range(1, len(lines) + 1):
        assert imported(store, tmp_path, lines[:cut]).restored == 0
        if data.draw(st.booleans()):
            name = data.draw(st.sampled_from(ACTS))
            names.add(name)
            act(store, name, data.draw(st.integers(0, 10)), erased, pinned)
        head = store.conversation(CLAUDE).head
        assert imported(store, tmp_path, lines[:cut]).new == 0
        assert store.conversation(CLAUDE).head == head
    imported(whole, tmp_path, lines)
    assert bill(store) == bill(whole)
    context = Context(store, CLAUDE)
    page = str(context.request())
    assert not any(word in page for word in erased)
    # A result is late only where the user said, or erased, something while its call waited.
    assert names & {"erase", "append"} or "late result" not in page
    assert pinned <= {slot.seq for slot in context.view.slots}
    words = [word for word in words_in(Context(whole, CLAUDE)) if page.count(word) > 1]
    assert not words


def act(store: Store, name: str, at: int, erased: set[str], pinned: set[int]) -> None:
    with Context(store, CLAUDE) as context:
        slots = context.view.slots
        slot = slots[-1 - at % len(slots)]
        try:
            if name == "pin":
                context.pin(slot.seq)
                pinned.add(slot.seq)
            elif name == "hide":
                context.hide(slot.seq)
            elif name == "erase":
                words = [word for word in words_in(context) if word in str(slot.message)]
                erase(store, CLAUDE, [slot.seq])
                erased.update(words)
            elif name == "append":
                context.append({"role": "user", "content": f"own {at}"})
            elif name == "note":
                context.note("mine", at)
            else:
                context.checkpoint(f"c{at}")
        except (Invalid, NotFound):
            return


def words_in(context: Context) -> list[str]:
    """The words of the page, each of which stands in it once."""
    page = str([slot.message for slot in context.view.slots]).replace("'", " ")
    return [word for word in page.split() if word.startswith("word-")]


@pytest.mark.parametrize("cut", range(3, 7))
def test_erased_words_do_not_come_back_when_the_response_goes_on(cut: int, tmp_path: Path) -> None:
    lines: list[Any] = [
        user("u1", None, "Look."),
        block("a1", "u1", "m1", call("t1")),
        user("r1", "a1", result("t1", "a secret")),
        block("a2", "a1", "m1", call("t2")),
        user("r2", "a2", result("t2", "two")),
        block("a3", "a2", "m1", text("Done.")),
    ]
    store = open_store("memory:")
    imported(store, tmp_path, lines[:cut])
    with Context(store, CLAUDE) as context:
        [slot] = [slot for slot in context.view.slots if "a secret" in str(slot.message)]
        erase(store, CLAUDE, [slot.seq])
    session = imported(store, tmp_path, lines)
    assert session.restored == 0
    page = str(Context(store, CLAUDE).request())
    assert "a secret" not in page and "two" in page and "Done." in page


def gemini(parts: int) -> tuple[str, Any]:
    said = {"id": "m1", "type": "gemini", "model": "gemini-2.5-pro", "content": "Hi." * parts,
            "tokens": {"input": 10, "output": parts}}  # fmt: skip
    asked = {"id": "u1", "type": "user", "content": "Look."}
    return "session-1.json", {"sessionId": "s", "projectHash": "h", "messages": [asked, said]}


def cline(parts: int) -> tuple[str, Any]:
    said = {"id": "m1", "role": "assistant", "content": [text("Hi.")] * parts,
            "metrics": {"inputTokens": 10, "outputTokens": parts}}  # fmt: skip
    asked = {"id": "u1", "role": "user", "content": [text("Look.")]}
    about = {"sessionId": "s", "agent": "a", "origin": "o"}
    return "s.messages.json", {**about, "messages": [asked, said]}


def opencode(parts: int) -> tuple[str, Any]:
    info = {"id": "msg_1", "role": "assistant", "tokens": {"input": 10, "output": parts}}
    said = {"info": info, "parts": [text("Hi.")] * parts}
    asked = {"info": {"id": "msg_0", "role": "user"}, "parts": [text("Look.")]}
    return "export.json", {"info": {"id": "ses_1"}, "messages": [asked, said]}


@pytest.mark.parametrize("source", [gemini, cline, opencode])
def test_a_message_that_is_written_again_with_more_is_billed_as_one(
    source: Callable[[int], tuple[str, Any]], tmp_path: Path
) -> None:
    store = open_store("memory:")
    for parts in (1, 2, 5, 5):
        name, value = source(parts)
        path = tmp_path / name
        path.write_text(json.dumps(value))
        [session] = import_file(store, Config(), path).sessions
    totals = Context(store, session.conversation).view.totals
    assert (totals.calls, totals.input, totals.output) == (1, 10, 5)
