"""Thinking comes back under the front it was made at, or not at all."""

from __future__ import annotations

import pytest

from tests.real.proxy.strict.anthropic_thinking import BETA
from tests.real.proxy.strict.talks import MODEL, OLDER, Talk, call, result, text, thought, worked

ASK = {"role": "user", "content": "go on"}
BOUND = "bound to a different conversation"


def refused(talk: Talk, messages) -> str:
    answer = talk.post([*messages, ASK])
    assert isinstance(answer, tuple), "it was taken"
    assert answer[0] == 400
    return answer[1]["message"]


def without(messages, keep=lambda at: False):
    """The messages without thinking, but for that of the messages that are kept."""
    kept = [dict(message) for message in messages]
    for at, message in enumerate(kept):
        if message["role"] == "assistant" and not keep(at):
            blocks = [one for one in message["content"] if one["type"] != "thinking"]
            message["content"] = blocks
    return kept


def test_a_changed_text_breaks_its_signature():
    talk = worked(2)
    messages = talk.copy()
    messages[1]["content"][0]["thinking"] += "!"
    assert (
        refused(talk, messages) == "messages.1.content.0: Invalid `signature` in `thinking` block"
    )


def test_a_signature_of_others_is_refused():
    talk = worked(1)
    messages = talk.copy()
    messages[1]["content"][0]["signature"] = "c2lnbmF0dXJl"
    assert "Invalid `signature`" in refused(talk, messages)


def test_a_signature_of_another_block_is_refused():
    talk = worked(2)
    messages = talk.copy()
    messages[3]["content"][0]["signature"] = messages[1]["content"][0]["signature"]
    assert "Invalid `signature`" in refused(talk, messages)


def change_request(messages):
    messages[0]["content"] = "another step"


def change_result(messages):
    messages[2]["content"][0]["content"] = "[cleared]"


def drop_turn(messages):
    del messages[0:4]


def add_reminder(messages):
    messages[0]["content"] = [text("step 0"), text("<system-reminder>x</system-reminder>")]


def leave_one_out(messages):
    del messages[3]["content"][0]


def move_one(messages):
    messages[3]["content"].insert(0, messages[1]["content"].pop(0))


EDITS = [change_request, change_result, drop_turn, add_reminder, leave_one_out, move_one]


@pytest.mark.parametrize("edit", EDITS)
def test_a_changed_front_is_refused(edit):
    talk = worked(4)
    messages = talk.copy()
    edit(messages)
    assert BOUND in refused(talk, messages)


@pytest.mark.parametrize("edit", EDITS)
def test_an_older_model_looks_at_the_block_alone(edit):
    talk = worked(4, model=OLDER)
    messages = talk.copy()
    edit(messages)
    assert isinstance(talk.post([*messages, ASK]), dict)


@pytest.mark.parametrize("edit", EDITS)
def test_without_any_thinking_every_edit_is_taken(edit):
    talk = worked(4)
    messages = talk.copy()
    edit(messages)
    assert isinstance(talk.post([*without(messages), ASK]), dict)


def test_a_naive_fold_is_refused():
    """The oldest half dropped, as many tools do it, between two turns and inside of one."""
    talk = worked(8)
    half = len(talk.messages) // 2
    assert BOUND in refused(talk, talk.messages[half:])
    assert "unexpected `tool_use_id`" in refused(talk, talk.messages[half + 2 :])
    summary = {"role": "user", "content": "Summary of what was done."}
    assert BOUND in refused(talk, [summary, *talk.messages[half + 1 :]])


def test_changed_system_and_tools_change_the_front():
    talk = worked(2, beside={"system": "Be brief."})
    talk.beside = {"system": "Be long."}
    assert BOUND in refused(talk, talk.messages)
    talk.beside = {"system": "Be brief.", "tools": [{"name": "read", "input_schema": {}}]}
    assert BOUND in refused(talk, talk.messages)


def test_cache_marks_text_or_list_and_deferred_tools_are_no_change():
    read = {"name": "read", "input_schema": {}}
    talk = worked(2, beside={"system": "Be brief.", "tools": [read]})
    deferred = {"name": "later", "input_schema": {}, "defer_loading": True}
    marked = text("Be brief.") | {"cache_control": {"type": "ephemeral"}}
    talk.beside = {"system": [marked], "tools": [read, deferred]}
    messages = talk.copy()
    messages[0]["content"] = [text(messages[0]["content"])]
    assert isinstance(talk.post([*messages, ASK]), dict)


