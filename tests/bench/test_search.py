"""The measures of search, on data made up here: they read what they should and count as they
say."""

from __future__ import annotations

import gzip
import json

from bench import locomo, recall, search


def test_locomo_reads_turns_questions_and_malformed_evidence(tmp_path):
    turns = [
        {"speaker": "Ann", "dia_id": "D1:1", "text": "How long have you had the snakes?"},
        {
            "speaker": "Ben",
            "dia_id": "D1:2",
            "text": "3 years now.",
            "blip_caption": "a photo of two snakes",
        },
        {"speaker": "Ann", "dia_id": "D1:3", "text": "Lovely weather."},
    ]
    questions = [
        {"question": "How long has Ben had the snakes?", "evidence": ["D1:2; D9:9"], "category": 4},
        {"question": "What is not here?", "evidence": ["D30:05"], "category": 5},
    ]
    talk = {
        "speaker_a": "Ann",
        "speaker_b": "Ben",
        "session_1": turns,
        "session_1_date_time": "1:56 pm on 8 May, 2023",
    }
    (tmp_path / "conv-1.json").write_text(json.dumps({"conversation": talk, "qa": questions}))
    [(read, asked)] = locomo.talks(tmp_path).values()
    assert read[1][2] == "Ben: 3 years now. [shares a photo of two snakes]"
    assert asked == [("How long has Ben had the snakes?", frozenset({"D1:2"}), 4)]
    table, _ = locomo.run(tmp_path)
    assert ["with vectors", "1", "1.000", "1.000", "1.000", "1.000"] in table.rows
    assert [row[1] for row in table.rows if row[0].strip() in ("first half", "second half")] == [
        "1",
        "0",
    ] * 3


def test_recall_asks_only_for_names_that_were_seen_before_and_indexes_only_what_came_before(
    tmp_path,
):
    rows = [{"kind": "meta"}, {"role": "user", "content": "please fix src/auth/login.py"}]
    for number in range(3):
        call = {"id": f"c{number}", "name": "read", "arguments": {"path": "src/auth/login.py"}}
        rows.append(
            {
                "role": "assistant",
                "content": "I will look at the login file now",
                "tool_calls": [call],
            }
        )
        rows.append(
            {
                "role": "tool",
                "tool_call_id": f"c{number}",
                "name": "read",
                "content": "def login(): ...",
            }
        )
    with gzip.open(tmp_path / "agent--x--1.jsonl.gz", "wt") as file:
        file.write("\n".join(map(json.dumps, rows)))
    questions = list(recall.asked([row for row in rows if "role" in row]))
    assert [(index, name, right) for index, _, name, right in questions] == [
        (1, "src/auth/login.py", {1}),
        (3, "src/auth/login.py", {1, 2}),
        (5, "src/auth/login.py", {1, 2, 4}),
    ]
    table, _ = recall.run(tmp_path)
    assert ["full text", "3", "all", "1.000", "1.000", "1.000"] in table.rows


def test_the_search_bench_runs_small(monkeypatch):
    monkeypatch.setattr(search, "APPENDS", 20)
    monkeypatch.setattr(search, "PAIRS", 1)
    [table] = search.run(200)
    assert len(table.rows) == 8


def test_benches_without_data_say_so():
    assert locomo.run(None).startswith("Skipped") and recall.run(None).startswith("Skipped")
