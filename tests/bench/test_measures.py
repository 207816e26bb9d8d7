"""Every other measure runs on a tiny input, and counts what it says it counts."""

from __future__ import annotations

import gzip
import json
from itertools import islice
from pathlib import Path

from bench import compaction, probes
from bench.__main__ import merged
from bench.agents import agents_table, by_refold, cases_of
from bench.cells import cold_open, score, seed
from bench.peers import table_of
from bench.peers_adapter import Adapter
from bench.plants import KINDS, planted
from bench.probes import is_wrong, states_of
from bench.sessions import Message, tokens_of_all
from bench.subjects import SUBJECTS
from bench.tables import Table
from bench.workload import Workload

import refold


def test_the_workload_is_the_same_for_the_same_seed() -> None:
    assert list(Workload(3).take(5)) == list(Workload(3).take(5))
    assert list(Workload(3).take(5)) != list(Workload(4).take(5))


def test_both_subjects_can_be_seeded_scored_and_opened(tmp_path: Path) -> None:
    for name, subject in SUBJECTS.items():
        assert seed(subject(), tmp_path, 40, [40])["turns"] == 19, name
        assert score(subject(), tmp_path, 5)["turn_us"] > 0
        assert cold_open(subject(), tmp_path)["messages"] > 40


def test_a_compaction_is_timed_and_makes_the_page_smaller() -> None:
    cpu_ms, receipt = compaction.once(12_000, compaction.made_up(1))
    assert cpu_ms > 0
    assert receipt.tokens_after < receipt.tokens_before


# --- probes ---


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


# --- at the agents' own compactions ---


def compacted_session() -> list[Message]:
    work = Workload(2)
    rows: list[Message] = [{"kind": "meta"}, work.opening()[1]]
    for call, id, result in work.take(15):
        rows += [call, {"role": "tool", "tool_call_id": id, "content": result[:3_000]}]
    rows[3]["content"] += "\nsrc/special/kept_name.py is where the parser starts"
    rows.append(
        {
            "role": "user",
            "content": "Summary. " + "It went well so far. " * 80,
            "compact_summary": True,
        }
    )
    return [*rows, {"role": "assistant", "content": "Now src/special/kept_name.py again"}]


def test_a_real_compaction_is_a_case_with_what_was_needed_afterwards(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "a--b.jsonl.gz", "wt") as file:
        file.writelines(json.dumps(row) + "\n" for row in compacted_session())
    (case,) = cases_of(tmp_path / "a--b.jsonl.gz")
    assert case.needed == {"src/special/kept_name.py"}
    assert "agent's own summary" in str(agents_table([tmp_path / "a--b.jsonl.gz"]))


def test_refold_fits_a_session_into_the_size_of_a_summary() -> None:
    messages = [row for row in compacted_session()[1:-2]]
    assert tokens_of_all(by_refold(messages, 1_500)) <= 1_500


# --- peers and the file of results ---


def test_the_adapter_for_the_peers_harness_survives_a_reopen(tmp_path: Path) -> None:
    adapter = Adapter(str(tmp_path), "")
    adapter.open(new=True)
    adapter.seed([{"role": "user", "content": "go"}])
    call = {
        "role": "assistant",
        "content": "x",
        "call": {"id": "c1", "name": "bash", "args": {"cmd": "ls"}},
    }
    adapter.turn_append([call, {"role": "tool", "call_id": "c1", "name": "bash", "content": "out"}])
    assert adapter.prepare() == 3
    assert adapter.count() > 0
    adapter.close()
    adapter.open(new=False)
    assert adapter.prepare() == 3
    adapter.close()


def test_peers_are_shown_as_ratios_to_the_floor_with_the_reason_of_what_failed() -> None:
    rows = [
        {"peer": "floor:sqlite_full", "n": 100, "turn_cpu_us_median": 200.0},
        {"peer": "ours:refold", "n": 100, "turn_cpu_us_median": 400.0},
        {"peer": "other", "n": 100, "error": "no such module"},
    ]
    text = str(table_of(rows, {"adk": "no wheel"}))
    assert "2.000" in text
    assert "other: no such module" in text
    assert "adk was not installed: no wheel" in text


def test_sections_that_were_not_run_keep_their_text() -> None:
    former = "# Results\n\n## turns\n\nold turns\n\n## probes\n\nold probes\n"
    text = merged(former, {"turns": "## turns\n\nnew turns\n"})
    assert "new turns" in text
    assert "old turns" not in text
    assert "old probes" in text
    assert merged(text, {}) == text


def test_a_judged_row_says_whether_the_goal_is_met() -> None:
    table = Table("t", ["what", "refold", "goal", "met"])
    table.at_most("a", 1.0, 2.0)
    table.at_least("b", 1.0, 2.0)
    assert [row[-1] for row in table.rows] == ["yes", "NO"]


def test_pages_of_recorded_sessions_end_where_they_are_large_enough() -> None:
    messages = islice(compaction.made_up(3), 200)
    assert compaction.page_of(3_000, messages).view.tokens >= 3_000
    assert refold.__version__
