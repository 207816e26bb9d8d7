"""pydantic-ai: a capability that keeps the model's page small.

    agent = Agent("openai:gpt-5", capabilities=[RefoldCapability(store="sqlite:work.db")])

The history of a run stays unchanged; only the page of a request is folded. A conversation of
pydantic-ai is one of refold. Unfolded messages are sent as the same objects, and edited ones keep
the framework's own parts as far as they are unchanged. Messages are translated to Anthropic's form,
the only dialect in which a request or response fits into one message. Neighbour: `guest`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from pydantic_ai import messages as framework
from pydantic_ai.capabilities import AbstractCapability

import refold
from refold.edges.adapters.guest import (
    Answered,
    Guest,
    Place,
    Sent,
    Waiting,
    Wire,
    check_version,
    definitions,
    thinking_options,
)

HOST, DIALECT = "pydantic-ai", "anthropic"
# Capabilities of `pydantic-ai-harness` that shorten a history; the others have it in their names.
SHORTENING = frozenset({"ClampOversizedMessages", "ClearToolResults", "DeduplicateFileReads"})


class RefoldCapability(AbstractCapability[Any]):  # type: ignore[misc]
    """Folds the messages of every model request. `settings` are those of `refold.open`: `model` (by
    default the agent's own), `window`, `writer`, …"""

    def __init__(self, *, store: Place = None, **settings: Any) -> None:
        check_version("pydantic-ai")
        self._guest = Guest(DIALECT, store, settings)
        self._waiting: Waiting[Any] = Waiting()  # by run, which has one call at a time

    @classmethod
    def get_serialization_name(cls) -> str | None:
        return None

    async def prepare_model_request(self, ctx: Any, request_context: Any) -> Any:
        self._guest.warn_of(_managers(ctx))
        name = f"{HOST}/{ctx.conversation_id or ctx.run_id or 'agent'}"
        sent = await asyncio.to_thread(self._folded, name, request_context)
        self._waiting.add(str(ctx.run_id), sent)
        shown = with_prompts(sent.shown, request_context.messages)
        return replace(request_context, messages=shown)

    async def after_model_request(
        self, ctx: Any, *, request_context: Any, response: framework.ModelResponse
    ) -> framework.ModelResponse:
        sent = self._waiting.pop(str(ctx.run_id))
        if sent is not None:
            await asyncio.to_thread(self._guest.take, sent, partial(_answered, response))
        return response

    def close(self) -> None:
        """Closes the conversations, and the store if it was opened here."""
        self._guest.close()

    def _folded(self, name: str, request: Any) -> Sent[Any]:
        messages, parameters = request.messages, request.model_request_parameters
        system = "\n\n".join(instructions_of(messages, parameters))
        settings = request.model_settings or {}
        return self._guest.fold(
            name,
            messages,
            wire_of,
            Maker(messages).message,
            model=request.model.model_name,
            system=system or None,
            tools=definitions(parameters.tool_defs.values(), tool_definition),
            options=_options(settings, request.model.model_name),
        )


def _options(settings: Mapping[str, Any], model: str) -> dict[str, Any]:
    """The kind of thinking, from the settings of Anthropic's models, of Bedrock's, or of all. In
    other models it does not change which messages are accepted."""
    fields = settings.get("bedrock_additional_model_requests_fields") or {}
    thinking = settings.get("anthropic_thinking") or fields.get("thinking")
    if thinking is None and settings.get("thinking") and "claude" in model:
        thinking = {"type": "enabled"}
    return thinking_options({"thinking": thinking})


def _managers(ctx: Any) -> Iterator[str]:
    """Names of the capabilities of this run that compact its history. They are recognized by name,
    because most of them are in other packages."""
    names: list[str] = []
    if ctx.root_capability is not None:
        ctx.root_capability.apply(lambda one: names.append(type(one).__name__))
    yield from (name for name in names if "Compact" in name or name in SHORTENING)


def _answered(response: framework.ModelResponse) -> Answered:
    answers = [wire_of(response)] if response.parts else []
    counts = response.usage
    if not counts.input_tokens:
        return answers, None
    return answers, refold.Usage(
        input=counts.input_tokens,
        output=counts.output_tokens,
        cache_read=counts.cache_read_tokens,
        cache_write=counts.cache_write_tokens,
    )


# --- messages in Anthropic's form ---


def instructions_of(messages: Sequence[Any], parameters: Any) -> Iterator[str]:
    """The model's instructions: its system prompts, and the instructions of the request."""
    for part in (*_prompts(messages), *(parameters.instruction_parts or ())):
        yield part.content


def _prompts(messages: Sequence[Any]) -> list[framework.SystemPromptPart]:
    """The system prompts in the requests, which are never folded."""
    requests = (message for message in messages if message.kind == "request")
    parts = (part for request in requests for part in request.parts)
    return [part for part in parts if isinstance(part, framework.SystemPromptPart)]


def wire_of(message: Any) -> Wire:
    """A request or a response as one message."""
    role = "user" if message.kind == "request" else "assistant"
    blocks = [block for part in message.parts for block in _blocks(part)]
    return {"role": role, "content": blocks or [{"type": "text", "text": "(nothing)"}]}


def _blocks(part: Any) -> Iterator[Wire]:
    match part:
        case framework.SystemPromptPart():
            return
        case framework.ToolReturnPart():
            yield _result(part.tool_call_id, part.model_response_str())
        case framework.RetryPromptPart() if part.tool_name:
            yield {**_result(part.tool_call_id, part.model_response()), "is_error": True}
        case framework.RetryPromptPart():
            yield {"type": "text", "text": part.model_response()}
        case framework.ToolCallPart():
            call = {"id": part.tool_call_id, "name": part.tool_name, "input": part.args_as_dict()}
            yield {"type": "tool_use", **call}
        case framework.ThinkingPart() if part.signature:
            yield {"type": "thinking", "thinking": part.content, "signature": part.signature}
        case framework.UserPromptPart():
            content = [part.content] if isinstance(part.content, str) else part.content
            for item in content:
                yield {"type": "text", "text": _text(item) or "(empty)"}
        case _:
            yield {"type": "text", "text": _text(part) or "(empty)"}


def tool_definition(tool: Any) -> Wire:
    """A tool as a definition for the provider."""
    schema = tool.parameters_json_schema
    return {"name": tool.name, "description": tool.description or "", "input_schema": schema}


def _result(id: str, text: str) -> Wire:
    return {"type": "tool_result", "tool_use_id": id, "content": text}


def _text(part: Any) -> str:
    """The text of a part; for a file a note, because its bytes are sent with the object itself."""
    if isinstance(part, str):
        return part
    content = getattr(part, "content", None)
    about = getattr(part, "identifier", None) or getattr(part, "id", None) or ""
    kind = getattr(part, "kind", None) or getattr(part, "part_kind", "")
    return content if isinstance(content, str) else f"[{kind} {about}]"


class Maker:
    """Builds messages of the framework, reusing its own parts where they are unchanged."""

    def __init__(self, messages: Sequence[Any]) -> None:
        self._calls: dict[str, Any] = {}
        self._results: dict[str, Any] = {}
        for part in (part for message in messages for part in message.parts):
            if isinstance(part, framework.ToolCallPart):
                self._calls[part.tool_call_id] = part
            elif hasattr(part, "tool_call_id") and part.part_kind in (
                "tool-return",
                "retry-prompt",
            ):
                self._results[part.tool_call_id] = part

    def message(self, wire: Wire) -> Any:
        content = wire["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        parts = [self._part(block, wire["role"]) for block in blocks]
        is_user = wire["role"] == "user"
        return framework.ModelRequest(parts) if is_user else framework.ModelResponse(parts)

    def _part(self, block: Wire, role: str) -> Any:
        match block["type"]:
            case "tool_use":
                call = self._calls.get(block["id"])
                if call is not None and call.args_as_dict() == block["input"]:
                    return call
                return framework.ToolCallPart(block["name"], block["input"], block["id"])
            case "tool_result":
                return self._result(block["tool_use_id"], block["content"])
            case "thinking":
                return framework.ThinkingPart(block["thinking"], signature=block["signature"])
            case _:
                part = framework.UserPromptPart if role == "user" else framework.TextPart
                return part(block["text"])

    def _result(self, id: str, content: Any) -> Any:
        is_text = isinstance(content, str)
        text = content if is_text else "\n".join(part.get("text", "") for part in content)
        result = self._results.get(id)
        if result is not None and [block["content"] for block in _blocks(result)] == [text]:
            return result
        name = result.tool_name if result is not None else self._calls[id].tool_name
        return framework.ToolReturnPart(name, text, id)


def with_prompts(shown: list[Any], messages: Sequence[Any]) -> list[Any]:
    """The page, with the system prompts of hidden requests."""
    missing = [part for part in _prompts(messages) if part not in _prompts(shown)]
    return [framework.ModelRequest(missing), *shown] if missing else shown
