"""Whatever a user does to an imported conversation: an unchanged file adds nothing, one that grew
adds what is new, and one that was rewound is followed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from refold.config import Config
from refold.conversations.eraser import erase
from refold.edges.importers.entry import Session
from refold.edges.importers.importer import import_file
from refold.engine.context import Context
from refold.errors import Conflict, Invalid, NotFound
from refold.stores import open_store
from refold.stores.protocol import Store
from tests.edges.importers.test_importing import texts
from tests.edges.importers.transcripts import block, text, user, write

# --- files that grow, and are rewound ---


class File:
    """A session in one source's format: `words` are its messages, as it stands."""

    def __init__(self, path: Path) -> None:
        self.path, self.words, self.count = path, list[str](), 0

    def grow(self) -> str:
        self.count += 1
        word = f"word{self.count}."
        self.words.append(word)
        return word

    def rewind(self, count: int) -> None:
        del self.words[len(self.words) - count :]

    def time(self) -> str:
        """When the newest message was said."""
        return f"2026-06-18T08:{self.count:02}:18.573Z"

    def write(self) -> Path:
        raise NotImplementedError


class Listed(File):
    """The whole list at each write."""

    def messages(self) -> list[dict[str, Any]]:
        return [{"role": "user", "content": word} for word in self.words]

    def value(self) -> Any:
        return self.messages()

    def write(self) -> Path:
        path = self.path / "m.json"
        path.write_text(json.dumps(self.value()))
        return path


class Titled(Listed):
    def value(self) -> Any:
        return {"title": "Its title", "model": "gpt-4o", "system": "Be brief.",
                "messages": self.messages()}  # fmt: skip


class MiniSweAgent(Listed):
    def value(self) -> Any:
        info = {"mini_version": "1.15.0", "config": {"model": {"model_name": "gpt-4o"}}}
        return {"info": info, "messages": self.messages(), "trajectory_format": "mini-swe-agent-1"}


class SweAgent(Listed):
    def value(self) -> Any:
        return {"trajectory": [], "history": self.messages(), "info": {"exit_status": "ok"}}


class JsonLines(Listed):
    def write(self) -> Path:
        return write(self.path / "m.jsonl", [{"title": "Its title"}, *self.messages()])


class Grown(File):
    """Lines that only grow."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.lines: list[dict[str, Any]] = []

    def write(self) -> Path:
        return write(self.path / "g.jsonl", self.lines)


class ClaudeCode(Grown):
    """Odd words are asked, even ones answered; titles, and other lines, stand in between."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.branch: list[str] = []

    def grow(self) -> str:
        word = super().grow()
        parent = self.branch[-1] if self.branch else None
        if self.count % 2 or parent is None:
            self.lines.append(user(f"n{self.count}", parent, word, timestamp=self.time()))
        else:
            model = "claude-opus-4-5" if self.count % 4 else "claude-haiku-4-5"
            name, at = f"n{self.count}", self.time()
            line = block(name, parent, f"msg_{self.count}", text(word), timestamp=at)
            line["message"]["model"] = model
            self.lines.append(line)
            self.lines.append(
                {"type": "summary", "summary": f"Title {self.count}", "leafUuid": "x"}
            )
        self.branch.append(f"n{self.count}")
        return word

    def rewind(self, count: int) -> None:
        super().rewind(count)
        del self.branch[len(self.branch) - count :]


class Codex(Grown):
    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.say("session_meta", id="s-1", cwd="/w", base_instructions={"text": "Be brief."})
        self.say("turn_context", model="gpt-5.5")

    def say(self, type: str, /, **payload: Any) -> None:
        self.lines.append({"timestamp": self.time(), "type": type, "payload": payload})

    def grow(self) -> str:
        word = super().grow()
        content = [{"type": "input_text", "text": word}]
        self.say("response_item", type="message", role="user", content=content)
        usage = {"input_tokens": 12, "cached_input_tokens": 2, "output_tokens": 9}
        self.say("event_msg", type="token_count", info={"last_token_usage": usage})
        self.say("turn_context", model="gpt-5.5")
        return word

    def rewind(self, count: int) -> None:
        super().rewind(count)
        self.say("event_msg", type="thread_rolled_back", num_turns=count)


