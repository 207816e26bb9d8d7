"""Planted facts: each has a key of its own, and is told right or wrong on the page."""

from __future__ import annotations

from bench import probes
from bench.plants import KINDS, planted
from bench.probes import is_wrong, states_of


def test_facts_have_keys_that_stand_nowhere_else() -> None:
    facts = planted(1, per_kind=20)
    assert len(facts) == 20 * len(KINDS)
    assert len({fact.key for fact in facts}) == len(facts)
    assert all(fact.key in fact.line for fact in facts)


def test_a_finished_to_do_that_is_only_shown_as_open_is_wrong() -> None:
    fact = next(fact for fact in planted(1) if fact.kind == "finished to-do")
    assert is_wrong(fact, f"- [ ] {fact.line}")
    assert is_wrong(fact, f"Open to-dos:\n- #4 {fact.line}")
    assert not is_wrong(fact, f"- [ ] {fact.line}\n- [x] {fact.line}")
    assert not is_wrong(fact, f"Finished to-dos:\n- #4 {fact.line} (done)")
    assert not is_wrong(fact, "nothing")


def test_the_state_of_a_to_do_in_a_tool_call_is_its_own_and_not_the_next_ones() -> None:
    page = "todos: [{'content': 'one', 'status': 'pending'}, {'content': 'two', 'status': 'completed'}]"
    assert states_of("one", page) == {"open"}
    assert states_of("two", page) == {"done"}


def test_a_modified_file_that_is_not_named_is_wrong() -> None:
    fact = next(fact for fact in planted(1) if fact.kind == "modified file")
    assert is_wrong(fact, "nothing")
    assert not is_wrong(fact, f"- #3 modified {fact.line}")


def test_every_planted_fact_is_visible_or_one_unfold_away() -> None:
    (table,) = probes.run(1, 20_000, per_kind=3)
    lost = table.head.index("lost")
    assert [row[lost] for row in table.rows] == ["0"] * len(KINDS)
