"""A file never brings back an erased message, whatever happens to it: generated files, edits and
erasures over all sources. Claude Code's lines have ids; a changed file of any other source is
refused once something was erased."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import Struct

from refold.config import Config
from refold.conversations.eraser import erase
from refold.core.shortened import ERASED
from refold.edges.importers.entry import Session
from refold.edges.importers.importer import import_file
from refold.engine.context import Context
from refold.errors import Conflict
from refold.stores import open_store
from refold.stores.protocol import Store
from tests.edges.importers.test_importing import texts
from tests.edges.importers.transcripts import SESSION, block, text, user, write

MINUTE_MS = 60_000
BEGAN_MS = 1_780_000_000_000


class Item(Struct):
    """A message of a file. `number` is its own, `words` is what it says."""

    number: int
    role: str
    words: str

    @property
    def at_ms(self) -> int:
        return BEGAN_MS + self.number * MINUTE_MS


# --- files ---


def listed(items: list[Item]) -> Any:
    return [{"role": item.role, "content": item.words} for item in items]


def timed(items: list[Item]) -> Any:
    return [{**one, "timestamp": item.at_ms} for one, item in zip(listed(items), items)]


def mini_swe_agent(items: list[Item]) -> Any:
    return {"info": {"mini_version": "1.15.0"}, "messages": listed(items)}


def swe_agent(items: list[Item]) -> Any:
    return {"trajectory": [], "history": listed(items), "info": {}}


def gemini_cli(items: list[Item]) -> Any:
    types = {"user": "user", "assistant": "gemini"}
    messages = [
        {"id": f"m{item.number}", "type": types[item.role], "content": item.words,
         "timestamp": item.at_ms}
        for item in items
    ]  # fmt: skip
    return {"sessionId": "s", "projectHash": "h", "messages": messages}


def cline(items: list[Item]) -> Any:
    messages = [
        {"id": f"m{item.number}", "role": item.role, "content": [text(item.words)],
         "ts": item.at_ms}
        for item in items
    ]  # fmt: skip
    return {"sessionId": "s", "agent": "a", "origin": "o", "messages": messages}


def opencode(items: list[Item]) -> Any:
    messages = [
        {"info": {"id": f"msg_{item.number}", "role": item.role, "time": {"created": item.at_ms}},
         "parts": [text(item.words)]}
        for item in items
    ]  # fmt: skip
    return {"info": {"id": "ses_1"}, "messages": messages}


DOCUMENTS = [listed, timed, mini_swe_agent, swe_agent, gemini_cli, cline, opencode]


def lines(items: list[Item]) -> list[Any]:
    return [{"title": "Its title"}, *listed(items)]


def codex(items: list[Item]) -> list[Any]:
    types = {"user": "input_text", "assistant": "output_text"}
    return [
        {"timestamp": "2026-06-18T08:59:18.573Z", "type": "session_meta", "payload": {"id": "s"}},
        *(
            {"timestamp": item.at_ms, "type": "response_item", "payload": {
                "type": "message", "role": item.role,
                "content": [{"type": types[item.role], "text": item.words}]}}
            for item in items
        ),
    ]  # fmt: skip


def claude_code(items: list[Item]) -> list[Any]:
    found: list[Any] = []
    parent = None
    for item in items:
        uuid = f"n{item.number}"
        if item.role == "user":
            line = user(uuid, parent, item.words)
        else:
            line = block(uuid, str(parent), f"msg_{item.number}", text(item.words))
        found.append({**line, "parentUuid": parent, "timestamp": item.at_ms})
        parent = uuid
    return found or [{"type": "summary", "summary": "Empty", "leafUuid": "x", "sessionId": SESSION}]


LINES = [lines, codex, claude_code]
WITHOUT_IDS = [*DOCUMENTS, lines, codex]


def written(folder: Path, source: Any, items: list[Item]) -> Path:
    if source in LINES:
        return write(folder / "a.jsonl", source(items))
    path = folder / "a.json"
    path.write_text(json.dumps(source(items)))
    return path


# --- edits ---

EDITS = ("grow", "change", "lengthen", "insert", "delete", "cut", "move")


class Story:
    """A file that somebody edits."""

    def __init__(self, draw: Any, source: Any) -> None:
        self.draw, self.source = draw, source
        self.items: list[Item] = []
        self.count = 0

    def item(self) -> Item:
        self.count += 1
        role = "user" if not self.items or self.draw(st.booleans()) else "assistant"
        return Item(self.count, role, self.words())

    def words(self) -> str:
        """Words that nobody said before."""
        self.count += 1
        return " ".join([f"word-{self.count:04}"] * self.draw(st.integers(1, 2)))

    def place(self) -> int:
        return self.draw(st.integers(0, len(self.items) - 1))

    def edit(self, name: str) -> None:
        is_last = len(self.items) == 1 and name in ("delete", "cut")
        if not self.items or is_last or name == "grow":
            self.items.append(self.item())
        elif name == "change":
            place = self.place()
            changed = Item(self.items[place].number, self.items[place].role, self.words())
            # Claude Code gives another id to what is said in another way.
            self.items[place] = self.item() if self.source is claude_code else changed
        elif name == "lengthen":
            item = self.items[self.place()]
            item.words = f"{item.words} {self.words()}"
        elif name == "insert":
            self.items.insert(self.place(), self.item())
        elif name == "delete":
            del self.items[self.place()]
        elif name == "cut":
            del self.items[max(1, self.place()) :]
        else:
            self.items.insert(self.place(), self.items.pop(self.place()))


def bodies(store: Store) -> str:
    """All that the logs of a store say."""
    ids = [about.id for about in store.conversations()]
    events = (event for id in ids for event in store.read(id))
    return " ".join(event.body.decode() for event in events)


def imported(store: Store, path: Path) -> Session:
    [session] = import_file(store, Config(), path).sessions
    return session


def erase_some(store: Store, id: str, draw: Any) -> Iterator[str]:
    """Erases messages of the page, and those shown as erased; gives the words of each."""
    slots = Context(store, id).view.slots
    for at in draw(st.sets(st.integers(0, len(slots) - 1), max_size=2)) if slots else ():
        said = texts(store, id)[at]
        erase(store, id, [slots[at].seq])
        if said != ERASED:
            yield said


def check_settles(store: Store, path: Path) -> None:
    """An unchanged file adds nothing."""
    heads = set[int]()
    for _ in range(2):
        session = imported(store, path)
        assert (session.new, session.restored) == (0, 0)
        heads.add(session.head)
    assert len(heads) == 1


STORIES = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@STORIES
@given(st.data())
def test_erased_lines_stay_so_and_all_others_are_on_the_page_in_the_order_of_the_file(
    tmp_path: Path, data: st.DataObject
) -> None:
    store, story = open_store("memory:"), Story(data.draw, claude_code)
    edits = [name for name in EDITS if name != "lengthen"]
    gone: set[str] = set()
    for _ in range(data.draw(st.integers(2, 5))):
        for name in data.draw(st.lists(st.sampled_from(edits), min_size=1, max_size=4)):
            story.edit(name)
        path = written(tmp_path, story.source, story.items)
        session = imported(store, path)
        check_page(store, session, story, gone)
        gone |= {*erase_some(store, session.conversation, data.draw)}
        check_page(store, session, story, gone)
        check_settles(store, path)


def check_page(store: Store, session: Session, story: Story, gone: set[str]) -> None:
    said = bodies(store)
    assert not [words for words in gone if words in said]
    page = [words for words in texts(store, session.conversation) if words != ERASED]
    wanted = [item.words for item in story.items if item.words not in gone]
    assert page[: len(wanted)] == wanted


@STORIES
@given(st.data())
def test_without_line_ids_a_changed_file_adds_nothing_once_something_was_erased(
    tmp_path: Path, data: st.DataObject
) -> None:
    store, story = open_store("memory:"), Story(data.draw, data.draw(st.sampled_from(WITHOUT_IDS)))
    for _ in range(data.draw(st.integers(1, 5))):
        story.edit("grow")
    path = written(tmp_path, story.source, story.items)
    id = imported(store, path).conversation
    gone = {*erase_some(store, id, data.draw)}
    check_settles(store, path)
    before, said = path.read_bytes(), bodies(store)
    names = data.draw(st.lists(st.sampled_from(EDITS), min_size=1, max_size=4))
    for name in names:
        story.edit(name)
    path = written(tmp_path, story.source, story.items)
    if gone:
        try:
            assert imported(store, path).new == 0
        except Conflict:
            assert path.read_bytes() != before
        else:
            assert names != ["grow"]
        assert bodies(store) == said
    else:
        imported(store, path)
        page = texts(store, id)
        assert page[: len(story.items)] == [item.words for item in story.items]


@pytest.mark.parametrize("source", WITHOUT_IDS)
def test_a_refusal_names_the_line_and_a_new_id_that_works(source: Any, tmp_path: Path) -> None:
    store = open_store("memory:")
    items = [Item(n, "user", f"word-{n}") for n in range(1, 4)]
    id = imported(store, written(tmp_path, source, items)).conversation
    erase(store, id, [Context(store, id).view.slots[1].seq])
    head = store.conversation(id).head
    items.append(Item(4, "user", "word-4"))
    path = written(tmp_path, source, items)
    with pytest.raises(Conflict) as refused:
        imported(store, path)
    assert f"{path}, " in refused.value.message and id in refused.value.message
    assert store.conversation(id).head == head
    new = refused.value.hint.partition("--id ")[2].partition(")")[0]
    [session] = import_file(store, Config(), path, id=new).sessions
    assert session.new == 4 and session.conversation.startswith(new)


def test_other_sessions_of_the_file_are_imported_all_the_same(tmp_path: Path) -> None:
    store, path = open_store("memory:"), tmp_path / "a.jsonl"
    talks = {name: listed([Item(1, "user", f"begin-{name}")]) for name in ("one", "two")}
    write(path, [{"id": name, "messages": said} for name, said in talks.items()])
    one, two = (session.conversation for session in import_file(store, Config(), path).sessions)
    erase(store, one, [Context(store, one).view.slots[0].seq])
    for said in talks.values():
        said += listed([Item(2, "user", "Go on.")])
    write(path, [{"id": name, "messages": said} for name, said in talks.items()])
    with pytest.raises(Conflict, match=one):
        import_file(store, Config(), path)
    assert texts(store, one) == [ERASED]
    assert texts(store, two) == ["begin-two", "Go on."]
