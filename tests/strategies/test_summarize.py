"""The strategy `summarize`: what is covered, where it is cut, and what the draft says by itself."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

import refold
from refold.core.laws import broken, calls_of, results_of
from refold.core.model import GistNotes, Pin, Prose, Quote, Span, Summarize, SummaryNotes
from refold.core.plan import Ask
from refold.core.shortened import summary_text
from refold.errors import Invalid
from refold.strategies.summarize import summarize
from refold.writer.asker import room_for
from tests.strategies.talks import (
    alternating,
    answered,
    anything,
    brief_of,
    climbed,
    count,
    log_of,
    pages,
    said,
    state_of,
    used,
)


def asks(parts, **options) -> list[Ask]:
    found = summarize(brief_of(log_of(parts), **options))
    assert all(isinstance(item, Ask) for item in found)
    return found


def test_everything_before_the_last_messages_becomes_one_summary():
    """Y-40, G-11, Y-58: 45 messages, 10 stay, the heading tells 35."""
    climb = climbed(log_of(alternating(45)), summarize)
    slots = climb.state.view().slots
    assert len(slots) == 11
    assert slots[0].standin
    assert [slot.seq for slot in slots[1:]] == list(range(36, 46))
    assert "Summary of 35 earlier messages, #1-35" in pages(climb)[0]
    assert "background, not a new request" in pages(climb)[0]
    assert len(climb.asks) == 1


def test_how_many_messages_stay_can_be_set():
    assert asks(alternating(45), keep=20)[0].span == Span(1, 25)


@pytest.mark.parametrize("strategy", ["summarize", "window", "clear"])
@given(keep=st.integers(-(10**9), -1))
@settings(deadline=None, max_examples=10)
def test_a_negative_number_is_refused(strategy: str, keep: int) -> None:
    """G-20: and so is any other number below 0 that a strategy takes."""
    context = refold.open("work", store="memory:")
    with pytest.raises(Invalid, match=str(keep)):
        context.plan(strategy, keep=keep)
    with pytest.raises(Invalid, match=str(keep)):
        refold.open("work", store="memory:", config={"strategy": {strategy: {"keep": keep}}})


def test_the_cut_never_splits_a_tool_pair():
    """Y-41: a result at position -10 takes its call along."""
    parts = [*alternating(20), *used("a", "x" * 400), *alternating(9)]
    [ask] = asks(parts)
    assert ask.span == Span(1, 20)


def test_one_task_and_a_long_tool_loop_is_cut_at_an_assistant_message():
    """Y-41: the latest request is the first message; it stays, since no page may be without it."""
    parts = [said("user", "do it"), *(part for n in range(30) for part in used(f"c{n}", "y" * 300))]
    climb = climbed(log_of(parts), summarize)
    slots = climb.state.view().slots
    assert slots[0].seq == 1
    assert slots[1].standin
    assert slots[2].message.role == "assistant"
    assert broken(climb.state.view()) == []


def test_the_latest_request_in_the_midst_stays_verbatim():
    """Y-41"""
    loop = [part for n in range(20) for part in used(f"c{n}", "y" * 300)]
    parts = [*alternating(10), said("user", "now do this"), *loop]
    climb = climbed(log_of(parts), summarize)
    assert "now do this" in pages(climb)
    assert [ask.span for ask in climb.asks] == [Span(1, 10), Span(12, 41)]


def test_pins_and_system_messages_stay():
    parts = [said("system", "be brief"), *alternating(30), Pin(seq=5)]
    climb = climbed(log_of(parts), summarize)
    seqs = [slot.seq for slot in climb.state.view().slots if not slot.standin]
    assert seqs[:2] == [1, 5]


def test_too_little_is_not_summarized():
    """Y-42"""
    assert asks(alternating(10)) == []
    assert asks(alternating(11)) == []


@given(keeps=st.sets(st.integers(2, 20), min_size=2, max_size=5), count=st.integers(22, 30))
@settings(deadline=None, max_examples=15)
def test_how_many_stay_is_obeyed_also_right_behind_a_summary(keeps: set[int], count: int) -> None:
    """What a call names is done whenever it changes anything, and the same again changes nothing."""
    context = refold.open("work", store="memory:", window=64_000)
    for message in alternating(count):
        context.append(message)
    for keep in sorted(keeps, reverse=True):
        assert context.compact("summarize", keep=keep).batch
        assert [slot.standin for slot in context.view.slots] == [True] + [False] * keep
        again = context.compact("summarize", keep=keep)
        assert not again.batch and again.reason.startswith("compacted recently: ")


def test_a_threshold_sets_the_period():
    """G-11"""
    assert asks(alternating(40), threshold=40) == []
    assert asks(alternating(41), threshold=40)[0].span == Span(1, 31)


def test_the_draft_tells_files_tools_and_decisions_by_itself():
    """Y-44, Y-45, Y-58"""
    parts = [
        said("user", "make the login work. Never touch config.py."),
        *used("w", "ok", tool="Write", file_path="a.py", content="x = 1\n" * 40),
        *used("e", "ok", tool="Edit", file_path="b.py", old_string="1", new_string="2"),
        *used("b1", "fine", tool="Bash", command="pytest -q"),
        *used("b2", "fine", tool="Bash", command="ruff check"),
        said("assistant", "We decided to use JWT for the sessions. " + "And so on. " * 40),
        *alternating(12),
    ]
    [ask] = asks(parts, window=100_000)
    assert "Bash ×2" in ask.draft.text
    for needed in ("a.py", "b.py", "JWT", "Never touch config.py", "make the login work"):
        assert needed in ask.draft.text
    files = {fact.text for fact in ask.draft.facts if fact.kind == "file"}
    assert files == {"a.py", "b.py"}


def test_the_next_summary_covers_the_last_one_and_carries_its_counts_on():
    """Y-43, Y-45: spans lie next to each other, nothing is counted twice, facts stay."""
    parts = [
        said("user", "start"),
        *used("w", "ok", tool="Write", file_path="first.py", content="x" * 2_000),
        *alternating(30),
    ]
    first = climbed(log_of(parts), summarize)
    assert "Summary of 23 earlier messages, #1-23" in pages(first)[0]
    parts += [first.proposals[0].edit, *alternating(30)]
    log = log_of(parts)
    second = climbed(log, summarize, window=100_000)
    [summary] = [slot for slot in second.state.view().slots if slot.standin]
    assert summary.span == Span(1, 54)
    assert "Summary of 53 earlier messages, #1-54" in pages(second)[0]  # seq 34 is the edit itself
    assert "Write ×1" in pages(second)[0]
    assert "first.py" in pages(second)[0]


PROSE = "Goal: ship the parcel. The customer agreed to PLAN-B."


def worded(edit: Summarize, words: str = PROSE) -> Summarize:
    """The summary as it stands after a writer was asked."""
    return replace(edit, prose=Prose(words=words, span=edit.span, added=("Files changed: x.py",)))


def twice(
    words: str = PROSE, *, window: int = 100_000, more: int = 30, size: int = 400
) -> tuple[Summarize, int]:
    """A summary that covers one with prose, and the tokens that it covers."""
    parts = alternating(40)
    first = climbed(log_of(parts), summarize, window=window)
    parts += [worded(first.proposals[0].edit, words), *alternating(more, size)]
    log = log_of(parts)
    log[40] = replace(log[40], tokens=count(said("user", summary_text(parts[40]))))
    [edit] = [proposal.edit for proposal in climbed(log, summarize, window=window).proposals]
    return edit, sum(slot.tokens for slot in state_of(log).view().slots if slot.seq in edit.span)


def test_prose_of_the_last_summary_stays_until_it_is_said_anew():
    """Y-43: the draft carries it on, in its frame, once; what code had added to it is told by
    the ledger."""
    edit, _ = twice()
    text = summary_text(edit)
    assert edit.prose == Prose(words=PROSE, span=Span(1, 30))
    assert text.count("PLAN-B") == 1
    assert edit.text.startswith("[Summary of 60 earlier messages, #1-61")
    assert "Files changed: x.py" not in text


def test_the_ledger_gives_way_to_prose_and_leaves_room_for_a_writer():
    """Y-43, X-37: whatever the sizes, prose stays, the cap holds, and a next writer has room for
    its words."""
    long = "\n".join(f"Done: step {n} was something of its own kind." for n in range(40))
    for words in (PROSE, long):
        for more, size in ((12, 100), (30, 400), (30, 2_000)):
            edit, covered = twice(words, window=40_000, more=more, size=size)
            text, made = summary_text(edit), edit.text
            assert edit.prose.words == words
            assert count(said("user", text)) <= min(2_000, covered)
            assert room_for(count(said("user", made)), covered, 40_000, beside_gist=False) >= count(
                said("user", words)
            )
            assert "User requests:" in text


def test_prose_that_is_too_long_is_cut_and_the_ledger_keeps_its_part():
    """X-37"""
    long = "\n".join(f"Done: step {n} was something of its own kind." for n in range(200))
    text = summary_text(twice(long, window=20_000)[0])
    assert count(said("user", text)) <= 1_000
    assert "step 0 was" in text
    assert "User requests:" in text


def test_the_prose_of_several_gists_is_carried_on_together():
    """Y-43"""
    parts = alternating(60)
    for first, last in ((1, 20), (21, 40)):
        edit = Summarize(
            batch="g",
            span=Span(first, last),
            text="[Earlier steps]",
            quotes=(Quote(seq=first, role="user", lines=("m",)),),
            gist=GistNotes(),
        )
        parts.append(worded(edit, f"words on {first} " * 20))
    [ask] = asks(parts, window=100_000)
    prose = ask.draft.prose
    assert prose.span == Span(1, 40)
    assert "words on 1 " in prose.words
    assert "words on 21 " in prose.words


def test_prose_behind_files_that_were_read_again_is_found():
    """Y-43, X-33"""
    front = "some files\n[Background on #1, written by a model: \n<background>\nno\n</background>\n"
    edit = worded(
        Summarize(batch="s", span=Span(1, 20), text="[Summary]", counted=SummaryNotes(messages=20))
    )
    edit = replace(edit, files=front)
    [ask] = asks([*alternating(60), edit], window=100_000)
    assert ask.draft.prose.words == PROSE


def test_the_largest_part_has_the_ledger():
    """Y-45: a pin near the front leaves a first part that is too small to tell anything; it stays
    as it is, because nobody puts words into its draft."""
    parts = [
        said("user", "make it"),
        said("assistant", "ok"),
        said("user", "RULE"),
        *alternating(41),
        Pin(seq=3),
    ]
    [large] = asks(parts)
    assert large.span == Span(4, 34)
    assert "make it" in large.draft.text


@given(st.integers(12, 60), st.integers(20, 400))
def test_a_summary_without_a_writer_has_a_line_for_answers_and_is_no_bare_heading(
    turns: int, length: int
) -> None:
    """Y-50"""
    parts = [
        part
        for n in range(turns)
        for part in (
            said("user", f"Question {n}, please?"),
            said("assistant", f"I look at it.{' Yes.' * (n % 3)}"),
            said("assistant", f"Answer {n} is " + "found in the cellar " * (length // 20)),
        )
    ]
    for ask in asks(parts):
        answered = [n for n in range(turns) if f"Answer {n} " in ask.draft.text]
        assert answered == list(range(min(answered), max(answered) + 1))
        assert len(answered) >= 1
        assert "I look at it" not in ask.draft.text


def test_notable_uses_of_tools_are_noted_and_carried_on():
    """Y-44: name, count and up to three uses, failed ones first, then the newest; none twice."""
    parts = [
        said("user", "go"),
        *used("a", "exit code: 1", tool="Bash", command="pytest -q"),
        *alternating(30),
    ]
    first = climbed(log_of(parts), summarize).proposals[0].edit
    assert first.counted.tools == {"Bash": 1}
    assert first.counted.uses == {"Bash": ['failed: {"command":"pytest -q"}']}
    parts.append(first)
    for n, command in enumerate(["make", "ls", "ls", "pwd"]):
        parts += used(f"b{n}", "ok", tool="Bash", command=command)
    parts += [*used("w", "ok", tool="Write", file_path="a.py"), *alternating(12)]
    [ask] = asks(parts, window=100_000)
    assert ask.draft.counted.tools == {"Bash": 5, "Write": 1}
    assert ask.draft.counted.uses == {
        "Bash": ['failed: {"command":"pytest -q"}', '{"command":"pwd"}', '{"command":"ls"}'],
        "Write": ['{"file_path":"a.py"}'],
    }
    assert "Bash ×5, Write ×1" in ask.draft.text


def test_an_open_call_at_the_end_is_left_alone():
    """Y-48"""
    call, _ = used("open", "never")
    climb = climbed(log_of([*alternating(30), call]), summarize)
    assert calls_of(climb.state.view().slots[-1].message) == ["open"]


@settings(max_examples=40)
@given(anything)
def test_every_page_it_leaves_is_lawful_and_smaller(log):
    climb = climbed(log, summarize, window=50_000)
    before = climbed(log, lambda brief: []).state.view()
    after = climb.state.view()
    assert set(broken(after)) <= set(broken(before))
    if climb.proposals:
        assert after.tokens < before.tokens
    results = {id for slot in after.slots for id in results_of(slot.message)}
    calls = {id for slot in before.slots for id in calls_of(slot.message)}
    shown = {id for slot in after.slots for id in calls_of(slot.message)}
    assert not (results & calls) - shown


def test_an_ask_carries_the_instructions_of_the_configuration():
    """Y-52"""
    [ask] = asks(alternating(45), instructions="Focus on test results")
    assert ask.instructions == "Focus on test results"
    assert isinstance(ask.draft, Summarize)


def test_results_in_a_user_message_are_no_requests():
    parts = [*alternating(12), *used("a", "b"), answered("zz", "orphan"), *alternating(12)]
    assert asks(parts)
