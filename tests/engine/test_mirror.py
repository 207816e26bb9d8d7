"""A history that somebody else owns: whatever its owner does to the list, the page is that of a
fresh fold of it, and nothing is written twice."""

from __future__ import annotations

import copy
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import refold
from refold.engine.mirror import Unchanging
from refold.errors import Denied, Invalid
from refold.stores import open_store
from refold.stores.protocol import Store

Wire = dict[str, Any]


def user(text: str) -> Wire:
    return {"role": "user", "content": text}


def assistant(text: str) -> Wire:
    return {"role": "assistant", "content": text}


def call(id: str, name: str = "read") -> Wire:
    function = {"name": name, "arguments": '{"path": "a.py"}'}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": id, "type": "function", "function": function}],
    }


def result(id: str, text: str) -> Wire:
    return {"role": "tool", "tool_call_id": id, "content": text}


def talk(length: int, name: str = "m") -> list[Wire]:
    """A talk with calls and results among its messages."""
    out: list[Wire] = []
    for number in range(length):
        kinds = (
            user(f"{name}{number} please"),
            call(f"{name}{number}"),
            result(f"{name}{number - 1}", f"line of {name}{number}"),
            assistant(f"{name}{number} done"),
        )
        out.append(kinds[number % 4])
    return out


def fresh_page(messages: list[Wire], **given: Any) -> list[Wire]:
    with refold.open("fresh", store="memory:", **given) as context:
        for message in messages:
            context.append(message)
        return [one.message for one in context.page(settle=False)]


def page_of(context: refold.Context) -> list[Wire]:
    return [one.message for one in context.page(settle=False)]


def messages_in(store: Store, id: str) -> int:
    return sum(event.kind == "message" for event in store.read(id))


@pytest.fixture
def store() -> Store:
    return open_store("memory:")


def test_a_list_that_comes_again_writes_nothing(store):
    with refold.open("c", store=store) as context:
        assert context.mirror(talk(6)).kind == "grown"
        head = context.view.head
        again = context.mirror(talk(6))
        assert (again.kind, again.first_new, again.conversation) == ("same", 6, "c")
        assert context.view.head == head
        assert page_of(context) == fresh_page(talk(6))


def test_a_list_that_grew_appends_the_rest(store):
    with refold.open("c", store=store) as context:
        context.mirror(talk(4))
        grown = context.mirror(talk(7))
        assert (grown.kind, grown.first_new) == ("grown", 4)
        assert messages_in(store, "c") == 7
        seqs = [seq for one in grown.seqs for seq in one]
        assert [slot.seq for slot in context.view.slots] == seqs


def test_what_is_said_twice_is_kept_twice(store):
    messages = [user("go on"), assistant("ok"), user("go on"), assistant("ok")]
    with refold.open("c", store=store) as context:
        context.mirror(messages[:2])
        context.mirror(messages)
        assert page_of(context) == fresh_page(messages)


def test_fronts_outlive_the_process(tmp_path):
    url = f"sqlite:{tmp_path}/a.db"
    with refold.open("c", store=url) as context:
        context.mirror(talk(5))
    with refold.open("c", store=url) as context:
        assert context.mirror(talk(5)).kind == "same"
        assert context.mirror(talk(8)).first_new == 5


def test_a_large_result_is_known_again_after_a_restart(tmp_path):
    url = f"sqlite:{tmp_path}/a.db"
    large = "\n".join(f"line {number} of a long output" for number in range(4_000))
    messages = [user("read"), call("k"), result("k", large)]
    with refold.open("c", store=url, window=16_000) as context:
        context.mirror(messages)
        assert context.artifacts.list()
    with refold.open("c", store=url, window=16_000) as context:
        assert context.mirror([*messages, assistant("done")]).first_new == 3


