"""`refold token create`: a token for an organization of a team server. Its secret is shown once."""

from __future__ import annotations

import time
from typing import Annotated

from msgspec import Meta

from refold.edges.commands.command import Arguments, Command, Result, Screen
from refold.edges.commands.session import Session
from refold.edges.commands.token import ORG, STORE, TokenAbout, about_of, ends, orgs_of
from refold.edges.server.tokens import DAYS_MAX, NAME_CHARS_MAX, Scope, Tokens

DAYS = Meta(description="How many days it is valid.", le=DAYS_MAX)
SCOPE = Meta(
    description="What the token allows: read; write (and read), the default; or admin (also repair "
    "and metrics)."
)
NAME = Meta(description="Who or what it is for.", max_length=NAME_CHARS_MAX)


class CreateArguments(Arguments, frozen=True, kw_only=True):
    org: Annotated[str, ORG]
    scope: Annotated[Scope, SCOPE] = "write"
    days: Annotated[float, DAYS] = 365.0
    name: Annotated[str, NAME] = ""
    store: Annotated[str, STORE] | None = None


class TokenCreated(Result, frozen=True, kw_only=True):
    token: TokenAbout
    secret: str


def run(session: Session, arguments: CreateArguments) -> TokenCreated:
    with orgs_of(arguments.store) as orgs:
        tokens = Tokens(orgs.own)
        token, secret = tokens.create(
            arguments.org, arguments.scope, name=arguments.name, days=arguments.days
        )
    return TokenCreated(token=about_of(token, time.time_ns() // 1_000_000), secret=secret)


def show(created: TokenCreated, screen: Screen) -> None:
    token = created.token
    screen.line(created.secret)
    said = f"{token.id} may {token.scope} in {token.org}, {ends(token)}."
    screen.note(f"{said} This is shown once; only its digest is kept.")


COMMAND = Command(
    name="token create",
    details="Only the secret goes to standard output, so that you can pipe it where it belongs. If "
    "you write it to a file, make that readable for you alone (umask 077).",
    on="nothing",
    arguments=CreateArguments,
    run=run,
    show=show,
)
