"""The typed facts of a span (Y-44, Y-45, Y-50, Y-57): taken by code, merged, never paraphrased."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.config import Config
from refold.core.model import Applied, Fact, Message, Slot
from refold.ledger.ledger import (
    FACTS_MAX,
    REQUEST_MAX,
    briefing_lines,
    facts_of,
    ledger_lines,
    merged,
)
from refold.ledger.sentences import own_text
from tests.ledger.messages import TEXTS, does, learnt, many, says, slots_of, states, user


def test_files_commands_and_decisions_are_taken_without_a_model() -> None:
    """Y-44: Write a.py, Edit b.py, two commands and "decided to use JWT"."""
    facts = learnt(
        user("Add a login, please."),
        *does("Write", file_path="a.py", content="x"),
        *does("Edit", file_path="b.py"),
        *does("Bash", command="pytest -q"),
        *does("Bash", command="make"),
        says("We have decided to use JWT. Next step."),
    )
    assert states(facts, "file") == {"a.py": "created", "b.py": "modified"}
    assert states(facts, "command") == {"pytest -q": "ok", "make": "ok"}
    assert states(facts, "decision") == {"We have decided to use JWT.": ""}
    assert [(fact.text, fact.seq) for fact in facts if fact.kind == "request"] == [
        ("Add a login, please.", 1)
    ]


def test_facts_outlive_compactions_and_tools_are_configurable() -> None:
    """Y-45: a file of the first span is still there after the third; `{"save": "modify:path"}`
    works."""
    config = Config(tool_kinds={"save": "modify:path"})
    known: tuple[Fact, ...] = ()
    for path, first in (("a.py", 1), ("b.py", 10), ("c.py", 20)):
        known = merged(
            known, learnt(*does("save", path=path), known=known, first=first, config=config)
        )
    assert states(known, "file") == {"a.py": "modified", "b.py": "modified", "c.py": "modified"}


@pytest.mark.parametrize(
    ("tools", "state"),
    [
        (["Read"], "read"),
        (["Edit", "Read"], "modified"),
        (["Read", "Edit"], "modified"),
        (["Write", "Edit"], "created"),
        (["Read", "Write"], "modified"),
        (["Edit", "delete_file"], "deleted"),
        (["delete_file", "Write"], "created"),
    ],
)
@pytest.mark.parametrize("apart", [False, True])
def test_a_file_has_its_latest_effective_state(tools: list[str], state: str, apart: bool) -> None:
    """Also when every action is in a span of its own."""
    known: tuple[Fact, ...] = ()
    spans = [[tool] for tool in tools] if apart else [tools]
    for at, span in enumerate(spans):
        found = learnt(
            *(m for tool in span for m in does(tool, path="a")), known=known, first=1 + 10 * at
        )
        known = merged(known, found)
    assert states(known, "file") == {"a": state}


def test_an_action_that_failed_changes_no_file() -> None:
    facts = learnt(*does("Edit", "String to replace not found", error=True, file_path="a"))
    assert not states(facts, "file")
    assert states(facts, "error") == {"modify a → String to replace not found": "open"}


def test_a_command_has_its_newest_state() -> None:
    facts = learnt(
        *does("bash", "<returncode>1</returncode>\nE1", command="make"),
        *does("bash", "<returncode>0</returncode>", command="make", again=1),
    )
    assert states(facts, "command") == {"make": "exit 0"}
    assert [fact.seq for fact in facts if fact.kind == "command"] == [3]


def test_results_and_summaries_are_no_requests() -> None:
    """Y-57: a stand-in is never the user's own request, nor are its words facts."""
    standin = Slot(
        1, 5, user("Summary: you must use port 9. - [ ] do it"), 10, (Applied(9, -1, 10),)
    )
    assert facts_of([standin], Config(), ()) == ()
    assert not states(learnt(user("[execute_command for 'ls'] Result:\nx")), "request")


def test_a_request_is_verbatim_and_bounded() -> None:
    text = "Please:\n  keep   this  exactly, «née» $& \\1"
    assert learnt(user(text))[0].text == text
    long = learnt(user("a" * 5_000 + "END"), first=7)[0].text
    assert (
        len(long) <= REQUEST_MAX
        and "#7" in long
        and long.startswith("aaa")
        and long.endswith("END")
    )
    assert (
        own_text(user(f"see <file_content path='a'>{'x' * 9_000}</file_content> now")) == "see  now"
    )


# --- to-dos ---


def test_an_artifact_is_named_by_what_made_it() -> None:
    facts = learnt(*does("Bash", "stub", artifact="art-9", command="npm test"))
    assert states(facts, "artifact") == {"art-9 npm test": ""}


# --- keeping and showing ---


