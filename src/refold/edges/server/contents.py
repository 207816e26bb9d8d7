"""Routes of artifacts: bytes that are kept once, by their digest, and only known inside the
organization.

They are streamed both ways: the digest is made on the way in and checked on the way out.
"""

from __future__ import annotations

import re
from typing import Annotated

from msgspec import Meta, Struct

from refold.core.codec import artifact_id
from refold.edges.server.logs import BASE
from refold.edges.server.route import Call, Chunks, Route
from refold.errors import Corrupt

SUFFIX = re.compile(r"\.[A-Za-z0-9]{1,16}")


class PutQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    suffix: Annotated[str, Meta(pattern=f"^{SUFFIX.pattern}$")] = ".bin"


class Kept(Struct, frozen=True, kw_only=True):
    """What was kept, by its sha256 in hex."""

    digest: str


class DropQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    before_ms: Annotated[int, Meta(ge=0)]


class Dropped(Struct, frozen=True, kw_only=True):
    gone: bool


def put(call: Call) -> Kept:
    suffix = call.asked(PutQuery).suffix
    return Kept(digest=call.store.put(call.chunks, suffix=suffix))


def get(call: Call) -> Chunks:
    """Read once before it is sent: damage that shows at the end could only be told by a connection
    that breaks, which whoever asks takes for a network that does."""
    digest = call.path["digest"]
    try:
        for _ in call.store.get(digest):
            pass
    except Corrupt as error:
        said = f"the artifact {artifact_id(digest)} is damaged on the server"
        hint = (
            "refold verify there; a device that has it sends it with the next event that names it"
        )
        raise Corrupt(said, hint=hint) from error
    return Chunks(call.store.get(digest))


def drop(call: Call) -> Dropped:
    before_ms = call.asked(DropQuery).before_ms
    return Dropped(gone=call.store.drop(call.path["digest"], before_ms=before_ms))


ROUTES = [
    Route(
        method="POST",
        path=f"{BASE}/artifacts",
        summary="Keep bytes, streamed; gives their digest.",
        level="write",
        run=put,
        query=PutQuery,
        body="bytes",
        gives=Kept,
        streams=True,
    ),
    Route(
        method="GET",
        path=f"{BASE}/artifacts/{{digest}}",
        summary="Read the bytes of a digest.",
        level="read",
        run=get,
        gives="bytes",
        audit="read",
    ),
    Route(
        method="DELETE",
        path=f"{BASE}/artifacts/{{digest}}",
        summary="Remove bytes, unless they were put again since.",
        level="write",
        run=drop,
        query=DropQuery,
        gives=Dropped,
        audit="erase",
    ),
]
