"""Words that were erased stay so wherever else a file has them: in branches that were left, notes,
summaries, results, and the lines of a response, of which some go, return or stand twice."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.config import Config
from refold.conversations.eraser import erase
from refold.core.shortened import ERASED
from refold.edges.importers.importer import import_file
from refold.engine.context import Context
from refold.errors import Conflict
from refold.stores import open_store
from refold.stores.protocol import Store
from tests.edges.importers.test_erased import BEGAN_MS, MINUTE_MS, STORIES, bodies, imported
from tests.edges.importers.test_importing import CLAUDE, texts
from tests.edges.importers.transcripts import Line, block, call, result, text, user, write


def erase_said(store: Store, id: str, word: str) -> None:
    slots = Context(store, id).view.slots
    [seq] = [slot.seq for slot in slots if word in str(slot.message)]
    erase(store, id, [seq])


def at(line: Any, minute: int) -> Any:
    return {**line, "timestamp": f"2026-05-01T10:{minute:02}:00.000Z"}


def tree() -> list[Any]:
    """A question, an answer in two lines that are a minute apart, and the next question."""
    return [
        at(user("u1", None, "Begin."), 1),
        at(block("a1", "u1", "msg_1", text("My secret")), 2),
        at(block("a2", "a1", "msg_1", text("is a secret.")), 3),
        at(user("u2", "a2", "Thanks."), 4),
    ]


@pytest.mark.parametrize("branches", [False, True])
def test_a_branch_that_was_left_does_not_bring_back_what_was_erased_on_it(
    branches: bool, tmp_path: Path
) -> None:
    store, lines = open_store("memory:"), tree()
    id = imported(store, write(tmp_path / "a.jsonl", lines)).conversation
    erase_said(store, id, "secret")
    lines.append(at(user("u3", "u1", "Another way."), 5))
    path = write(tmp_path / "a.jsonl", lines)
    import_file(store, Config(), path, branches=branches)
    assert texts(store, id) == ["Begin.", ERASED, "Another way."]
    assert "secret" not in bodies(store)
    lines.append(at(user("u4", "u2", "And back."), 6))
    import_file(store, Config(), write(tmp_path / "a.jsonl", lines), branches=branches)
    assert texts(store, id) == ["Begin.", ERASED, "Thanks.", "And back."]
    assert "secret" not in bodies(store)


def test_a_note_that_was_erased_does_not_come_back_as_a_message(tmp_path: Path) -> None:
    store, lines = open_store("memory:"), tree()
    lines.append(at(user("u3", "u1", "Another way."), 5))
    path = write(tmp_path / "a.jsonl", lines)
    id = imported(store, path).conversation
    erase(store, id, [note.seq for note in Context(store, id).log.notes() if "secret" in str(note)])
    lines.append(at(user("u4", "u2", "And back."), 6))
    imported(store, write(tmp_path / "a.jsonl", lines))
    assert "secret" not in bodies(store)
    assert texts(store, id) == ["Begin.", "Thanks.", "And back."]


def test_a_summary_of_erased_messages_is_not_adopted_again(tmp_path: Path) -> None:
    store, lines = open_store("memory:"), tree()
    lines.insert(3, at(user("s1", "a2", "It was a secret.", isCompactSummary=True), 3))
    lines[4]["parentUuid"] = "s1"
    id = imported(store, write(tmp_path / "a.jsonl", lines)).conversation
    with Context(store, id) as context:
        assert context.undo()
    erase_said(store, id, "My secret")
    lines[0]["parentUuid"] = "u0"
    imported(store, write(tmp_path / "a.jsonl", [at(user("u0", None, "First."), 0), *lines]))
    assert "secret" not in bodies(store)
    assert texts(store, id) == ["First.", "Begin.", "Thanks."]


def test_a_line_without_an_id_is_refused_once_something_was_erased(tmp_path: Path) -> None:
    store, lines = open_store("memory:"), tree()
    id = imported(store, write(tmp_path / "a.jsonl", lines)).conversation
    erase_said(store, id, "secret")
    head = store.conversation(id).head
    del lines[1]["uuid"]
    with pytest.raises(Conflict, match="line 2: new since you erased part of"):
        imported(store, write(tmp_path / "a.jsonl", lines))
    assert store.conversation(id).head == head


def test_nothing_comes_back_of_a_conversation_that_was_erased_whole(tmp_path: Path) -> None:
    store, lines = open_store("memory:"), tree()
    lines.append({"type": "summary", "summary": "The secret", "leafUuid": "x"})
    id = imported(store, write(tmp_path / "a.jsonl", lines)).conversation
    erase(store, id, None)
    lines[0]["parentUuid"] = "u0"
    lines = [at(user("u0", None, "First."), 0), *lines, at(user("u5", "u2", "Go on."), 6)]
    head = store.conversation(id).head
    again = imported(store, write(tmp_path / "a.jsonl", lines))
    assert (again.erased, again.new, store.conversation(id).head) == (True, 0, head)
    assert "secret" not in bodies(store)


def test_a_title_is_told_where_the_first_message_changed(tmp_path: Path) -> None:
    store, path = open_store("memory:"), tmp_path / "a.json"
    for title, words in (("One", "Begin."), ("Two", "Begin in another way.")):
        said = [{"role": "user", "content": words}]
        path.write_text(json.dumps({"title": title, "model": "gpt-4o", "messages": said}))
        assert imported(store, path).title == title


# --- lines of a response ---


@st.composite
def sessions(draw: st.DrawFn) -> list[Line]:
    """Questions and responses of several lines, with results in between. Each text has words and
    a size of its own, so that no few of them have the size of others."""
    lines = [user("u0", None, "word-0")]
    for response in range(draw(st.integers(1, 3))):
        for part in range(draw(st.integers(1, 3))):
            number, parent = len(lines), lines[-1]["uuid"]
            words = text(" ".join([f"word-{number}"] * 2**number))
            said = draw(st.sampled_from([words, call(f"t{number}")]))
            lines.append(block(f"a{number}", parent, f"msg_{response}", said))
            if said is not words and (part or draw(st.booleans())):
                came = result(f"t{number}", f"word-r{number}")
                lines.append(user(f"r{number}", f"a{number}", came))
        if draw(st.booleans()):
            lines.append(user(f"u{len(lines)}", lines[-1]["uuid"], f"word-u{len(lines)}"))
    times = (BEGAN_MS + at * MINUTE_MS for at in range(len(lines)))
    return [{**line, "timestamp": at_ms} for line, at_ms in zip(lines, times)]


def edited(lines: list[Line], whole: list[Line], draw: Any) -> list[Line]:
    """The lines after somebody, or an accident, did something to them."""
    name = draw(st.sampled_from(["delete", "repeat", "cut", "move", "mend"]))
    if name == "mend" or len(lines) < 2:
        return whole
    at, to = (draw(st.integers(0, len(lines) - 1)) for _ in range(2))
    if name == "cut":
        return lines[: at + 1]
    rest = lines if name == "repeat" else lines[:at] + lines[at + 1 :]
    return rest if name == "delete" else [*rest[:to], lines[at], *rest[to:]]


@STORIES
@given(sessions(), st.data())
def test_lines_of_a_response_that_go_and_return_bring_nothing_back(
    tmp_path: Path, whole: list[Line], data: st.DataObject
) -> None:
    store, lines = open_store("memory:"), whole
    gone: set[str] = set()
    for _ in range(data.draw(st.integers(2, 4))):
        for _ in range(data.draw(st.integers(0, 3))):
            lines = edited(lines, whole, data.draw)
        path = write(tmp_path / "a.jsonl", lines)
        import_file(store, Config(), path)
        assert not gone & words_of(bodies(store))
        slots = Context(store, CLAUDE).view.slots
        for at in data.draw(st.sets(st.integers(0, len(slots) - 1), max_size=2)) if slots else ():
            words = words_of(str(slots[at].message))
            erase(store, CLAUDE, [slots[at].seq])
            gone |= words - words_of(bodies(store))


def words_of(said: str) -> set[str]:
    return {*re.findall(r"word-\w+", said)}


def test_a_line_that_stands_twice_in_the_file_is_one(tmp_path: Path) -> None:
    """Whether the response goes on, or another follows it."""
    store, lines = open_store("memory:"), tree()
    id = imported(store, write(tmp_path / "a.jsonl", lines)).conversation
    lines = [*lines[:3], *lines[1:], lines[2]]
    session = imported(store, write(tmp_path / "a.jsonl", lines))
    assert (session.messages, session.new, session.restored) == (3, 0, 0)
    assert str(Context(store, id).request()).count("My secret") == 1


def test_a_new_response_is_not_taken_for_one_that_was_erased(tmp_path: Path) -> None:
    """The one is no longer in the session, and somebody asked again before the other."""
    store, lines = open_store("memory:"), tree()
    id = imported(store, write(tmp_path / "a.jsonl", lines)).conversation
    erase_said(store, id, "secret")
    lines.append(at(user("u3", "u1", "Another way."), 5))
    lines.append(at(block("a3", "u3", "msg_2", text("Go.")), 6))
    imported(store, write(tmp_path / "a.jsonl", lines))
    assert texts(store, id) == ["Begin.", ERASED, "Another way.", "Go."]
