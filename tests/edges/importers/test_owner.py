"""One conversation belongs to one session: no other may be imported into it, and nothing is written
to it when one is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from refold.config import Config
from refold.edges.importers.entry import Report
from refold.edges.importers.importer import import_file
from refold.engine.context import Context
from refold.errors import Conflict
from refold.log.stored_logs import conversations
from refold.stores import open_store
from refold.stores.protocol import Store
from tests.edges.importers import transcripts
from tests.edges.importers.test_importing import CALLED, CLAUDE, GEMINI, HELLO, texts
from tests.edges.importers.transcripts import block, text, user, write


@pytest.fixture
def store() -> Store:
    return open_store("memory:")


def imported(store: Store, path: Path, id: str | None = None) -> Report:
    return import_file(store, Config(), path, id=id)


def state(store: Store) -> list[tuple[str, int, str]]:
    return [(one.id, one.head, Context(store, one.id).view.title) for one in conversations(store)]


def listed(path: Path, messages: list[Any]) -> Path:
    path.write_text(json.dumps(messages))
    return path


SOURCES = {
    "claude-code": transcripts.parallel(),
    "codex": transcripts.rollout(),
    "gemini-cli": GEMINI,
    "messages": CALLED,
}


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("held", ["a chat", "another session", "a list"])
def test_a_session_is_not_imported_into_the_conversation_of_another(
    source: str, held: str, store: Store, tmp_path: Path
) -> None:
    if held == "a chat":
        with Context(store, "mine") as context:
            context.append({"role": "user", "content": "my own words"})
    elif held == "a list":
        imported(store, listed(tmp_path / "other.json", HELLO), "mine")
    else:
        other = [user("u1", None, "Hi.", sessionId="other")]
        imported(store, write(tmp_path / "other.jsonl", other), "mine")
    before = state(store)
    with pytest.raises(Conflict, match=r"^mine .*nothing was written; .*--id mine-2$"):
        imported(store, write(tmp_path / "new.jsonl", SOURCES[source]), "mine")
    assert state(store) == before


def test_the_error_says_whose_the_conversation_is(store: Store, tmp_path: Path) -> None:
    imported(store, write(tmp_path / "s.jsonl", transcripts.parallel()))
    with Context(store, "mine") as context:
        context.append({"role": "user", "content": "my own words"})
    file = listed(tmp_path / "m.json", HELLO)
    with pytest.raises(Conflict, match=f"follows the session {CLAUDE} .'Listing folders'"):
        imported(store, file, CLAUDE)
    with pytest.raises(Conflict, match=r"mine was not imported .'my own words'"):
        imported(store, file, "mine")


def test_a_session_goes_on_under_the_id_that_it_was_given(store: Store, tmp_path: Path) -> None:
    lines = transcripts.parallel()
    imported(store, write(tmp_path / "a.jsonl", lines), "mine")
    more = [*lines, user("u9", "a4", "And now?")]
    [session] = imported(store, write(tmp_path / "elsewhere.jsonl", more), "mine").sessions
    assert (session.conversation, session.messages, session.restored) == ("mine", 6, 0)
    assert Context(store, "mine").view.metadata["session"] == CLAUDE


def test_a_conversation_without_messages_is_nobodys(store: Store, tmp_path: Path) -> None:
    with Context(store, "mine") as context:
        context.note("theirs", 1)
    [session] = imported(store, listed(tmp_path / "m.json", HELLO), "mine").sessions
    assert session.new == 2


def test_a_side_chain_is_not_written_into_a_chat(store: Store, tmp_path: Path) -> None:
    with Context(store, "mine") as context:
        context.append({"role": "user", "content": "my own words"})
    lines = [
        user("s1", None, "Look.", isSidechain=True, agentId="77"),
        user("u1", None, "Ask somebody."),
        block("a1", "u1", "msg_1", text("Asked.")),
    ]
    before = state(store)
    with pytest.raises(Conflict):
        imported(store, write(tmp_path / "a.jsonl", lines), "mine")
    assert state(store) == before


@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    st.lists(st.sampled_from("abc"), min_size=1, max_size=4),
    st.lists(st.sampled_from("abc"), min_size=1, max_size=6),
)
def test_a_list_that_was_moved_goes_on_only_where_it_begins_with_all_there_is(
    tmp_path: Path, first: list[str], then: list[str]
) -> None:
    """A list is known by its path; elsewhere, by what it begins with."""
    store = open_store("memory:")
    for name, words in (("one.json", first), ("two.json", then)):
        listed(tmp_path / name, [{"role": "user", "content": word} for word in words])
    imported(store, tmp_path / "one.json", "mine")
    before = state(store)
    if then[: len(first)] == first:
        imported(store, tmp_path / "two.json", "mine")
        assert texts(store, "mine") == then
        return
    with pytest.raises(Conflict):
        imported(store, tmp_path / "two.json", "mine")
    assert state(store) == before and texts(store, "mine") == first


def test_every_source_stays_known_as_imported(store: Store, tmp_path: Path) -> None:
    """What a file says of itself is added to what refold knows of it."""
    for name, lines in SOURCES.items():
        [session] = imported(store, write(tmp_path / f"{name}.jsonl", lines)).sessions
        metadata = Context(store, session.conversation).view.metadata
        assert (metadata["imported"], metadata["session"]) == (name, session.conversation)
