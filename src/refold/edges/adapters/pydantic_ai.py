"""pydantic-ai: a capability that keeps the model's page small.

    agent = Agent("openai:gpt-5", capabilities=[RefoldCapability(store="sqlite:work.db")])

The history of a run stays as it is; only what a call sends is folded, in the hook that there is for
it. A conversation of pydantic-ai is one of refold. Unfolded messages are sent as the very objects.
Neighbours: `guest`, `pydantic_ai_messages`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from pydantic_ai import messages as said
from pydantic_ai.capabilities import AbstractCapability

import refold
from refold.edges.adapters.folding import Sent, definitions
from refold.edges.adapters.guest import Answered, Guest, Waiting
from refold.edges.adapters.pydantic_ai_messages import (
    Maker,
    instructions_of,
    tool_definition,
    wire_of,
    with_prompts,
)
from refold.edges.adapters.sessions import Place

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
        """Lets go of the conversations, and of the store if it was opened here."""
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
    """What the call was billed; None if nobody said."""
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
