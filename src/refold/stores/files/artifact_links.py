"""`conversations/ID/artifacts/`: what the conversation's events name, as a person or a grep finds
it.

A content lies once in the store's own `artifacts/`; here it has a second name, and beside it
`NAME.meta.json` with what the event says of it. Derived from log and contents: whatever is missing
here is found by its digest all the same.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import suppress

import msgspec

from refold.core import codec
from refold.core.model import Artifact, Event
from refold.errors import Corrupt, Invalid
from refold.stores.contents import make_folder
from refold.stores.files import tree as files_tree

META = ".meta.json"

Location = Callable[[str], str | None]


def show(folder: str, events: Iterable[Event], location: Location) -> None:
    """Puts the contents that these events name into the folder."""
    for artifact in filter(None, map(artifact_of, events)):
        if path := _located(artifact, location):
            make_folder(folder, durable=False)
            name = os.path.join(folder, os.path.basename(path))
            _link(path, name)
            meta = msgspec.json.format(msgspec.json.encode(artifact), indent=2) + b"\n"
            files_tree.replace_file(name + META, meta, durable=False)


def take_away(folder: str, digest: str, location: Location) -> None:
    """Removes a content's name and what is said of it from the folder."""
    stems = {codec.artifact_id(digest), os.path.basename(location(digest) or "").partition(".")[0]}
    with suppress(FileNotFoundError):
        for name in os.listdir(folder):
            if name.partition(".")[0] in stems:
                os.unlink(os.path.join(folder, name))


def artifact_of(event: Event) -> Artifact | None:
    """What an artifact event says; None for any other, and for one that cannot be read: the fold
    will complain."""
    if event.kind != "artifact":
        return None
    try:
        body = codec.decode(event)
    except Corrupt:
        return None
    return body if isinstance(body, Artifact) else None


def _located(artifact: Artifact, location: Location) -> str | None:
    try:
        return location(artifact.digest)
    except Invalid:
        # A store keeps what it is given, also an event that names nothing.
        return None


def _link(path: str, name: str) -> None:
    # Where it has this name already, or the disk knows no second names, the .meta.json leads to the
    # content.
    with suppress(OSError):
        os.link(path, name)
