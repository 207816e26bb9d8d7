"""What `doctor` finds that a newer version wrote: kinds of events, edits and blocks that this one
carries and passes over."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import msgspec

from refold.core import codec
from refold.core.model import Event
from refold.edges.commands.checks import Finding
from refold.errors import Corrupt, RefoldError
from refold.log.reading import conversations, readable
from refold.stores.protocol import Store

EVENTS_MAX = 100_000
NAMED_MAX = 20
ADVICE = "a newer version of refold wrote it and this one passes over it: upgrade refold"


def newer_findings(store: Store) -> Iterator[Finding]:
    """The first places where a newer version wrote what this one does not know."""
    for where, what in islice(_unknown(store), NAMED_MAX):
        yield Finding(name=where, value=f"unknown {what}", advice=ADVICE)


def _unknown(store: Store) -> Iterator[tuple[str, str]]:
    for id, event in islice(_events(store), EVENTS_MAX):
        if _is_known(event):
            continue
        for name in codec.unknown_in(event):
            yield f"{id} #{event.seq}", name


def _events(store: Store) -> Iterator[tuple[str, Event]]:
    try:
        for about in conversations(store):
            for event in readable(store, about):
                # What is damaged is for `verify` to say.
                if not isinstance(event, Corrupt):
                    yield about.id, event
    except RefoldError:
        return


def _is_known(event: Event) -> bool:
    """Whether the body is one of ours, or no JSON at all."""
    if event.erased:
        return event.kind in codec.KINDS
    try:
        codec.body_of(event.kind, event.body)
    except (KeyError, msgspec.ValidationError):
        return False
    except (msgspec.DecodeError, ValueError, RecursionError):
        return True
    return True
