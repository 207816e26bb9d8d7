"""The commands of a team server's tokens, and what they share: where that server keeps its
organizations."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from msgspec import Meta, Struct

from refold.display import moment
from refold.edges.server.orgs import Orgs
from refold.edges.server.tokens import Scope, State, Token
from refold.settings.sources import server_store

STORE = Meta(
    description="Where the server keeps its organizations: sqlite:FOLDER or postgresql://...; by "
    "default what REFOLD_SERVER_STORE says, else a folder in your data folder.",
    extra={"metavar": "URL"},
)
ORG = Meta(description="The organization, such as acme.")


@contextmanager
def orgs_of(store: str | None) -> Iterator[Orgs]:
    """The organizations in the place that was named, closed at the end."""
    orgs = Orgs(store or server_store())
    try:
        yield orgs
    finally:
        orgs.close()


class TokenAbout(Struct, frozen=True, kw_only=True):
    """What may be shown of a token: nothing that anybody could call with. `expires_ms` is 0 for
    one that never does."""

    id: str
    org: str
    scope: Scope
    state: State
    name: str
    created_ms: int
    expires_ms: int


def about_of(token: Token, now_ms: int) -> TokenAbout:
    return TokenAbout(
        id=token.id,
        org=token.org,
        scope=token.scope,
        state=token.state(now_ms),
        name=token.name,
        created_ms=token.created_ms,
        expires_ms=token.expires_ms,
    )


def day(at_ms: int) -> str:
    return moment(at_ms)[:10]


def ends(token: TokenAbout) -> str:
    """Until when a token is valid, as part of a sentence."""
    return f"until {day(token.expires_ms)}" if token.expires_ms else "without an end"
