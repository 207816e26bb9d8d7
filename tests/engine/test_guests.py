"""What importers, adapters, a proxy and a server need: times and keys, usage apart from its reply,
compactions made elsewhere, notes."""

from __future__ import annotations

import threading
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

import refold
from refold.core.fold import fold
from refold.core.laws import broken
from refold.errors import Invalid

MAY = datetime(2026, 5, 1, 10, 11, 12, 345_000, tzinfo=UTC)
MAY_MS = 1_777_630_272_345


@pytest.fixture
def context():
    with refold.open("guest", store="memory:", model="claude-sonnet-5-5") as opened:
        yield opened


def user(text):
    return {"role": "user", "content": text}


def model(text):
    return {"role": "assistant", "content": text}


def reopened(context):
    return fold([*context.log.events()])


# --- when it happened ---


@pytest.mark.parametrize("at", [MAY, MAY_MS, MAY.astimezone(tz=None)])
def test_an_event_has_the_time_at_which_it_happened(context, at):
    [event] = context.append(user("hello"), at=at)
    assert event.at_ms == MAY_MS
    assert context.view.first_at_ms == context.view.updated_ms == MAY_MS


def test_results_replies_and_notes_have_their_time_too(context):
    call = {"type": "tool_use", "id": "t1", "name": "ls", "input": {}}
    context.append(user("go"), at=MAY)
    context.append({"role": "assistant", "content": [call]}, at=MAY)
    events = [
        *context.append_result("t1", "a.py", at=MAY),
        *context.record(model("done"), at=MAY),
        *context.note("progress", {"step": 1}, at=MAY),
    ]
    assert [event.at_ms for event in events] == [MAY_MS] * 3


@pytest.mark.parametrize(
    "at", [-1, 2**48, 10**400, True, "2026", 1.5, datetime.min, datetime(1969, 1, 1)]
)
def test_a_time_that_no_event_can_have_is_refused(context, at):
    head = context.view.head
    with pytest.raises(Invalid, match="at"):
        context.append(user("hello"), at=at)
    assert context.view.head == head


@given(st.lists(st.integers(min_value=0, max_value=253_402_300_799_999), min_size=1, max_size=6))
@settings(max_examples=25, deadline=None)
def test_times_in_any_order_read_back_as_they_were_given(times):
    with refold.open("guest", store="memory:") as context:
        for at in times:
            context.append(user(f"at {at}"), at=at)
        assert [event.at_ms for event in context.log.events()] == times
        assert reopened(context) == context.view


# --- keys ---


def test_under_a_known_key_nothing_is_appended(context):
    assert len(context.append(user("hello"), key="entry-1")) == 1
    assert context.append(user("hello"), key="entry-1") == []
    assert context.append(user("another text"), key="entry-1") == []
    assert len(context.append(user("hello"), key="entry-2")) == 1
    assert [slot.message.key for slot in context.view.slots] == ["entry-1", "entry-2"]


def test_a_key_is_known_in_a_new_process_and_in_a_fork(tmp_path):
    store = f"sqlite:{tmp_path}/guest.db"
    with refold.open("guest", store=store) as context:
        context.append(user("hello"), key="entry-1")
    with refold.open("guest", store=store) as context:
        assert context.append(user("hello"), key="entry-1") == []
        with context.fork("twin") as twin:
            assert twin.append(user("hello"), key="entry-1") == []
            assert twin.append(user("more"), key="entry-2")
        assert context.append(user("more"), key="entry-2")


def test_what_a_restore_switched_off_may_come_again(context):
    first = context.append(user("one"), key="1")[0].seq
    context.append(user("two"), key="2")
    context.restore(first)
    assert context.append(user("one"), key="1") == []
    assert context.append(user("two"), key="2")
    assert [slot.message.key for slot in context.view.slots] == ["1", "2"]


def test_what_a_compaction_took_off_the_page_does_not_come_again(context):
    context.append(user("one"), key="1")
    context.clear()
    assert context.append(user("one"), key="1") == []


def test_a_result_and_a_note_have_keys(context):
    call = {"type": "tool_use", "id": "t1", "name": "ls", "input": {}}
    context.append(user("go"))
    context.append({"role": "assistant", "content": [call]})
    assert context.append_result("t1", "x" * 400_000, key="r1")
    assert context.append_result("t1", "x" * 400_000, key="r1") == []
    assert context.note("state", [1], key="n1")
    assert context.note("state", [2], key="n1") == []


def test_two_writers_with_one_key_write_once(tmp_path):
    store = f"sqlite:{tmp_path}/guest.db"
    refold.open("guest", store=store).close()
    start = threading.Barrier(4)

    def write():
        with refold.open("guest", store=store) as context:
            start.wait(timeout=30)
            for number in range(10):
                context.append(user(f"entry {number}"), key=f"entry-{number}")

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    with refold.open("guest", store=store) as context:
        keys = [slot.message.key for slot in context.view.slots]
    assert sorted(keys) == sorted(f"entry-{number}" for number in range(10))


