"""Keeps a conversation with secrets near: `redact=hold` in the URL of a synced store, and what was
sealed elsewhere or before where secrets are taken out (`redact=append`).

What is about to leave is looked at, events and the contents that they name; the first secret stops
the conversation, which is then held with its place and stays as it is. Nothing is changed on the
way, because the chain covers the body. Neighbours: `exchange` asks before it sends.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from refold.core.model import Event
from refold.errors import Denied, Invalid, NotFound
from refold.redaction import found
from refold.redaction.plain import decoded
from refold.stores.hybrid import tails
from refold.stores.protocol import Store


class Held(Denied):
    """A conversation stays near, because it has a secret."""


HINT = "refold scan shows what was found; erase it, or sync without redact=hold"


def check_events(near: Store, events: Sequence[Event]) -> None:
    """Held if an event, or a content that one names, holds a secret."""
    for event in events:
        for text in _texts(event):
            _check(text, f"event {event.seq}")
    for artifact in tails.contents_of(events):
        try:
            content = b"".join(near.get(artifact.digest))
        except NotFound:
            continue
        _check(content.decode("utf-8", "replace"), artifact.id)


def _check(text: str, place: str) -> None:
    for secret in found(text):
        if secret.sure:
            said = f"{place} holds what looks like a secret ({secret.kind}), and is held back"
            raise Held(said, hint=HINT)


def check_id(conversation: str) -> None:
    """Invalid if the id of a new conversation holds a secret: it is the name of it everywhere."""
    if any(secret.sure for secret in found(conversation)):
        said = "the id of the conversation holds what looks like a secret"
        raise Invalid(said, hint="give it another id; its title can say more")


def _texts(event: Event) -> Iterator[str]:
    yield event.by
    try:
        yield from _strings(msgspec.json.decode(event.body) if event.body else None)
    except msgspec.DecodeError:
        yield event.body.decode("utf-8", "replace")


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield name
            yield from _strings(inner)
            if name == "data" and isinstance(inner, str):
                yield decoded(inner) or ""
    elif isinstance(value, list):
        for inner in value:
            yield from _strings(inner)