class GeminiCli(Grown):
    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.ids: list[str] = []
        self.lines = [{"sessionId": "g-1", "projectHash": "x", "kind": "main"}]

    def grow(self) -> str:
        word = super().grow()
        self.ids.append(f"m{self.count}")
        self.lines.append({"id": self.ids[-1], "type": "user", "content": word})
        return word

    def rewind(self, count: int) -> None:
        super().rewind(count)
        self.lines.append({"$rewindTo": self.ids[len(self.ids) - count]})
        del self.ids[len(self.ids) - count :]


SOURCES = [Listed, Titled, JsonLines, MiniSweAgent, SweAgent, ClaudeCode, Codex, GeminiCli]

# --- what users do ---


def _restore(context: Context, at: int) -> None:
    context.restore(at % (context.view.head + 1))


def _hide(context: Context, at: int) -> None:
    slots = context.view.slots
    if slots:
        context.hide(slots[at % len(slots)].seq)


def _pin(context: Context, at: int) -> None:
    slots = context.view.slots
    if slots:
        context.pin(slots[at % len(slots)].seq)


def _summarize(context: Context, at: int) -> None:
    """Lets a text stand for some of the first messages, and say their words."""
    slots = context.view.slots[: 1 + at % 4]
    if slots:
        said = " and ".join(texts(context._open.store, context.id)[: len(slots)])
        context.compact(span=(slots[0].seq, slots[-1].last), summary=f"Said: {said}", author="me")


def _erase(context: Context, at: int) -> None:
    events = [*context.log.events()]
    said = [one.seq for one in events if one.kind == "message" and not one.erased]
    if said:
        erase(context._open.store, context.id, [said[at % len(said)]])


ACTS: dict[str, Callable[[Context, int], object]] = {
    "restore": _restore,
    "undo": lambda context, _: context.undo(),
    "redo": lambda context, _: context.redo(),
    "clear": lambda context, _: context.clear(),
    "hide": _hide,
    "pin": _pin,
    "note": lambda context, at: context.note("mine", at),
    "checkpoint": lambda context, at: context.checkpoint(f"c{at}"),
    "rename": lambda context, at: context.update(title=f"mine {at}", metadata={"mine": at}),
    "model": lambda context, _: context.update(model="gpt-4o-mini", system="Mine."),
    "append": lambda context, at: context.append({"role": "user", "content": f"own{at}."}),
    "summarize": _summarize,
    "erase": _erase,
    "erase all": lambda context, _: erase(context._open.store, context.id, None),
}


def act(store: Store, id: str, name: str, at: int) -> None:
    with Context(store, id) as context:
        try:
            ACTS[name](context, at)
        except (Invalid, NotFound):
            return  # there is nothing to do it to


def heads(store: Store) -> dict[str, int]:
    return {about.id: about.head for about in store.conversations()}


def imported(store: Store, file: File) -> Session:
    [session] = import_file(store, Config(), file.write()).sessions
    return session


def check_nothing_is_added(store: Store, file: File) -> None:
    before = heads(store)
    again = imported(store, file)
    assert (again.new, again.restored) == (0, 0)
    assert heads(store) == before


def check_follows(store: Store, file: File, taken: int, grown: int) -> None:
    """The page is as the user left it, without what the file took back, and with what is new."""
    left = file.words[len(file.words) - taken :] if taken else []
    id = imported(store, file).conversation
    before = texts(store, id)
    if taken:
        file.rewind(taken)
    new = [file.grow() for _ in range(grown)]
    session = imported(store, file)
    assert session.new == grown
    page = texts(store, id)
    assert page[len(page) - grown :] == new
    assert not any(word in shown for word in left for shown in page)
    if not any("Said:" in shown for shown in before):
        assert page[: len(page) - grown] == [word for word in before if word not in left]


@pytest.mark.parametrize("name", ACTS)
@pytest.mark.parametrize("source", SOURCES)
def test_after_each_act_an_unchanged_file_adds_nothing_and_a_grown_one_what_is_new(
    source: type[File], name: str, tmp_path: Path
) -> None:
    for at in range(6):
        store, file = open_store("memory:"), source(tmp_path)
        for _ in range(5):
            file.grow()
        id = imported(store, file).conversation
        act(store, id, name, at)
        check_nothing_is_added(store, file)
        if name == "erase all":
            file.grow()
            check_nothing_is_added(store, file)
            assert imported(store, file).erased
        elif name != "erase" or source is ClaudeCode:
            check_follows(store, file, 0, 2)
            check_nothing_is_added(store, file)
        else:
            head = store.conversation(id).head
            file.grow()
            with pytest.raises(Conflict, match="new since you erased part of"):
                imported(store, file)
            assert store.conversation(id).head == head


