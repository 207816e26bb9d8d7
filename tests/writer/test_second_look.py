"""With `writer_checks` the writer looks at the ledger and its own words once more, and may add what
is missing; what it said first stands in any case."""

from __future__ import annotations

import threading

import pytest

from refold.core.model import Usage
from refold.core.shortened import summary_text
from refold.writer.asker import Answer
from tests.scripted import AWS, GOOD, Scripted, heard_by, opened, summaries, talked
from tests.waiting import LONG_S

CHECKS = {"writer_checks": True}
MISSING = "The tests need port 8443 open, which the user said by phone."


def compacted(writer: Scripted, **config):
    context = opened(writer, config={**CHECKS, **config})
    heard = heard_by(context)
    talked(context)
    context.compact("summarize")
    return context, [notice for notice in heard if notice.name.startswith("compaction")]


def test_the_writer_is_asked_once_unless_the_setting_says_so():
    writer = Scripted()
    context = opened(writer)
    talked(context)
    context.compact("summarize")
    assert len(writer.requests) == 1


def test_what_is_missing_is_added_to_the_words():
    writer = Scripted(Answer(text=GOOD, usage=Usage(input=9, output=2)), MISSING)
    context, (done,) = compacted(writer)
    (edit,) = summaries(context)
    assert edit.prose and edit.prose.words == f"{GOOD}\n{MISSING}"
    assert GOOD in writer.prompt and "User requests:" in writer.prompt
    assert (done.name, done.details["calls"]) == ("compaction-complete", 2)
    assert done.details["asked"] == done.details["accepted"] == 1


@pytest.mark.parametrize("answer", ["NOTHING", "Nothing.", " nothing\n"])
def test_nothing_missing_changes_nothing(answer):
    context, heard = compacted(Scripted(GOOD, answer))
    assert summaries(context)[0].prose.words == GOOD
    assert [notice.name for notice in heard] == ["compaction-complete"]


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (Answer(text=MISSING, finished="length"), "cut off"),
        ("<tool_call>look</tool_call>", "tool call"),
        ("I'm sorry, I cannot do that.", "refused"),
        ("", "empty"),
        ("The very same sentence stands here again. " * 30, "repeats itself"),
        (lambda request: request.prompt[:6_000], "word for word"),
        (ValueError("no connection"), "no connection"),
        (7, "not an answer"),
    ],
    ids=["cut off", "call", "refusal", "empty", "loop", "copy", "raises", "number"],
)
def test_the_first_words_stand_if_the_second_look_fails(answer, reason):
    context, heard = compacted(Scripted(GOOD, answer))
    assert summaries(context)[0].prose.words == GOOD
    failed = [notice.reason for notice in heard if notice.name == "compaction-failed"]
    assert len(failed) == 1 and reason in failed[0] and "the second look" in failed[0]


def test_the_first_words_stand_if_the_second_look_takes_too_long():
    ended = threading.Event()
    writer = Scripted(GOOD, lambda request: ended.wait(LONG_S) and MISSING)
    context, _ = compacted(writer, writer_wait_s=2)
    assert summaries(context)[0].prose.words == GOOD
    ended.set()


def test_what_is_added_keeps_to_the_room_and_has_no_secret():
    lines = "\n".join(
        f"Thing {n} has the name item-{n * 7} and belongs to {n * 3}." for n in range(400)
    )
    context, _ = compacted(Scripted(GOOD, f"The key is {AWS}.\n{lines}"))
    text = summary_text(summaries(context)[0])
    assert AWS not in text and GOOD in text
    assert context.stats().current < context.budget.compact_at
