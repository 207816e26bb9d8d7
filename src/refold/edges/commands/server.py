"""`refold serve`: the team server, until it is stopped.

With `--check` it looks whether it could start, and serves nothing. Neighbour: `edges.server` is the
server itself, imported when it runs.

`refold login`: a token for an organization on a team server. It is checked by a call, and kept
for that place alone, in a file that only the user can read.

`refold logout`: this machine forgets its token for a team server.

`refold allow`: what the files of this project name becomes usable, because the user says so.

The files name where texts go and with which key; running this command is the consent, for this
folder and these very values. `permit_writer` asks the same question at a terminal, for a command
that is about to use the writer. Neighbours: `settings.trust` remembers, `settings.writer` checks.

The commands of a team server's tokens, and what they share: where that server keeps its
organizations.

`refold token create`: a token for an organization of a team server. Its secret is shown once.

`refold token list`: the tokens of a team server, and which of them are valid.

`refold token revoke`: a token ends, for good, on every server that shares the store.

`refold token audit`: who read, erased and administered what in an organization, and which tokens
were created and revoked.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Literal

from msgspec import Meta, Struct

from refold.display import moment, visible
from refold.edges.commands.command import Arguments, Command, Result, Screen
from refold.edges.commands.session import Session
from refold.edges.server.audit import Entry, entries_of
from refold.edges.server.gate import (
    DAYS_MAX,
    NAME_CHARS_MAX,
    Orgs,
    Scope,
    State,
    Token,
    Tokens,
    org_checked,
)
from refold.redaction import redacted
from refold.settings import logins, sources
from refold.settings.sources import requested, server_direct, server_store
from refold.stores import asked_token, server_place

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


DIRECT = Meta(
    description="An address of the same database without a pooler, for the change feed; or set "
    "REFOLD_SERVER_DIRECT.",
    extra={"metavar": "URL"},
)
HOST = Meta(description="The address to listen on; 127.0.0.1 is this machine alone.")
PORT = Meta(description="The port to listen on.", ge=1, le=65_535)
NAME = Meta(description="A name by which clients call this server; can be repeated.")
WORKERS = Meta(description="How many processes share the port.", ge=1, le=64)
LIMIT = Meta(
    description="A limit for all workers together, such as calls_per_s=100; can be repeated.",
    extra={"metavar": "NAME=NUMBER"},
)
CERTIFICATE = Meta(description="A file with the certificate, for TLS.", extra={"metavar": "FILE"})
KEY = Meta(description="A file with the certificate's key.", extra={"metavar": "FILE"})
LOG = Meta(description="What is logged to standard error: every call, or only what is wrong.")
CHECK = Meta(description="Say whether it could start, and stop there.")


class ServeArguments(Arguments, frozen=True, kw_only=True):
    store: Annotated[str, STORE] | None = None
    direct: Annotated[str, DIRECT] | None = None
    host: Annotated[str, HOST] = "127.0.0.1"
    port: Annotated[int, PORT] = 8_741
    name: Annotated[tuple[str, ...], NAME] = ()
    workers: Annotated[int, WORKERS] = 1
    limit: Annotated[tuple[str, ...], LIMIT] = ()
    certificate: Annotated[str, CERTIFICATE] = ""
    key: Annotated[str, KEY] = ""
    log: Annotated[Literal["info", "warning", "error"], LOG] = "info"
    check: Annotated[bool, CHECK] = False


class Served(Result, frozen=True, kw_only=True):
    """What could be served, and where; `stopped` if it was, until somebody stopped it."""

    url: str
    store: str
    workers: int
    stopped: bool = False


def run_serve(session: Session, arguments: ServeArguments) -> Served:
    from refold.edges.server.limits import limits_of
    from refold.edges.server.serve import Given, checked, serve, url_of

    given = Given(
        store=arguments.store or server_store(),
        direct=arguments.direct or server_direct(),
        host=arguments.host,
        port=arguments.port,
        names=arguments.name,
        workers=arguments.workers,
        limits=limits_of(arguments.limit),
        certificate=arguments.certificate,
        key=arguments.key,
        log_level=arguments.log,
    )
    place = checked(given)
    url = url_of(given)

    def told() -> None:
        if session.screen is not None:
            session.screen.note(f"serving {place} at {url}/ORG; stop with Ctrl-C")

    if not arguments.check:
        serve(given, told)
    return Served(url=url, store=place, workers=given.workers, stopped=not arguments.check)


def show_serve(served: Served, screen: Screen) -> None:
    if served.stopped:
        screen.note(f"stopped serving {served.store}")
        return
    screen.line(f"{served.store} can be served at {served.url}/ORG.")


SERVE = Command(
    name="serve",
    details="Nobody can call without a token: see refold token create.",
    on="nothing",
    arguments=ServeArguments,
    run=run_serve,
    show=show_serve,
)


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


def run_login(session: Session, arguments: LoginArguments) -> LoggedIn:
    place = server_place(arguments.url)
    secret = session.secret(f"Token for {place}")
    about = asked_token(place, secret)
    file = logins.keep(place, secret, os.environ)
    return LoggedIn(
        url=place, token=about.id, scope=about.scope, expires_ms=about.expires_ms, file=str(file)
    )


def show_login(done: LoggedIn, screen: Screen) -> None:
    until = f" until {moment(done.expires_ms)[:10]}" if done.expires_ms else ""
    screen.line(f"Logged in to {done.url}: {done.token} may {done.scope}{until}.")
    listing = screen.call("list")
    screen.line(f"Kept in {done.file}. Use it with: {listing} --store {done.url}")


LOGIN = Command(
    name="login",
    details="You type the token without seeing it, or pipe it to standard input.",
    on="nothing",
    arguments=LoginArguments,
    run=run_login,
    show=show_login,
)


class LogoutArguments(Arguments, frozen=True, kw_only=True):
    url: Annotated[str, URL]


class LoggedOut(Result, frozen=True, kw_only=True):
    """`was_known` says whether there was a token to forget."""

    url: str
    was_known: bool


def run_logout(session: Session, arguments: LogoutArguments) -> LoggedOut:
    place = server_place(arguments.url)
    return LoggedOut(url=place, was_known=logins.forget(place, os.environ))


def show_logout(done: LoggedOut, screen: Screen) -> None:
    if not done.was_known:
        screen.line(f"There was no token for {done.url}.")
        return
    screen.line(f"The token for {done.url} is forgotten here.")
    revoke = screen.call("token revoke")
    screen.line(f"It stays valid until it ends or is revoked: {revoke}, on the server.")


LOGOUT = Command(
    name="logout",
    on="nothing",
    arguments=LogoutArguments,
    run=run_logout,
    show=show_logout,
)


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


def run_allow(session: Session, arguments: AllowArguments) -> Allowed:
    request = requested()
    if request is None:
        return Allowed(folder=os.getcwd(), url="", key_env="", allowed=False)
    change = sources.revoke if arguments.revoke else sources.allow
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
    if request is None or session.screen is None or sources.is_allowed(request, os.environ):
        return
    key = f", with the key in {request.key_env}" if request.key_env else ""
    question = f"The files of {request.folder} send texts to {redacted(request.url)}{key}. Allow?"
    if session.screen.ask(visible(question)):
        sources.allow(request, os.environ)


def show_allow(done: Allowed, screen: Screen) -> None:
    if not done.url:
        screen.line(f"The files of {done.folder} name nothing that has to be allowed.")
        return
    key = f", with the key in {done.key_env}" if done.key_env else ", without a key of its own"
    verb = "may" if done.allowed else "may no longer"
    screen.line(f"The files of {done.folder} {verb} send texts to {done.url}{key}.")


ALLOW = Command(
    name="allow",
    details="A changed address or key has to be allowed again.",
    on="nothing",
    arguments=AllowArguments,
    run=run_allow,
    show=show_allow,
)


DAYS = Meta(description="How many days it is valid.", le=DAYS_MAX)
SCOPE = Meta(
    description="What the token allows: read; write (and read), the default; or admin (also repair "
    "and metrics)."
)
CREATE_NAME = Meta(description="Who or what it is for.", max_length=NAME_CHARS_MAX)


class CreateArguments(Arguments, frozen=True, kw_only=True):
    org: Annotated[str, ORG]
    scope: Annotated[Scope, SCOPE] = "write"
    days: Annotated[float, DAYS] = 365.0
    name: Annotated[str, CREATE_NAME] = ""
    store: Annotated[str, STORE] | None = None


class TokenCreated(Result, frozen=True, kw_only=True):
    token: TokenAbout
    secret: str


def run_token_create(session: Session, arguments: CreateArguments) -> TokenCreated:
    with orgs_of(arguments.store) as orgs:
        tokens = Tokens(orgs.own)
        token, secret = tokens.create(
            arguments.org, arguments.scope, name=arguments.name, days=arguments.days
        )
    return TokenCreated(token=about_of(token, time.time_ns() // 1_000_000), secret=secret)


def show_token_create(created: TokenCreated, screen: Screen) -> None:
    token = created.token
    screen.line(created.secret)
    said = f"{token.id} may {token.scope} in {token.org}, {ends(token)}."
    screen.note(f"{said} This is shown once; only its digest is kept.")


TOKEN_CREATE = Command(
    name="token create",
    details="Only the secret goes to standard output, so that you can pipe it where it belongs. If "
    "you write it to a file, make that readable for you alone (umask 077).",
    on="nothing",
    arguments=CreateArguments,
    run=run_token_create,
    show=show_token_create,
)


LIST_ORG = Meta(description="Only those of this organization.")


class ListArguments(Arguments, frozen=True, kw_only=True):
    org: Annotated[str, LIST_ORG] | None = None
    store: Annotated[str, STORE] | None = None


class TokensListed(Result, frozen=True, kw_only=True):
    store: str
    tokens: tuple[TokenAbout, ...]


def run_token_list(session: Session, arguments: ListArguments) -> TokensListed:
    now_ms = time.time_ns() // 1_000_000
    with orgs_of(arguments.store) as orgs:
        found = [about_of(token, now_ms) for token in Tokens(orgs.own).list()]
        wanted = [one for one in found if arguments.org in (None, one.org)]
        return TokensListed(store=orgs.shown_place, tokens=tuple(wanted))


def show_token_list(listed: TokensListed, screen: Screen) -> None:
    if not listed.tokens:
        create = screen.call("token create")
        screen.line(f"There are no tokens in {listed.store}; {create} makes one.")
        return
    heads = ("ID", "ORG", "SCOPE", "STATE", "CREATED", "EXPIRES", "NAME")
    screen.table(heads, map(_cells, listed.tokens))


def _cells(one: TokenAbout) -> tuple[str, ...]:
    expires = day(one.expires_ms) if one.expires_ms else "never"
    return one.id, one.org, one.scope, one.state, day(one.created_ms), expires, one.name


TOKEN_LIST = Command(
    name="token list",
    on="nothing",
    arguments=ListArguments,
    run=run_token_list,
    show=show_token_list,
)


ID = Meta(
    description="The id of the token, as the list shows it.",
    extra={"positional": True, "metavar": "TOKEN"},
)


class RevokeArguments(Arguments, frozen=True, kw_only=True):
    token: Annotated[str, ID]
    store: Annotated[str, STORE] | None = None


class Revoked(Result, frozen=True, kw_only=True):
    token: TokenAbout


def run_token_revoke(session: Session, arguments: RevokeArguments) -> Revoked:
    with orgs_of(arguments.store) as orgs:
        token = Tokens(orgs.own).revoke(arguments.token)
    return Revoked(token=about_of(token, time.time_ns() // 1_000_000))


def show_token_revoke(revoked: Revoked, screen: Screen) -> None:
    screen.line(f"{revoked.token.id} of {revoked.token.org} is revoked; servers know in a second.")


TOKEN_REVOKE = Command(
    name="token revoke",
    details="It cannot be made valid again; create another.",
    on="nothing",
    arguments=RevokeArguments,
    run=run_token_revoke,
    show=show_token_revoke,
)


LIMIT_MAX = 100_000
AUDIT_LIMIT = Meta(description="How many lines, the newest.", ge=1, le=LIMIT_MAX)


class AuditArguments(Arguments, frozen=True, kw_only=True):
    org: Annotated[str, ORG]
    limit: Annotated[int, AUDIT_LIMIT] = 100
    store: Annotated[str, STORE] | None = None


class Audited(Result, frozen=True, kw_only=True):
    org: str
    entries: tuple[Entry, ...]


def run_token_audit(session: Session, arguments: AuditArguments) -> Audited:
    org = org_checked(arguments.org)
    with orgs_of(arguments.store) as orgs:
        entries = entries_of(orgs.own, org, limit=arguments.limit)
    return Audited(org=org, entries=tuple(entries))


def show_token_audit(audited: Audited, screen: Screen) -> None:
    if not audited.entries:
        screen.line(f"Nothing was read or erased in {audited.org}.")
        return
    heads = ("WHEN", "TOKEN", "NAME", "ACTION", "WHAT", "RESULT", ">TIMES", "ROUTE")
    screen.table(heads, map(_audit_cells, audited.entries))


def _audit_cells(one: Entry) -> tuple[str, ...]:
    result = one.result or ("unknown" if one.call else "")
    who = moment(one.at_ms), one.token, one.name
    return *who, one.action, one.what, result, f"{one.times:,}", one.route


TOKEN_AUDIT = Command(
    name="token audit",
    details="Reads are counted for each second, token and conversation. The result of an erasure"
    " that was cut off is unknown.",
    on="nothing",
    arguments=AuditArguments,
    run=run_token_audit,
    show=show_token_audit,
)