def test_the_oldest_thinking_may_be_left_out():
    talk = worked(4)
    assert isinstance(talk.post([*without(talk.messages, lambda at: at > 6), ASK]), dict)
    assert BOUND in refused(talk, without(talk.messages, lambda at: at != 7))


def test_what_does_not_fit_is_dropped_where_that_is_asked_for():
    talk = worked(3)
    messages = talk.copy()
    change_result(messages)
    binding = {"prefix_mismatch_behavior": "drop_block"}
    talk.beside = {"thinking": {"type": "adaptive", "block_binding": binding}}
    assert BETA in refused(talk, messages)
    talk.headers["anthropic-beta"] = BETA
    dropped = talk.post([*messages, ASK])["input_transformations"]
    assert {one["reason"] for one in dropped} == {"prefix_binding_mismatch"}
    places = [f"messages.{at}.content.0" for at in (3, 5, 7, 9, 11)]
    assert [one["path"] for one in dropped] == places


def test_what_is_thought_after_a_drop_stays_valid_while_it_is_asked_for():
    talk = worked(2)
    change_result(talk.messages)
    binding = {"prefix_mismatch_behavior": "drop_block"}
    talk.beside = {"thinking": {"type": "adaptive", "block_binding": binding}}
    talk.headers["anthropic-beta"] = BETA
    talk.say("more", [thought("new"), text("yes")])
    dropped = talk.post([*talk.messages, ASK])["input_transformations"]
    assert [one["path"] for one in dropped] == ["messages.3.content.0", "messages.5.content.0",
                                                "messages.7.content.0"]  # fmt: skip


def test_thinking_of_another_model_or_account_is_dropped_and_told():
    talk = worked(1)
    talk.headers["anthropic-beta"] = BETA
    talk.model = "claude-sonnet-5-5"
    told = talk.post([*talk.messages, ASK])["input_transformations"]
    assert {one["reason"] for one in told} == {"model_binding_mismatch"}
    talk.headers["x-api-key"] = "another"
    told = talk.post([*talk.messages, ASK])["input_transformations"]
    assert {one["reason"] for one in told} == {"organization_binding_mismatch"}


def test_two_models_in_turn_each_read_their_own():
    talk = worked(2)
    talk.model = "claude-sonnet-5-5"
    talk.say("and now", [thought("mine"), text("yes")])
    talk.model = MODEL
    talk.say("back", [thought("mine again"), text("yes")])
    assert isinstance(talk.post([*talk.messages, ASK]), dict)


def test_older_accounts_are_only_held_to_it_where_they_ask():
    talk = worked(2)
    talk.upstream.settings.enforces_prefix = False
    messages = talk.copy()
    change_result(messages)
    assert isinstance(talk.post([*messages, ASK]), dict)
    talk.beside = {"thinking": {"block_binding": {"prefix_mismatch_behavior": "error"}}}
    talk.headers["anthropic-beta"] = BETA
    assert BOUND in refused(talk, messages)


def test_a_model_that_drops_by_itself_is_played_too():
    talk = worked(2)
    talk.upstream.settings.drops_by_default = True
    messages = talk.copy()
    change_result(messages)
    assert isinstance(talk.post([*messages, ASK]), dict)


def test_a_fallback_keeps_its_place_between_thinking():
    """T4."""
    talk = Talk()
    hop = {"type": "fallback", "from": "claude-opus-5-5", "to": "claude-opus-5-5"}
    talk.say("go", [thought("one"), hop, thought("two"), text("done")])
    messages = talk.copy()
    messages[1]["content"].remove(hop)
    assert BOUND in refused(talk, messages)
    assert isinstance(talk.post([*talk.messages, ASK]), dict)


@pytest.mark.parametrize("model", [MODEL, OLDER])
def test_an_open_loop_begins_with_thinking_on_older_models(model):
    """T5."""
    talk = Talk(model, beside={"thinking": {"type": "enabled", "budget_tokens": 1_024}})
    talk.say("go", [thought("one"), call("a")])
    talk.messages[1]["content"].pop(0)
    answer = talk.post([*talk.messages, {"role": "user", "content": [result("a")]}])
    if model == OLDER:
        assert "Expected `thinking` or `redacted_thinking`" in answer[1]["message"]
    else:
        assert isinstance(answer, dict)


def test_redacted_thinking_is_sealed_like_the_rest():
    talk = Talk()
    talk.say("go", [{"type": "redacted_thinking"}, text("done")])
    assert isinstance(talk.post([*talk.messages, ASK]), dict)
    messages = talk.copy()
    messages[0]["content"] = "come"
    assert BOUND in refused(talk, messages)
