"""Strands: a conversation manager that keeps requests small, and the agent's list complete.

    manager = RefoldConversationManager("fix-login", store="sqlite:work.db")
    agent = Agent(model=model, tools=tools, conversation_manager=manager)

During a call the page replaces the content of the agent's list, because Strands sends that list and
has no other place for a page; afterwards the list is restored, so sessions, hooks and the agent
itself keep every message. Messages (in Bedrock's shape) are translated to Anthropic's; a block that
Anthropic's form lacks travels unchanged in a block of its own type, with bytes as base64. Cache
points are left out. Neighbour: `guest`.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from functools import partial
from typing import Any

import msgspec
from strands.agent.conversation_manager import ConversationManager
from strands.hooks import AfterModelCallEvent, BeforeModelCallEvent, HookRegistry

import refold
from refold.edges.adapters.guest import (
    Answered,
    Guest,
    Place,
    Sent,
    Wire,
    check_version,
    definitions,
    log,
    thinking_options,
)

HOST, DIALECT = "strands", "anthropic"


class RefoldConversationManager(ConversationManager):  # type: ignore[misc]
    """Folds the messages of every call. `name` is the conversation, of one agent; `settings` are
    those of `refold.open`: `model` (by default the agent's own), `window`, `writer`, …"""

    def __init__(self, name: str = "agent", *, store: Place = None, **settings: Any) -> None:
        check_version("strands")
        super().__init__()
        self._name = f"{HOST}/{name}"
        self._guest = Guest(DIALECT, store, settings)
        self._originals: list[Any] | None = None  # the agent's messages during a call
        self._sent: Sent[Wire] | None = None  # the pending call

    def register_hooks(self, registry: HookRegistry, **kwargs: Any) -> None:
        super().register_hooks(registry, **kwargs)
        registry.add_callback(BeforeModelCallEvent, self._before_call)
        registry.add_callback(AfterModelCallEvent, self._after_call)

    def apply_management(self, agent: Any, **kwargs: Any) -> None:
        """Restores the agent's list at the end of an invocation."""
        self._restore(agent)

    def reduce_context(self, agent: Any, e: Exception | None = None, **kwargs: Any) -> None:
        """Shortens the page for the next call after the model refused it; raises the model's error
        if that is not possible."""
        self._restore(agent)
        if e is None:
            return
        is_shortened = False
        with self._guest.sessions.session(self._name) as context:
            try:
                is_shortened = context.recover(e)
            except refold.OverBudget as error:
                log.warning("the page cannot be made shorter: %s", error)
        if not is_shortened:
            raise e

    def close(self) -> None:
        """Closes the conversation, and the store if it was opened here."""
        self._guest.close()

    # --- around a call ---

    def _before_call(self, event: BeforeModelCallEvent) -> None:
        agent = event.agent
        self._restore(agent)
        given = agent.model.get_config()
        config = given if isinstance(given, dict) else {}
        # The models of Anthropic and Bedrock keep the options of their calls here.
        fields = (config.get("params"), config.get("additional_request_fields"))
        thinking = (thinking_options(options) for options in fields if isinstance(options, dict))
        self._sent = self._guest.fold(
            self._name,
            agent.messages,
            to_wire,
            from_wire,
            model=config.get("model_id"),
            system=agent.system_prompt,
            tools=definitions(agent.tool_registry.get_all_tool_specs(), _tool),
            options=next(filter(None, thinking), {}),
        )
        self._originals = list(agent.messages)
        agent.messages[:] = _alternating(self._sent.shown)

    def _after_call(self, event: AfterModelCallEvent) -> None:
        self._restore(event.agent)
        sent, self._sent = self._sent, None
        message = event.stop_response.message if event.stop_response else None
        if sent is not None and message is not None:
            self._guest.take(sent, partial(_answered, message))

    def _restore(self, agent: Any) -> None:
        if self._originals is not None:
            agent.messages[:] = self._originals
            self._originals = None


def _alternating(messages: Iterable[Wire]) -> list[Wire]:
    """The messages, with consecutive ones of the same role joined, because some models of Strands
    refuse them."""
    joined: list[Wire] = []
    for message in messages:
        if joined and joined[-1]["role"] == message["role"]:
            content = [*joined[-1]["content"], *message["content"]]
            joined[-1] = {"role": message["role"], "content": content}
        else:
            joined.append(message)
    return joined


def _tool(spec: Wire) -> Wire:
    schema = spec["inputSchema"]
    described = {"name": spec["name"], "description": spec["description"]}
    return {**described, "input_schema": schema.get("json", schema)}


def _answered(message: Wire) -> Answered:
    """The answer, and the usage. Providers differ in whether `inputTokens` includes cached tokens;
    the total does."""
    answers = [to_wire(message)] if message["content"] else []
    counts = message.get("metadata", {}).get("usage")
    if not counts or not counts.get("totalTokens"):
        log.debug("the call has no usage")
        return answers, None
    return answers, refold.Usage(
        input=counts["totalTokens"] - counts["outputTokens"],
        output=counts["outputTokens"],
        cache_read=counts.get("cacheReadInputTokens", 0),
        cache_write=counts.get("cacheWriteInputTokens", 0),
    )


# --- messages in Anthropic's form ---

OTHER = "strands"  # the type of blocks that Anthropic's form lacks
_BYTES = "$bytes"


def to_wire(message: Wire) -> Wire:
    """A message of Strands in Anthropic's form."""
    blocks = [_block(block) for block in message["content"] if "cachePoint" not in block]
    return {"role": message["role"], "content": blocks}


def from_wire(message: Wire) -> Wire:
    """A message in Anthropic's form as one of Strands."""
    content = message["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return {"role": message["role"], "content": [_own_block(block) for block in blocks]}


def _block(block: Wire) -> Wire:
    match block:
        case {"text": str(text)}:
            return {"type": "text", "text": text}
        case {"toolUse": call} if not call.keys() - {"toolUseId", "name", "input"}:
            named = {"id": call["toolUseId"], "name": call["name"]}
            return {"type": "tool_use", **named, "input": call["input"]}
        case {"toolResult": result}:
            content = []
            for part in result["content"]:
                if "json" in part:  # the model reads its text
                    text = msgspec.json.encode(part["json"]).decode()
                    content.append({"type": "text", "text": text})
                else:
                    content.append(_block(part))
            answer = {"type": "tool_result", "tool_use_id": result["toolUseId"]}
            is_error = result.get("status") == "error"
            return {**answer, "content": content, **({"is_error": True} if is_error else {})}
        case {"reasoningContent": {"reasoningText": thought}}:
            signature = thought.get("signature") or ""
            return {"type": "thinking", "thinking": thought["text"], "signature": signature}
        case {"reasoningContent": {"redactedContent": bytes(data)}}:
            return {"type": "redacted_thinking", "data": base64.b64encode(data).decode()}
        case {"image": {"format": form, "source": {"bytes": bytes(data)}}}:
            source = {"type": "base64", "media_type": f"image/{form}"}
            return {"type": "image", "source": source | {"data": base64.b64encode(data).decode()}}
        case _:
            return {"type": OTHER, "block": _plain(block)}


def _own_block(block: Wire) -> Wire:
    match block["type"]:
        case "text":
            return {"text": block["text"]}
        case "tool_use":
            call = {"toolUseId": block["id"], "name": block["name"], "input": block["input"]}
            return {"toolUse": call}
        case "tool_result":
            content = block.get("content") or ""
            parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
            result: Wire = {"toolUseId": block["tool_use_id"]}
            result["status"] = "error" if block.get("is_error") else "success"
            return {"toolResult": result | {"content": [_own_block(part) for part in parts]}}
        case "thinking":
            thought = {"text": block["thinking"], "signature": block["signature"]}
            return {"reasoningContent": {"reasoningText": thought}}
        case "redacted_thinking":
            return {"reasoningContent": {"redactedContent": base64.b64decode(block["data"])}}
        case "image":
            source = block["source"]
            form = source["media_type"].partition("/")[2]
            return {
                "image": {"format": form, "source": {"bytes": base64.b64decode(source["data"])}}
            }
        case _:
            return _with_bytes(block["block"])  # type: ignore[no-any-return]


def _plain(value: Any) -> Any:
    """The value as JSON, with bytes as base64."""
    if isinstance(value, bytes):
        return {_BYTES: base64.b64encode(value).decode()}
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list) else value


def _with_bytes(value: Any) -> Any:
    """The original of a plain value."""
    if isinstance(value, dict):
        if value.keys() == {_BYTES}:
            return base64.b64decode(value[_BYTES])
        return {key: _with_bytes(item) for key, item in value.items()}
    return [_with_bytes(item) for item in value] if isinstance(value, list) else value
