"""Organizations: each has a store of its own, so no question of one can touch what is another's.

On SQLite that is a database file for each, in one folder; on PostgreSQL a column that every key
begins with. The server's own logs (tokens, the audit log) lie in one more, whose name no URL can
spell. Neighbours: `stores` open what is named here.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Sequence

from refold.checked import quoted
from refold.core.model import Event
from refold.edges.server.ends import Ends
from refold.errors import Invalid
from refold.redaction import redacted
from refold.stores import is_on_this_disk, open_orgs
from refold.stores.protocol import Store

SCHEMES = ("sqlite", "files", "postgresql", "postgres")
ORG = re.compile(r"[a-z0-9][a-z0-9-]{0,38}")
OWN = "server.own"


def org_checked(org: str) -> str:
    """The name itself; Invalid if no organization can have it."""
    if not isinstance(org, str) or not ORG.fullmatch(org):
        hint = "1 to 39 small letters, digits and dashes, such as acme"
        raise Invalid(f"{quoted(org, 80)} is not the name of an organization", hint=hint)
    return org


def place_checked(place: str) -> str:
    """The place itself; Invalid if it cannot hold organizations."""
    scheme, _, rest = place.partition(":")
    if scheme not in SCHEMES or not rest:
        said = f"a server cannot keep its organizations in {quoted(redacted(place), 200)}"
        raise Invalid(said, hint="sqlite:FOLDER, or postgresql://USER@HOST/DATABASE")
    if scheme in ("sqlite", "files") and os.path.isfile(os.path.expanduser(rest)):
        said = f"{quoted(rest)} is a file; a server has one for each organization"
        raise Invalid(said, hint="refold copy brings conversations into an organization")
    return place


class Orgs:
    """Opens the store of an organization when it is first asked for: only somebody with a token
    of that organization comes so far, so there are never more than were created. `workers` are the
    processes of this server: each has its share of the connections that the place allows.
    `appended` is told how many events were appended, in the thread that did it."""

    def __init__(
        self, place: str, *, workers: int = 1, appended: Callable[[int], None] | None = None
    ) -> None:
        self.place = place_checked(place)
        self._opener = open_orgs(self.place, processes=workers)
        self.appended = appended
        self._lock = threading.Lock()
        self._open: dict[str, Store] = {}
        self._ends: dict[str, Ends] = {}

    @property
    def shown_place(self) -> str:
        """The place without its password."""
        return redacted(self.place)

    @property
    def is_local(self) -> bool:
        """Whether writes of several conversations share one sync: they share one file."""
        return is_on_this_disk(self.place)

    def store(self, org: str) -> Store:
        """The store of an organization."""
        return self._opened(org_checked(org))

    def ends(self, org: str) -> Ends:
        """How the logs of an organization end, as far as this process wrote them."""
        store = self.store(org)
        with self._lock:
            return self._ends.setdefault(org, Ends(store))

    @property
    def own(self) -> Store:
        """The store of the server itself."""
        return self._opened(OWN)

    def _opened(self, org: str) -> Store:
        with self._lock:
            store = self._open.get(org)
            if store is None:
                store = self._open[org] = self._opener(org)
                if org != OWN:
                    self._count_appends(store)
            return store

    def _count_appends(self, store: Store) -> None:
        """Whichever route appends, and however: it is counted where all of them meet."""
        append = store.append

        def counted(conversation: str, events: Sequence[Event], *, expect: int) -> None:
            append(conversation, events, expect=expect)
            if self.appended is not None:
                self.appended(len(events))

        store.append = counted  # type: ignore[method-assign]

    def known(self) -> list[str]:
        """The organizations that are open here, for the metrics."""
        with self._lock:
            return [org for org in self._open if org != OWN]

    def close(self) -> None:
        with self._lock:
            for store in self._open.values():
                store.close()
            self._open.clear()
