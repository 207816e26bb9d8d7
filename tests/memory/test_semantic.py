"""Semantic memory: what is stored is found, what changed is history, what is forgotten is gone."""

from __future__ import annotations

import asyncio
from math import sqrt
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import refold
from refold import aio, testing
from refold.core.codec import decode
from refold.core.model import Memory
from refold.memory.fold import Entries
from refold.memory.semantic import SemanticMemory
from refold.stores import open_store
from refold.stores.protocol import Store

HOUR_MS = 3_600_000
START_MS = 1_700_000_000_000


@pytest.fixture(params=["memory:", "sqlite:{}/refold.db", "files:{}/tree"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return request.param.format(tmp_path)


@pytest.fixture
def memory(store: Store) -> SemanticMemory:
    return SemanticMemory(store, embedder=False)


def contents(entries) -> list[str]:
    return [entry.content for entry in entries]


# --- the four verbs ---


def test_what_is_stored_is_found_updated_and_forgotten(memory):
    entry = memory.store("The build server is called Hermes")
    assert contents(memory.retrieve("Hermes")) == ["The build server is called Hermes"]
    changed = memory.update(entry.id, "The build server is called Atlas")
    assert (changed.id, changed.version) == (entry.id, 2)
    assert contents(memory.retrieve("Atlas")) == ["The build server is called Atlas"]
    assert memory.retrieve("Hermes") == []
    assert contents(memory.history(entry.id)) == [
        "The build server is called Hermes",
        "The build server is called Atlas",
    ]
    memory.forget(entry.id)
    assert memory.retrieve("Atlas") == [] and memory.list() == []
    with pytest.raises(refold.NotFound):
        memory.forget(entry.id)


def test_an_entry_has_every_field(memory):
    with testing.fixed_clock(START_MS) as clock:
        memory.store("Deploys go out on Tuesday", {"team": "ops"}, tags=["rules"], source=("c", 4))
        clock.advance(hours=1)
        memory.store("deploys go out on tuesday.")
        [entry] = memory.retrieve("deploys")
    assert entry.id.startswith("mem-") and entry.content == "deploys go out on tuesday."
    assert (entry.metadata, entry.tags, entry.source) == ({"team": "ops"}, ("rules",), ("c", 4))
    assert (entry.trust, entry.scope, entry.count) == ("user", "project", 2)
    assert entry.created.timestamp() * 1_000 == START_MS
    assert entry.updated_ms == START_MS + HOUR_MS
    assert 0 < entry.score <= 1 and "deploys" in entry.why


def test_scores_fall_from_one_to_nothing(memory):
    for text in ("alpha beta gamma", "alpha beta", "alpha", "delta", "alpha delta"):
        memory.store(text)
    scores = [entry.score for entry in memory.retrieve("alpha beta gamma")]
    assert len(scores) == 4
    assert scores == sorted(scores, reverse=True) and all(0 <= one <= 1 for one in scores)


def test_an_exact_name_comes_first_and_filters_hold(memory):
    memory.store("Seen in CI: ERR_42 when the disk is full", {"project": "A"}, tags=["ci"])
    memory.store("Errors of the parser have numbers from 40 on", {"project": "B"})
    memory.store("ERR_42 was never seen here", {"project": "B"})
    assert memory.retrieve("ERR_42", metadata={"project": "A"})[0].metadata == {"project": "A"}
    assert all(
        one.metadata["project"] == "B"
        for one in memory.retrieve("errors err_42 parser", metadata={"project": "B"})
    )
    assert len(memory.retrieve("ERR_42", tags=["ci"])) == 1
    assert memory.retrieve("ERR_42", tags=["ci"], metadata={"project": "B"}) == []
    assert "ERR_42" in memory.retrieve("ERR_42")[0].content


def test_limits_are_kept(memory):
    for number in range(5):
        memory.store(f"apple number {number} fell")
    assert len(memory.retrieve("apple", 2)) == 2 and memory.retrieve("apple", 0) == []
    with pytest.raises(refold.Invalid):
        memory.retrieve("apple", -1)
    with pytest.raises(refold.Invalid):
        memory.retrieve("  ")


@pytest.mark.parametrize("content", ["", "   ", "x" * 20_001, "\ud800", 7, None, b"x"])
def test_what_is_no_content_is_refused_and_nothing_is_written(memory, store, content):
    with pytest.raises(refold.Invalid):
        memory.store(content)
    assert store.conversations() == []


@pytest.mark.parametrize(
    "given",
    [
        {"metadata": {"a": object()}},
        {"metadata": {"a": float("nan")}},
        {"metadata": []},
        {"tags": [""]},
        {"tags": "ci"},
        {"tags": [3]},
        {"trust": "god"},
        {"scope": "planet"},
        {"scope": "agent."},
        {"scope": "agent.../x"},
        {"source": 4},
        {"at": "yesterday"},
    ],
)
def test_wrong_arguments_are_invalid(memory, given):
    with pytest.raises(refold.Invalid):
        memory.store("fine", **given)
    assert memory.list() == []


# --- vectors ---


class Angles:
    """An embedder that gives each text the cosine to the query that it is told."""

    name = "angles"
    threshold = 0.7

    def __init__(self, size: int = 2) -> None:
        self.size = size

    def __call__(self, texts: list[str]) -> list[list[float]]:
        return [self._vector(text) for text in texts]

    def _vector(self, text: str) -> list[float]:
        cosine = {"first": 0.9, "second": 0.71, "third": 0.69}.get(text, 1.0)
        return [cosine, sqrt(1 - cosine * cosine)] + [0.0] * (self.size - 2)


def test_the_threshold_is_that_of_the_embedder(store):
    memory = SemanticMemory(store, embedder=Angles())
    for text in ("first", "second", "third"):
        memory.store(text)
    assert contents(memory.retrieve("what was asked of us", threshold=0.7)) == ["first", "second"]
    assert contents(memory.retrieve("what was asked of us")) == ["first", "second"]
    assert contents(memory.retrieve("what was asked of us", 1)) == ["first"]
    assert memory.retrieve("what was asked of us", threshold=0.95) == []
    assert memory.retrieve("what was asked of us")[0].score == pytest.approx(0.9, abs=0.01)
    memory.close()


def test_another_embedder_or_dimension_is_seen_and_all_vectors_are_made_again(store):
    memory = SemanticMemory(store, embedder=Angles())
    memory.store("first")
    memory.store("third")
    assert contents(memory.retrieve("anything at all")) == ["first"]
    memory.close()
    for embedder in (Angles(size=5), type("Other", (Angles,), {"name": "other"})()):
        again = SemanticMemory(store, embedder=embedder)
        assert contents(again.retrieve("anything at all")) == ["first"]
        if "memory" not in store.url:
            assert "embedder-changed" in [name for name, _ in again.said]
        again.reindex()
        assert contents(again.retrieve("anything at all")) == ["first"]
        again.close()


def test_an_embedder_that_fails_leaves_the_words(store):
    def broken(texts: list[str]) -> list[list[float]]:
        raise OSError("no network")

    memory = SemanticMemory(store, embedder=broken)
    memory.store("The cat sleeps on the printer")
    assert contents(memory.retrieve("printer")) == ["The cat sleeps on the printer"]
    assert memory.said[0][0] == "embedder-failed"


# --- truth over time ---


def test_the_same_said_twice_is_one_entry(memory):
    first = memory.store("We use Postgres 16", tags=["db"])
    second = memory.store("we're using postgres 16.", tags=["infra"])
    assert (second.id, second.count, second.tags) == (first.id, 2, ("db", "infra"))
    assert len(memory.list()) == 1


def test_what_changed_is_history_and_can_be_asked_for_as_of_then(memory):
    with testing.fixed_clock(START_MS) as clock:
        old = memory.store("The database port is 5432")
        clock.advance(hours=1)
        new = memory.store("The database port is 6432")
        clock.advance(hours=1)
        assert contents(memory.retrieve("database port")) == ["The database port is 6432"]
        then = START_MS + HOUR_MS // 2
        assert contents(memory.retrieve("database port", as_of=then)) == [
            "The database port is 5432"
        ]
        assert memory.retrieve("database port", as_of=START_MS - 1) == []
        assert contents(memory.list(as_of=then)) == ["The database port is 5432"]
        assert len(memory.list(ended=True)) == 2
    history = memory.history(new.id)
    assert [one.id for one in history] == [old.id, new.id]
    assert [one.valid_until_ms for one in history] == [START_MS + HOUR_MS, None]


def test_a_move_ends_what_was_there_and_answers_for_it(memory):
    memory.store("Postgres listens on port 5432")
    memory.store("We moved from 5432 to 6432")
    found = contents(memory.retrieve("which port does postgres listen on?"))
    assert found == ["We moved from 5432 to 6432"]


def test_what_is_no_longer_true_is_said_and_ends(memory):
    memory.store("We use Redis")
    memory.store("We no longer use Redis")
    assert contents(memory.list()) == ["We no longer use Redis"]


def test_what_code_cannot_settle_stands_side_by_side_the_newest_first(memory):
    first = memory.store("I prefer tea")
    second = memory.store("I prefer coffee")
    found = memory.retrieve("what do I prefer?")
    assert [one.id for one in found] == [second.id, first.id]
    assert found[0].rivals == (first.id,) and found[1].rivals == (second.id,)
    assert "other entries disagree" in found[0].why


def test_an_older_fact_that_is_told_later_does_not_end_the_newer_one(memory):
    memory.store("Anna lives in Munich", at=START_MS + HOUR_MS)
    memory.store("Anna lives in Berlin", at=START_MS)
    assert contents(memory.retrieve("where does Anna live?")) == ["Anna lives in Munich"]
    assert contents(memory.list(as_of=START_MS + 1)) == ["Anna lives in Berlin"]


def test_a_value_that_comes_back_is_an_entry_of_its_own(memory):
    ids = [memory.store(f"The port is {port}").id for port in (1, 2, 1)]
    assert len(set(ids)) == 3
    assert contents(memory.list()) == ["The port is 1"]


def test_an_entry_ends_at_its_date(memory):
    memory.store("The freeze holds", at=START_MS, until=START_MS + HOUR_MS)
    assert memory.list() == []
    assert contents(memory.list(as_of=START_MS + 5)) == ["The freeze holds"]


def test_old_and_unused_stands_below_fresh_of_the_same_worth(memory):
    with testing.fixed_clock(START_MS) as clock:
        memory.store("lamp alpha flickers")
        clock.advance(hours=48)
        memory.store("lamp omega flickers")
        assert contents(memory.retrieve("lamp flickers", 1)) == ["lamp omega flickers"]
        for _ in range(3):
            memory.retrieve("alpha")
        assert contents(memory.retrieve("lamp flickers"))[0] == "lamp alpha flickers"


@pytest.mark.parametrize("sign", ["🙂", ":", "…", "-", "the"])
def test_what_has_no_words_ends_nothing(memory, sign):
    memory.store("The port is 1")
    memory.store(sign)
    assert sorted(contents(memory.list())) == sorted(["The port is 1", sign])


# --- the fold ---

SENTENCES = (
    "The port is 1",
    "The port is 2",
    "the port is 1.",
    "We moved from 1 to 3",
    "I prefer tea",
    "I prefer coffee",
    "We use Redis",
    "We no longer use Redis",
    "cats",
)
VERSIONS = st.lists(
    st.builds(
        Memory,
        entry=st.sampled_from(["a", "b", "c", "d"]),
        content=st.sampled_from(SENTENCES),
        valid_from_ms=st.integers(0, 5),
        state=st.sampled_from(["", "", "", "", "waiting", "rejected", "forgotten"]),
        closed=st.booleans(),
    ),
    max_size=12,
)


@given(VERSIONS, st.integers(0, 12))
def test_looking_in_between_changes_nothing(bodies, looked):
    once, often = Entries(), Entries()
    for seq, body in enumerate(bodies, 1):
        once.add(seq, seq, body)
        often.add(seq, seq, body)
        if seq >= looked:
            list(often.runs())
    seen = [
        sorted((run.first.seq, run.until_ms, len(run.versions)) for run in fold.runs())
        for fold in (once, often)
    ]
    assert seen[0] == seen[1]
    for run in once.runs():
        entry = once.entry(run, "project")
        assert once.run_of(entry.id) is not None and entry.count >= 1
    singles = [run for run in once.runs() if run.first.claim.about == "port is"]
    for at_ms in range(8):
        assert sum(run.holds_at(at_ms) for run in singles) <= 1


# --- where it lives ---


def test_it_is_there_after_a_restart_and_beside_others(tmp_path):
    url = f"sqlite:{tmp_path}/refold.db"
    with refold.open_memory(store=url, embedder=False) as memory:
        memory.store("The gate opens at seven")
        with refold.open_memory(store=url, embedder=False) as other:
            other.store("The gate closes at nine")
        assert len(memory.retrieve("gate")) == 2
    with refold.open("talk", store=url, embedder=False) as context:
        assert len(context.memory.retrieve("gate")) == 2


def test_scopes_lie_apart(tmp_path):
    url = f"sqlite:{tmp_path}/refold.db"
    with refold.open("talk", store=url, embedder=False) as context:
        context.memory.store("I like short answers", scope="user")
        context.memory.store("The wire is red")
        hers = context.memory.store("Answers go to Anna", scope="agent.reviewer")
        assert {one.scope for one in context.memory.retrieve("answers wire")} == {"user", "project"}
        assert len(context.memory.retrieve("answers", scope="agent.reviewer")) == 1
        assert context.memory.update(hers.id, "Answers go to Bob").scope == "agent.reviewer"
    with refold.open_memory("user", embedder=False) as own:
        assert contents(own.list()) == ["I like short answers"]
    store = open_store(url)
    ids = [about.id for about in store.conversations()]
    store.close()
    assert ids == ["memory.agent.reviewer", "memory.project"]


@pytest.mark.parametrize("id", ["memory.user", "memory.project", "Memory.x", "memory.agent.a"])
def test_a_memory_is_no_conversation(store, id):
    memory = SemanticMemory(store, embedder=False)
    memory.store("The sea is blue and wide")
    with pytest.raises(refold.Invalid, match="memory"):
        refold.open(id, store=store)
    with refold.open("talk", store=store, embedder=False) as context:
        context.append({"role": "user", "content": "hello"})
        with pytest.raises(refold.Invalid, match="memory"):
            context.fork(id)
        assert context.search("sea wide", everywhere=True) == []
    assert [about.id for about in refold.conversations.list(store)] == ["talk"]
    assert refold.conversations.verify(store).conversations == 1


def test_the_log_holds_one_event_for_each_store(store):
    memory = SemanticMemory(store, embedder=False)
    memory.store("one")
    memory.store("one")
    events = store.read("memory.project")
    assert [event.kind for event in events] == ["memory", "memory"]
    body = decode(events[0])
    assert isinstance(body, Memory) and body.content == "one"


def test_async_callers_have_it_too():
    async def run() -> list[str]:
        context = await aio.open("talk", store="memory:", embedder=False)
        await context.memory.store("The moon is up")
        found = await context.memory.retrieve("moon")
        await context.close()
        return contents(found)

    assert asyncio.run(run()) == ["The moon is up"]


# --- forgetting ---


def test_no_byte_of_what_is_forgotten_is_left_in_the_files(tmp_path):
    for url in (f"sqlite:{tmp_path}/a/refold.db", f"files:{tmp_path}/tree"):
        with refold.open_memory(store=url, embedder=False) as memory:
            secret = memory.store("Zebedee's locker is Quagga99", {"note": "Quagga99"})
            memory.update(secret.id, "Zebedee's locker is Okapi77")
            memory.store("Zebedee's locker is Okapi77.")
            memory.store("The weather was fine")
            assert memory.retrieve("Zebedee locker")
            memory.forget(secret.id)
            assert memory.retrieve("Zebedee Quagga99 Okapi77") == []
        left = [path for path in tmp_path.rglob("*") if path.is_file()]
        for path in left:
            data = path.read_bytes().lower()
            for word in (b"quagga", b"okapi", b"zebed"):
                assert word not in data, path
        with refold.open_memory(store=url, embedder=False) as memory:
            assert contents(memory.list()) == ["The weather was fine"]


@given(st.text(min_size=1, max_size=200).filter(str.strip))
@settings(
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_any_text_can_be_stored_found_again_and_forgotten(text):
    memory = SemanticMemory(open_store("memory:"), embedder=False)
    try:
        entry = memory.store(text)
    except refold.Invalid:
        return
    assert entry.content == text.strip()
    assert [one.id for one in memory.list()] == [entry.id]
    memory.retrieve(text)
    memory.forget(entry.id)
    assert memory.list() == []