def test_a_recorded_reply_that_the_owner_repeats_is_the_same(store):
    response = {
        "id": "r1", "object": "chat.completion", "model": "gpt-4o",
        "choices": [{"index": 0, "finish_reason": "stop",
                     "message": {"role": "assistant", "content": "hello"}}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12},
    }  # fmt: skip
    with refold.open("c", store=store, model="gpt-4o") as context:
        context.mirror([user("hi")])
        context.record(response)
        again = context.mirror([user("hi"), assistant("hello"), user("more")])
        assert (again.kind, again.first_new) == ("grown", 2)
        assert messages_in(store, "c") == 3


@pytest.mark.parametrize("kept", [3, 4])
def test_a_change_in_the_last_two_messages_amends_them(store, kept):
    changed = [*talk(kept), user("other words"), assistant("other answer")]
    with refold.open("c", store=store) as context:
        context.mirror(talk(5))
        amended = context.mirror(changed)
        assert (amended.kind, amended.conversation) == ("amended", "c")
        assert page_of(context) == fresh_page(changed)
        assert context.mirror(changed).kind == "same"


def test_a_change_in_an_answer_of_many_items_amends_it(store):
    calls = [
        {"type": "function_call", "call_id": f"c{at}", "name": "read", "arguments": "{}"}
        for at in range(3)
    ]
    with refold.open("c", store=store, model="gpt-5") as context:
        context.mirror([user("go"), assistant("I look."), *calls])
        amended = context.mirror([user("go"), assistant("I look"), *calls])
        assert (amended.kind, amended.conversation) == ("amended", "c")
        assert context.view.slots[1].message.blocks[0].text == "I look"


def test_any_other_difference_forks(store):
    changed = [*talk(2), user("another way"), assistant("fine")]
    with refold.open("c", store=store) as context:
        context.mirror(talk(9))
        forked = context.mirror(changed)
        assert forked.kind == "forked"
        assert forked.conversation == context.id != "c"
        assert page_of(context) == fresh_page(changed)
        assert store.conversation(context.id).parent == "c"
    with refold.open("c", store=store) as context:
        assert page_of(context) == fresh_page(talk(9))


def test_owners_that_take_turns_do_not_rewrite_the_log(store):
    main, agent = talk(8), [*talk(3), *talk(5, "agent")]
    with refold.open("c", store=store) as context:
        for _ in range(10):
            context.mirror(main)
            context.mirror(agent)
        assert context.mirror(main).kind == "moved"
        assert page_of(context) == fresh_page(main)
        written = sum(len(store.read(about.id)) for about in store.conversations())
        assert written < 30
        assert len(store.conversations()) == 2


def test_a_list_with_nothing_in_common_is_a_conversation_of_its_own(store):
    with refold.open("c", store=store, model="gpt-4o", system="be brief") as context:
        context.mirror(talk(6))
        context.mirror(talk(4, "new"))
        assert context.id != "c"
        assert page_of(context) == fresh_page(talk(4, "new"))
        assert (context.view.model, context.view.system) == ("gpt-4o", "be brief")


TOOL = {"type": "function", "function": {"name": "read", "parameters": {"type": "object"}}}


@given(
    cuts=st.lists(st.integers(0, 12), min_size=1, max_size=4),
    asks=st.lists(st.sampled_from([20_000, 60_000, 90_000]), min_size=5, max_size=5),
    opens=st.lists(st.booleans(), min_size=5, max_size=5),
)
def test_what_an_owner_asked_for_last_holds_wherever_its_list_continues(cuts, asks, opens):
    store, asked = open_store("memory:"), 30_000
    with refold.open("c", store=store, model="gpt-4o", window=asked) as context:
        context.mirror(talk(12), system="be brief")
    id = "c"
    for at, cut in enumerate(cuts):
        if opens[at]:
            asked = asks[at]
        with refold.open(id, store=store, window=asked if opens[at] else None) as context:
            system = f"be brief, {at}"
            context.mirror([*talk(cut), *talk(5, f"other{at % 2}")], system=system, tools=[TOOL])
            assert context.budget.window == asked
            assert (context.view.system, context.view.tools) == (system, [TOOL])
            context.mirror([*talk(cut), *talk(9, f"again{at}")])
            id = context.id
        with refold.open(id, store=store) as context:
            assert (context.budget.window, context.view.model) == (asked, "gpt-4o")
            assert (context.view.system, context.view.tools) == (system, [TOOL])


