"""`refold login`: a token for an organization on a team server. It is checked by a call, and kept
for that place alone, in a file that only the user can read."""

from __future__ import annotations

import os
from typing import Annotated

from msgspec import Meta

from refold.display import moment
from refold.edges.commands.command import Arguments, Command, Result, Screen
from refold.edges.commands.session import Session
from refold.settings import logins
from refold.stores import asked_token, server_place

URL = Meta(
    description="The organization on the server: https://HOST/ORG.",
    extra={"positional": True, "metavar": "URL"},
)


class LoginArguments(Arguments, frozen=True, kw_only=True):
    url: Annotated[str, URL]


class LoggedIn(Result, frozen=True, kw_only=True):
    """`expires_ms` is 0 for a token without an end."""

    url: str
    token: str
    scope: str
    expires_ms: int
    file: str


def run(session: Session, arguments: LoginArguments) -> LoggedIn:
    place = server_place(arguments.url)
    secret = session.secret(f"Token for {place}")
    about = asked_token(place, secret)
    file = logins.keep(place, secret, os.environ)
    return LoggedIn(
        url=place, token=about.id, scope=about.scope, expires_ms=about.expires_ms, file=str(file)
    )


def show(done: LoggedIn, screen: Screen) -> None:
    until = f" until {moment(done.expires_ms)[:10]}" if done.expires_ms else ""
    screen.line(f"Logged in to {done.url}: {done.token} may {done.scope}{until}.")
    listing = screen.call("list")
    screen.line(f"Kept in {done.file}. Use it with: {listing} --store {done.url}")


COMMAND = Command(
    name="login",
    details="You type the token without seeing it, or pipe it to standard input.",
    on="nothing",
    arguments=LoginArguments,
    run=run,
    show=show,
)
