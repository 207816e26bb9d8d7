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

    def tell(self, *, is_unsure: bool) -> None:
        """Something new comes after it: all of the news holds from here on. Where the file may
        have gone another way than the log, what may have been erased is not told again."""
        if self._news:
            self._tell(self._not_erased(self._news) if is_unsure else self._news)

    def _not_erased(self, fields: Fields) -> Fields:
        """What the log still says, or no words of anybody's."""
        if not self._held.was_erased:
            return fields
        kept = (name for name in fields if name == "model" or self._stands(name, fields[name]))
        return {name: fields[name] for name in kept}

    def _stands(self, name: str, value: Any) -> bool:
        return self._held.says(name, _plain(name, value))

    def pass_over(self) -> None:
        """The log has what comes after it, and was told then: only what it never had is news."""
        if self._news:
            self._tell({name: value for name, value in self._news.items() if self._is_new(name)})

    def tell_again(self) -> None:
        """The log went back: it may be at a place where it was said to be otherwise."""
        of_the_page = {name: self._so_far[name] for name in OF_THE_PAGE if name in self._so_far}
        news = {name: value for name, value in self._news.items() if name not in of_the_page}
        self._tell(self._not_erased(of_the_page))
        self._news = news

    def _is_new(self, name: str) -> bool:
        return not self._held.has_said(name, _plain(name, self._news[name]))

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


def _plain(name: str, value: Any) -> Any:
    """A value as the log has it; one that no log can have stays as it is, and is told as such."""
    plain = {"system": plain_system, "tools": plain_tools}.get(name)
    try:
        return plain(value) if plain else value
    except Invalid:
        return value