@given(st.lists(st.sampled_from("abc"), max_size=12))
@settings(max_examples=30, deadline=None)
def test_each_key_stands_once(keys):
    with refold.open("guest", store="memory:") as context:
        for key in keys:
            context.append(user(f"text of {key}"), key=key)
        assert [slot.message.key for slot in context.view.slots] == list(dict.fromkeys(keys))


@pytest.mark.parametrize("key", ["k" * 501, "a\nb", "\ud800", "\x00", 5, None, b"k"])
def test_a_key_that_cannot_be_one_is_refused(context, key):
    with pytest.raises(Invalid, match="key"):
        context.append(user("hello"), key=key)
    assert context.view.slots == ()


# --- usage apart from its reply ---

SHAPES = [
    {"input_tokens": 12, "output_tokens": 3, "cache_read_input_tokens": 5},
    {"prompt_tokens": 17, "completion_tokens": 3, "total_tokens": 20},
    {"input_tokens": 17, "output_tokens": 3, "total_tokens": 20, "input_tokens_details": {}},
    {"promptTokenCount": 17, "candidatesTokenCount": 3},
    refold.Usage(input=17, output=3),
]


@pytest.mark.parametrize("usage", SHAPES, ids=["anthropic", "chat", "responses", "gemini", "ours"])
def test_a_usage_alone_is_billed_once(context, usage):
    context.append(user("hello there, how are you today"))
    context.request()
    context.record(usage=usage)
    context.record(model("fine"))
    totals = context.view.totals
    assert (totals.calls, totals.input, totals.output) == (1, 17, 3)


def test_a_usage_belongs_to_what_its_request_showed(context):
    """In observe mode nobody calls `request`: the reply stands before its usage comes."""
    seqs = [context.append(user("word " * 200))[0].seq]
    context.append(model("answer " * 200))
    context.record(usage={"input_tokens": 210, "output_tokens": 200})
    assert context.view.anchor.upto == seqs[0]
    context.append(user("more " * 200))
    context.append(model("short"))
    context.record(usage={"input_tokens": 620, "output_tokens": 5}, upto=context.view.head - 2)
    assert context.view.anchor.upto == context.view.head - 3
    assert context.budget.factor == pytest.approx(1.0, abs=0.3)


def test_a_reply_and_a_usage_given_with_it(context):
    context.append(user("hello there, how are you today"))
    context.record(model("fine"), usage={"input_tokens": 17, "output_tokens": 3})
    assert context.view.totals.input == 17


@pytest.mark.parametrize("usage", [5, "x", [], {}, {"tokens": 5}, object(), True])
def test_a_usage_without_counts_is_refused(context, usage):
    context.append(user("hello"))
    with pytest.raises(Invalid):
        context.record(usage=usage)
    assert context.view.totals.calls == 0


@pytest.mark.parametrize("upto", [-1, 99, "1", True, 10**400])
def test_upto_is_a_place_in_the_log(context, upto):
    context.append(user("hello"))
    with pytest.raises(Invalid, match="upto"):
        context.record(usage={"input_tokens": 5}, upto=upto)


def test_nothing_to_record_is_refused(context):
    with pytest.raises(Invalid):
        context.record()


# --- compactions made elsewhere ---


def talked(context, turns=6):
    for number in range(turns):
        context.append(user(f"question {number}"))
        context.append(model(f"answer {number} " * 50))
    return context.view.head


def test_a_compaction_made_elsewhere_stands_and_can_be_undone(context):
    last = talked(context)
    before = context.view.slots
    receipt = context.compact(
        span=(1, last), summary="They talked about six questions.", author="claude-code"
    )
    assert receipt.strategy == "claude-code"
    assert receipt.tokens_after < receipt.tokens_before
    assert receipt.messages_hidden == 12
    [slot] = context.view.slots
    assert slot.message.blocks[0].text == "They talked about six questions."
    assert context.view.request == 0
    context.append(user("and now?"))
    assert context.request()["messages"]
    assert reopened(context) == context.view
    assert context.undo().batch == receipt.batch
    assert context.view.slots[: len(before)] == before
    assert reopened(context) == context.view


def test_pins_outlive_a_compaction_made_elsewhere(context):
    last = talked(context)
    pinned = context.view.slots[4].seq
    context.pin(pinned)
    context.compact(span=(1, last), summary="Six questions.", author="codex")
    assert pinned in [slot.seq for slot in context.view.slots]


def test_facts_go_on_after_a_compaction_made_elsewhere(context):
    call = {"type": "tool_use", "id": "t1", "name": "write_file", "input": {"path": "a/b.py"}}
    context.append(user("write it"))
    context.append({"role": "assistant", "content": [call]})
    context.append_result("t1", "ok")
    context.compact(span=(1, context.view.head), summary="Wrote a file.", author="codex")
    assert any(fact.kind == "file" and "a/b.py" in fact.text for fact in context.view.facts)


