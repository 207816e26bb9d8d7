"""`refold token list`: the tokens of a team server, and which of them are valid."""

from __future__ import annotations

import time
from typing import Annotated

from msgspec import Meta

from refold.edges.commands.command import Arguments, Command, Result, Screen
from refold.edges.commands.session import Session
from refold.edges.commands.token import STORE, TokenAbout, about_of, day, orgs_of
from refold.edges.server.tokens import Tokens

ORG = Meta(description="Only those of this organization.")


class ListArguments(Arguments, frozen=True, kw_only=True):
    org: Annotated[str, ORG] | None = None
    store: Annotated[str, STORE] | None = None


class TokensListed(Result, frozen=True, kw_only=True):
    store: str
    tokens: tuple[TokenAbout, ...]


def run(session: Session, arguments: ListArguments) -> TokensListed:
    now_ms = time.time_ns() // 1_000_000
    with orgs_of(arguments.store) as orgs:
        found = [about_of(token, now_ms) for token in Tokens(orgs.own).list()]
        wanted = [one for one in found if arguments.org in (None, one.org)]
        return TokensListed(store=orgs.shown_place, tokens=tuple(wanted))


def show(listed: TokensListed, screen: Screen) -> None:
    if not listed.tokens:
        create = screen.call("token create")
        screen.line(f"There are no tokens in {listed.store}; {create} makes one.")
        return
    heads = ("ID", "ORG", "SCOPE", "STATE", "CREATED", "EXPIRES", "NAME")
    screen.table(heads, map(_cells, listed.tokens))


def _cells(one: TokenAbout) -> tuple[str, ...]:
    expires = day(one.expires_ms) if one.expires_ms else "never"
    return one.id, one.org, one.scope, one.state, day(one.created_ms), expires, one.name


COMMAND = Command(
    name="token list",
    on="nothing",
    arguments=ListArguments,
    run=run,
    show=show,
)
