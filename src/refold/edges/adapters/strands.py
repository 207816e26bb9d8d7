"""Strands: a conversation manager that keeps what a call sends small, and the agent's list whole.

    manager = RefoldConversationManager("fix-login", store="sqlite:work.db")
    agent = Agent(model=model, tools=tools, conversation_manager=manager)

Before a call the page stands in the agent's list, after it the list is as it was: Strands sends
what the list holds, and has no other place for a page. So sessions, hooks and the agent itself keep
every message. Neighbours: `guest`, `strands_messages`.

Messages of Strands (Bedrock's shape) as Anthropic's, and back.

Texts, calls, results, thinking and images have a place in both. Whatever else a block is travels as
it is, in a block of its own kind that only this module reads; bytes in it become base64. What has
no meaning for the history, a mark for the cache, is left out. Neighbour: `strands`.
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
from refold.edges.adapters.guest import Answered, Guest, Place, Sent, definitions, log

HOST, DIALECT = "strands", "anthropic"


class RefoldConversationManager(ConversationManager):  # type: ignore[misc]
    """Folds the messages of every call. `name` is the conversation, of one agent; `settings` are
    those of `refold.open`: `model`, `window`, `writer`, …; without `model`, that of the agent's own
    model counts."""

    def __init__(self, name: str = "agent", *, store: Place = None, **settings: Any) -> None:
        super().__init__()
        self._name = f"{HOST}/{name}"
        self._guest = Guest(DIALECT, store, settings)
        self._whole: list[Any] | None = None  # the agent's list, while the page stands in it
        self._sent: Sent[Wire] | None = None  # the call that is under way

    def register_hooks(self, registry: HookRegistry, **kwargs: Any) -> None:
        super().register_hooks(registry, **kwargs)
        registry.add_callback(BeforeModelCallEvent, self._before_call)
        registry.add_callback(AfterModelCallEvent, self._after_call)

    def apply_management(self, agent: Any, **kwargs: Any) -> None:
        """The end of an invocation, however it ended: the agent has its list again."""
        self._put_back(agent)

    def reduce_context(self, agent: Any, e: Exception | None = None, **kwargs: Any) -> None:
        """The model refused the page: a smaller one stands in the next call, or the error."""
        self._put_back(agent)
        if e is not None and not self._is_shortened(e):
            raise e

    def _is_shortened(self, refusal: Exception) -> bool:
        with self._guest.sessions.session(self._name) as context:
            try:
                return context.recover(refusal)
            except refold.OverBudget as error:
                log.warning("the page cannot be made shorter: %s", error)
                return False

    def close(self) -> None:
        """Closes the conversation, and the store if it was opened here."""
        self._guest.close()

    # --- around a call ---

    def _before_call(self, event: BeforeModelCallEvent) -> None:
        agent = event.agent
        self._put_back(agent)
        self._sent = self._guest.fold(
            self._name,
            agent.messages,
            to_wire,
            from_wire,
            model=_model_name(agent),
            system=agent.system_prompt,
            tools=definitions(agent.tool_registry.get_all_tool_specs(), _tool),
        )
        self._whole = list(agent.messages)
        agent.messages[:] = _alternating(self._sent.shown)

    def _after_call(self, event: AfterModelCallEvent) -> None:
        self._put_back(event.agent)
        sent, self._sent = self._sent, None
        message = event.stop_response.message if event.stop_response else None
        if sent is not None and message is not None:
            self._guest.take(sent, partial(_answered, message))

    def _put_back(self, agent: Any) -> None:
        if self._whole is not None:
            agent.messages[:] = self._whole
            self._whole = None


def _model_name(agent: Any) -> str | None:
    config = agent.model.get_config() or {}
    return config.get("model_id") if isinstance(config, dict) else None


def _alternating(messages: Iterable[Wire]) -> list[Wire]:
    """The messages, those of one role that follow one another as one: not every model that Strands
    speaks to takes two."""
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
    return [to_wire(message)] if message["content"] else [], _usage(message)


def _usage(message: Wire) -> refold.Usage | None:
    """What the call was billed; None if nobody said. Whether `inputTokens` has the cached ones in
    it differs by provider; the total has them."""
    billed = message.get("metadata", {}).get("usage")
    if not billed or not billed.get("totalTokens"):
        log.debug("the call has no usage")
        return None
    return refold.Usage(
        input=billed["totalTokens"] - billed["outputTokens"],
        output=billed["outputTokens"],
        cache_read=billed.get("cacheReadInputTokens", 0),
        cache_write=billed.get("cacheWriteInputTokens", 0),
    )


Wire = dict[str, Any]

OTHER = "strands"  # the kind of a block that has no place in the other shape
_BYTES = "$bytes"


def to_wire(message: Wire) -> Wire:
    """A message of Strands as one of Anthropic's."""
    blocks = [_block(one) for one in message["content"] if "cachePoint" not in one]
    return {"role": message["role"], "content": blocks}


def from_wire(message: Wire) -> Wire:
    """The way back."""
    content = message["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return {"role": message["role"], "content": [_own_block(one) for one in blocks]}


def _block(block: Wire) -> Wire:
    match block:
        case {"text": str(text)}:
            return {"type": "text", "text": text}
        case {"toolUse": call} if not call.keys() - {"toolUseId", "name", "input"}:
            named = {"id": call["toolUseId"], "name": call["name"]}
            return {"type": "tool_use", **named, "input": call["input"]}
        case {"toolResult": result}:
            content = [_content(one) for one in result["content"]]
            answered = {"type": "tool_result", "tool_use_id": result["toolUseId"]}
            is_error = result.get("status") == "error"
            return {**answered, "content": content, **({"is_error": True} if is_error else {})}
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


def _content(part: Wire) -> Wire:
    """A part of a result: a value goes as its text, which is what the model reads."""
    if "json" in part:
        return {"type": "text", "text": msgspec.json.encode(part["json"]).decode()}
    return _block(part)


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
            return _whole(block["block"])  # type: ignore[no-any-return]


def _plain(value: Any) -> Any:
    """A value that JSON can hold."""
    if isinstance(value, bytes):
        return {_BYTES: base64.b64encode(value).decode()}
    if isinstance(value, dict):
        return {key: _plain(held) for key, held in value.items()}
    return [_plain(held) for held in value] if isinstance(value, list) else value


def _whole(value: Any) -> Any:
    if isinstance(value, dict):
        if value.keys() == {_BYTES}:
            return base64.b64decode(value[_BYTES])
        return {key: _whole(held) for key, held in value.items()}
    return [_whole(held) for held in value] if isinstance(value, list) else value
