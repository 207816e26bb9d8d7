"""Random contents of Gemini in both spellings: unknown keys, key orders, signatures, calls with
and without ids."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from refold.dialects.gemini.render import snake
from tests.dialects.shapes import objects, said, shuffled, words

SIGNATURES = st.sampled_from(["c2ln", "_-8=", "AAEC/+8="])
DATA = st.sampled_from(["QUJD", "QUI=", "_-8="])
# What belongs to the sender, and is spelled as the sender spells it.
_GIVEN = ("args", "response")


def snaked(value: Any) -> Any:
    """The value with its keys as the SDK spells them, arguments and responses left alone."""
    if isinstance(value, list):
        return [snaked(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {snake(key): item if key in _GIVEN else snaked(item) for key, item in value.items()}


@st.composite
def spelled(draw: st.DrawFn, content: dict[str, Any]) -> dict[str, Any]:
    return snaked(content) if draw(st.booleans()) else content  # type: ignore[no-any-return]


@st.composite
def part(draw: st.DrawFn) -> dict[str, Any]:
    made = draw(st.sampled_from(["text", "image", "file", "link", "code", "foo"]))
    known: dict[str, Any] = {
        "text": {"text": draw(said)},
        "image": {"inlineData": draw(shuffled({"mimeType": "image/png", "data": draw(DATA)}))},
        "file": {"fileData": {"fileUri": "gs://bucket/a.pdf", "mimeType": "application/pdf"}},
        "link": {"fileData": {"mimeType": "image/png", "fileUri": "https://example.org/a.png"}},
        "code": {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": draw(said)}},
        "foo": {"foo": {"a": 1}},
    }[made]
    drawn: dict[str, Any] = draw(shuffled(known))
    return drawn


@st.composite
def answer(draw: st.DrawFn, calls: list[dict[str, Any]]) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = []
    if draw(st.booleans()):
        parts.append(draw(shuffled({"text": draw(said), "thought": True})))
    if draw(st.booleans()) or not calls:
        parts.append(draw(shuffled({"text": draw(said)})))
    for index, call in enumerate(calls):
        signed = (
            {}
            if index
            else draw(st.just({}) | st.fixed_dictionaries({"thoughtSignature": SIGNATURES}))
        )
        parts.append(draw(shuffled({"functionCall": draw(shuffled(call)), **signed})))
    if not calls and draw(st.booleans()):
        parts.append({"text": "", "thoughtSignature": draw(SIGNATURES)})
    return parts


@st.composite
def result(draw: st.DrawFn, call: dict[str, Any]) -> dict[str, Any]:
    text = st.fixed_dictionaries(
        {}, optional={key: said | st.just("") for key in ("output", "result", "error")}
    )
    known = {"name": call["name"], "response": draw(objects | text)}
    if "id" in call:
        known = {"id": call["id"], **known}
    if draw(st.booleans()):
        known["parts"] = [{"inlineData": {"mimeType": "image/png", "data": draw(DATA)}}]
    return {"functionResponse": draw(shuffled(known))}


@st.composite
def turn(draw: st.DrawFn) -> list[dict[str, Any]]:
    """A user, an answer, and the results of its calls in one content."""
    ids = draw(st.none() | st.just([f"call-{n}" for n in range(3)]))
    names = draw(st.lists(words.map(lambda word: f"f{word}"), max_size=3))
    calls = [{"name": name, "args": draw(objects)} for name in names]
    if ids is not None:
        calls = [{"id": id, **call} for id, call in zip(ids, calls)]
    user = {"role": "user", "parts": draw(st.lists(part(), min_size=1, max_size=3))}
    contents = [
        draw(shuffled(user)),
        draw(shuffled({"role": "model", "parts": draw(answer(calls))})),
    ]
    if calls:
        contents.append({"role": "user", "parts": [draw(result(call)) for call in calls]})
    return [draw(spelled(content)) for content in contents]


gemini_lists = st.lists(turn(), max_size=3).map(
    lambda turns: [content for turn in turns for content in turn]
)
