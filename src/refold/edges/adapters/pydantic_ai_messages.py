"""Messages of pydantic-ai in Anthropic's form, and back.

A request or response is one message there, which alone of the dialects has a place for everything
that one of them holds. What is made anew has the framework's own parts wherever they say the same.
Neighbour: `pydantic_ai` asks for both.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pydantic_ai import messages as said

Wire = dict[str, Any]


def instructions_of(messages: Sequence[Any], parameters: Any) -> Iterator[str]:
    """What the model is told beside the messages."""
    for part in _prompts(messages):
        yield part.content
    for part in parameters.instruction_parts or ():
        yield part.content


def _prompts(messages: Sequence[Any]) -> list[said.SystemPromptPart]:
    """The system prompts, which stand in the requests and are never folded."""
    parts = (part for one in messages if one.kind == "request" for part in one.parts)
    return [part for part in parts if isinstance(part, said.SystemPromptPart)]


def wire_of(message: Any) -> Wire:
    """A request or a response as one message."""
    role = "user" if message.kind == "request" else "assistant"
    blocks = [block for part in message.parts for block in _blocks(part)]
    return {"role": role, "content": blocks or [{"type": "text", "text": "(nothing)"}]}


def _blocks(part: Any) -> Iterator[Wire]:
    match part:
        case said.SystemPromptPart():
            return
        case said.ToolReturnPart():
            yield _result(part.tool_call_id, part.model_response_str())
        case said.RetryPromptPart() if part.tool_name:
            yield {**_result(part.tool_call_id, part.model_response()), "is_error": True}
        case said.RetryPromptPart():
            yield {"type": "text", "text": part.model_response()}
        case said.ToolCallPart():
            call = {"id": part.tool_call_id, "name": part.tool_name, "input": part.args_as_dict()}
            yield {"type": "tool_use", **call}
        case said.ThinkingPart() if part.signature:
            yield {"type": "thinking", "thinking": part.content, "signature": part.signature}
        case said.UserPromptPart():
            content = [part.content] if isinstance(part.content, str) else part.content
            for one in content:
                yield {"type": "text", "text": _text(one) or "(empty)"}
        case _:
            yield {"type": "text", "text": _text(part) or "(empty)"}


def tool_definition(tool: Any) -> Wire:
    """A tool as a provider would be told of it."""
    schema = tool.parameters_json_schema
    return {"name": tool.name, "description": tool.description or "", "input_schema": schema}


def _result(id: str, text: str) -> Wire:
    return {"type": "tool_result", "tool_use_id": id, "content": text}


def _text(part: Any) -> str:
    """What a part says; of a file, what it is: its bytes are sent with the object itself."""
    if isinstance(part, str):
        return part
    content = getattr(part, "content", None)
    about = getattr(part, "identifier", None) or getattr(part, "id", None) or ""
    kind = getattr(part, "kind", None) or getattr(part, "part_kind", "")
    return content if isinstance(content, str) else f"[{kind} {about}]"


# --- our messages as theirs ---


class Maker:
    """Makes messages of the framework, with its own parts wherever they say the same."""

    def __init__(self, messages: Sequence[Any]) -> None:
        parts = [part for one in messages for part in one.parts if hasattr(part, "tool_call_id")]
        self._calls = {p.tool_call_id: p for p in parts if isinstance(p, said.ToolCallPart)}
        self._results = {
            p.tool_call_id: p for p in parts if p.part_kind in ("tool-return", "retry-prompt")
        }

    def message(self, wire: Wire) -> Any:
        content = wire["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        parts = [self._part(block, wire["role"]) for block in blocks]
        return said.ModelRequest(parts) if wire["role"] == "user" else said.ModelResponse(parts)

    def _part(self, block: Wire, role: str) -> Any:
        match block["type"]:
            case "tool_use":
                known = self._calls.get(block["id"])
                if known is not None and known.args_as_dict() == block["input"]:
                    return known
                return said.ToolCallPart(block["name"], block["input"], block["id"])
            case "tool_result":
                return self._result(block["tool_use_id"], block["content"])
            case "thinking":
                return said.ThinkingPart(block["thinking"], signature=block["signature"])
            case _:
                part = said.UserPromptPart if role == "user" else said.TextPart
                return part(block["text"])

    def _result(self, id: str, content: Any) -> Any:
        text = (
            content
            if isinstance(content, str)
            else "\n".join(one.get("text", "") for one in content)
        )
        known = self._results.get(id)
        if known is not None and [block["content"] for block in _blocks(known)] == [text]:
            return known
        name = known.tool_name if known is not None else self._calls[id].tool_name
        return said.ToolReturnPart(name, text, id)


def with_prompts(shown: list[Any], messages: Sequence[Any]) -> list[Any]:
    """What is shown, with the system prompts of requests that are not."""
    missing = [part for part in _prompts(messages) if part not in _prompts(shown)]
    if not missing:
        return shown
    return [said.ModelRequest(missing), *shown]
