"""OpenAI Agents SDK: a session that is kept in refold, and a filter that keeps the input small.

    session = RefoldSession("fix-login", store="sqlite:work.db", model="gpt-5")
    config = RunConfig(call_model_input_filter=session.fold)
    await Runner.run(agent, "Why?", session=session, run_config=config, hooks=session.hooks)

A session gives back what it was given, whatever that is. What the model reads is mirrored from the
items, and folded when the filter asks; what it answered, and was billed, the hooks keep. Both are
of one conversation, through two contexts: a mirror may go on in a fork, the session may not.
Neighbours: `guest`, `openai_agents_items`.

The items of a session of the OpenAI Agents SDK, as notes of a conversation.

Each item is a note, and so is that the last one was taken off, or all: what the notes come to are
the items, in whatever process, also after somebody restored the log. Neighbours: `openai_agents`
hands them over, `log.notes` keeps them.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Iterator, Sequence
from functools import cached_property, partial
from typing import Any

from agents import ModelResponse, RunHooks
from agents.memory import SessionSettings
from agents.run_config import CallModelData, ModelInputData

import refold
from refold.edges.adapters.guest import (
    Answered,
    Guest,
    Place,
    Sent,
    Sessions,
    definitions,
    log,
    same,
)

DIALECT = "openai_responses"


class RefoldSession:
    """Satisfies the SDK's `Session`. `settings` are those of `refold.open`: `model`, `window`,
    `writer`, …"""

    def __init__(
        self,
        session_id: str,
        *,
        store: Place = None,
        session_settings: SessionSettings | None = None,
        **settings: Any,
    ) -> None:
        self.session_id, self.session_settings = session_id, session_settings
        self._settings = settings
        self._kept = Sessions(store)
        self._name = f"{HOST}/{session_id}"
        self._items = Items(self._kept, self._name)
        self._sent: Sent[Item] | None = None  # the call that is under way

    @cached_property
    def _read(self) -> Guest:
        """The same conversation as the model reads it."""
        return Guest(DIALECT, self._kept.store, self._settings)

    @cached_property
    def hooks(self) -> RunHooks[Any]:
        """The hooks of a run: they keep each answer when it comes, and what it was billed."""
        return _Hooks(self)

    async def get_items(self, limit: int | None = None) -> list[Item]:
        """All items, or the newest of them, as they were added."""
        if limit is None and self.session_settings is not None:
            limit = self.session_settings.limit
        return await asyncio.to_thread(self._items.newest, limit)

    async def add_items(self, items: Sequence[Item]) -> None:
        if items:
            await asyncio.to_thread(self._add, items)

    async def pop_item(self) -> Item | None:
        """Takes the newest item off, and gives it."""
        return await asyncio.to_thread(self._items.pop)

    async def clear_session(self) -> None:
        await asyncio.to_thread(self._items.clear)

    async def fold(self, data: CallModelData[Any]) -> ModelInputData:
        """The `call_model_input_filter`: the same input, shorter if it has to be."""
        tools = definitions(data.agent.tools, _tool)
        self._read.warn_of(_managers(data))
        name = _model_name(data.agent.model)
        self._sent = await asyncio.to_thread(self._folded, data.model_data, tools, name)
        shown, instructions = self._sent.shown, data.model_data.instructions
        return ModelInputData(input=shown, instructions=instructions)

    async def take(self, response: ModelResponse) -> None:
        """Keeps what the model answered to the input that was folded last."""
        sent, self._sent = self._sent, None
        if sent is not None:
            await asyncio.to_thread(self._read.take, sent, partial(_answered, response))

    def close(self) -> None:
        """Closes the conversation, and the store if it was opened here."""
        if "_read" in vars(self):
            self._read.close()
        self._kept.close()

    # --- in a thread ---

    def _add(self, items: Sequence[Item]) -> None:
        self._items.add(items)
        try:
            with self._read.sessions.session(self._name) as context:
                context.mirror(self._items.standing())
        except refold.Invalid as error:
            log.info("%s: the items are kept, but cannot be searched: %s", self._name, error)

    def _folded(
        self, given: ModelInputData, tools: list[Any] | None, model: str | None
    ) -> Sent[Item]:
        return self._read.fold(
            self._name,
            given.input,
            same,
            same,
            model=model,
            system=given.instructions,
            tools=tools,
        )


class _Hooks(RunHooks[Any]):  # type: ignore[misc]
    def __init__(self, session: RefoldSession) -> None:
        self._session = session

    async def on_llm_end(self, context: Any, agent: Any, response: ModelResponse) -> None:
        await self._session.take(response)


def _managers(data: CallModelData[Any]) -> Iterator[str]:
    """What shortens this input besides refold."""
    if getattr(data.agent.model_settings, "context_management", None):
        yield "`context_management` of the model settings"
    kinds = (item.get("type") for item in data.model_data.input if isinstance(item, dict))
    if "compaction" in kinds:
        yield "A compaction of the provider's, which is in the input,"


def _answered(response: ModelResponse) -> Answered:
    return response.to_input_items(), _usage(response.usage)


def _usage(billed: Any) -> refold.Usage | None:
    """The usage of the call; None if it is unknown."""
    if not billed.input_tokens:
        return None
    cached = billed.input_tokens_details.cached_tokens or 0
    return refold.Usage(input=billed.input_tokens, output=billed.output_tokens, cache_read=cached)


def _model_name(model: Any) -> str | None:
    name = model if isinstance(model, str) else getattr(model, "model", None)
    return name if isinstance(name, str) else None


def _tool(tool: Any) -> dict[str, Any]:
    schema = {"description": tool.description, "parameters": tool.params_json_schema}
    return {"type": "function", "name": tool.name, **schema}


HOST = "openai-agents"
ITEM, POP, CLEAR = f"{HOST}-item", f"{HOST}-pop", f"{HOST}-clear"

Item = Any  # the SDK's TResponseInputItem: a dict of one of some forty shapes


class Items:
    """The items of the session of that name. Called in a thread."""

    def __init__(self, sessions: Sessions, name: str) -> None:
        self._sessions, self._name = sessions, name
        self._items: list[Item] = []  # what the notes come to, as far as they were read
        self._head = 0

    def standing(self) -> list[Item]:
        """The items that stand. Only what came since is read."""
        with self._sessions.session(self._name) as context:
            view = context.view
            if view.changed_at > self._head:  # somebody restored, or undid it
                self._items, self._head = [], 0
            notes = context.log.notes(after=self._head)
            for note in notes:
                if note.kind == ITEM:
                    self._items.append(note.data)
                elif note.kind == POP:
                    del self._items[-1:]
                elif note.kind == CLEAR:
                    self._items.clear()
            self._head = max([view.head, *(note.seq for note in notes[-1:])])
            return self._items

    def newest(self, limit: int | None) -> list[Item]:
        """So many of the newest, or all, as values of the caller's own."""
        items = self.standing()
        return copy.deepcopy(items if limit is None else items[max(0, len(items) - limit) :])

    def add(self, items: Sequence[Item]) -> None:
        with self._sessions.session(self._name) as context:
            for item in items:
                context.note(ITEM, item, by=HOST)
            context.flush()

    def pop(self) -> Item | None:
        """Takes the newest off, and gives it."""
        items = self.standing()
        if not items:
            return None
        self._note(POP)
        return items[-1]

    def clear(self) -> None:
        self._note(CLEAR)

    def _note(self, kind: str) -> None:
        with self._sessions.session(self._name) as context:
            context.note(kind, by=HOST)
            context.flush()
