"""`refold token revoke`: a token ends, for good, on every server that shares the store."""

from __future__ import annotations

import time
from typing import Annotated

from msgspec import Meta

from refold.edges.commands.command import Arguments, Command, Result, Screen
from refold.edges.commands.session import Session
from refold.edges.commands.token import STORE, TokenAbout, about_of, orgs_of
from refold.edges.server.tokens import Tokens

ID = Meta(
    description="The id of the token, as the list shows it.",
    extra={"positional": True, "metavar": "TOKEN"},
)


class RevokeArguments(Arguments, frozen=True, kw_only=True):
    token: Annotated[str, ID]
    store: Annotated[str, STORE] | None = None


class Revoked(Result, frozen=True, kw_only=True):
    token: TokenAbout


def run(session: Session, arguments: RevokeArguments) -> Revoked:
    with orgs_of(arguments.store) as orgs:
        token = Tokens(orgs.own).revoke(arguments.token)
    return Revoked(token=about_of(token, time.time_ns() // 1_000_000))


def show(revoked: Revoked, screen: Screen) -> None:
    screen.line(f"{revoked.token.id} of {revoked.token.org} is revoked; servers know in a second.")


COMMAND = Command(
    name="token revoke",
    details="It cannot be made valid again; create another.",
    on="nothing",
    arguments=RevokeArguments,
    run=run,
    show=show,
)
