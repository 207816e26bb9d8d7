"""What the upstream refuses about Chat Completions and Responses."""

from __future__ import annotations

import pytest

from tests.real.proxy.strict.server import Upstream
from tests.real.proxy.strict.settings import Settings
from tests.real.proxy.strict.talks import posted

KEY = {"authorization": "Bearer key"}
ASK = {"role": "user", "content": "go on"}
THOUGHT = {"type": "reasoning", "summary": []}
CALL = {"type": "function_call", "call_id": "a", "name": "read", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "a", "output": "fine"}


@pytest.fixture
def upstream():
    return Upstream(Settings())


def refused(upstream, path, body):
    status, answer = posted(upstream, path, {"model": "gpt-5", **body}, KEY)
    assert status in (400, 404), answer
    assert answer["error"]["type"] == "invalid_request_error"
    return answer["error"]["message"]


def taken(upstream, path, body):
    status, answer = posted(upstream, path, {"model": "gpt-5", **body}, KEY)
    assert status == 200, answer
    return answer


# --- Chat Completions ---


def calling(*ids):
    function = {"name": "read", "arguments": "{}"}
    calls = [{"id": id, "type": "function", "function": function} for id in ids]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def answer(id):
    return {"role": "tool", "tool_call_id": id, "content": "fine"}


CHAT = {
    "no result (P3)": ([ASK, calling("a", "b"), ASK], "did not have response messages: a, b"),
    "at the end (P3)": ([ASK, calling("a")], "did not have response messages: a"),
    "one of two (P3)": ([ASK, calling("a", "b"), answer("a"), ASK], "messages: b"),
    "an orphan (P3)": ([ASK, answer("a")], "must be a response to a preceeding message"),
    "said between (P3)": ([ASK, calling("a"), ASK, answer("a")], "did not have"),
    "twice (P3)": ([ASK, calling("a"), answer("a"), answer("a")], "preceeding"),
    "empty (A2)": ([{"role": "user", "content": []}], "empty array"),
    "an empty text (A2)": ([{"role": "user", "content": [{"type": "text", "text": ""}]}], "empty"),
    "no content (A2)": ([{"role": "assistant", "content": None}], "got null"),
    "nothing": ([], "minimum length 1"),
    "an image in a result (I1)": (
        [ASK, calling("a"), {**answer("a"), "content": [{"type": "image_url", "image_url": {"url": "https://x"}}]}],
        "image_url",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CHAT)
def test_chat_rules(name, upstream):
    messages, words = CHAT[name]
    assert words in refused(upstream, "/v1/chat/completions", {"messages": messages})


def test_a_valid_chat_is_taken_and_reads_its_cache(upstream):
    messages = [{"role": "system", "content": "word " * 2_000}, ASK]
    first = taken(upstream, "/v1/chat/completions", {"messages": messages})
    messages += [first["choices"][0]["message"], ASK, calling("a", "b"), answer("b"), answer("a")]
    second = taken(upstream, "/v1/chat/completions", {"messages": messages})
    reads = [one["usage"]["prompt_tokens_details"]["cached_tokens"] for one in (first, second)]
    assert reads[0] == 0
    assert reads[1] == first["usage"]["prompt_tokens"]


# --- Responses ---


def respond(upstream, items, **more):
    return taken(upstream, "/v1/responses", {"input": items, **more})["output"]


def test_a_loop_that_repeats_what_it_was_told_is_taken(upstream):
    upstream.script.add([THOUGHT, CALL])
    said = respond(upstream, [ASK], store=False)
    assert [item["type"] for item in said] == ["reasoning", "function_call"]
    respond(upstream, [ASK, *said, OUTPUT], store=False)


def drop_reasoning(said):
    return [ASK, said[1], OUTPUT]


def drop_follower(said):
    return [ASK, said[0], ASK]


def drop_output(said):
    return [ASK, *said]


def drop_call(said):
    return [ASK, OUTPUT]


def strip_content(said):
    bare = {key: value for key, value in said[0].items() if key != "encrypted_content"}
    return [ASK, bare, said[1], OUTPUT]


def change_content(said):
    return [ASK, {**said[0], "encrypted_content": "gAAAA"}, said[1], OUTPUT]


def repeat(said):
    return [ASK, *said, OUTPUT, {**said[1], "call_id": "b"}, {**OUTPUT, "call_id": "b"}]


def wrong_prefix(said):
    return [ASK, {**said[1], "id": "call_1"}, OUTPUT]


def answer_first(said):
    return [ASK, OUTPUT, *said]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (drop_reasoning, "without its required 'reasoning' item"),
        (drop_follower, "without its required following item"),
        (drop_output, "No tool output found for function call a"),
        (drop_call, "No tool call found for function call output"),
        (answer_first, "No tool call found for function call output"),
        (strip_content, "not found. Items are not persisted"),
        (change_content, "could not be verified"),
        (repeat, "Duplicate item found"),
        (wrong_prefix, "begins with 'fc'"),
    ],
)
def test_items_belong_together(change, words, upstream):
    """P4, P5, P6."""
    upstream.script.add([THOUGHT, CALL])
    said = respond(upstream, [ASK], store=False)
    body = {"input": change(said), "store": False}
    assert words in refused(upstream, "/v1/responses", body)


def test_without_its_id_an_item_needs_no_reasoning(upstream):
    upstream.script.add([THOUGHT, CALL])
    said = respond(upstream, [ASK], store=False)
    bare = {key: value for key, value in said[1].items() if key != "id"}
    respond(upstream, [ASK, bare, OUTPUT], store=False)


def test_what_was_stored_is_known_by_its_id(upstream):
    upstream.script.add([THOUGHT, CALL])
    said = respond(upstream, [ASK])
    references = [{"type": "item_reference", "id": item["id"]} for item in said]
    respond(upstream, [ASK, *references, OUTPUT])
    strange = [{"type": "item_reference", "id": "msg_0"}]
    assert "not found" in refused(upstream, "/v1/responses", {"input": strange})


def test_a_chain_goes_on_from_a_stored_response(upstream):
    """P7."""
    upstream.script.add([THOUGHT, CALL])
    first = taken(upstream, "/v1/responses", {"input": [ASK]})
    body = {"input": [OUTPUT], "previous_response_id": first["id"]}
    taken(upstream, "/v1/responses", body)
    assert "No tool output" in refused(
        upstream, "/v1/responses", {"input": [ASK], "previous_response_id": first["id"]}
    )
    gone = {"input": [OUTPUT], "previous_response_id": "resp_0"}
    assert "not found" in refused(upstream, "/v1/responses", gone)


def test_a_compaction_stands_for_what_was_before_it(upstream):
    upstream.script.add([THOUGHT, CALL])
    said = respond(upstream, [ASK], store=False)
    body = {"input": [ASK, *said, OUTPUT], "store": False}
    output = taken(upstream, "/v1/responses/compact", body)["output"]
    assert [item.get("type", "message") for item in output] == ["message", "compaction"]
    respond(upstream, [*output, ASK], store=False)
    output[1]["encrypted_content"] += "A"
    assert "could not be verified" in refused(upstream, "/v1/responses", {"input": [*output, ASK]})


def test_what_is_too_long_says_so(upstream):
    upstream.settings.window = 100
    long = {"role": "user", "content": "word " * 1_000}
    assert "maximum context length" in refused(
        upstream, "/v1/chat/completions", {"messages": [long]}
    )
    assert "context window" in refused(upstream, "/v1/responses", {"input": [long]})
