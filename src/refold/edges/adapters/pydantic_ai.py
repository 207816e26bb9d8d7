"""pydantic-ai: a capability that keeps the model's page small.

    agent = Agent("openai:gpt-5", capabilities=[RefoldCapability(store="sqlite:work.db")])

The history of a run stays as it is; only what a call sends is folded, in the hook that there is for
it. A conversation of pydantic-ai is one of refold. Unfolded messages are sent as the very objects.
Neighbours: `guest`, `pydantic_ai_messages`.

Messages of pydantic-ai in Anthropic's form, and back.

A request or response is one message there, which alone of the dialects has a place for everything
that one of them holds. What is made anew has the framework's own parts wherever they say the same.
Neighbour: `pydantic_ai` asks for both.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from pydantic_ai import messages as said
from pydantic_ai.capabilities import AbstractCapability

import refold
from refold.edges.adapters.guest import Answered, Guest, Place, Sent, Waiting, definitions

HOST, DIALECT = "pydantic-ai", "anthropic"
# Capabilities of `pydantic-ai-harness` that shorten a history; the others have it in their names.
SHORTENING = frozenset({"ClampOversizedMessages", "ClearToolResults", "DeduplicateFileReads"})


class RefoldCapability(AbstractCapability[Any]):  # type: ignore[misc]
    """Folds the messages of every model request. `settings` are those of `refold.open`: `model`,
    `window`, `writer`, …; without `model`, the name of the agent's own model counts."""

    def __init__(self, *, store: Place = None, **settings: Any) -> None:
        self._guest = Guest(DIALECT, store, settings)
        self._waiting: Waiting[Any] = Waiting()  # by run: one call of it is under way

    @classmethod
    def get_serialization_name(cls) -> str | None:
        return None

    async def prepare_model_request(self, ctx: Any, request_context: Any) -> Any:
        self._guest.warn_of(_managers(ctx))
        sent = await asyncio.to_thread(self._folded, _name(ctx), request_context)
        self._waiting.add(str(ctx.run_id), sent)
        shown = with_prompts(sent.shown, request_context.messages)
        return replace(request_context, messages=shown)

    async def after_model_request(
        self, ctx: Any, *, request_context: Any, response: said.ModelResponse
    ) -> said.ModelResponse:
        sent = self._waiting.pop(str(ctx.run_id))
        if sent is not None:
            await asyncio.to_thread(self._guest.take, sent, partial(_answered, response))
        return response

    def close(self) -> None:
        """Closes the conversations, and the store if it was opened here."""
        self._guest.close()

    def _folded(self, name: str, asked: Any) -> Sent[Any]:
        messages, parameters = asked.messages, asked.model_request_parameters
        system = "\n\n".join(instructions_of(messages, parameters))
        return self._guest.fold(
            name,
            messages,
            wire_of,
            Maker(messages).message,
            model=asked.model.model_name,
            system=system or None,
            tools=definitions(parameters.tool_defs.values(), tool_definition),
        )


def _managers(ctx: Any) -> Iterator[str]:
    """The capabilities of this run that compact its history: by name, because most of them are of
    other packages."""
    names: list[str] = []
    if ctx.root_capability is not None:
        ctx.root_capability.apply(lambda one: names.append(type(one).__name__))
    yield from (name for name in names if "Compact" in name or name in SHORTENING)


def _answered(response: said.ModelResponse) -> Answered:
    return [wire_of(response)] if response.parts else [], _usage(response.usage)


def _usage(usage: Any) -> refold.Usage | None:
    """The usage of the call; None if it is unknown."""
    if not usage.input_tokens:
        return None
    return refold.Usage(
        input=usage.input_tokens,
        output=usage.output_tokens,
        cache_read=usage.cache_read_tokens,
        cache_write=usage.cache_write_tokens,
    )


def _name(ctx: Any) -> str:
    return f"{HOST}/{ctx.conversation_id or ctx.run_id or 'agent'}"


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
