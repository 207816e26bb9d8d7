"""A result that is too large is kept whole and shown as a stub."""

from __future__ import annotations

import pytest

import refold
from refold.errors import Invalid
from tests.toolruns import ran
from tests.turns import LONG, call, checked, opened


def test_a_large_result_is_kept_whole_and_shown_as_a_stub(url):
    """M-60, T-21: at most 2,000 characters, the pair intact, any line in reach."""
    context = opened(url)
    context.append({"role": "user", "content": "go"})
    context.append(call(1))
    output = "\n".join(f"line {n}" for n in range(1, 200_001))
    context.append_result("c1", output)
    shown = checked(context)["messages"][-1]
    assert len(shown["content"]) <= 2_000
    assert shown["tool_call_id"] == "c1"
    [artifact] = [one.artifact for one in context.artifacts.list()]
    assert artifact.id in shown["content"]
    assert "200,000 lines" in shown["content"]
    assert context.unfold(artifact.id).content == output.encode()
    assert str(context.unfold(f"artifact://{artifact.id}", lines=(100, 200))) == "\n".join(
        f"line {n}" for n in range(100, 201)
    )
    assert artifact.origin.tool == "bash"
    assert artifact.size_bytes == len(output)
    context.close()


def test_the_same_large_result_twice_is_kept_once(tmp_path):
    """M-21."""
    context = opened(f"sqlite:{tmp_path}/refold.db")
    context.append({"role": "user", "content": "go"})
    for n in range(2):
        context.append(call(n))
        context.append_result(f"c{n}", LONG * 10_000)
    assert len({one.artifact.digest for one in context.artifacts.list()}) == 1
    assert len(list((tmp_path / "artifacts").iterdir())) == 1
    context.close()


def test_bytes_and_plain_data_are_results_too():
    """T-05, M-05."""
    context = opened()
    context.append({"role": "user", "content": "go"})
    outputs = {"c1": b"\x00\xff\xfe", "c2": {"b": 1, "a": [True, None]}, "c3": None, "c4": {3, 1}}
    for n, output in enumerate(outputs.values(), 1):
        context.append(call(n))
        context.append_result(f"c{n}", output)
    checked(context)
    assert context.unfold(context.artifacts.list()[0].id).content == b"\x00\xff\xfe"
    with pytest.raises(Invalid):
        context.append_result("c9", object())


@pytest.mark.parametrize("by_append_result", [True, False])
def test_what_our_tools_give_is_never_a_stub(by_append_result):
    """Issue 5: not even where every other output is moved out, in whatever shape the result
    comes back."""
    context = refold.open("work", store="memory:", window=24_000, config={"offload_tokens": 5})
    id = ran(context, "\n".join(f"line {n}" for n in range(9_000)))
    context.update(tools=context.toolbox.tools("anthropic"))
    context.append({"role": "user", "content": "look"})
    call = {"type": "tool_use", "id": "t1", "name": "refold_unfold", "input": {"handle": id}}
    context.append({"role": "assistant", "content": [call]})
    answer = context.toolbox.call("refold_unfold", {"handle": id})
    if by_append_result:
        context.append_result("t1", answer)
    else:
        context.append(
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": "t1", "content": answer}],
            }
        )
    assert [artifact.id for artifact in context.artifacts.list()] == [id]
    assert "#" in context.toolbox.call("refold_search", '{"query": "look"}')


@pytest.mark.parametrize(
    ("model", "window", "lines", "is_moved"),
    [
        ("claude-sonnet-5-5", None, 3_000, True),
        ("claude-sonnet-5-5", None, 300, False),
        ("gpt-4o", 64_000, 1_000, False),
        ("gpt-4o", 64_000, 6_000, True),
        (None, 24_000, 2_500, False),
        (None, 24_000, 5_000, True),
    ],
)
@pytest.mark.parametrize("dialect", ["anthropic", "openai_chat", "openai_responses", "gemini"])
def test_a_large_result_in_a_providers_own_message_is_moved_out(
    model, window, lines, is_moved, dialect
):
    """T-21: from `offload_tokens` on where thinking is bound to what was read, else from half the
    window."""
    context = refold.open("work", store="memory:", model=model, window=window)
    context.append({"role": "user", "content": "go"})
    context.append(call(1))
    output = "\n".join(f"line {n} of a log" for n in range(lines))
    context.append(
        {
            "anthropic": {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": "c1", "content": output}],
            },
            "openai_chat": {"role": "tool", "tool_call_id": "c1", "content": output},
            "openai_responses": {"type": "function_call_output", "call_id": "c1", "output": output},
            "gemini": {
                "role": "user",
                "parts": [{"functionResponse": {"id": "c1", "name": "bash",
                                                "response": {"output": output}}}],
            },
        }[dialect]
    )  # fmt: skip
    kept = [context.unfold(one.id).text for one in context.artifacts.list()]
    assert kept == ([output] if is_moved else [])
    checked(context, dialect)
