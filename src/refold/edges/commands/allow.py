"""`refold allow`: what the files of this project name becomes usable, because the user says so.

The files name where texts go and with which key; running this command is the consent, for this
folder and these very values. `permit_writer` asks the same question at a terminal, for a command
that is about to use the writer. Neighbours: `settings.trust` remembers, `settings.writer` checks.
"""

from __future__ import annotations

import os
from typing import Annotated

from msgspec import Meta

from refold.display import visible
from refold.edges.commands.command import Arguments, Command, Result, Screen
from refold.edges.commands.session import Session
from refold.redaction import redacted
from refold.settings import trust
from refold.settings.writer import requested

REVOKE = Meta(description="Take back what was allowed.")


class AllowArguments(Arguments, frozen=True, kw_only=True):
    revoke: Annotated[bool, REVOKE] = False


class Allowed(Result, frozen=True, kw_only=True):
    """What the files of a folder name, and whether that is allowed now. `url` is empty if they
    name nothing."""

    folder: str
    url: str
    key_env: str
    allowed: bool


def run(session: Session, arguments: AllowArguments) -> Allowed:
    request = requested()
    if request is None:
        return Allowed(folder=os.getcwd(), url="", key_env="", allowed=False)
    change = trust.revoke if arguments.revoke else trust.allow
    change(request, os.environ)
    return Allowed(
        folder=request.folder,
        url=redacted(request.url),
        key_env=request.key_env,
        allowed=not arguments.revoke,
    )


def permit_writer(session: Session) -> None:
    """Asks whether the writer that the files name may be used, if that is not known yet and
    somebody can be asked."""
    request = requested()
    if request is None or session.screen is None or trust.is_allowed(request, os.environ):
        return
    key = f", with the key in {request.key_env}" if request.key_env else ""
    question = f"The files of {request.folder} send texts to {redacted(request.url)}{key}. Allow?"
    if session.screen.ask(visible(question)):
        trust.allow(request, os.environ)


def show(done: Allowed, screen: Screen) -> None:
    if not done.url:
        screen.line(f"The files of {done.folder} name nothing that has to be allowed.")
        return
    key = f", with the key in {done.key_env}" if done.key_env else ", without a key of its own"
    verb = "may" if done.allowed else "may no longer"
    screen.line(f"The files of {done.folder} {verb} send texts to {done.url}{key}.")


COMMAND = Command(
    name="allow",
    details="A changed address or key has to be allowed again.",
    on="nothing",
    arguments=AllowArguments,
    run=run,
    show=show,
)
