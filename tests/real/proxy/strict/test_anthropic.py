"""What the upstream refuses about messages: each rule broken once, and kept once."""

from __future__ import annotations

import pytest

from tests.real.proxy.strict.talks import MODEL, OLDER, Talk, call, posted, result, text, worked

ASK = {"role": "user", "content": "go on"}


def refused(talk: Talk, messages):
    answer = talk.post(messages)
    assert isinstance(answer, tuple), answer
    status, error = answer
    assert (status, error["type"]) == (400, "invalid_request_error")
    return error["message"]


def said(role, *blocks):
    return {"role": role, "content": list(blocks)}


def test_a_session_that_only_grows_is_never_refused():
    talk = worked(6)
    assert isinstance(talk.post([*talk.messages, ASK]), dict)
    assert talk.upstream.refusals == []


CALLED = [ASK, said("assistant", call("a"), call("b"))]

PAIRS = {
    "no result (P1)": ([*CALLED, ASK], "without `tool_result` blocks immediately after: a, b"),
    "one result (P1)": ([*CALLED, said("user", result("a"))], "immediately after: b"),
    "at the end (P1)": (CALLED, "does not support assistant message prefill"),
    "text first (P1)": (
        [*CALLED, said("user", text("x"), result("a"), result("b"))],
        "must come first",
    ),
    "twice (P1)": (
        [*CALLED, said("user", result("a"), result("b"), result("a"))],
        "a single result",
    ),
    "an orphan (P2)": ([said("user", result("z"))], "unexpected `tool_use_id`"),
    "an orphan beside another (P2)": (
        [*CALLED, said("user", result("a"), result("b"), result("z"))],
        "unexpected `tool_use_id`",
    ),
    "the call is gone (P2)": (
        [ASK, said("assistant", text("x")), said("user", result("a"))],
        "unexpected `tool_use_id`",
    ),
    "an id again": (
        [*CALLED, said("user", result("a"), result("b")), said("assistant", call("a")),
         said("user", result("a"))],
        "must be unique",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PAIRS)
def test_calls_and_results_pair(name):
    messages, words = PAIRS[name]
    assert words in refused(Talk(), messages)


def test_results_in_the_next_message_are_taken():
    assert isinstance(
        Talk().post([*CALLED, said("user", result("a"), result("b"), text("x"))]), dict
    )


SHAPES = {
    "nothing": ([], "at least one message"),
    "an empty list": ([{"role": "user", "content": []}], "non-empty content"),
    "an empty text": ([said("user", text(""))], "non-empty"),
    "a blank text": ([said("user", text(" \n"))], "non-whitespace"),
    "a blank string": ([{"role": "user", "content": " "}], "non-empty"),
    "another role": ([{"role": "tool", "content": "x"}], "role"),
    "assistant first": ([said("assistant", text("x")), ASK], 'must use the "user" role'),
    "a prefill": ([ASK, said("assistant", text("x"))], "prefill"),
    "an unknown block": ([said("user", {"type": "picture"})], "expected tags"),
    "thinking of a user": ([said("user", {"type": "thinking"})], "not permitted"),
    "an input that is text": (
        [ASK, said("assistant", {**call("a"), "input": "{}"}), said("user", result("a"))],
        "dictionary",
    ),
    "a system message first": ([{"role": "system", "content": "x"}, ASK], '"user" role'),
    "a system message after an answer": (
        [ASK, said("assistant", text("x")), {"role": "system", "content": "x"}, ASK],
        "directly follow",
    ),
}


@pytest.mark.parametrize("name", SHAPES)
def test_shapes(name):
    messages, words = SHAPES[name]
    assert words in refused(Talk(), messages)


def test_an_older_model_takes_a_prefill_but_no_blank_at_its_end():
    talk = Talk(OLDER)
    assert isinstance(talk.post([ASK, said("assistant", text("So"))]), dict)
    assert "trailing whitespace" in refused(talk, [ASK, said("assistant", text("So "))])


def test_at_most_four_cache_marks_and_none_on_thinking():
    mark = {"cache_control": {"type": "ephemeral"}}
    blocks = [text(str(n)) | mark for n in range(5)]
    assert "maximum of 4" in refused(Talk(), [said("user", *blocks)])
    assert isinstance(Talk().post([said("user", *blocks[:4])]), dict)
    assert "maximum of 4" in refused(Talk(beside=mark), [said("user", *blocks[:4])])
    talk = worked(1)
    talk.messages[1]["content"][0] |= mark
    assert "thinking" in refused(talk, [*talk.messages, ASK])


def test_an_hour_comes_before_five_minutes():
    short = {"cache_control": {"type": "ephemeral"}}
    long = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
    assert "1h" in refused(Talk(), [said("user", text("a") | short, text("b") | long)])
    assert isinstance(Talk().post([said("user", text("a") | long, text("b") | short)]), dict)


def test_a_key_and_a_version_are_needed():
    talk = Talk()
    request = talk.request([ASK])
    status, body = posted(talk.upstream, "/v1/messages", request, {})
    assert (status, body["error"]["type"]) == (401, "authentication_error")
    assert posted(talk.upstream, "/v1/messages", request, {"x-api-key": "k"})[0] == 400


def test_what_is_too_long_is_refused_with_both_figures():
    talk = Talk()
    talk.upstream.settings.window = 1_000
    messages = [{"role": "user", "content": "word " * 2_000}]
    counted = talk.post(messages, "/v1/messages/count_tokens")["input_tokens"]
    assert refused(talk, messages) == f"prompt is too long: {counted} tokens > 1000 maximum"


def test_counting_gives_what_is_billed():
    talk = worked(2)
    messages = [*talk.messages, ASK]
    usage = talk.post(messages)["usage"]
    billed = sum(usage[f"{part}input_tokens"] for part in ("", "cache_creation_", "cache_read_"))
    assert talk.post(messages, "/v1/messages/count_tokens") == {"input_tokens": billed}


def test_the_cache_reads_what_it_wrote_and_only_behind_marks():
    mark = {"cache_control": {"type": "ephemeral"}}
    talk = Talk(MODEL, beside={"system": [text("word " * 2_000) | mark]})
    first = talk.say("one")["usage"]
    second = talk.say("two")["usage"]
    assert first["cache_creation_input_tokens"] > 1_024 > first["cache_read_input_tokens"] == 0
    assert second["cache_read_input_tokens"] == first["cache_creation_input_tokens"]
    talk.beside["system"][0]["text"] += "!"
    assert talk.say("three")["usage"]["cache_read_input_tokens"] == 0


def test_moving_the_mark_keeps_the_front_cached():
    talk = Talk(MODEL, beside={"cache_control": {"type": "ephemeral"}})
    reads = [talk.say("word " * 1_500)["usage"]["cache_read_input_tokens"] for _ in range(4)]
    assert reads == sorted(reads) and reads[-1] > reads[1] > 0