def test_the_ledger_is_bounded_and_loses_the_least_needed_first() -> None:
    facts = merged((), many())
    assert len(facts) == FACTS_MAX
    assert set(many()[:4]) <= set(facts)
    assert min(fact.seq for fact in facts if fact.state == "read") > 90
    assert merged(facts, ()) == facts
    protected = [Fact(kind="request", text=str(n), seq=n) for n in range(FACTS_MAX + 50)]
    assert len(merged(protected, ())) == FACTS_MAX + 50


# --- properties ---

_status = st.sampled_from(["pending", "completed", "x", None, 3])
_tools = st.sampled_from(
    ["Read", "Edit", "Write", "Bash", "TodoWrite", "TaskCreate", "TaskUpdate", "update_plan"]
)
_arguments = st.fixed_dictionaries(
    {},
    optional={
        "path": st.sampled_from(["a", "b", ""]), "command": st.sampled_from(["make", "rm a", "cat b"]),
        "taskId": _status, "status": _status, "subject": _status,
        "todos": st.lists(st.fixed_dictionaries({"content": TEXTS, "status": _status})),
        "plan": st.lists(st.dictionaries(TEXTS, _status)),
    },
)  # fmt: skip
_steps = st.one_of(
    TEXTS.map(lambda text: [user(text)]),
    TEXTS.map(lambda text: [says(text)]),
    st.builds(
        lambda n, a, r, e: does(n, r, error=e, **a), _tools, _arguments, TEXTS, st.booleans()
    ),
)


@given(st.lists(_steps, max_size=10), st.integers(0, 10))
def test_two_spans_teach_no_less_than_one(steps: list[list[Message]], cut: int) -> None:
    """The facts of a span cut in two know the same files, commands and requests as those of the
    whole."""
    slots = slots_of([message for step in steps for message in step])
    at = sum(len(step) for step in steps[:cut])
    first = facts_of(slots[:at], Config(), ())
    both = merged(first, facts_of(slots[at:], Config(), first))
    whole = facts_of(slots, Config(), ())
    for kind in ("file", "request", "command", "constraint"):
        assert states(both, kind) == states(whole, kind)
    assert all(len(fact.text) <= REQUEST_MAX for fact in whole)
    assert len("\n".join(ledger_lines(whole, 3_000))) <= 3_000


def test_a_fact_of_a_newer_version_is_decoded_and_kept() -> None:
    newer = msgspec.json.decode(
        b'{"kind": "hypothesis", "text": "x", "seq": 3, "state": "doubted"}', type=Fact
    )
    assert merged([newer], []) == (newer,)
    assert ledger_lines([newer]) == ["(1 more facts are not shown)"]


# --- the briefing ---

STEPS = st.lists(st.sampled_from(["a.py", "b.py", "c.py", "commit", "failed commit"]), min_size=1)


@given(STEPS, st.integers(0, 40))
def test_a_briefing_names_exactly_the_files_changed_since_the_last_commit(
    steps: list[str], cut: int
) -> None:
    changed: list[str] = []
    done: list[list[Message]] = []
    for n, step in enumerate(steps):
        if step.endswith("commit"):
            is_failed = step != "commit"
            result = "fatal: cannot lock" if is_failed else "[main 1f0] done"
            done.append(does("bash", result, error=is_failed, command=f"git commit -m v{n}"))
            changed = changed if is_failed else []
        else:
            done.append(does("edit", path=step, old_string="x", new_string="y"))
            changed = [path for path in changed if path != step] + [step]
    before = [message for step in done[:cut] for message in step]
    after = [message for step in done[cut:] for message in step]
    known = learnt(*before)
    facts = merged(known, learnt(*after, known=known, first=len(before) + 1))
    lines = briefing_lines(facts, 2_000)
    told = next((line for line in lines if line.startswith("- Changed")), "")
    if told:
        assert told.partition(": ")[2] == (", ".join(reversed(changed)) or "nothing")
    else:
        assert not changed


def test_a_briefing_has_the_last_check_and_the_next_todo_or_nothing() -> None:
    todos = [{"content": "write the docs", "status": "pending"}]
    facts = learnt(
        *does("bash", "2 failed", error=True, command="make test"),
        *does("bash", "all green", command="make test"),
        *does("bash", "a b", command="ls tests"),
        *does("TodoWrite", todos=todos),
    )
    lines = "\n".join(briefing_lines(facts, 2_000))
    assert "Last check #3: make test (ok)" in lines
    assert "Next to-do #7: write the docs" in lines
    assert briefing_lines(learnt(user("Hello."), says("Hi.")), 2_000) == []


@given(st.integers(0, 400))
def test_a_briefing_keeps_within_its_room(room: int) -> None:
    facts = [fact for n in range(9) for fact in learnt(*does("edit", path=f"src/f{n}.py"), first=n)]
    assert sum(len(line) + 1 for line in briefing_lines(facts, room)) <= room
