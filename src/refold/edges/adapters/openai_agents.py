"""OpenAI Agents SDK: a session stored in refold, and a filter that keeps the input small.

    session = RefoldSession("fix-login", store="sqlite:work.db", model="gpt-5")
    config = RunConfig(call_model_input_filter=session.fold)
    await Runner.run(agent, "Why?", session=session, run_config=config, hooks=session.hooks)

A session returns exactly the items it was given: each item is a note of the conversation, and so is
each removal of the last item or of all, so the notes give the items in any process, even after a
restore. The model's input is mirrored from the items and folded by the filter; the hooks record the
answers and the usage. Session and mirror are two contexts of one conversation, because a mirror may
continue in a fork and the session may not. Neighbours: `guest`, `log.notes`.
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
from refold.edges.adapters import guest
from refold.edges.adapters.guest import (
    Answered,
    Guest,
    Place,
    Sent,
    Sessions,
    check_version,
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
        check_version("openai-agents")
        self._sessions = Sessions(store)
        self._name = f"{HOST}/{session_id}"
        self._items = Items(self._sessions, self._name)
        self._sent: Sent[Item] | None = None  # the pending call

    @cached_property
    def _mirror(self) -> Guest:
        """The mirror of the same conversation, for the model."""
        return Guest(DIALECT, self._sessions.store, self._settings)

    @cached_property
    def hooks(self) -> RunHooks[Any]:
        """The hooks of a run, which record each answer and its usage on arrival."""
        return _Hooks(self)

    async def get_items(self, limit: int | None = None) -> list[Item]:
        """All items, or the newest of them, unchanged."""
        if limit is None and self.session_settings is not None:
            limit = self.session_settings.limit
        return await asyncio.to_thread(self._items.newest, limit)

    async def add_items(self, items: Sequence[Item]) -> None:
        if items:
            await asyncio.to_thread(self._add, items)

    async def pop_item(self) -> Item | None:
        """Removes and returns the newest item."""
        return await asyncio.to_thread(self._items.pop)

    async def clear_session(self) -> None:
        await asyncio.to_thread(self._items.clear)

    async def fold(self, data: CallModelData[Any]) -> ModelInputData:
        """The `call_model_input_filter`: the same input, folded if necessary."""
        tools = guest.definitions(data.agent.tools, _tool)
        self._mirror.warn_of(_managers(data))
        model = data.agent.model
        name = model if isinstance(model, str) else getattr(model, "model", None)
        instructions = data.model_data.instructions
        self._sent = await asyncio.to_thread(
            self._mirror.fold,
            self._name,
            data.model_data.input,
            guest.same,
            guest.same,
            model=name if isinstance(name, str) else None,
            system=instructions,
            tools=tools,
        )
        return ModelInputData(input=self._sent.shown, instructions=instructions)

    async def take(self, response: ModelResponse) -> None:
        """Records the answer to the input that was folded last."""
        sent, self._sent = self._sent, None
        if sent is not None:
            await asyncio.to_thread(self._mirror.take, sent, partial(_answered, response))

    def close(self) -> None:
        """Closes the conversation, and the store if it was opened here."""
        if "_mirror" in vars(self):
            self._mirror.close()
        self._sessions.close()

    # --- in a thread ---

    def _add(self, items: Sequence[Item]) -> None:
        self._items.add(items)
        try:
            with self._mirror.sessions.session(self._name) as context:
                context.mirror(self._items.current())
        except refold.Invalid as error:
            guest.log.info("%s: the items are kept, but cannot be searched: %s", self._name, error)


class _Hooks(RunHooks[Any]):  # type: ignore[misc]
    def __init__(self, session: RefoldSession) -> None:
        self._session = session

    async def on_llm_end(self, context: Any, agent: Any, response: ModelResponse) -> None:
        await self._session.take(response)


def _managers(data: CallModelData[Any]) -> Iterator[str]:
    """Names of the managers, other than refold, that shorten this input."""
    if getattr(data.agent.model_settings, "context_management", None):
        yield "`context_management` of the model settings"
    kinds = (item.get("type") for item in data.model_data.input if isinstance(item, dict))
    if "compaction" in kinds:
        yield "a compaction by the provider in the input"


def _answered(response: ModelResponse) -> Answered:
    counts = response.usage
    if not counts.input_tokens:
        return response.to_input_items(), None
    cached = counts.input_tokens_details.cached_tokens or 0
    usage = refold.Usage(input=counts.input_tokens, output=counts.output_tokens, cache_read=cached)
    return response.to_input_items(), usage


def _tool(tool: Any) -> dict[str, Any]:
    schema = {"description": tool.description, "parameters": tool.params_json_schema}
    return {"type": "function", "name": tool.name, **schema}


# --- items ---

HOST = "openai-agents"
ITEM, POP, CLEAR = f"{HOST}-item", f"{HOST}-pop", f"{HOST}-clear"

Item = Any  # the SDK's TResponseInputItem: a dict of one of some forty shapes


class Items:
    """The items of the session of that name. Called in a thread."""

    def __init__(self, sessions: Sessions, name: str) -> None:
        self._sessions, self._name = sessions, name
        self._items: list[Item] = []  # the result of the notes up to the head
        self._head = 0

    def current(self) -> list[Item]:
        """The items. Reads only new notes."""
        with self._sessions.session(self._name) as context:
            view = context.view
            if view.changed_at > self._head:  # a restore, or an undo of one
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
        """Copies of the newest items, or of all."""
        items = self.current()
        return copy.deepcopy(items if limit is None else items[max(0, len(items) - limit) :])

    def add(self, items: Sequence[Item]) -> None:
        with self._sessions.session(self._name) as context:
            for item in items:
                context.note(ITEM, item, by=HOST)
            context.flush()

    def pop(self) -> Item | None:
        """Removes and returns the newest item."""
        items = self.current()
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
