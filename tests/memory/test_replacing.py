"""What somebody said that an entry replaces is history from then on, and nothing else is."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.errors import Invalid, NotFound
from refold.memory.semantic import SemanticMemory
from refold.stores.in_memory import MemoryStore

BEGIN = datetime(2024, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)
OLD, NEW = "Gunilla keeps the spare key", "Omar has it, in the blue jar"
SAID = (
    "The port is 5432",
    "The port is 6432",
    "We moved the port from 5432 to 6432",
    "We use Redis",
    "We no longer use Redis",
    "Gunilla keeps the spare key",
    "gunilla keeps the spare key.",
    "Omar has it",
    "I prefer tea",
    "I prefer coffee",
)


def _memory(**more: object) -> SemanticMemory:
    return SemanticMemory(MemoryStore(), embedder=False, user=MemoryStore, **more)  # type: ignore[arg-type]


@pytest.fixture
def memory() -> Iterator[SemanticMemory]:
    with _memory() as opened:
        yield opened


def _said(entries: list) -> list[str]:
    return [entry.content for entry in entries]


def test_what_is_replaced_is_history_from_then_on(memory: SemanticMemory) -> None:
    old = memory.store(OLD, at=BEGIN)
    new = memory.store(NEW, at=BEGIN + 9 * DAY, replaces=old.id)
    assert new.replaces == (old.id,) and new.is_current
    assert _said(memory.list()) == [NEW]
    assert _said(memory.list(as_of=BEGIN + 5 * DAY)) == [OLD]
    assert _said(memory.history(new.id)) == _said(memory.history(old.id)) == [OLD, NEW]
    assert memory.history(new.id)[0].valid_until_ms == new.valid_from_ms
    assert memory.log()[0].replaces == (old.id,)
    # Who asks in the words of the old one gets what is so now, and the old one as of then.
    [found] = memory.retrieve("who keeps the spare key?")
    assert found.content == NEW and found.why.startswith(f"changes {old.id}")
    assert memory.retrieve("spare key", as_of=BEGIN + 5 * DAY)[0].content == OLD


def test_one_entry_replaces_several(memory: SemanticMemory) -> None:
    olds = [memory.store(text, at=BEGIN) for text in (OLD, "We use Redis", "I prefer tea")]
    memory.store("All of that is over", replaces=[one.id for one in olds])
    assert _said(memory.list()) == ["All of that is over"]
    memory.revert(4)  # one change: it is taken back as one
    assert len(memory.list()) == 3
    memory.revert(5)
    assert _said(memory.list()) == ["All of that is over"]


def test_old_words_lead_to_the_newest_of_a_chain(memory: SemanticMemory) -> None:
    entry = memory.store(OLD, at=BEGIN)
    for number in range(1, 6):
        entry = memory.store(f"holder {number}", at=BEGIN + number * DAY, replaces=entry.id)
    assert memory.retrieve("spare key")[0].content == "holder 5"
    assert memory.retrieve("spare key", as_of=BEGIN + 2.5 * DAY)[0].content == "holder 2"
    assert len(memory.history(entry.id)) == 6


def test_what_is_said_again_after_it_was_replaced_is_so_again(memory: SemanticMemory) -> None:
    tea = memory.store("I prefer tea", at=BEGIN)
    coffee = memory.store("I prefer coffee", at=BEGIN + DAY, replaces=tea.id)
    assert memory.list()[0].rivals == ()
    memory.store("I prefer tea", at=BEGIN + 2 * DAY, replaces=coffee.id)
    assert _said(memory.list()) == ["I prefer tea"]
    assert _said(memory.list(as_of=BEGIN + 1.5 * DAY)) == ["I prefer coffee"]


def test_what_says_the_same_replaces_nothing(memory: SemanticMemory) -> None:
    old = memory.store(OLD, at=BEGIN)
    again = memory.store(OLD.upper() + ".", replaces=old.id)
    assert again.id == old.id and again.count == 1 and again.is_current


def test_what_was_stored_and_turns_out_to_replace_is_not_said_twice(
    memory: SemanticMemory,
) -> None:
    old = memory.store(OLD, at=BEGIN)
    new = memory.store(NEW, at=BEGIN + DAY)
    again = memory.store(NEW, replaces=old.id)
    assert (again.id, again.count, again.version) == (new.id, 1, 2)
    assert _said(memory.list()) == [NEW]
    assert [change.what for change in memory.log()] == ["changed", "stored", "stored"]


def test_what_was_so_before_replaces_as_well(memory: SemanticMemory) -> None:
    old = memory.store(OLD, at=BEGIN)
    memory.store(NEW, at=BEGIN - DAY, replaces=old.id)
    assert _said(memory.list()) == [NEW]
    assert _said(memory.list(as_of=BEGIN + DAY)) == [NEW]


@pytest.mark.parametrize("bad", ["", "mem-", "mem-0", "x", "mem-\x1b[2J", "project", "m" * 10_000])
def test_an_id_of_nothing_is_refused_and_nothing_is_stored(
    memory: SemanticMemory, bad: str
) -> None:
    old = memory.store(OLD)
    for replaces in (bad, [bad], [old.id, bad]):
        with pytest.raises(NotFound, match="there is no entry") as raised:
            memory.store(NEW, replaces=replaces)
        assert "\x1b" not in str(raised.value) and len(str(raised.value)) < 1_000
    assert _said(memory.list()) == [OLD] and len(memory.log()) == 1


def test_what_waits_or_was_forgotten_is_not_replaced(memory: SemanticMemory) -> None:
    gone = memory.store(OLD)
    memory.forget(gone.id)
    with pytest.raises(NotFound):
        memory.store(NEW, replaces=gone.id)


def test_too_many_are_refused(memory: SemanticMemory) -> None:
    memory.store(OLD)
    with pytest.raises(Invalid, match="too many"):
        memory.store(NEW, replaces=[f"mem-{number}" for number in range(51)])


def test_it_is_kept_in_the_scope_of_what_it_replaces(memory: SemanticMemory) -> None:
    users = memory.store(OLD, scope="user")
    ours = memory.store("We use Redis")
    assert memory.store(NEW, replaces=users.id).scope == "user"
    for wrong in ({"scope": "project", "replaces": users.id}, {"replaces": [users.id, ours.id]}):
        with pytest.raises(Invalid, match=r"is of (user|project)"):
            memory.store("Nobody has it", **wrong)
    assert _said(memory.list(scope="project")) == ["We use Redis"]


@pytest.mark.parametrize("trust", ["tool", "import"])
def test_what_a_tool_said_replaces_only_when_it_is_accepted(
    memory: SemanticMemory, trust: str
) -> None:
    old = memory.store(OLD, trust="model")
    new = memory.store(NEW, replaces=old.id, trust=trust)
    assert memory.history(old.id)[0].is_current
    [waiting] = memory.inbox()
    assert waiting.id == new.id and waiting.replaces == (old.id,)
    memory.accept(new.id)
    assert _said(memory.list()) == [NEW]


def test_forgetting_what_replaced_does_not_bring_back_what_was_so_before(
    memory: SemanticMemory,
) -> None:
    old = memory.store(OLD, at=BEGIN)
    new = memory.store(NEW, at=BEGIN + DAY, replaces=old.id)
    memory.forget(new.id)
    assert memory.list() == []
    assert _said(memory.list(as_of=BEGIN + DAY / 2)) == [OLD]
    assert _said(memory.list(ended=True)) == [OLD]


def test_forgetting_what_was_replaced_leaves_what_is_so(memory: SemanticMemory) -> None:
    old = memory.store(OLD, at=BEGIN)
    new = memory.store(NEW, replaces=old.id)
    memory.forget(old.id)
    assert _said(memory.list(ended=True)) == [NEW] == _said(memory.history(new.id))


def test_who_says_later_how_it_was_does_not_make_it_true_again(memory: SemanticMemory) -> None:
    old = memory.store(OLD, at=BEGIN)
    memory.store(NEW, at=BEGIN + 9 * DAY, replaces=old.id)
    memory.update(old.id, "Gunilla kept the key", at=BEGIN + DAY)
    assert _said(memory.list()) == [NEW]
    assert _said(memory.list(as_of=BEGIN + 2 * DAY)) == ["Gunilla kept the key"]
    memory.update(old.id, "Gunilla has it again", at=BEGIN + 10 * DAY)
    assert sorted(_said(memory.list())) == ["Gunilla has it again", NEW]


@given(st.permutations(range(3)), st.sets(st.integers(0, 2)))
def test_it_does_not_matter_in_which_order_an_import_is_accepted(
    order: list[int], rejected: set[int]
) -> None:
    with _memory() as one, _memory() as other:
        texts = (OLD, NEW, "Nobody has a key")
        entry = one.store(texts[0], at=BEGIN)
        for day, text in enumerate(texts[1:], 1):
            entry = one.store(text, at=BEGIN + day * DAY, replaces=entry.id)
        other.import_lines(one.export())
        assert _said(other.inbox()) == [texts[2]]  # the others ended in the file
        ids = [run.id for run in other.history(other.inbox()[0].id)]
        for at in order:
            if at in rejected:
                other.reject(ids[at])
            else:
                other.accept(ids[at])
        # Each replaces the one before it, if it is accepted.
        left = {one for one in range(3) if one not in rejected and one + 1 in {*rejected, 3}}
        assert set(_said(other.list())) == {texts[one] for one in left}


STEPS = st.lists(
    st.tuples(
        st.sampled_from(SAID),
        st.integers(0, 9),
        st.sets(st.integers(0, 9), max_size=2),
        st.sampled_from(("user", "model", "tool")),
    ),
    max_size=8,
)


def _live(memory: SemanticMemory, steps: list) -> list[str]:
    """Stores everything; the ids that were given, as far as they are named."""
    ids: list[str] = []
    for said, day, replaced, trust in steps:
        replaces = [ids[one] for one in sorted(replaced) if one < len(ids)]
        ids.append(memory.store(said, at=BEGIN + day * DAY, replaces=replaces, trust=trust).id)
    return ids


@given(STEPS)
def test_an_export_that_is_accepted_elsewhere_says_the_same(steps: list) -> None:
    with _memory() as one, _memory() as other:
        _live(one, steps)
        other.import_lines(one.export(), accepted=True)
        for day in range(-1, 11):
            at = BEGIN + day * DAY
            there = [entry for entry in one.list(as_of=at) if entry.trust != "tool"]
            here = [entry for entry in other.list(as_of=at) if entry.trust != "import"]
            assert sorted(_said(there)) == sorted(_said(here))


@given(STEPS, st.data())
def test_a_change_that_is_taken_back_was_never_made(steps: list, data: st.DataObject) -> None:
    with _memory() as one:
        _live(one, steps)
        before = one.list(ended=True)
        old = data.draw(st.sampled_from([entry.id for entry in before])) if before else None
        at = BEGIN + data.draw(st.integers(-1, 10)) * DAY
        one.store("something else entirely", at=at, replaces=[old] if old else ())
        one.revert(len(steps) + 1)
        assert one.list(ended=True) == before


@given(STEPS, st.data())
def test_what_is_replaced_ends_then_and_nothing_else_changes(
    steps: list, data: st.DataObject
) -> None:
    with _memory() as memory:
        _live(memory, steps)
        before = {(one.id, one.valid_from_ms): one for one in memory.list(ended=True)}
        if not before:
            return
        id = data.draw(st.sampled_from(sorted({id for id, _ in before})))
        at = BEGIN + data.draw(st.integers(-1, 10)) * DAY
        new = memory.store("something else entirely", at=at, replaces=id)
        for key, one in before.items():
            now = next(x for x in memory.list(ended=True) if (x.id, x.valid_from_ms) == key)
            if one.id != id:
                assert now.valid_until_ms == one.valid_until_ms
            else:
                assert now.valid_until_ms is not None
                ends = max(new.valid_from_ms, one.valid_from_ms)
                assert now.valid_until_ms == min(ends, one.valid_until_ms or ends)


KEYS = ("Gunilla keeps the spare key", "Omar has it, in the jar", "It is at the office", "Ask Ida")


@given(st.integers(1, 3), st.sampled_from(["model", "import"]), st.booleans())
def test_what_replaces_something_that_is_history_names_what_came_in_its_place(
    changes: int, trust: str, is_told: bool
) -> None:
    told = KEYS if is_told else ("The port is 1", "The port is 2", "The port is 3", "The port is 4")
    with _memory() as memory:
        first = entry = memory.store(told[0], at=BEGIN)
        for day, text in enumerate(told[1 : changes + 1], 1):
            replaced = entry.id if is_told else ()
            entry = memory.store(text, at=BEGIN + day * DAY, replaces=replaced)
        late = memory.store("Nobody knows", replaces=first.id, trust=trust)
        if late.waits:
            assert late.rivals == ()
            late = memory.accept(late.id)
        assert late.rivals == (entry.id,)
        assert set(_said(memory.list())) == {entry.content, "Nobody knows"}
        last = memory.store("Nobody knows", replaces=entry.id)
        assert last.id == late.id and last.rivals == ()
        assert _said(memory.list()) == ["Nobody knows"]
