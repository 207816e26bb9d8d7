"""What a file has more of a message than the log: the parts that the log never had.

Where the lines of a message have ids, each part is looked up by its own, so nothing is missed or
written twice, whatever was deleted or moved. Where they have none, parts are counted. What was
erased is no more. Neighbours: `parts` cuts messages, `gone` says what was erased, `follow` writes.
"""

from __future__ import annotations

from collections.abc import Container, Sequence

from refold.edges.importers.entry import Entry, Said
from refold.edges.importers.erased import Erased
from refold.edges.importers.known import Place
from refold.edges.importers.parts import chosen, cut, has_names, parts_in
from refold.edges.importers.trace import ids_of, moment_of


class Growth:
    """What continues messages in the log, by the keys that these have in the file; and so what
    they lack."""

    def __init__(self, more: dict[str, list[Place]], erased: Erased) -> None:
        self._more, self._erased = more, erased
        self._ids = {id for places in more.values() for place in places for id in place.ids}

    def take(self, rest: Said) -> None:
        """The rest of a message was written."""
        self._ids.update(ids_of(rest))

    def rest(self, said: Said, place: Place, later: Sequence[Place]) -> Said | None:
        """What the log, which has a message in this place, never had of it; None if it has all.
        In `later` places, parts of it may have been erased."""
        ids = place.ids or (place.trace.ids if place.trace else ())
        if ids and has_names(said):
            is_renamed = place.trace is not None and not self._erased.gone.of(said)
            return None if is_renamed else self._lacking(said, self._ids.union(ids))
        held = self._held_parts(said, place, later)
        return cut(said, held, said.parts) if held < said.parts else None

    def rest_of(self, entry: Entry) -> Said | None:
        """The same for one of which parts were erased in another place."""
        if not isinstance(entry, Said) or not has_names(entry) or not self._erased.gone.of(entry):
            return None
        return self._lacking(entry, self._ids)

    def _lacking(self, said: Said, held: set[str]) -> Said | None:
        rest = self._erased.gone.rest(said)
        names = [id or moment_of(at_ms) for id, at_ms in zip(rest.ids, rest.times)]
        lacking = [at for at, name in enumerate(names) if name not in held]
        return chosen(rest, lacking) if lacking else None

    def _held_parts(self, said: Said, place: Place, later: Sequence[Place]) -> int:
        """How many parts of a message the log has, or had before they were erased."""
        held = parts_in(place.key) if place.key else self._erased_parts(said, 0, place)
        for more in self._more.get(said.key, ()):
            held = max(held, parts_in(more.key))
        for place in later:
            if not place.key and place.trace:
                whole = self._erased.beginning(said, 0, place.trace)  # it was written again since
                held = max(self._erased_parts(said, held, place), whole)
        return held

    def _erased_parts(self, said: Said, first: int, place: Place) -> int:
        return self._erased.parts_of(said, first, place.trace) if place.trace else first

    def leave(self, seen: Container[str]) -> list[Place]:
        """What continues messages that the file has not had so far, by their keys or by the ids of
        lines: it continues nothing now."""
        left: list[Place] = []
        for key, places in self._more.items():
            unseen = [place for place in places if not self._is_seen(place, key in seen)]
            self._more[key] = [place for place in places if place not in unseen]
            left += unseen
        self._ids -= {id for place in left for id in place.ids}
        return left

    def _is_seen(self, place: Place, is_key_seen: bool) -> bool:
        return not self._erased.gone.seen.isdisjoint(place.ids) if place.ids else is_key_seen
