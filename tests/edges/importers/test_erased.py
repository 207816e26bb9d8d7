"""A file never brings back what the user erased, however the file changed, as far as what is kept
can tell: generated files, edits and erasures over all sources."""

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
REWRITTEN = [timed, gemini_cli, cline, opencode, codex]


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

    def __init__(self, draw: Any, sizes: st.SearchStrategy[int] | None) -> None:
        self.draw, self.sizes = draw, sizes
        self.source = draw(st.sampled_from([*DOCUMENTS, *LINES]))
        self.items: list[Item] = []
        self.lost: set[int] = set()  # the numbers of messages that were erased
        self.count = 0

    def item(self) -> Item:
        self.count += 1
        role = "user" if not self.items or self.draw(st.booleans()) else "assistant"
        return Item(self.count, role, self.words())

    def words(self) -> str:
        """Words that nobody said before: of a size of their own, or one that others may have."""
        self.count += 1
        size = 4 * self.count if self.sizes is None else self.draw(self.sizes)
        return " ".join(f"word-{self.count:04}" for _ in range(size))

    def lose(self, gone: set[str]) -> None:
        self.lost |= {item.number for item in self.items if item.words in gone}

    def is_gone(self, item: Item, gone: set[str]) -> bool:
        """Whether a message was erased; where the file has its time, also one that was written
        again since."""
        return item.words in gone or (self.source in REWRITTEN and item.number in self.lost)

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
    """Erases messages of the page, and what stands for them; gives the words of each."""
    slots = Context(store, id).view.slots
    for at in draw(st.sets(st.integers(0, len(slots) - 1), max_size=2)) if slots else ():
        said = texts(store, id)[at]
        erase(store, id, [slots[at].seq])
        if said != ERASED:
            yield said


STORIES = settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@STORIES
@given(st.data())
def test_what_was_erased_stays_so_and_all_else_is_on_the_page_in_the_order_of_the_file(
    tmp_path: Path, data: st.DataObject
) -> None:
    """Where every message has a size of its own, nothing else is taken for what was erased."""
    store, story = open_store("memory:"), Story(data.draw, None)
    gone: set[str] = set()
    # A message that is written again with more is known where the file has its time.
    edits = EDITS if story.source in REWRITTEN else [name for name in EDITS if name != "lengthen"]
    for _ in range(data.draw(st.integers(2, 5))):
        for name in data.draw(st.lists(st.sampled_from(edits), min_size=1, max_size=4)):
            story.edit(name)
        path = written(tmp_path, story.source, story.items)
        session = imported(store, path)
        check_page(store, session, story, gone)
        gone |= {*erase_some(store, session.conversation, data.draw)}
        story.lose(gone)
        check_page(store, session, story, gone)
        check_settles(store, path)


def check_settles(store: Store, path: Path) -> None:
    """An unchanged file adds nothing but stand-ins, and those once: where all that told of the
    order was erased, each stands where the file has the message."""
    heads = set[int]()
    for _ in range(3):
        session = imported(store, path)
        assert (session.new, session.restored) == (0, 0)
        heads.add(session.head)
    assert session.head == max(heads) and len(heads) <= 2


def check_page(store: Store, session: Session, story: Story, gone: set[str]) -> None:
    said = bodies(store)
    assert not [words for words in gone if words in said]
    page = [words for words in texts(store, session.conversation) if words != ERASED]
    wanted = [item.words for item in story.items if not story.is_gone(item, gone)]
    assert page[: len(wanted)] == wanted


@STORIES
@given(st.data())
def test_what_cannot_be_told_from_what_was_erased_is_left_out_and_counted(
    tmp_path: Path, data: st.DataObject
) -> None:
    """Messages of few sizes: nothing comes back, and what is not on the page was reported."""
    store, story = open_store("memory:"), Story(data.draw, st.integers(1, 2))
    gone: set[str] = set()
    left_out = 0
    for _ in range(data.draw(st.integers(2, 5))):
        for name in data.draw(st.lists(st.sampled_from(EDITS[:2]), min_size=1, max_size=4)):
            story.edit(name)
        path = written(tmp_path, story.source, story.items)
        session = imported(store, path)
        left_out += session.erased
        said = bodies(store)
        assert not [words for words in gone if words in said]
        lacking = [item for item in story.items if item.words not in said]
        assert len(lacking) <= len(gone) + left_out
        gone |= {*erase_some(store, session.conversation, data.draw)}
        check_settles(store, path)


def test_a_message_behind_one_that_changed_stays_erased_in_its_place(tmp_path: Path) -> None:
    store = open_store("memory:")
    items = [Item(n, "user", f"word-{n} " * n * 3) for n in range(1, 5)]
    session = imported(store, written(tmp_path, listed, items))
    id = session.conversation
    erase(store, id, [Context(store, id).view.slots[2].seq])
    items[0].words = "Something else."
    session = imported(store, written(tmp_path, listed, items))
    assert (session.new, session.restored, session.erased) == (3, 4, 1)
    page = texts(store, id)
    assert page == ["Something else.", items[1].words, ERASED, items[3].words]
    items.append(Item(5, "user", items[2].words.replace("3", "5")))
    session = imported(store, written(tmp_path, listed, items))
    assert (session.new, session.erased) == (1, 0)


@pytest.mark.parametrize("source", [gemini_cli, cline, opencode])
def test_what_was_erased_while_it_was_written_does_not_come_back_whole(
    source: Any, tmp_path: Path
) -> None:
    store = open_store("memory:")
    items = [Item(1, "user", "Look."), Item(2, "assistant", "My secret")]
    session = imported(store, written(tmp_path, source, items))
    erase(store, session.conversation, [Context(store, session.conversation).view.slots[1].seq])
    items[1].words += " is long, and now it is said."
    items.append(Item(3, "user", "Thanks."))
    imported(store, written(tmp_path, source, items))
    assert "secret" not in bodies(store)
    assert texts(store, session.conversation) == ["Look.", ERASED, "Thanks."]
