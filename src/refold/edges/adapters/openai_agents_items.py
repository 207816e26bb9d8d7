"""The items of a session of the OpenAI Agents SDK, as notes of a conversation.

Each item is a note, and so is that the last one was taken off, or all: what the notes come to are
the items, in whatever process, also after somebody restored the log. Neighbours: `openai_agents`
hands them over, `log.notes` keeps them.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from refold.edges.adapters.sessions import Sessions

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
