"""`conversations/ID/artifacts/`: what the conversation's events name, for a person or a grep.

A content lies once in the store's own `artifacts/`; here it has a second name, and beside it
`NAME.meta.json` with what the event says about it. Derived from log and contents: whatever is
missing here is still found by its digest. Neighbour: `store` keeps the links up to date.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import suppress

import msgspec

from refold.core import codec
from refold.core.model import Artifact, Event
from refold.errors import Corrupt, Invalid
from refold.stores.files import tree
from refold.system import disk

META = ".meta.json"

Location = Callable[[str], str | None]


def link(folder: str, events: Iterable[Event], location: Location) -> None:
    """Puts the contents that these events name into the folder."""
    for event in events:
        artifact = artifact_of(event)
        path = _path_of(artifact, location) if artifact else None
        if artifact and path:
            _link_one(folder, artifact, path)


def _link_one(folder: str, artifact: Artifact, path: str) -> None:
    disk.refuse_link(folder)
    disk.make_folder(folder, durable=False)
    name = os.path.join(folder, os.path.basename(path))
    # Where it has this name already, or the disk has no hard links, the .meta.json leads to the
    # content.
    with suppress(OSError):
        os.link(path, name)
    meta = msgspec.json.format(msgspec.json.encode(artifact), indent=2) + b"\n"
    tree.replace_file(name + META, meta, durable=False)


def unlink(folder: str, digest: str, path: str | None) -> None:
    """Removes a content's name, and what is said about it, from the folder. `path` is where the
    content lies or lay, if that is known."""
    if os.path.islink(folder):
        return
    stems = {codec.artifact_id(digest), _stem(os.path.basename(path or ""))}
    with suppress(FileNotFoundError):
        for name in os.listdir(folder):
            if _stem(name) in stems:
                os.unlink(os.path.join(folder, name))


def _stem(name: str) -> str:
    return name.partition(".")[0]


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


def _path_of(artifact: Artifact, location: Location) -> str | None:
    try:
        return location(artifact.digest)
    except Invalid:
        # A store keeps what it is given, even an event that names nothing.
        return None
