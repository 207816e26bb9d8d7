"""Two readings of the providers' rules agree: refold's checks, and the strict upstream of
`tests/real/proxy/strict`, which was written apart from them.

Requests are generated, broken in up to three places, and given to both. What one side refuses and
the other takes is listed below with its reason, or a fault of one of them.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from refold import dialects
from tests.real.proxy.strict import chat_service, gemini_service, responses_items
from tests.real.proxy.strict.anthropic_shape import check_list, check_shape, preserves_thinking
from tests.real.proxy.strict.anthropic_thinking import check_open_loop
from tests.real.proxy.strict.seals import seal
from tests.real.proxy.strict.wire import Refusal, need

Json = dict[str, Any]
CLAUDES = ["claude-opus-5-5", "claude-opus-4-1", "claude-3-5-haiku-20241022", "claude-sonnet-4-8"]


def anthropic_refusal(request: Json) -> None:
    check_shape(request)
    check_list(request)
    if not preserves_thinking(request["model"]):
        check_open_loop(request, request["messages"])


def responses_refusal(request: Json) -> None:
    items = request["input"]
    need(items, "Missing required parameter: 'input'.")
    for index, item in enumerate(items):
        responses_items.check_item(f"input[{index}]", item)
    responses_items.check_ids(
        [item for item in items if responses_items.kind_of(item) != "item_reference"]
    )
    responses_items.check_pairs(items)
    responses_items.check_answers(items)
    responses_items.check_reasoning(items, {})
    if not request["store"]:
        need(not any(responses_items.kind_of(item) == "item_reference" for item in items), "P6")
        responses_items.check_seals(items, "me", set())


def gemini_refusal(request: Json) -> None:
    gemini_service.check(request, request["model"])


def refusal(judge_it: Callable[[Json], None], request: Json) -> str:
    """Why the strict reading refuses a request; empty if it does not."""
    try:
        judge_it(request)
    except Refusal as refused:
        return refused.message
    return ""


# --- sessions, and what breaks them ---

VALUES: list[Any] = [None, "", " ", [], {}, 7, "x", True, ["x"], [{}], {"type": "text"}]
KINDS = [
    "text", "thinking", "image", "tool_result", "tool_use", "function_call", "reasoning",
    "server_tool_use", "web_search_tool_result",
]  # fmt: skip


def anthropic_turn(chance: Random, n: int) -> list[Json]:
    ids = [f"c{n}_{at}" for at in range(chance.choice([0, 0, 1, 2]))]
    blocks: list[Json] = []
    if chance.random() < 0.5:
        blocks.append({"type": "thinking", "thinking": "hm", "signature": "c2ln"})
    if chance.random() < 0.5 or not ids:
        blocks.append({"type": "text", "text": "so"})
    server = chance.choice(["", "", "", "answered", "open"])
    if server:
        blocks.append({"type": "server_tool_use", "id": f"s{n}", "name": "w", "input": {}})
    if server == "answered":
        blocks.append({"type": "web_search_tool_result", "tool_use_id": f"s{n}", "content": []})
    blocks += ({"type": "tool_use", "id": id, "name": "f", "input": {}} for id in ids)
    asked: Any = chance.choice(["go", [{"type": "text", "text": "go"}]])
    turn = [{"role": "user", "content": asked}, {"role": "assistant", "content": blocks}]
    if chance.random() < 0.1:
        turn.insert(1, {"role": "system", "content": [], "output_config": {"effort": "low"}})
    if ids:
        results: list[Json] = [
            {"type": "tool_result", "tool_use_id": id, "content": chance.choice(["", "ok"])}
            for id in ids
        ]
        said = [{"type": "text", "text": "and"}] if chance.random() < 0.3 else []
        turn += [{"role": "user", "content": results + said}]
        turn += [{"role": "user", "content": "also"}] * chance.choice([0, 0, 1])
        turn += [{"role": "assistant", "content": [{"type": "text", "text": "done"}]}]
    return turn


def chat_turn(chance: Random, n: int) -> list[Json]:
    ids = [f"c{n}_{at}" for at in range(chance.choice([0, 0, 1, 2]))]
    function = {"name": "f", "arguments": "{}"}
    calls = [{"id": id, "type": "function", "function": function} for id in ids]
    answer: Json = {"role": "assistant", "content": "so"}
    if calls:
        answer = {"role": "assistant", "content": None, "tool_calls": calls}
    asked: Any = chance.choice(["go", [{"type": "text", "text": "go"}]])
    results = [{"role": "tool", "tool_call_id": id, "content": "ok"} for id in ids]
    return [{"role": "user", "content": asked}, answer, *results]


def responses_turn(chance: Random, n: int) -> list[Json]:
    items: list[Json] = [{"role": "user", "content": "go"}]
    if chance.random() < 0.5:
        note = seal({"id": f"rs_{n}", "account": "me"})
        thought = {"type": "reasoning", "id": f"rs_{n}", "summary": [], "encrypted_content": note}
        items.append(thought)
    ids = [f"c{n}_{at}" for at in range(chance.choice([0, 1, 2]))]
    text = [{"type": "output_text", "text": "so"}]
    if chance.random() < 0.5 or not ids:
        items.append({"type": "message", "id": f"msg_{n}", "role": "assistant", "content": text})
    for id in ids:
        call = {"type": "function_call", "id": f"fc_{id}", "call_id": id}
        items.append({**call, "name": "f", "arguments": "{}"})
    items += ({"type": "function_call_output", "call_id": id, "output": "ok"} for id in ids)
    return items


def gemini_turn(chance: Random, n: int) -> list[Json]:
    names = [f"f{at}" for at in range(chance.choice([0, 0, 1, 2]))]
    parts: list[Json] = [{"text": "so"}] if chance.random() < 0.5 or not names else []
    parts += ({"functionCall": {"name": name, "args": {}}} for name in names)
    contents = [{"role": "user", "parts": [{"text": "go"}]}, {"role": "model", "parts": parts}]
    answers = [{"functionResponse": {"name": name, "response": {}}} for name in names]
    if answers:
        contents += [{"role": "user", "parts": answers}]
        contents += [{"role": "model", "parts": [{"text": "done"}]}]
    return contents


def session(turn: Callable[[Random, int], list[Json]], chance: Random) -> list[Json]:
    """Some turns; half of them end with a user, others anywhere."""
    said = [one for n in range(chance.randint(0, 3)) for one in turn(chance, n)]
    if chance.random() < 0.5:
        return [*said, turn(chance, 9)[0]]
    return said[: chance.randint(0, len(said))]


def places(value: Any) -> list[tuple[Any, Any]]:
    """Everything inside of a value: what holds it, and where."""
    inside = list(enumerate(value) if isinstance(value, list) else value.items())
    found = [(value, key) for key, _ in inside]
    for _, one in inside:
        if isinstance(one, list | dict):
            found += places(one)
    return found


def break_one(messages: list[Json], chance: Random) -> None:
    """One edit, anywhere."""
    found = places(messages)
    if not found:
        return
    holder, key = chance.choice(found)
    edit = chance.choice(["delete", "set", "kind", "repeat", "swap"])
    if edit == "delete":
        del holder[key]
    elif edit == "set":
        holder[key] = copy.deepcopy(chance.choice(VALUES))
    elif edit == "kind" and isinstance(holder, dict) and key in ("type", "role"):
        holder[key] = chance.choice([*KINDS, "user", "assistant", "model", "system", "tool"])
    elif isinstance(holder, list) and edit == "repeat":
        holder.insert(chance.randint(0, len(holder)), copy.deepcopy(holder[key]))
    elif isinstance(holder, list):
        other = chance.randrange(len(holder))
        holder[key], holder[other] = holder[other], holder[key]


def generated(turn: Callable[[Random, int], list[Json]], seed: int) -> list[Json]:
    """A session with up to three edits."""
    chance = Random(seed)
    messages = copy.deepcopy(session(turn, chance))
    for _ in range(chance.choice([0, 1, 1, 1, 2, 3])):
        break_one(messages, chance)
    return messages


# --- both readings ---

SEEDS = st.integers(0, 2**40)
# What only the provider can tell: whether it made an opaque text itself.
SEALED = "could not be verified"


def compare(dialect: str, request: Json, judge_it: Callable[[Json], None], *known: str) -> None:
    faults = dialects.dialect(dialect).check(request)
    unknown = [fault for fault in faults if not any(words in fault for words in known)]
    refused = refusal(judge_it, request)
    if SEALED in refused:
        return
    assert faults or not refused, f"refold takes what is refused: {refused}"
    assert refused or not unknown, f"refold refuses what is taken: {unknown}"


@given(SEEDS, st.sampled_from(CLAUDES), st.sampled_from(["disabled", "enabled"]))
@settings(max_examples=300, deadline=None)
def test_anthropic(seed, model, thinking):
    """refold wants thinking in an open loop of every model: where it was dropped, only older ones
    refuse, and what it makes of such a loop is right for both."""
    messages = generated(anthropic_turn, seed)
    request = {"model": model, "max_tokens": 2_000, "messages": messages}
    budget = {"budget_tokens": 1_024} if thinking == "enabled" else {}
    request["thinking"] = {"type": thinking, **budget}
    known = ["expected thinking, found"] if preserves_thinking(model) else []
    compare("anthropic", request, anthropic_refusal, *known)


@given(SEEDS)
@settings(max_examples=300, deadline=None)
def test_openai_chat(seed):
    """refold wants a user before the model speaks: some servers of this format demand it."""
    request = {"model": "gpt-5", "messages": generated(chat_turn, seed)}
    known = "an assistant message before any user message"
    compare("openai_chat", request, chat_service.check, known)


@given(SEEDS, st.booleans())
@settings(max_examples=300, deadline=None)
def test_openai_responses(seed, store):
    request = {"model": "gpt-5", "input": generated(responses_turn, seed), "store": store}
    compare("openai_responses", request, responses_refusal)


@given(SEEDS)
@settings(max_examples=300, deadline=None)
def test_gemini(seed):
    """refold wants user and model to take turns: older models demand it."""
    request = {"model": "gemini-2.5-pro", "contents": generated(gemini_turn, seed)}
    compare("gemini", request, gemini_refusal, "the model speaks twice in a row")
