"""`refold logout`: this machine forgets its token for a team server."""

from __future__ import annotations

import os
from typing import Annotated

from refold.edges.commands.command import Arguments, Command, Result, Screen
from refold.edges.commands.login import URL
from refold.edges.commands.session import Session
from refold.settings import logins
from refold.stores import server_place


class LogoutArguments(Arguments, frozen=True, kw_only=True):
    url: Annotated[str, URL]


class LoggedOut(Result, frozen=True, kw_only=True):
    """`was_known` says whether there was a token to forget."""

    url: str
    was_known: bool


def run(session: Session, arguments: LogoutArguments) -> LoggedOut:
    place = server_place(arguments.url)
    return LoggedOut(url=place, was_known=logins.forget(place, os.environ))


def show(done: LoggedOut, screen: Screen) -> None:
    if not done.was_known:
        screen.line(f"There was no token for {done.url}.")
        return
    screen.line(f"The token for {done.url} is forgotten here.")
    revoke = screen.call("token revoke")
    screen.line(f"It stays valid until it ends or is revoked: {revoke}, on the server.")


COMMAND = Command(
    name="logout",
    on="nothing",
    arguments=LogoutArguments,
    run=run,
    show=show,
)
