"""The SDKs' own classes say the same as the JSON they are made from."""

from __future__ import annotations

from typing import Any

import pytest
from anthropic.types import Message
from google.genai.types import GenerateContentResponse
from openai.types.chat import ChatCompletion
from openai.types.responses import Response

from refold.dialects import dialect, tool_calls
from tests.dialects.responses_shapes import RESPONSE
from tests.dialects.test_reply import CHAT, CLAUDE, GEMINI

OBJECTS = {
    "openai_chat": (ChatCompletion.model_validate(CHAT), CHAT),
    "openai_responses": (Response.model_construct(**RESPONSE), RESPONSE),
    "anthropic": (Message.model_validate(CLAUDE), CLAUDE),
    "gemini": (GenerateContentResponse.model_validate(GEMINI), GEMINI),
}


@pytest.mark.parametrize("name", OBJECTS)
def test_an_object_says_the_same_as_its_json(name: str) -> None:
    given, plain = OBJECTS[name]
    speaker = dialect(name)
    of_object, of_json = speaker.reply(given), speaker.reply(plain)
    assert of_object.message.blocks == of_json.message.blocks
    assert (of_object.usage, of_object.finished) == (of_json.usage, of_json.finished)
    assert tool_calls(given) == tool_calls(plain)


@pytest.mark.parametrize("name", ["openai_chat", "openai_responses", "anthropic"])
def test_an_object_goes_back_as_its_json_would(name: str) -> None:
    """Gemini's SDK spells names in another way, and takes both."""
    given, plain = OBJECTS[name]

    def rendered(response: Any) -> list[dict[str, Any]]:
        return dialect(name).render([dialect(name).reply(response).message], [])

    assert rendered(given) == rendered(plain)