@pytest.mark.parametrize("strategies", [["gist"], ["clear"], []])
def test_our_own_page_is_known_when_it_comes_back(store, strategies):
    messages = [user("Fix the parser in parser.py " + "really " * 60)]
    for number in range(60):
        messages += [call(f"k{number}"), result(f"k{number}", f"word{number} " * 80)]
    messages.append(assistant("fixed"))
    with refold.open("c", store=store, window=8_000) as context:
        context.mirror(messages)
        context.compact(*strategies)
        own = [one.message for one in context.page()]
        assert own != messages
        assert context.mirror(own).kind == "same"
        grown = context.mirror([*own, user("and now the tests")])
        assert (grown.kind, grown.first_new, context.id) == ("grown", len(own), "c")
        context.compact()
        later = context.mirror([*own, user("and now the tests"), assistant("they pass")])
        assert (later.kind, later.first_new, context.id) == ("grown", len(own) + 1, "c")


@pytest.mark.parametrize(
    "one, other",
    [
        ({"role": "user", "content": "a"}, {"role": "user", "content": [{"type": "text", "text": "a"}]}),
        (
            {"role": "user", "content": [{"type": "text", "text": "a"}]},
            {"role": "user", "content": [{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}]},
        ),
        (
            {"role": "user", "content": [{"type": "text", "text": "a"}]},
            {"role": "user", "content": [
                {"type": "text", "text": "<system-reminder>\nTodos: none\n</system-reminder>"},
                {"type": "text", "text": "a"},
            ]},
        ),
        (
            {"role": "user", "content": "x: cc_version=1; cch=00aa1;\nhello"},
            {"role": "user", "content": "x: cc_version=1; cch=ff3b2;\nhello"},
        ),
        (
            {"type": "message", "role": "assistant", "id": "msg_1", "status": "completed",
             "content": [{"type": "output_text", "text": "a", "annotations": []}]},
            {"type": "message", "role": "assistant", "id": "msg_2", "status": "completed",
             "content": [{"type": "output_text", "text": "a", "annotations": []}]},
        ),
    ],
)  # fmt: skip
def test_what_owners_change_without_meaning_it_changes_nothing(store, one, other):
    rest = talk(6, "later")
    with refold.open("c", store=store, model="claude-sonnet-5-5") as context:
        context.mirror([one, *rest])
        assert context.mirror([other, *rest]).kind == "same"


def test_a_text_about_reminders_is_no_reminder(store):
    text = "<system-reminder>a</system-reminder> is what I saw; why? <system-reminder>b</system-reminder>"
    with refold.open("c", store=store) as context:
        context.mirror([user(text), *talk(6)])
        assert context.mirror([user("something else"), *talk(6)]).kind == "forked"


def test_a_list_that_its_owner_changed_in_place_is_seen(store):
    messages = talk(9)
    with refold.open("c", store=store) as context:
        context.mirror(messages)
        messages[2]["content"] = "[cleared]"
        assert context.mirror(messages).kind == "forked"
        assert page_of(context) == fresh_page(messages)


def test_a_volatile_line_in_the_system_prompt_is_not_written_again(store):
    def system(number: int) -> list[Wire]:
        billing = f"x-anthropic-billing-header: cc_version=2.1; cch={number:05x};"
        return [{"type": "text", "text": billing}, {"type": "text", "text": "You help." * 100}]

    with refold.open("c", store=store, model="claude-sonnet-5-5") as context:
        for number in range(20):
            context.mirror(talk(number % 4 + 1), system=system(number))
    metas = [event for event in store.read("c") if event.kind == "meta"]
    assert len([event for event in metas if b"You help" in event.body]) == 1


def test_malformed_messages_are_refused_and_nothing_is_written(store):
    with refold.open("c", store=store) as context:
        context.mirror(talk(3))
        head = context.view.head
        for bad in ([5], [None], [{"role": 5}], [*talk(3), {"content": {"x": 1}}], "text", {}, 7):
            with pytest.raises(Invalid):
                context.mirror(bad)
        assert context.view.head == head
        assert context.mirror(talk(3)).kind == "same"


