"""The measure at the agents' own compactions, on a session made up here."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

from bench.agents import agents_table, by_refold, cases_of
from bench.sessions import Message, tokens_of_all
from bench.workload import Workload


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
