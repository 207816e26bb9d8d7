"""The definitions of the measure, on examples made by hand."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from bench.contenders import Oracle, contenders
from bench.fidelity import run
from bench.replay import needs_by_turn, pooled, replay
from bench.sessions import (
    Message,
    is_telling,
    names_in,
    session_of,
    telling_share,
    text_of,
    tokens_of_all,
)

import refold
from refold.replay.needs import History, Need, Prompt, Recall, piece_of
from refold.replay.policies import (
    BASELINES,
    ClearResults,
    CutToHalf,
    DedupElseHalf,
    Refold,
    SlidingWindow,
)
from refold.replay.run import faults_of, same_prefix


def call(id: str, command: str, words: str = "") -> Message:
    calls = [{"id": id, "name": "bash", "arguments": {"command": command}}]
    return {"role": "assistant", "content": words, "tool_calls": calls}


def result(id: str, text: str) -> Message:
    return {"role": "tool", "tool_call_id": id, "content": text}


def user(text: str) -> Message:
    return {"role": "user", "content": text}


def long_session(turns: int = 60) -> list[Message]:
    messages = [
        {"role": "system", "content": "Be careful."},
        user("Fix the parser in src/lexer/scan_tokens.py"),
    ]
    for turn in range(turns):
        words = "as noted the old_reader keeps its cursor" if turn % 7 == 0 else "look further"
        lines = "\n".join(
            f"src/part_{turn}/file_{n}.py holds the step {n} of this" for n in range(12)
        )
        again = f" src/part_{turn - 30}/file_3.py" if turn >= 30 else ""
        messages += [call(f"c{turn}", f"grep -n step{again}", words), result(f"c{turn}", lines)]
    return [*messages, user("Thanks, and now?"), {"role": "assistant", "content": "Done."}]


# --- names and lines ---


def test_names_are_paths_files_identifiers_ids_and_long_numbers() -> None:
    text = "see src/app/main.py, setup.cfg and load_rows or camelCase, id a1b2c3, HTTP2, 12345, but not plain words 123"
    assert names_in(text) == {
        "src/app/main.py",
        "setup.cfg",
        "load_rows",
        "camelCase",
        "a1b2c3",
        "HTTP2",
        "12345",
    }


def test_a_line_is_telling_with_three_other_words_and_not_with_two() -> None:
    assert is_telling("load_rows reads every page", "load_rows")
    assert not is_telling("load_rows every page", "load_rows")
    assert not is_telling("load_rows of no", "load_rows")


def test_long_lines_count_by_the_piece_around_the_name() -> None:
    line = "x " * 200 + "load_rows" + " y" * 200
    piece = piece_of(line, "load_rows")
    assert len(piece) == 160
    assert "load_rows" in piece
    assert piece_of("short load_rows", "load_rows") == "short load_rows"


def test_the_telling_share_leaves_out_lines_of_names() -> None:
    assert telling_share("load_rows reads every page\n") == 1.0
    assert telling_share("src/a/b.py src/c/d.py") == 0.0


# --- needs ---


def recall_of(prompt: str, need: Need) -> Recall:
    recall = Recall()
    recall.weigh(Prompt(prompt), need)
    return recall


def old_need() -> Need:
    history = History(set())
    history.add(
        0, result("c", "the load_rows function reads every page\nand this stands beside it")
    )
    for index in range(1, 15):
        history.add(index, user("something else"))
    (need,) = history.needs_of(15, call("d", "open load_rows"))
    return need


def test_a_need_is_fresh_if_it_was_seen_within_ten_messages() -> None:
    history = History(set())
    history.add(0, user("load_rows"))
    assert history.needs_of(10, user("load_rows"))[0].fresh
    assert not history.needs_of(11, user("load_rows"))[0].fresh


def test_words_of_the_tool_schema_are_no_needs() -> None:
    history = History({"file_path"})
    history.add(0, user("file_path and load_rows"))
    assert [need.name for need in history.needs_of(20, user("file_path load_rows"))] == [
        "load_rows"
    ]


def test_a_bare_name_is_a_ref_but_neither_line_nor_rich() -> None:
    recall = recall_of("only load_rows", old_need())
    assert (recall.needed, recall.ref, recall.line, recall.rich, recall.around) == (1, 1, 0, 0, 0)


def test_the_line_alone_is_rich_but_not_around() -> None:
    recall = recall_of("> the load_rows function reads every page <", old_need())
    assert (recall.rich, recall.line, recall.around) == (1, 1, 0)


def test_the_line_with_its_neighbour_is_around() -> None:
    recall = recall_of(
        "the load_rows function reads every page\n\nand this stands beside it", old_need()
    )
    assert recall.around == 1


def test_a_name_that_never_had_a_telling_line_does_not_count_for_rich() -> None:
    history = History(set())
    history.add(0, user("load_rows"))
    recall = recall_of("load_rows", history.needs_of(20, user("load_rows"))[0])
    assert (recall.needed, recall.tellable, recall.line) == (1, 0, 1)


# --- faults and cost ---


@pytest.mark.parametrize(
    ("prompt", "fault"),
    [
        ([user("go"), result("c", "text")], "orphaned result"),
        ([user("go"), call("c", "ls"), user("well?")], "unanswered call"),
        ([call("c", "ls"), result("c", "text")], "assistant before user"),
        ([user("x" * 4_000)], "over budget"),
        ([user("something else")], "latest request missing"),
    ],
)
def test_what_a_provider_would_refuse_is_a_fault(prompt: list[Message], fault: str) -> None:
    request = "the request" if fault == "latest request missing" else ""
    assert fault in faults_of(prompt, 500, request)


def test_a_lawful_prompt_has_no_faults() -> None:
    assert faults_of([user("go"), call("c", "ls"), result("c", "text")], 500, "go") == []


def test_only_an_unchanged_prefix_is_read_from_the_cache() -> None:
    assert same_prefix(["a", "b", "c"], ["a", "x", "c", "d"]) == 1
    assert same_prefix(["a"], ["a", "b"]) == 1


# --- policies ---


@pytest.mark.parametrize("policy", [SlidingWindow, CutToHalf, ClearResults, Refold])
def test_a_policy_keeps_its_prompts_lawful_and_within_the_budget(policy: type) -> None:
    scores = replay(long_session(), 6_000, {"one": policy})
    assert sum(scores["one"].bill.faults.values()) == 0
    assert scores["one"].bill.prompts == 61


def test_sending_everything_costs_what_it_is_compared_with() -> None:
    scores = replay(long_session(), 4_000, {"everything": BASELINES["everything"]})["everything"]
    assert scores.cost == pytest.approx(1.0)
    assert scores.rich == 1.0
    assert scores.bill.faults["over budget"] > 0


class Refusing(SlidingWindow):
    def prompt(self) -> list[Message]:
        raise refold.OverBudget("no plan fits", hint="none")


def test_a_policy_that_gives_no_prompt_is_at_fault_and_the_run_goes_on() -> None:
    bill = replay(long_session(3), 4_000, {"one": Refusing})["one"].bill
    assert bill.prompts == 4
    assert bill.faults["no prompt"] == 4


def test_repeated_results_but_the_newest_are_replaced() -> None:
    policy = DedupElseHalf()
    policy.start(1_000)
    for message in [
        user("go"),
        call("a", "ls"),
        result("a", "one"),
        call("b", "ls"),
        result("b", "two"),
    ]:
        policy.observe(message)
    assert policy.repeated() == [2]


def test_the_oracle_knows_what_later_turns_will_need() -> None:
    oracle = Oracle()
    oracle.start(4_000)
    oracle.foresee(needs_by_turn(long_session()))
    assert oracle.ahead["src/part_3/file_3.py"] == 1
    for message in long_session()[:80]:
        oracle.observe(message)
    assert oracle.ahead["src/part_3/file_3.py"] == 0


def test_all_contenders_run_on_a_small_folder(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "agent-a--x.jsonl.gz", "wt") as file:
        file.write(json.dumps({"kind": "meta"}) + "\n")
        file.writelines(json.dumps(message) + "\n" for message in long_session(120))
    tables = run(tmp_path, shares=(0.3,), agents=False)
    assert len(tables[0].rows) == len(contenders()[0])
    assert "agent-a" in str(tables[1])


def test_a_session_starts_with_its_system_prompts_and_first_request(tmp_path: Path) -> None:
    rows = [
        {"kind": "meta"},
        call("a", "ls"),
        {"role": "system", "content": "s"},
        user("go"),
        result("a", "x"),
    ]
    with gzip.open(tmp_path / "a.jsonl.gz", "wt") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    assert [message["role"] for message in session_of(tmp_path / "a.jsonl.gz")] == [
        "system",
        "user",
        "tool",
    ]


def test_text_and_size_of_a_call_hold_its_arguments() -> None:
    message = call("a", "ls -l", "words")
    assert text_of(message) == "words\nbash\ncommand: ls -l"
    assert tokens_of_all([message]) == len("words\nbash\ncommand: ls -l") // 4 + 4


def test_pooling_adds_up_families() -> None:
    scores = replay(long_session(), 4_000, {"refold": Refold})["refold"]
    both = pooled({"a": scores, "b": scores})
    assert both.recall.needed == 2 * scores.recall.needed
    assert both.rich == scores.rich
