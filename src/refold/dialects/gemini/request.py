"""Gemini contents: the keyword arguments of the call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from refold.dialects import definitions
from refold.dialects.foreign import as_system, leading
from refold.dialects.wire import report


def request(
    messages: list[dict[str, Any]],
    *,
    system: Any,
    tools: list[Any] | None,
    marks: Sequence[int],
    lost: list[str],
) -> dict[str, Any]:
    """The keyword arguments of the call. The provider finds what it can cache by itself: no
    marks. System messages that lead the page stand behind the system prompt."""
    if messages and messages[-1].get("role") == "model":
        report(lost, "the conversation ends with the model: some Gemini models refuse that")
    lead = leading(messages, ("system",))
    prompt = [
        {"text": block["text"]}
        for block in definitions.text_blocks([system, *map(_said, messages[:lead])])
    ]
    config: dict[str, Any] = {"system_instruction": {"parts": prompt}} if prompt else {}
    defined = definitions.for_gemini(tools, lost)
    if defined:
        config["tools"] = defined
    contents = {"contents": _alternating(messages[lead:])}
    return {**contents, "config": config} if config else contents


def _said(system: dict[str, Any]) -> str:
    text: str = system["parts"][0]["text"]
    return text


def _alternating(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Contents of the model that follow each other as one: a call must come directly after the
    user's turn. What the system says in the middle of a conversation is said by the user."""
    out: list[dict[str, Any]] = []
    for message in messages:
        if message["role"] == "system":
            out.append({"role": "user", "parts": [{"text": as_system(_said(message))}]})
        elif out and message["role"] == "model" == out[-1]["role"]:
            out[-1] = {**out[-1], "parts": [*out[-1]["parts"], *message["parts"]]}
        else:
            out.append(message)
    return out
