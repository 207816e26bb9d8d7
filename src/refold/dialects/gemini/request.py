"""Gemini contents: the keyword arguments of `client.models.generate_content`.

Neighbours: `render` made the contents, `tools` the definitions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from refold.dialects.gemini.tools import definitions
from refold.dialects.system import as_system, leading, text_blocks
from refold.dialects.wire import report


def request(
    messages: list[dict[str, Any]],
    *,
    system: Any,
    tools: list[Any] | None,
    marks: Sequence[int],
    lost: list[str],
) -> dict[str, Any]:
    """The keyword arguments of the call. The provider finds what it can cache automatically: no
    marks. System messages that lead the page follow the system prompt."""
    if messages and messages[-1].get("role") == "model":
        report(lost, "the conversation ends with the model: some Gemini models refuse that")
    lead = leading(messages, ("system",))
    prompt = text_blocks([system, *map(_system_text, messages[:lead])])
    config: dict[str, Any] = {}
    if prompt:
        parts = [{"text": block["text"]} for block in prompt]
        config["system_instruction"] = {"parts": parts}
    defined = definitions(tools, lost)
    if defined:
        config["tools"] = defined
    contents = {"contents": _alternating(messages[lead:])}
    return {**contents, "config": config} if config else contents


def _system_text(message: dict[str, Any]) -> str:
    """What a system message says, which `render` left as one text."""
    text: str = message["parts"][0]["text"]
    return text


def _alternating(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Contents of the model that follow each other as one: a call must come directly after the
    user's turn. What the system says in the middle of a conversation is said by the user."""
    out: list[dict[str, Any]] = []
    for message in messages:
        if message["role"] == "system":
            said = as_system(_system_text(message))
            out.append({"role": "user", "parts": [{"text": said}]})
        elif out and message["role"] == "model" == out[-1]["role"]:
            out[-1] = {**out[-1], "parts": [*out[-1]["parts"], *message["parts"]]}
        else:
            out.append(message)
    return out