def test_a_context_that_only_reads_follows_nobody(tmp_path):
    url = f"sqlite:{tmp_path}/a.db"
    with refold.open("c", store=url) as context:
        context.mirror(talk(3))
    with refold.open("c", store=url, read_only=True) as context, pytest.raises(Denied):
        context.mirror(talk(4))


def test_a_fork_has_its_own_numbers_search_and_artifacts(store):
    with refold.open("c", store=store, window=16_000) as context:
        context.mirror(talk(9))
        context.artifacts.put("kept in the first branch", name="first")
        context.stats()
        context.mirror([*talk(2), user("a zebra"), assistant("striped")])
        assert context.stats().conversation == context.id
        assert not context.artifacts.list()
        assert {hit.conversation for hit in context.search("zebra")} == {context.id}
        context.mirror(talk(9))
        assert [one.artifact.name for one in context.artifacts.list()] == ["first"]


owners = st.lists(
    st.tuples(
        st.sampled_from(["grow", "rewind", "edit", "repeat", "other", "back"]), st.integers(0, 30)
    ),
    max_size=25,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(owners)
def test_whatever_an_owner_does_the_page_is_that_of_a_fresh_fold(deeds):
    """Grow, rewind, edit, repeat, interleave with another list, by two contexts that take turns."""
    lists = [talk(3), talk(2)]
    current = 0
    store = open_store("memory:")
    contexts = [refold.open("c", store=store), refold.open("c", store=store)]
    for names, (deed, number) in enumerate(deeds):
        mine = lists[current]
        if deed == "grow":
            mine += talk(number % 5, f"n{names}-")
        elif deed == "rewind":
            del mine[max(1, len(mine) - number % 6) :]
        elif deed == "edit" and mine:
            mine[number % len(mine)] = user(f"edited {names}")
        elif deed == "other":
            current = 1 - current
        elif deed == "back":
            lists[1 - current] = copy.deepcopy(mine)
        context = contexts[number % 2]
        mirrored = context.mirror(copy.deepcopy(lists[current]))
        assert page_of(context) == fresh_page(lists[current])
        assert len(mirrored.seqs) == len(lists[current])
        assert context.mirror(copy.deepcopy(lists[current])).kind == "same"
        with refold.open(context.id, store=store) as reopened:
            assert page_of(reopened) == page_of(context)


@given(st.lists(st.tuples(st.integers(0, 8), st.sampled_from("abc")), min_size=1, max_size=6))
@settings(max_examples=30, deadline=None)
def test_a_list_that_nobody_changes_is_followed_like_any_other(lists):
    """Each list is the beginning of the one before, with other messages after it."""
    one, other = (refold.open("m", store="memory:") for _ in range(2))
    messages: list[Wire] = [user("begin")]
    for kept, name in lists:
        messages = [*messages[: max(1, kept)], *talk(4, name)]
        followed = one.mirror(Unchanging(messages))
        assert followed == other.mirror(copy.deepcopy(messages))
        assert one.page(settle=False) == other.page(settle=False)


def test_an_empty_list_is_refused_where_there_is_a_history(store):
    with refold.open("c", store=store) as context:
        assert context.mirror([]).kind == "same"
        context.mirror(talk(3))
        with pytest.raises(Invalid, match="empty"):
            context.mirror([])
        assert context.mirror(talk(3)).kind == "same"


# --- what the owner does not know of ---

INSIDE = [call("own", "refold_unfold"), result("own", "the original"), assistant("It is 7.")]
SEEN = assistant("It is 7.")


def test_what_was_said_inside_takes_the_place_of_the_one_message_that_the_owner_has(tmp_path):
    url, begun = f"sqlite:{tmp_path}/a.db", [user("What was it?")]
    with refold.open("c", store=url) as context:
        context.mirror(begun)
        first = context.mirror([*begun, SEEN], inner={1: INSIDE})
        assert first.kind == "grown"
        assert page_of(context) == fresh_page([*begun, *INSIDE])
    later = [*begun, SEEN, user("Thanks.")]
    with refold.open("c", store=url) as context:
        known = context.mirror(later)
        assert (known.kind, known.first_new, known.conversation) == ("grown", 2, "c")
        assert len(known.seqs[1]) == 3
        assert page_of(context) == fresh_page([*begun, *INSIDE, user("Thanks.")])


def test_an_answer_that_the_owner_takes_back_goes_with_what_was_said_inside(store):
    with refold.open("c", store=store) as context:
        begun = [user("What was it?")]
        context.mirror([*begun, SEEN], inner={1: INSIDE})
        amended = context.mirror([*begun, assistant("Never mind.")])
        assert amended.kind == "amended"
        assert page_of(context) == fresh_page([*begun, assistant("Never mind.")])
        again = context.mirror([*begun, SEEN, user("Thanks.")], inner={1: INSIDE})
        assert again.kind == "amended"
        assert page_of(context) == fresh_page([*begun, *INSIDE, user("Thanks.")])


@given(st.lists(st.booleans(), min_size=1, max_size=6))
def test_any_answers_may_have_more_inside_and_the_list_is_known_again(inside):
    messages: list[Wire] = []
    inner: dict[int, list[Wire]] = {}
    whole: list[Wire] = []
    for number, has_more in enumerate(inside):
        asked, said = user(f"question {number}"), assistant(f"answer {number}")
        more = [call(f"own{number}", "refold_grep"), result(f"own{number}", "x"), said]
        if has_more:
            inner[len(messages) + 1] = more
        messages += [asked, said]
        whole += [asked, *(more if has_more else [said])]
    with refold.open("c", store="memory:") as context:
        for upto in range(1, len(messages) + 1):
            context.mirror(messages[:upto], inner=inner)
        assert context.mirror(messages).kind == "same"
        assert page_of(context) == fresh_page(whole)


def written(handed: list[list[Wire]], **config: Any) -> list[tuple[str, bytes]]:
    """What stands in a log after these lists."""
    store = open_store("memory:")
    with refold.open("c", store=store, config=config, embedder=False) as context:
        for messages in handed:
            context.mirror(messages)
    return [(event.kind, event.body) for event in store.read("c")]


@given(st.integers(1, 14), st.lists(st.integers(0, 14), max_size=4), st.booleans())
@settings(deadline=None, max_examples=40)
def test_a_list_handed_over_at_once_is_written_like_one_that_grew(length, stops, is_marked):
    messages = talk(length)
    config = {"checkpoint_every": 2} if is_marked else {}
    grown = [messages[:stop] for stop in sorted({*stops, *range(1, length + 1)}) if stop]
    assert written([messages], **config) == written(grown, **config)


@pytest.mark.parametrize("limit", ["RUN_BYTES_MAX", "RUN_EVENTS_MAX"])
@pytest.mark.parametrize("most", [1, 3, 400])
def test_a_long_list_is_written_in_several_runs_and_is_the_same(monkeypatch, limit, most):
    messages = [*talk(9), call("last"), result("last", "words " * 50), assistant("Done.")]
    whole = written([messages])
    monkeypatch.setattr(f"refold.log.draft.{limit}", most)
    assert written([messages]) == whole


def test_a_run_that_another_writer_was_faster_with_is_written_once(tmp_path):
    url = f"sqlite:{tmp_path}/x.db"
    messages, together = talk(24), threading.Barrier(3)

    def follow() -> None:
        with refold.open("c", store=url) as context:
            for length in range(3, len(messages) + 1, 3):
                together.wait(30)
                context.mirror(messages[:length])

    with ThreadPoolExecutor(3) as threads:
        for done in [threads.submit(follow) for _ in range(3)]:
            done.result(60)
    with refold.open("c", store=url) as context:
        assert page_of(context) == fresh_page(messages)
    assert messages_in(open_store(url), "c") == len(messages)