def test_a_span_that_parts_a_pair_is_refused_with_the_whole_one(context):
    call = {"type": "tool_use", "id": "t1", "name": "ls", "input": {}}
    first = context.append(user("go"))[-1].seq
    called = context.append({"role": "assistant", "content": [call]})[-1].seq
    answered = context.append_result("t1", "a.py")[-1].seq
    with pytest.raises(Invalid) as refused:
        context.compact(span=(first, called), summary="text", author="x")
    assert f"({first}, {answered})" in refused.value.hint
    assert context.compact(span=(first, answered), summary="text", author="x")


@pytest.mark.parametrize(
    ("span", "text", "by"),
    [
        ((1, 1), " ", "x"),
        ((1, 1), "text", ""),
        ((0, 0), "text", "x"),
        ((5, 1), "text", "x"),
        ((90, 99), "text", "x"),
        ((1,), "text", "x"),
        ("11", "text", "x"),
        (None, "text", "x"),
        ((1, 1), 5, "x"),
        ((1, 10**400), "text", 5),
    ],
)
def test_what_cannot_be_adopted_is_refused(context, span, text, by):
    talked(context, turns=1)
    head = context.view.head
    with pytest.raises(Invalid):
        context.compact(span=span, summary=text, author=by)
    assert context.view.head == head


# --- notes ---

DATA = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)


@given(DATA)
@settings(max_examples=40, deadline=None)
def test_a_note_comes_back_as_it_was_given(data):
    with refold.open("guest", store="memory:") as context:
        context.append(user("hello"))
        page = context.request()
        context.note("state", data, by="adapter")
        [noted] = context.log.notes()
        assert (noted.kind, noted.data, noted.by) == ("state", data, "adapter")
        assert context.request() == page
        assert reopened(context) == context.view


def test_notes_by_kind_and_after_a_restore(context):
    context.append(user("hello"))
    context.note("title", "First")
    place = context.checkpoint("here")
    context.note("title", "Second")
    context.note("progress", {"done": 0.5})
    assert [one.data for one in context.log.notes("title")] == ["First", "Second"]
    context.restore(place)
    assert [one.data for one in context.log.notes()] == ["First"]
    context.undo()
    assert len(context.log.notes()) == 3


def test_a_note_begins_a_conversation(context):
    [event] = context.note("imported-from", {"file": "session.jsonl"}, at=MAY - timedelta(days=1))
    assert event.kind == "note"
    assert context.view.slots == ()


@pytest.mark.parametrize("kind", ["", "k" * 101, 5, None])
def test_a_kind_of_note_is_a_short_text(context, kind):
    with pytest.raises(Invalid):
        context.note(kind, {})
    assert context.log.notes() == []


@pytest.mark.parametrize("data", [{1, 2}, object(), lambda: 0])
def test_what_json_cannot_hold_is_refused(context, data):
    with pytest.raises(Invalid):
        context.note("state", data)
    assert context.log.notes() == []


def test_exports_carry_notes_and_redacted_ones_redact_them(context, tmp_path):
    secret = "AKIA" + "IOSFODNN7EXAMPLE"
    context.append(user("hello"))
    context.note("state", {"settings": [{"id": secret}]})
    whole, redacted = tmp_path / "whole.json", tmp_path / "redacted.json"
    context.log.export(str(whole), secrets=True)
    context.log.export(str(redacted), secrets=False)
    assert secret in whole.read_text()
    assert "settings" in redacted.read_text()
    assert secret not in redacted.read_text()


# --- what triers found ---


def test_a_page_that_another_compacted_breaks_no_law(context):
    context.append(user("hello"))
    first = context.view.slots[0].seq
    context.compact(span=(first, first), summary="They said hello.", author="x")
    assert context.view.request == 0
    assert broken(context.view) == []


def test_a_message_that_brings_its_key_is_held_to_it(context):
    context.append(user("hello"), key="k")
    again = context.view.slots[0].message
    assert context.append(again) == []
    with pytest.raises(Invalid, match="key"):
        context.append(replace(again, key="a\x00b"))
    assert len(context.view.slots) == 1


@pytest.mark.parametrize("value", [None, 1.5, [], {}, b"5"])
@pytest.mark.parametrize("field", ["input", "output", "cache_read", "upto", "replied"])
def test_a_usage_of_wrong_types_is_refused(context, field, value):
    context.append(user("hello"))
    head = context.view.head
    with pytest.raises(Invalid):
        context.record(usage=refold.Usage(**{field: value}))
    assert context.view.head == head


@settings(deadline=None)
@given(st.lists(st.sampled_from(["note", "message", "restore", "undo", "clear"]), max_size=12))
def test_notes_after_a_seq_are_the_newest_of_all(steps):
    with refold.open("a", store="memory:") as context:
        for number, step in enumerate(steps):
            match step:
                case "note":
                    context.note("n", number)
                case "message":
                    context.append({"role": "user", "content": str(number)})
                case "restore" if context.view.head:
                    context.restore(max(1, context.view.head // 2))
                case "undo":
                    with suppress(refold.RefoldError):
                        context.undo()
                case "clear":
                    context.clear()
        standing = context.log.notes()
        for after in range(context.view.head + 1):
            assert context.log.notes(after=after) == [one for one in standing if one.seq > after]
