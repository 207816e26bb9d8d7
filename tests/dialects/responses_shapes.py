"""Random items of the Responses API, in turns: unknown keys, nulls, key orders, every kind of
call; and a response."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tests.dialects.shapes import argument_texts, objects, said, shuffled, texts, words

_image = {"type": "input_image", "image_url": "data:image/png;base64,QUJD", "detail": "auto"}
_file = {
    "type": "input_file",
    "filename": "a.pdf",
    "file_data": "data:application/pdf;base64,JVBERi0=",
}


@st.composite
def given_part(draw: st.DrawFn) -> dict[str, Any]:
    known: dict[str, Any] = draw(
        st.sampled_from(
            [
                {"type": "input_text", "text": draw(said)},
                _image,
                {"type": "input_image", "image_url": "https://example.org/a.png", "file_id": None},
                {"type": "input_image", "file_id": "file-1", "detail": "low"},
                _file,
                {"type": "input_file", "file_url": "https://example.org/a.pdf"},
                {"type": "foo"},
            ]
        )
    )
    part: dict[str, Any] = draw(shuffled(dict(known)))
    return part


@st.composite
def said_part(draw: st.DrawFn) -> dict[str, Any]:
    text = draw(said)
    known = draw(
        st.sampled_from(
            [{"type": "output_text", "text": text}, {"type": "refusal", "refusal": text}]
        )
    )
    part: dict[str, Any] = draw(shuffled(dict(known)))
    return part


@st.composite
def call(draw: st.DrawFn, id: str) -> dict[str, Any]:
    known: dict[str, Any] = draw(
        st.sampled_from(
            [
                {
                    "type": "function_call",
                    "call_id": id,
                    "name": draw(words),
                    "arguments": draw(argument_texts),
                },
                {
                    "type": "custom_tool_call",
                    "call_id": id,
                    "name": draw(words),
                    "input": draw(texts),
                },
                {
                    "type": "computer_call",
                    "call_id": id,
                    "action": draw(objects),
                    "status": "completed",
                },
                {"type": "shell_call", "call_id": id, "action": {"commands": ["ls"]}},
                {
                    "type": "local_shell_call",
                    "call_id": id,
                    "action": {"command": ["ls"], "env": {}, "type": "exec"},
                },
                {"type": "apply_patch_call", "call_id": id, "operation": draw(objects)},
            ]
        )
    )
    item: dict[str, Any] = draw(shuffled(dict(known)))
    return item


@st.composite
def output(draw: st.DrawFn, called: dict[str, Any]) -> dict[str, Any]:
    kind, id, text = called["type"], called["call_id"], draw(texts)
    chunk = {
        "stdout": draw(texts),
        "stderr": draw(texts),
        "outcome": {"type": "exit", "exit_code": 0},
    }
    given: Any = {
        "computer_call": {"type": "computer_screenshot", "image_url": _image["image_url"]},
        "shell_call": [chunk],
        "local_shell_call": text,
        "apply_patch_call": draw(st.none() | st.just(text)),
    }.get(kind, draw(st.just(text) | st.lists(given_part(), min_size=1, max_size=2)))
    named = {"id": id} if kind == "local_shell_call" else {"call_id": id}
    item: dict[str, Any] = draw(shuffled({"type": f"{kind}_output", **named, "output": given}))
    return item


@st.composite
def answer(draw: st.DrawFn, ids: list[str]) -> list[dict[str, Any]]:
    """The items of one response: perhaps reasoning, then words and calls in any order."""
    items: list[dict[str, Any]] = [draw(call(id)) for id in ids]
    content = draw(st.lists(said_part(), min_size=1, max_size=2))
    message = {"type": "message", "role": "assistant", "content": content, "status": "completed"}
    items.append(draw(shuffled(message)))
    items.append(
        draw(shuffled({"type": "web_search_call", "status": "completed", "x": draw(objects)}))
    )
    items = list(draw(st.permutations(items)))
    if draw(st.booleans()):
        summary = [
            {"type": "summary_text", "text": text} for text in draw(st.lists(texts, max_size=2))
        ]
        sealed = draw(
            st.sampled_from([{}, {"encrypted_content": None}, {"encrypted_content": "c2VhbGVk"}])
        )
        items.insert(
            0,
            draw(
                shuffled(
                    {"type": "reasoning", "id": f"rs_{draw(words)}", "summary": summary, **sealed}
                )
            ),
        )
    return items


@st.composite
def turn(draw: st.DrawFn) -> list[dict[str, Any]]:
    role = draw(st.sampled_from(["user", "system", "developer"]))
    parts = st.lists(given_part(), min_size=1, max_size=3) if role == "user" else said
    user = {"role": role, "content": draw(said | parts)}
    if draw(st.booleans()):
        user = {"type": "message", **user}
    said_items = draw(answer(draw(st.lists(words, max_size=3, unique=True))))
    calls = [item for item in said_items if "call_id" in item]
    return [draw(shuffled(user)), *said_items, *(draw(output(item)) for item in calls)]


lists = st.lists(turn(), min_size=1, max_size=3).map(
    lambda turns: [item for turn in turns for item in turn]
)


# --- a response, written out ---


def reasoning(n: int, *, sealed: bool = True) -> dict[str, Any]:
    summary = [{"type": "summary_text", "text": f"thinking of {n}"}]
    item: dict[str, Any] = {"type": "reasoning", "id": f"rs_{n}", "summary": summary}
    return {**item, "encrypted_content": "c2VhbGVk" * 20} if sealed else item


def message(n: int, text: str) -> dict[str, Any]:
    part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    return {
        "type": "message",
        "id": f"msg_{n}",
        "status": "completed",
        "role": "assistant",
        "content": [part],
    }


def function_call(n: int, id: str, arguments: str = '{"path": "a"}') -> dict[str, Any]:
    named = {"call_id": id, "name": "read", "arguments": arguments, "status": "completed"}
    return {"type": "function_call", "id": f"fc_{n}", **named}


def response(
    n: int, *items: dict[str, Any], tokens: int = 600, status: str = "completed"
) -> dict[str, Any]:
    usage = {
        "input_tokens": tokens,
        "input_tokens_details": {"cached_tokens": tokens - 20, "cache_write_tokens": 7},
        "output_tokens": 50,
        "output_tokens_details": {"reasoning_tokens": 30},
        "total_tokens": tokens + 50,
    }
    return {
        "id": f"resp_{n}",
        "object": "response",
        "created_at": 1,
        "status": status,
        "model": "gpt-5",
        "output": list(items),
        "usage": usage,
    }


RESPONSE = response(1, reasoning(1), message(1, "Reading."), function_call(1, "call_1"))
