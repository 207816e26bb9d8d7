"""What a file says of its session, told to the log: the model, the title, the system prompt.

A file says the same again and again, and a log that follows it may have been told otherwise by a
user since. So only news is told: what differs from what the file said before it, once something
new comes after it; before what the log has, only a value that the log never had. Neighbours:
`follow` hears it from the file and says what comes next, `known` has what the log was told.
"""

from __future__ import annotations

from typing import Any

from refold.dialects.beside import plain_system, plain_tools
from refold.edges.importers.entry import About, Unread
from refold.edges.importers.known import SAID, Known
from refold.engine.batch import Batch
from refold.engine.context import Context
from refold.errors import Invalid

OF_THE_PAGE = ("model", "system", "tools")  # what holds from a place on; the rest is the session's
_METADATA = "metadata."

Fields = dict[str, Any]


class Teller:
    """Tells the log of one session, which has `held` of it. `unread` takes what could not be
    told."""

    def __init__(self, context: Context, batch: Batch, held: Known, unread: list[Unread]) -> None:
        self._context, self._batch, self._held, self._unread = context, batch, held, unread
        self._line = 0
        self._so_far: Fields = {}  # what the file says at this place
        self._news: Fields = {}  # of that, what came since the last thing that was told or known

    def hear(self, about: About) -> None:
        """Takes what the file says; it waits for what comes next."""
        given = {name: getattr(about, name) for name in SAID}
        given |= {_METADATA + name: value for name, value in (about.metadata or {}).items()}
        self._line = about.line
        for name, value in given.items():
            if value is not None and self._so_far.get(name) != value:
                self._so_far[name] = self._news[name] = value

    def tell(self) -> None:
        """Something new comes after it: all of the news holds from here on."""
        if self._news:
            self._tell(self._news)

    def pass_over(self) -> None:
        """The log has what comes after it, and was told then: only what it never had is news."""
        if self._news:
            self._tell({name: value for name, value in self._news.items() if self._is_new(name)})

    def tell_again(self) -> None:
        """The log went back: it may be at a place where it was said to be otherwise."""
        self._tell({name: self._so_far[name] for name in OF_THE_PAGE if name in self._so_far})

    def _is_new(self, name: str) -> bool:
        value = self._news[name]
        plain = {"system": plain_system, "tools": plain_tools}.get(name)
        return not self._held.has_said(name, plain(value) if plain else value)

    def _tell(self, fields: Fields) -> None:
        self._news = {}
        if not fields:
            return
        self._batch.write()  # what came before it was said by another model
        try:
            self._update(fields)
        except Invalid:
            for name, value in fields.items():
                self._tell_alone(name, value)

    def _tell_alone(self, name: str, value: Any) -> None:
        """Tells one of several values that cannot all be told."""
        try:
            self._update({name: value})
        except Invalid as error:
            said = f"{error.message}; {error.hint}"
            self._unread.append(Unread(line=self._line, reason=said))

    def _update(self, fields: Fields) -> None:
        own = {
            name.removeprefix(_METADATA): value
            for name, value in fields.items()
            if name.startswith(_METADATA)
        }
        self._context.update(
            model=fields.get("model"),
            title=fields.get("title"),
            system=fields.get("system"),
            tools=fields.get("tools"),
            metadata={**self._batch.metadata, **own} if own else None,
        )
