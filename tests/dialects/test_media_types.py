"""Media of every type, from every provider, for every provider: what one does not take is a note
with a handle there, and comes back at one that takes it."""

from __future__ import annotations

import base64
import itertools
import json
from typing import Any

import pytest

import refold
from refold import dialects
from refold.dialects.wire import MEDIA_TYPES

DATA = base64.b64encode(bytes(range(60))).decode()
IMAGES = {"image/png", "image/jpeg", "image/gif", "image/webp"}
# What the providers document, written here once more.
TAKEN = {
    "anthropic": IMAGES | {"application/pdf"},
    "openai_chat": IMAGES | {"audio/wav", "audio/mp3", "application/pdf"},
    "openai_responses": IMAGES | {"application/pdf"},
    "gemini": (IMAGES - {"image/gif"})
    | {
        "image/heic",
        "image/heif",
        "image/bmp",
        "audio/wav",
        "audio/mp3",
        "audio/flac",
        "video/mp4",
        "application/pdf",
    },
}
TYPES = sorted(
    set().union(*TAKEN.values())
    | {"image/tiff", "image/svg+xml", "image/p\u2028", "image/", "video/mp4"}
)
OTHER_NAMES = {"image/jpg": "image/jpeg", "IMAGE/PNG": "image/png", "image/png; q=1": "image/png"}


def part_of(dialect: str, mime: str) -> dict[str, Any] | None:
    """Media of a type as a part of that provider's message; None if it has no such part."""
    kind = mime.lower().partition("/")[0]
    url = f"data:{mime};base64,{DATA}"
    match dialect, kind:
        case "anthropic", "image" | "application":
            source = {"type": "base64", "media_type": mime, "data": DATA}
            return {"type": "image" if kind == "image" else "document", "source": source}
        case "openai_chat", "image":
            return {"type": "image_url", "image_url": {"url": url}}
        case "openai_chat", "audio":
            audio = {"data": DATA, "format": mime.partition("/")[2]}
            return {"type": "input_audio", "input_audio": audio}
        case "openai_responses", "image":
            return {"type": "input_image", "image_url": url, "detail": "auto"}
        case "gemini", _:
            return {"inlineData": {"mimeType": mime, "data": DATA}}
        case _:
            return None


def message_of(dialect: str, part: dict[str, Any]) -> dict[str, Any]:
    if dialect == "gemini":
        return {"role": "user", "parts": [{"text": "look"}, part]}
    text = "input_text" if dialect == "openai_responses" else "text"
    return {"role": "user", "content": [{"type": text, "text": "look"}, part]}


@pytest.mark.parametrize(("source", "target"), [*itertools.product(TAKEN, TAKEN)])
def test_media_are_sent_or_become_a_note_with_a_handle(source: str, target: str) -> None:
    for mime in (*TYPES, *OTHER_NAMES):
        part = part_of(source, mime)
        if part is None:
            continue
        context = refold.open("x", store="memory:", window=100_000)
        context.append(message_of(source, part))
        before = context.request(source, raw=True)
        rendered = context.request(target, raw=True)
        sent = json.dumps(rendered.request)
        assert dialects.dialect(target).check(rendered.request) == [], (mime, sent)
        if OTHER_NAMES.get(mime, mime) in TAKEN[target]:
            assert DATA in sent, (mime, sent)
            assert rendered.lost == (), (mime, rendered.lost)
        else:
            assert DATA not in sent, (mime, sent)
            assert len(rendered.lost) == 1, (mime, rendered.lost)
            assert ascii(mime)[1:-1].split("\\")[0] in rendered.lost[0], (mime, rendered.lost)
            if mime.partition("/")[0] in MEDIA_TYPES[target]:
                assert f"kept as #{context.view.slots[0].seq}" in sent, (mime, sent)
        # The provider that it came from sees the same as before.
        assert context.request(source, raw=True).request == before.request, mime


@pytest.mark.parametrize("dialect", MEDIA_TYPES)
def test_the_own_check_refuses_the_types_that_a_provider_does_not_take(dialect: str) -> None:
    for mime in TYPES:
        part = part_of(dialect, mime)
        if part is None:
            continue
        message = message_of(dialect, part)
        key = {"gemini": "contents", "openai_responses": "input"}.get(dialect, "messages")
        request: dict[str, Any] = {"model": "m", "max_tokens": 9, key: [message]}
        is_free = mime.partition("/")[0] not in MEDIA_TYPES[dialect]
        assert (dialects.dialect(dialect).check(request) == []) == (
            mime in TAKEN[dialect] or is_free
        ), mime


@pytest.mark.parametrize("target", MEDIA_TYPES)
def test_an_image_in_a_result_becomes_a_note_too(target: str) -> None:
    source = {"type": "base64", "media_type": "image/tiff", "data": DATA}
    context = refold.open("x", store="memory:", window=100_000)
    context.append({"role": "user", "content": "look"})
    call = {"type": "tool_use", "id": "t1", "name": "view", "input": {}}
    context.append({"role": "assistant", "content": [call]})
    result = {"type": "tool_result", "tool_use_id": "t1"}
    result["content"] = [{"type": "image", "source": source}]  # type: ignore[assignment]
    context.append({"role": "user", "content": [result]})
    rendered = context.request(target, raw=True)
    assert dialects.dialect(target).check(rendered.request) == []
    assert DATA not in json.dumps(rendered.request)
    assert f"kept as #{context.view.slots[-1].seq}]" in json.dumps(rendered.request)
    assert any("image/tiff" in line for line in rendered.lost)


@pytest.mark.parametrize("target", MEDIA_TYPES)
def test_media_without_a_type_become_a_note(target: str) -> None:
    url = f"data:;base64,{DATA}"
    parts = {
        "anthropic": {"type": "image", "source": {"type": "base64", "data": DATA}},
        "openai_chat": {"type": "image_url", "image_url": {"url": url}},
        "openai_responses": {"type": "input_image", "image_url": url, "detail": "auto"},
        "gemini": {"inlineData": {"mimeType": "", "data": DATA}},
    }
    for source, part in parts.items():
        context = refold.open("x", store="memory:", window=100_000)
        context.append(message_of(source, part))
        rendered = context.request(target, raw=True)
        sent = json.dumps(rendered.request)
        assert dialects.dialect(target).check(rendered.request) == [], (source, sent)
        assert DATA not in sent, (source, sent)
        assert rendered.lost, source
