"""Images and documents that a tool gave stay what they are, in every dialect that can carry
them."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import refold
from refold import dialects
from refold.artifacts.tool_output import IMAGE_BYTES_MAX
from tests.artifacts import pictures
from tests.artifacts.pictures import PDF, base64, gif, jpeg, png
from tests.turns import call, checked, opened

PARTS = pictures.parts(png())
DIALECTS = tuple(dialects.DIALECTS)


def asked(output, **given) -> refold.Context:
    context = opened(**given)
    context.append({"role": "user", "content": "Look at the page."})
    context.append(call(1, "screenshot"))
    context.append_result("c1", output)
    return context


def sent(context: refold.Context, dialect: str) -> str:
    request = checked(context, dialect)
    return json.dumps(request.get("messages") or request.get("input") or request["contents"])


def carries(context: refold.Context, content: bytes, dialect: str) -> bool:
    """Whether the request shows the content as media, once, and not as text."""
    said = sent(context, dialect)
    media = {
        "anthropic": f'"data": "{base64(content)}"',
        "gemini": f'"data": "{base64(content)}"',
        "openai_chat": f';base64,{base64(content)}"',
        "openai_responses": f';base64,{base64(content)}"',
    }
    return said.count(base64(content)) == 1 and media[dialect] in said


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("content", [png(), gif(), jpeg(), PDF], ids=["png", "gif", "jpeg", "pdf"])
def test_bytes_that_are_a_picture_or_a_document_are_shown_as_such(dialect, content):
    context = asked(content)
    # Gemini documents no GIF, so it gets a note.
    assert carries(context, content, dialect) == (dialect != "gemini" or content != gif())
    assert context.artifacts.value(f"#{context.view.head}") == content


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("shape", PARTS)
def test_the_parts_of_a_provider_are_shown_as_parts(dialect, shape):
    context = asked(PARTS[shape])
    assert carries(context, png(), dialect)
    assert sent(context, dialect).count("The page:") == 1
    assert context.artifacts.value(f"#{context.view.head}") == PARTS[shape]


@pytest.mark.parametrize("shape", PARTS)
@pytest.mark.parametrize(
    "wrap",
    [
        lambda parts: parts[1],
        lambda parts: {"content": parts, "isError": False},
        lambda parts: [*parts, {"rows": [1, 2]}, parts[1], {"text": "é"}],
        lambda parts: {"title": "x", "shots": [{"deep": parts[1]}], "raw": png(9, 9)},
        lambda parts: [parts[0], {"nested": png(7, 7)}, parts[1], 5],
        lambda parts: (png(), "text", {"b": gif()}),
    ],
)
def test_a_value_that_holds_pictures_comes_back_as_it_was(shape, wrap):
    value = wrap(PARTS[shape])
    context = asked(value)
    back = context.artifacts.value(f"#{context.view.head}")
    assert back == (list(value) if isinstance(value, tuple) else value)
    for dialect in DIALECTS:
        assert "image" in sent(context, dialect)


def test_a_picture_costs_what_pictures_cost_and_is_an_artifact():
    """Counted by the rule for images, kept by digest, and in no text that is searched or summed
    up."""
    content = png(400, 300, padding=200_000)
    context = asked(content, model="claude-sonnet-4-5")
    [stored] = context.artifacts.list()
    assert context.view.slots[-1].tokens < 400
    assert stored.artifact.mime == "image/png"
    assert stored.artifact.origin.tool == "screenshot"
    assert context.unfold(stored.id).content == content
    assert context.artifacts.value(stored.id) == content
    assert "eHh4" not in str(context.unfold(f"#{context.view.head}"))
    assert context.search("eHh4eHh4") == []


def test_large_text_beside_a_picture_is_moved_out_and_the_picture_stays():
    lines = "\n".join(f"line {n} of the page" for n in range(9_000))
    value = [{"type": "text", "text": lines}, PARTS["anthropic"][1], {"type": "text", "text": "z"}]
    context = asked(value)
    said = sent(context, "anthropic")
    assert carries(context, png(), "anthropic")
    assert len(said) < 5_000
    assert context.artifacts.value(f"#{context.view.head}") == value


def test_what_no_provider_takes_is_kept_and_not_shown_as_a_picture():
    for content in (png(9_000, 2), png(padding=IMAGE_BYTES_MAX), png()[:20], b"%PDF-1.4 torn"):
        context = asked(content)
        assert "image" not in sent(context, "anthropic")
        assert context.artifacts.value(f"#{context.view.head}") == content


def test_a_mime_type_says_that_bytes_are_something_else():
    context = opened()
    context.append({"role": "user", "content": "go"})
    context.append(call(1))
    [_, message] = context.append_result("c1", png(), mime="application/octet-stream")
    assert context.artifacts.list()[0].artifact.mime == "application/octet-stream"
    assert context.artifacts.value(f"#{message.seq}") == png()


@pytest.mark.parametrize(
    "value",
    [
        [{"type": "file", "path": "a.py"}, {"type": "dir", "path": "b"}],
        [{"type": "image", "source": "logo.png"}],
        {"type": "image", "data": "not base64!", "mimeType": "image/png"},
        [{"type": "document", "id": 5}],
        {"inlineData": None},
        pictures.data_url(png()),
        base64(png()),
    ],
)
def test_data_and_text_that_only_look_like_media_stay_what_they_are(value):
    context = asked(value)
    assert context.artifacts.list() == []
    assert context.artifacts.value(f"#{context.view.head}") == value


JSON = st.recursive(
    st.none() | st.text(max_size=5) | st.integers(0, 9) | st.sampled_from([png(), PDF, b"\xff"]),
    lambda held: (
        st.lists(held, max_size=3)
        | st.dictionaries(st.sampled_from(["type", "text", "content", "data", "$media"]), held)
    ),
    max_leaves=6,
) | st.lists(st.sampled_from([part for shape in PARTS.values() for part in shape]), max_size=4)


@settings(max_examples=60, deadline=None)
@given(JSON)
def test_every_value_with_pictures_comes_back_and_makes_valid_requests(value):
    context = asked(value)
    assert context.artifacts.value(f"#{context.view.head}") == value
    for dialect in DIALECTS:
        checked(context, dialect)
