"""What is forgotten is nowhere any more: not in a log, a page, a summary, an index or a free page of
a file."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import refold
from refold import testing
from refold.log.stored_logs import conversations
from refold.memory.semantic import SemanticMemory
from refold.stores import open_store
from refold.stores.in_memory import MemoryStore

SECRET = "The staging key is Xylophone12"
WORDS = (b"xylophone", b"xylophon")
DAY_MS = 86_400_000
START_MS = 1_700_000_000_000


@pytest.fixture(params=["sqlite:{}/a/refold.db", "files:{}/tree"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return request.param.format(tmp_path)


def opened(url: str, id: str = "talk", **given) -> refold.Context:
    given.setdefault("window", 24_000)
    return refold.open(id, store=url, embedder=False, **given)


def say(context: refold.Context, text: str) -> str:
    context.append({"role": "user", "content": text})
    return str(context.request())


def files_with(folder: Path, words=WORDS) -> list[Path]:
    found = []
    for path in folder.rglob("*"):
        data = path.read_bytes().lower() if path.is_file() else b""
        if any(word in data for word in words):
            found.append(path)
    return found


def chatter(context: refold.Context, turns: int = 12) -> None:
    for number in range(turns):
        context.append({"role": "assistant", "content": f"step {number} " + "word " * 300})
        context.append({"role": "user", "content": f"and {number} " + "more " * 150})


# --- where it was shown ---


def test_tools_that_recalled_and_remembered_it_lose_it(url, tmp_path):
    with opened(url) as context:
        context.toolbox.tools(also=["remember", "recall"])
        context.append({"role": "user", "content": "Keep what I gave you"})
        for id, name, arguments in (
            ("t1", "remember", {"content": SECRET}),
            ("t2", "recall", {"query": "what is the staging key?"}),
        ):
            call = {"type": "tool_use", "id": id, "name": name, "input": arguments}
            context.append({"role": "assistant", "content": [call]})
            context.append_result(id, context.toolbox.call(name, arguments))
        assert files_with(tmp_path)
        [entry] = context.memory.list()
        done = context.memory.forget(entry.id)
        assert done.messages == 2 and done.mentions == ()
        assert "ylophone" not in str(context.request())
    assert files_with(tmp_path) == []
    assert not refold.conversations.verify(url).problems


def test_other_conversations_and_forks_lose_it(url, tmp_path):
    with opened(url) as context:
        entry = context.memory.store(SECRET)
        assert "Xylophone12" in say(context, "What is the staging key?")
        fork = context.fork("fork")
        other = opened(url, "other")
        assert "Xylophone12" in say(other, "Tell me the staging key")
        done = context.memory.forget(entry.id)
        assert done.messages == 2
        for one in (context, fork, other):
            assert "ylophone" not in str(one.request())
        fork.close()
        other.close()
    assert files_with(tmp_path) == []


def test_summaries_of_what_showed_it_go_and_the_page_is_made_again(url, tmp_path):
    def writer(request):
        return "Goal: connect. The staging key is Xylophone12, as remembered." * 1

    config = {"memory_tokens": 400, "ladder": ["gist", "hide"]}
    with opened(url, config=config, writer=writer) as context:
        entry = context.memory.store(SECRET)
        say(context, "What is the staging key?")
        chatter(context)
        context.compact(target=5_000)
        assert "Xylophone12" in str(context.request())
        done = context.memory.forget(entry.id)
        assert done.summaries == 1 and done.messages == 1
        assert "ylophone" not in str(context.request())
        assert not any("ylophone" in fact.text for fact in context.view.facts)
    assert files_with(tmp_path) == []
    with opened(url) as context:
        assert "ylophone" not in str(context.request())


def test_a_summary_that_says_nothing_of_it_stays(url):
    with opened(url) as context:
        entry = context.memory.store(SECRET)
        say(context, "What is the staging key?")
        chatter(context)
        context.compact(target=5_000)
        before = str(context.request())
        assert context.memory.forget(entry.id).summaries == 0
        assert str(context.request()) == before


def test_other_stores_that_are_named_lose_it(tmp_path):
    near, far = f"sqlite:{tmp_path}/near.db", f"files:{tmp_path}/far"
    with opened(near) as here, opened(far) as there:
        entry = here.memory.store(SECRET, scope="user")
        for context in (here, there):
            assert "Xylophone12" in say(context, "What is the staging key?")
        done = here.memory.forget(entry.id, stores=[far])
        assert done.messages == 2
        assert any("not named" in one for one in done.out_of_reach)
        assert "ylophone" not in str(there.request())
    assert files_with(tmp_path) == []


def test_a_store_that_is_not_there_is_told_before_anything_is_gone(tmp_path):
    with opened(f"sqlite:{tmp_path}/a.db") as context:
        entry = context.memory.store(SECRET)
        for wrong in (f"sqlite:{tmp_path}/none.db", "nowhere:x"):
            with pytest.raises(refold.RefoldError):
                context.memory.forget(entry.id, stores=[wrong])
        assert [one.id for one in context.memory.list()] == [entry.id]
    assert not (tmp_path / "none.db").exists()


def answered(context: refold.Context, id: str, name: str, text: str) -> None:
    call = {"type": "tool_use", "id": id, "name": name, "input": {"query": "x"}}
    context.append({"role": "assistant", "content": [call]})
    context.append_result(id, text)


@pytest.mark.parametrize("name", ["refold_search", "refold_unfold", "Bash"])
def test_a_result_shows_an_entry_by_its_id_or_its_row_and_not_by_a_word_in_it(url, name):
    with opened(url) as context:
        entry, other = context.memory.store("tests"), context.memory.store("All tests pass")
        told = (f"the schema has 42 columns, the tests pass; {other.id} says so", "- tests (slow)s")
        rows = (
            f"{entry.id} (2026-11-16, user): tes",
            "mem-0 (2026-11-16, user): Tests",
            "  - tests (2026-11-16, #3 of talk)",
            f'{{"id": "{entry.id}", "content": "tests"}}',
        )
        context.append({"role": "user", "content": "look it up"})
        for number, text in enumerate((*told, *rows)):
            answered(context, f"t{number}", name, f"Found:\n{text}\nThe end.")
        done = context.memory.forget(entry.id)
        assert done.messages == len(rows) and len(done.mentions) == len(told)
        page = str(context.request())
        assert all(text in page for text in told)
        assert not any(f"Found:\\n{text}" in page for text in rows)


@given(
    st.lists(
        st.sampled_from(["asked", "recalled", "searched", "said", "forked", "stored", "compacted"]),
        min_size=1,
        max_size=7,
    ),
    st.booleans(),
)
@settings(max_examples=25, deadline=None)
def test_a_dry_run_tells_exactly_what_is_erased_and_writes_nothing(steps, source):
    store = MemoryStore()
    with refold.Context(store, "talk") as context:
        context.update(model="claude-sonnet-5-5", window=24_000)
        seq = context.append({"role": "user", "content": f"Note: {SECRET}."})[-1].seq
        entry = context.memory.store(SECRET, tags=["gone"], source=seq)
        for number, step in enumerate(steps):
            match step:
                case "asked":
                    say(context, "What is the staging key?")
                case "recalled":
                    answered(context, f"t{number}", "recall", f"{entry.id} (now): {SECRET}")
                case "searched":
                    answered(context, f"t{number}", "refold_search", f"#{seq} {SECRET} is here")
                case "said":
                    context.append({"role": "user", "content": f"I said: {SECRET}."})
                case "forked":
                    context.fork(f"fork{number}").close()
                case "stored":
                    context.memory.store(f"{SECRET} in zone {number}", tags=["gone"], scope="user")
                case "compacted":
                    chatter(context, 3)
                    context.compact("gist", target=2_000)
        heads = {id: store.conversation(id).head for id in map(str, ids_of(store))}
        told = context.memory.forget(tag="gone", source=source, dry_run=True)
        assert heads == {id: store.conversation(id).head for id in map(str, ids_of(store))}
        assert entry.id in told.entries and "gone" in str(context.memory.list())
        assert context.memory.forget(tag="gone", source=source) == told
        assert sum(messages for _, messages, _ in told.shown_in) == told.messages
        assert sum(summaries for *_, summaries in told.shown_in) == told.summaries


def ids_of(store: MemoryStore) -> list[str]:
    return [about.id for about in conversations(store)]


# --- the source ---


def test_the_source_goes_only_if_that_is_asked_for(url, tmp_path):
    with opened(url) as context:
        seq = context.append({"role": "user", "content": f"Note: {SECRET}. And go on."})[-1].seq
        entry = context.memory.store(SECRET, source=seq)
        kept = context.memory.forget(entry.id)
        assert kept.mentions == (("talk", seq),)
        assert any(f"#{seq} of talk" in one for one in kept.out_of_reach)
        assert "Xylophone12" in str(context.request())
        entry = context.memory.store(SECRET, source=seq)
        gone = context.memory.forget(entry.id, source=True)
        assert gone.messages == 1 and gone.mentions == ()
        assert "ylophone" not in str(context.request())
    assert files_with(tmp_path) == []


def test_a_summary_that_quotes_the_source_goes_with_it(url, tmp_path):
    with opened(url) as context:
        context.append({"role": "user", "content": "Help"})
        context.append({"role": "assistant", "content": "With what?"})
        seq = context.append({"role": "user", "content": f"You must note: {SECRET}."})[-1].seq
        entry = context.memory.store(SECRET, source=seq)
        chatter(context)
        context.compact(target=5_000)
        assert any("Xylophone12" in fact.text for fact in context.view.facts)
        assert context.memory.forget(entry.id, source=True).summaries >= 1
        assert "ylophone" not in str(context.request())
    assert files_with(tmp_path) == []


# --- by tag, time and conversation ---


def test_entries_are_forgotten_by_tag_time_and_conversation(url, tmp_path):
    with testing.fixed_clock(START_MS) as clock, refold.open_memory(store=url) as memory:
        memory.store("Alpha lives in Rome", tags=["people"], source=("one", 1))
        memory.store("Beta lives in Oslo", tags=["people", "work"], source=("two", 4))
        clock.advance(hours=48)
        memory.store("Gamma lives in Lima", tags=["work"], source=("two", 9))
        late = START_MS + DAY_MS
        assert memory.forget(tag="work", before=late).entries != ()
        assert {one.content[0] for one in memory.list()} == {"A", "G"}
        assert len(memory.forget(said_in="two").entries) == 1
        assert memory.forget(tag="nothing has it").entries == ()
        assert len(memory.forget(before=late).entries) == 1 and memory.list() == []
    assert files_with(tmp_path, (b"oslo", b"lima", b"rome", b"gamma")) == []


@pytest.mark.parametrize("given", [{}, {"id": "mem-1", "tag": "x"}, {"id": "mem-1"}, {"tag": 3}])
def test_what_is_not_clear_is_refused(given):
    memory = SemanticMemory(open_store("memory:"), embedder=False)
    entry = memory.store("kept")
    with pytest.raises((refold.Invalid, refold.NotFound)):
        memory.forget(**given)
    assert [one.id for one in memory.list()] == [entry.id]


def test_what_waits_or_was_rejected_goes_too(url, tmp_path):
    with opened(url) as context:
        taken = refold.types.Taken(SECRET, 1, "user", "value")
        assert context.memory.take([taken], waits=True) == 1
        context.memory.reject(context.memory.inbox()[0].id)
        entry = context.memory.store("the staging key is xylophone12.")
        context.memory.forget(entry.id)
        assert context.memory.take([taken], waits=True) == 0
        waiting = refold.types.Taken("The pager code is Marimba7", 1, "user", "value")
        context.memory.take([waiting], waits=True)
        context.memory.forget(context.memory.inbox()[0].id)
        assert context.memory.inbox() == []
    assert files_with(tmp_path, (*WORDS, b"marimba")) == []


@pytest.mark.parametrize(
    "again",
    [
        SECRET,
        "the staging key is xylophone12!",
        "Xylophone12 is the key of staging",
        "The staging key: Xylophone12",
        "The user's staging key is Xylophone12",
    ],
)
def test_no_rule_brings_it_back_in_other_words(again):
    memory = SemanticMemory(open_store("memory:"), embedder=False)
    memory.forget(memory.store(SECRET).id)
    assert memory.take([refold.types.Taken(again, 3, "model", "value")], waits=False) == 0
    assert memory.take(
        [refold.types.Taken("The live key is Gong4", 3, "user", "value")], waits=False
    )
    assert memory.store(again).content == again


# --- it cannot be undone, and is finished ---


def test_it_cannot_be_undone(url):
    with opened(url) as context:
        entry = context.memory.store(SECRET)
        say(context, "What is the staging key?")
        chatter(context)
        context.compact(target=5_000)
        context.memory.forget(entry.id)
        for step in (context.undo, context.redo, context.undo):
            step()
            assert "ylophone" not in str(context.request())
        assert "ylophone" not in str([slot.message for slot in context.view.slots])


def replace_erasing(monkeypatch, store, other):
    """Lets the store erase in another way; gives its own."""
    kind = type(store)
    name = "erase_many" if hasattr(kind, "erase_many") else "erase"
    own = getattr(kind, name)
    monkeypatch.setattr(kind, name, other)
    return own


class Killed(Exception):
    """The process ends here."""


@pytest.mark.parametrize("calls", range(4))
def test_a_forgetting_that_was_killed_is_finished_at_the_next_open(
    url, tmp_path, monkeypatch, calls
):
    with opened(url) as context:
        entry = context.memory.store(SECRET)
        context.memory.update(entry.id, SECRET + "3")
        say(context, "What is the staging key?")
        seq = context.append({"role": "user", "content": SECRET + "3"})[-1].seq
        context.memory.update(entry.id, metadata={"x": 1})
        context.memory.store(SECRET + "3", source=seq)
        left = [calls]

        def killed(self, *given) -> None:
            left[0] -= 1
            if left[0] < 0:
                raise Killed
            erase(self, *given)

        erase = replace_erasing(monkeypatch, context._open.store, killed)
        try:
            context.memory.forget(entry.id, source=True)
            assert left[0] >= 0 and calls > 1
            return
        except Killed:
            pass
        assert context.memory.retrieve("staging key") == []
        assert "ylophone" not in str(context.request())
    monkeypatch.undo()
    assert files_with(tmp_path)
    with refold.open_memory(store=url, embedder=False) as memory:
        assert memory.list() == []
    assert files_with(tmp_path) == []
    with opened(url) as context:
        assert "ylophone" not in str(context.request())


def test_a_kill_after_the_last_erase_is_cleaned_up(url, tmp_path, monkeypatch):
    from refold.memory.journal import Journal

    with refold.open_memory(store=url, embedder=False) as memory:
        entry = memory.store(SECRET)
        append = Journal.append

        def killed(self, bodies):
            if any(body.closed for body in bodies):
                raise Killed
            return append(self, bodies)

        monkeypatch.setattr(Journal, "append", killed)
        with pytest.raises(Killed):
            memory.forget(entry.id)
    monkeypatch.undo()
    for expected in (1, 0):
        with refold.open_memory(store=url, embedder=False) as memory:
            erased: list[object] = []
            own: list = []

            def counted(self, *given, own=own, erased=erased) -> None:
                erased.append(given)
                own[0](self, *given)

            own.append(replace_erasing(monkeypatch, memory._store, counted))
            assert memory.list() == [] and len(erased) == expected
            monkeypatch.undo()
    assert files_with(tmp_path) == []


def test_a_page_never_shows_what_an_erase_names_even_with_its_bytes_there(url, monkeypatch):
    with opened(url) as context, opened(url) as other:
        entry = context.memory.store(SECRET)
        assert "Xylophone12" in say(context, "What is the staging key?")
        assert "Xylophone12" in str(other.request())
        replace_erasing(monkeypatch, context._open.store, lambda self, *given: None)
        context.memory.forget(entry.id)
        for one in (context, other):
            assert "ylophone" not in str(one.request())
        monkeypatch.undo()
    with opened(url) as context:
        assert "ylophone" not in str(context.request())


def test_what_a_forgotten_entry_had_ended_stays_ended(tmp_path):
    with refold.open("c", store=f"sqlite:{tmp_path}/a.db") as context:
        memory = context.memory
        memory.store("The database port is 5432", at=1_700_000_000_000)
        new = memory.store("The database port is 6432", at=1_710_000_000_000)
        memory.forget(new.id)
        assert memory.list() == []
        then = memory.list(as_of=1_705_000_000_000)
        assert [entry.content for entry in then] == ["The database port is 5432"]
        assert memory.retrieve("database port") == []


CODE = "The door code is 4711"
KEPT_IN = ("project", "user", "agent.rev", "agent.two")


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.sampled_from(KEPT_IN), min_size=1, max_size=4, unique=True),
    st.sampled_from(["tag", "before", "said_in"]),
    st.sampled_from(["user", "import"]),
    st.sampled_from(["project", "agent.rev", "agent.new"]),
)
def test_several_are_forgotten_in_every_scope(scopes, way, trust, own):
    memory = SemanticMemory(MemoryStore(), embedder=False, user=MemoryStore, scope=own)
    for scope in scopes:
        memory.store(CODE, scope=scope, tags=["home"], trust=trust, source=("talk", 1))
    late = max(one.updated_ms for scope in scopes for one in memory.list(scope=scope)) + 1
    meant = {"tag": "home", "before": late, "said_in": "talk"}
    done = memory.forget(**{way: meant[way]})
    assert len(done.entries) == len(scopes)
    assert all(memory.list(scope=scope, ended=True) == [] for scope in KEPT_IN)
    assert not any("says it too" in one for one in done.out_of_reach)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.sampled_from(KEPT_IN), min_size=1, max_size=4, unique=True),
    st.sampled_from(["tag", "id"]),
    st.sampled_from([CODE, CODE.upper()]),
)
def test_entries_that_stay_and_say_the_same_are_named(scopes, way, other):
    memory = SemanticMemory(MemoryStore(), embedder=False, user=MemoryStore)
    first, *others = [
        memory.store(CODE if one == scopes[0] else other, scope=one, tags=["home"])
        for one in scopes
    ]
    done = memory.forget(first.id) if way == "id" else memory.forget(tag="home", scope=first.scope)
    assert done.entries == (first.id,)
    named = {one for one in done.out_of_reach if "says it too" in one}
    assert named == {f"{one.id} of {one.scope}, which says it too" for one in others}


def test_what_only_a_tool_said_in_the_same_words_goes_as_well():
    memory = SemanticMemory(MemoryStore(), embedder=False, user=MemoryStore)
    entry = memory.store(CODE)
    memory.store(CODE, trust="tool")
    assert len(memory.forget(entry.id).entries) == 2 and memory.inbox() == []
