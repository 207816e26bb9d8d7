"""What the clauses of the contract are written with: places to try a store in, events to fill it,
errors to expect.

A clause is a function of a `Make` that asserts; no test framework is imported. Neighbours: each
file of this package collects its own clauses with `collector`.
"""

from __future__ import annotations

import functools
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from refold.core import codec, ids
from refold.core.model import Event, Meta
from refold.errors import RefoldError
from refold.stores.protocol import Store

AT_MS = 1_700_000_000_000
TEXT = b'{"role":"user","blocks":[{"type":"text","text":"hello"}]}'


class Place(Protocol):
    """Where one store keeps its data. `url` opens it in another process too; it is empty where
    that is impossible."""

    url: str

    def open(self) -> Store:
        """A store on this place's data: another object each time, if the place has a `url`."""


Make = Callable[[], Place]
Clause = Callable[[Make], None]


def collector() -> tuple[list[Clause], Callable[[Clause], Clause]]:
    """A list of clauses, and the decorator that puts them there."""
    clauses: list[Clause] = []

    def clause(function: Clause) -> Clause:
        clauses.append(function)
        return function

    return clauses, clause


def on_new_store(check: Callable[[Store], None]) -> Clause:
    """The clause that runs a check on a store with nothing in it, and closes the store."""

    @functools.wraps(check)
    def clause(make: Make) -> None:
        store = make().open()
        check(store)
        store.close()

    return clause


def sealed(
    before: Event | None,
    bodies: Sequence[bytes],
    *,
    kind: str = "message",
    by: str = "user",
    at_ms: int = AT_MS,
) -> list[Event]:
    """New events with these bodies on top of the event `before`."""
    events: list[Event] = []
    for body in bodies:
        seq, chain = (before.seq + 1, before.chain) if before else (1, codec.ZERO)
        id = ids.uuid7(at_ms + seq, secrets.token_bytes(10))
        salt = secrets.token_bytes(codec.SALT_BYTES)
        before = codec.seal(
            chain, seq, id=id, at_ms=at_ms + seq, by=by, kind=kind, body=body, salt=salt, tokens=seq
        )
        events.append(before)
    return events


def grown(
    store: Store, conversation: str, count: int, *, before: Event | None = None
) -> list[Event]:
    """Appends `count` events one by one and gives them back."""
    events = sealed(before, [TEXT] * count)
    for event in events:
        store.append(conversation, [event], expect=event.seq - 1)
    return events


def titled(before: Event | None, title: str) -> Event:
    """A meta event that names the conversation."""
    return sealed(before, [codec.encode(Meta(title=title))], kind="meta")[0]


class Refusal:
    """The error that a block raised; `error` is set when the block is left."""

    error: RefoldError


@contextmanager
def refused(expected: type[RefoldError]) -> Iterator[Refusal]:
    """Fails unless the block raises this error of the family, with a hint for the reader."""
    refusal = Refusal()
    try:
        yield refusal
    except expected as error:
        assert str(error), "an error says what happened"
        assert error.hint, f"{error!r} names no next step"
        refusal.error = error
        return
    raise AssertionError(f"nothing was raised where {expected.__name__} was due")
