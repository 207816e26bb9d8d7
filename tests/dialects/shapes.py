"""Random wire messages of both providers: unknown keys, nulls, key orders, objects that look
like holes."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)
# Arguments as a model writes them: an object, in spacing of its own.
argument_texts = st.builds(
    lambda fields, indent: json.dumps(fields, ensure_ascii=False, indent=indent),
    st.dictionaries(texts, texts | st.integers(-9, 9) | st.none(), max_size=2),
    st.none() | st.integers(0, 2),
)
words = st.text("abcXYZ01_-", min_size=1, max_size=8)
said = texts.filter(lambda text: bool(text.strip()))
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts
)
holes = st.sampled_from(
    [{"$": 0}, {"$": "text"}, {"$": [0, {"$": "text"}]}, {"$": {"$": 1}}, {"$": None}]
)
values = st.recursive(
    scalars | holes,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(words | st.just("$"), inner, max_size=3)
    ),
    max_leaves=6,
)
objects = st.dictionaries(words | st.just("$"), values, max_size=3)
unknown = st.dictionaries(words.map(lambda word: f"x_{word}"), values, max_size=2)


@st.composite
def shuffled(
    draw: st.DrawFn, known: dict[str, Any], more: st.SearchStrategy[dict[str, Any]] = unknown
) -> dict[str, Any]:
    """The known keys and some unknown ones, usually as they are, sometimes in another order."""
    if draw(st.booleans()):
        return known
    items = list((known | draw(more)).items())
    return dict(draw(st.permutations(items)))


# --- OpenAI ---


@st.composite
def openai_part(draw: st.DrawFn) -> dict[str, Any]:
    made = draw(st.sampled_from(["text", "image", "link", "audio", "file", "foo"]))
    data = draw(st.sampled_from(["QUJD", "QUI="]))
    known: dict[str, Any] = {
        "text": {"type": "text", "text": draw(said)},
        "image": {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}},
        "link": {
            "type": "image_url",
            "image_url": draw(shuffled({"url": "https://example.org/a.png", "detail": "low"})),
        },
        "audio": {"type": "input_audio", "input_audio": {"data": data, "format": "mp3"}},
        "file": {
            "type": "file",
            "file": draw(shuffled({"filename": "a", "file_data": f"data:text/css;base64,{data}"})),
        },
        "foo": {"type": "foo"},
    }[made]
    part: dict[str, Any] = draw(shuffled(known))
    return part


@st.composite
def text_part(draw: st.DrawFn) -> dict[str, Any]:
    part: dict[str, Any] = draw(shuffled({"type": "text", "text": draw(said)}))
    return part


@st.composite
def openai_call(draw: st.DrawFn, id: str) -> dict[str, Any]:
    made = draw(st.sampled_from(["function", "custom"]))
    name, text = draw(words), draw(texts)
    known: dict[str, Any] = {
        "function": {
            "id": id,
            "type": "function",
            "function": draw(shuffled({"name": name, "arguments": draw(argument_texts)})),
        },
        "custom": {"id": id, "type": "custom", "custom": {"name": name, "input": text}},
    }[made]
    call: dict[str, Any] = draw(shuffled(known))
    return call


@st.composite
def openai_turn(draw: st.DrawFn) -> list[dict[str, Any]]:
    """A user, an answer, and the results of its calls."""
    role = draw(st.sampled_from(["user", "system", "developer"]))
    part = openai_part() if role == "user" else text_part()
    content = draw(texts | st.lists(part, min_size=1, max_size=3))
    user: dict[str, Any] = draw(shuffled({"role": role, "content": content}))
    ids = draw(st.lists(words, max_size=3, unique=True))
    answer: dict[str, Any] = {"role": "assistant", "content": draw(texts)}
    if ids:
        answer["content"] = draw(st.none() | texts)
        answer["tool_calls"] = [draw(openai_call(id)) for id in ids]
        if draw(st.booleans()) and answer["content"] is None:
            del answer["content"]
    answer = draw(
        shuffled(
            answer,
            unknown | st.fixed_dictionaries({"reasoning_content": texts, "refusal": st.none()}),
        )
    )
    results = [
        draw(shuffled({"role": "tool", "tool_call_id": id, "content": draw(_openai_result)}))
        for id in ids
    ]
    return [user, answer, *results]


_openai_result = texts | st.lists(
    said.map(lambda text: {"type": "text", "text": text}), min_size=1, max_size=2
)
openai_lists = st.lists(openai_turn(), max_size=3).map(
    lambda turns: [m for turn in turns for m in turn]
)


# --- Anthropic ---


@st.composite
def anthropic_part(draw: st.DrawFn) -> dict[str, Any]:
    made = draw(st.sampled_from(["text", "image", "link", "document", "foo"]))
    known: dict[str, Any] = {
        "text": {"type": "text", "text": draw(said)},
        "image": {
            "type": "image",
            "source": draw(shuffled({"type": "base64", "media_type": "image/png", "data": "QUJD"})),
        },
        "link": {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}},
        "document": {
            "type": "document",
            "source": {"type": "text", "media_type": "text/plain", "data": draw(said)},
        },
        "foo": {"type": "foo"},
    }[made]
    part: dict[str, Any] = draw(shuffled(known))
    return part


@st.composite
def anthropic_answer(draw: st.DrawFn, ids: list[str]) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = []
    if draw(st.booleans()):
        blocks.append(
            draw(shuffled({"type": "thinking", "thinking": draw(texts), "signature": draw(words)}))
        )
    if draw(st.booleans()):
        blocks.append(draw(shuffled({"type": "redacted_thinking", "data": draw(words)})))
    if draw(st.booleans()) or not ids:
        blocks.append(draw(shuffled({"type": "text", "text": draw(said)})))
    for id in ids:
        blocks.append(
            draw(
                shuffled(
                    {"type": "tool_use", "id": id, "name": draw(words), "input": draw(objects)}
                )
            )
        )
    return blocks


@st.composite
def anthropic_result(draw: st.DrawFn, id: str) -> dict[str, Any]:
    known: dict[str, Any] = {"type": "tool_result", "tool_use_id": id}
    content = draw(st.none() | texts | st.lists(anthropic_part(), max_size=2))
    if content is not None:
        known["content"] = content
    if draw(st.booleans()):
        known["is_error"] = draw(st.booleans())
    result: dict[str, Any] = draw(shuffled(known))
    return result


@st.composite
def anthropic_turn(draw: st.DrawFn) -> list[dict[str, Any]]:
    content = draw(said | st.lists(anthropic_part(), min_size=1, max_size=3))
    ids = draw(st.lists(words, max_size=3, unique=True))
    user, answer = (
        {"role": "user", "content": content},
        {"role": "assistant", "content": draw(anthropic_answer(ids))},
    )
    turn = [draw(shuffled(user)), draw(shuffled(answer))]
    if ids:
        results = [draw(anthropic_result(id)) for id in ids]
        turn.append(
            draw(
                shuffled(
                    {
                        "role": "user",
                        "content": results + draw(st.lists(anthropic_part(), max_size=1)),
                    }
                )
            )
        )
    return turn


anthropic_lists = st.lists(anthropic_turn(), max_size=3).map(
    lambda turns: [m for turn in turns for m in turn]
)
