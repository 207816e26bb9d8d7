"""A summary of the upstream's own: where it may stand, and what stays valid behind it."""

from __future__ import annotations

import pytest

from tests.real.proxy.strict.anthropic_compaction import BETA
from tests.real.proxy.strict.talks import OLDER, Talk, call, text, thought, worked

ASK = {"role": "user", "content": "go on"}


def compacted(talk: Talk, messages):
    """The block for these messages."""
    talk.headers["anthropic-beta"] = BETA
    talk.beside["compaction"] = {"type": "summarize"}
    answer = talk.post(messages)
    del talk.beside["compaction"]
    assert isinstance(answer, dict), answer
    assert answer["stop_reason"] == "compaction"
    [block] = answer["content"]
    return block


def code_of(answer):
    assert isinstance(answer, tuple), "it was taken"
    return answer[1].get("details", {}).get("error_code")


def test_kept_messages_keep_their_thinking():
    talk = worked(4)
    head = {"role": "assistant", "content": [compacted(talk, talk.messages[:8])]}
    assert isinstance(talk.post([head, *talk.messages[8:], ASK]), dict)


def test_and_go_on_with_new_thinking():
    talk = worked(4)
    talk.messages[:8] = [{"role": "assistant", "content": [compacted(talk, talk.messages[:8])]}]
    talk.say("more", [thought("new"), text("yes")])
    assert isinstance(talk.post([*talk.messages, ASK]), dict)


def test_kept_messages_must_follow_directly():
    talk = worked(4)
    head = {"role": "assistant", "content": [compacted(talk, talk.messages[:8])]}
    bound = talk.post([head, *talk.messages[12:], ASK])
    assert "bound to a different" in bound[1]["message"]


def test_another_system_prompt_parts_them():
    talk = worked(4)
    head = {"role": "assistant", "content": [compacted(talk, talk.messages[:8])]}
    talk.beside["system"] = "Be brief."
    assert "bound to" in talk.post([head, *talk.messages[8:], ASK])[1]["message"]


def test_a_summary_of_an_older_model_keeps_no_thinking():
    talk = worked(4)
    talk.model = OLDER
    head = {"role": "assistant", "content": [compacted(talk, talk.messages[:8])]}
    talk.model = "claude-opus-5-5"
    assert "bound to" in talk.post([head, *talk.messages[8:], ASK])[1]["message"]


def misplace(messages, block):
    return [ASK, {"role": "assistant", "content": [block]}, ASK]


def repeat(messages, block):
    return [{"role": "assistant", "content": [block, block]}, ASK]


def change_content(messages, block):
    return [{"role": "assistant", "content": [{**block, "content": "other"}]}, ASK]


def change_signature(messages, block):
    return [{"role": "assistant", "content": [{**block, "signature": "AAAA"}]}, ASK]


def change_tools(messages, block):
    changed = {**block, "tool_changes": [{"type": "tool_removal", "name": "x"}]}
    return [{"role": "assistant", "content": [changed]}, ASK]


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (misplace, "compaction_block_misplaced"),
        (repeat, "compaction_block_ambiguous"),
        (change_content, "compaction_content_mismatch"),
        (change_signature, "compaction_signature_invalid"),
        (change_tools, "compaction_tool_changes_mismatch"),
    ],
)
def test_the_block_comes_back_as_it_was_and_first(change, code):
    talk = worked(2)
    block = compacted(talk, talk.messages)
    assert code_of(talk.post(change(talk.messages, block))) == code


def test_not_together_with_an_edit_that_compacts():
    talk = worked(2)
    head = {"role": "assistant", "content": [compacted(talk, talk.messages)]}
    talk.beside["context_management"] = {"edits": [{"type": "compact_20260112"}]}
    assert "compaction" in talk.post([head, ASK])[1]["message"]


@pytest.mark.parametrize(
    "beside",
    [
        {"context_management": {"edits": []}},
        {"stop_sequences": ["x"]},
        {"tool_choice": {"type": "any"}},
    ],
)
def test_a_wish_for_a_summary_is_alone(beside):
    talk = worked(1, beside=beside)
    talk.headers["anthropic-beta"] = BETA
    talk.beside["compaction"] = {"type": "summarize"}
    assert talk.post()[0] == 400


def test_a_wish_does_not_end_in_an_open_call_and_needs_its_beta():
    talk = Talk(beside={"compaction": {"type": "summarize"}})
    messages = [ASK, {"role": "assistant", "content": [call("a")]}]
    assert "not permitted" in talk.post(messages)[1]["message"]
    talk.headers["anthropic-beta"] = BETA
    assert code_of(talk.post(messages)) == "compaction_incomplete_turn"


def test_what_follows_a_summary_needs_its_beta_as_well():
    talk = worked(2)
    head = {"role": "assistant", "content": [compacted(talk, talk.messages)]}
    assert isinstance(talk.post([head, ASK]), dict)
    del talk.headers["anthropic-beta"]
    assert BETA in talk.post([head, ASK])[1]["message"]