@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.data())
def test_any_story_of_a_user_and_a_file(tmp_path: Path, data: st.DataObject) -> None:
    store, file = open_store("memory:"), data.draw(st.sampled_from(SOURCES))(tmp_path)
    # Erasures have tests of their own.
    acts = st.sampled_from([name for name in ACTS if "erase" not in name])
    for _ in range(data.draw(st.integers(1, 5))):
        file.grow()
    id = imported(store, file).conversation
    for _ in range(data.draw(st.integers(1, 4))):
        for _ in range(data.draw(st.integers(0, 3))):
            act(store, id, data.draw(acts), data.draw(st.integers(0, 40)))
            check_nothing_is_added(store, file)
        taken = data.draw(st.integers(0, len(file.words) - 1))
        check_follows(store, file, taken, data.draw(st.integers(1, 3)))
        check_nothing_is_added(store, file)


def test_what_a_user_called_it_stays_until_the_file_says_something_else(tmp_path: Path) -> None:
    store, file = open_store("memory:"), Titled(tmp_path)
    file.grow()
    id = imported(store, file).conversation
    with Context(store, id) as context:
        context.update(title="Mine", model="gpt-4o-mini")
    file.grow()
    imported(store, file)
    view = Context(store, id).view
    assert (view.title, view.model) == ("Mine", "gpt-4o-mini")
    value = {"title": "Another", "model": "gpt-4o", "messages": file.messages()}
    (tmp_path / "m.json").write_text(json.dumps(value))
    import_file(store, Config(), tmp_path / "m.json")
    assert Context(store, id).view.title == "Another"


def test_a_list_that_grew_since_something_was_erased_is_refused(tmp_path: Path) -> None:
    store, file = open_store("memory:"), Listed(tmp_path)
    for word in ("One.", "My secret is long and has some words.", "Three."):
        file.words.append(word)
    id = imported(store, file).conversation
    seqs = [slot.seq for slot in Context(store, id).view.slots]
    erase(store, id, seqs[1:])
    check_nothing_is_added(store, file)
    file.words.append("Four is new.")
    with pytest.raises(Conflict):
        imported(store, file)
    assert "secret" not in " ".join(texts(store, id))
    file.words.pop()
    check_nothing_is_added(store, file)


def test_a_session_with_another_id_is_its_own_also_before_its_beginning(tmp_path: Path) -> None:
    store, file = open_store("memory:"), Codex(tmp_path)
    file.grow()
    import_file(store, Config(), file.write(), id="mine")
    with Context(store, "mine") as context:
        context.restore(0)
    [session] = import_file(store, Config(), file.write(), id="mine").sessions
    assert (session.conversation, session.new) == ("mine", 0)


def test_messages_are_counted_and_not_their_lines(tmp_path: Path) -> None:
    store = open_store("memory:")
    lines = [
        user("u1", None, "Begin."),
        user("u2", "u1", "Left."),
        block("a1", "u2", "msg_1", text("One.")),
        block("a2", "a1", "msg_1", text("Two.")),
        block("a3", "a2", "msg_1", text("Three.")),
    ]
    import_file(store, Config(), write(tmp_path / "a.jsonl", lines))
    lines.append(user("u3", "u1", "Taken."))
    [session] = import_file(store, Config(), write(tmp_path / "a.jsonl", lines)).sessions
    assert (session.messages, session.restored, session.left) == (2, 2, 2)


def test_a_message_that_was_edited_by_hand(tmp_path: Path) -> None:
    """One with an id of its own is known by it; a list says what it says now."""
    store = open_store("memory:")
    lines = [user("u1", None, "One."), user("u2", "u1", "Two.")]
    edited = [user("u1", None, "First."), lines[1]]
    for told in (lines, edited):
        [session] = import_file(store, Config(), write(tmp_path / "a.jsonl", told)).sessions
    assert (texts(store, session.conversation), session.new) == (["One.", "Two."], 0)
    for told in (lines, edited):
        plain = [line["message"] for line in told]
        [session] = import_file(store, Config(), write(tmp_path / "b.jsonl", plain)).sessions
    assert (texts(store, session.conversation), session.new) == (["First.", "Two."], 2)
