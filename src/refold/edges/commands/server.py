"""The team server: `serve` runs it, `login` keeps a token for one, `token` manages its tokens, and
`allow` permits what a project's files name.

A token's secret is shown once, when it is created; `login` stores it in a file that only the user
can read. `allow` records the user's consent to an address and a key, for this folder and these
values only; `permit_writer` asks for the same consent at a terminal. Neighbours: `edges.server` is
the server itself, imported when it runs; `settings.permissions` remembers the consent.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Literal

from msgspec import Meta, Struct

from refold.display import local_moment, visible
from refold.edges.commands.command import Result, Screen, command, more_line
from refold.edges.commands.session import Session
from refold.edges.server.access import (
    DAYS_MAX,
    NAME_CHARS_MAX,
    Orgs,
    Scope,
    State,
    Token,
    Tokens,
    org_checked,
)
from refold.edges.server.audit import Entry, entries_of
from refold.redaction import redacted
from refold.settings import logins, permissions, sources
from refold.settings.sources import requested, server_direct, server_store
from refold.stores import server_place, token_info

AUDIT_LIMIT_MAX = 100_000
ServerStore = Annotated[
    str,
    Meta(
        description="Where the server keeps its organizations: sqlite:FOLDER or postgresql://...; "
        "by default what REFOLD_SERVER_STORE says, else a folder in your data folder.",
        extra={"metavar": "URL"},
    ),
]
Org = Annotated[str, Meta(description="The organization, such as acme.")]


class Served(Result, frozen=True, kw_only=True):
    """The store and its address; `stopped` after serving, otherwise it was only a check."""

    url: str
    store: str
    workers: int
    stopped: bool = False

    def show(self, screen: Screen) -> None:
        if self.stopped:
            screen.note(f"stopped serving {self.store}")
        else:
            screen.line(f"{self.store} can be served at {self.url}/ORG.")


@command("serve", details="Nobody can call without a token: see refold token create.", on="nothing")
def serve_team(
    session: Session,
    *,
    store: ServerStore | None = None,
    direct: Annotated[
        str,
        Meta(
            description="An address of the same database without a pooler, for the change feed; or "
            "set REFOLD_SERVER_DIRECT.",
            extra={"metavar": "URL"},
        ),
    ]
    | None = None,
    host: Annotated[
        str, Meta(description="The address to listen on; 127.0.0.1 is this machine alone.")
    ] = "127.0.0.1",
    port: Annotated[int, Meta(description="The port to listen on.", ge=1, le=65_535)] = 8_741,
    name: Annotated[
        tuple[str, ...],
        Meta(description="A name by which clients call it; may be repeated."),
    ] = (),
    trusted_proxy: Annotated[
        tuple[str, ...],
        Meta(
            description="The address or network of a proxy in front, whose X-Forwarded-For names "
            "the caller; may be repeated. Limits per address count callers, not the proxy.",
            extra={"metavar": "ADDRESS"},
        ),
    ] = (),
    workers: Annotated[
        int, Meta(description="How many processes share the port.", ge=1, le=64)
    ] = 1,
    limit: Annotated[
        tuple[str, ...],
        Meta(
            description="A limit for all workers together, such as calls_per_s=100; may be "
            "repeated.",
            extra={"metavar": "NAME=NUMBER"},
        ),
    ] = (),
    certificate: Annotated[
        str,
        Meta(description="A file with the certificate, for TLS.", extra={"metavar": "FILE"}),
    ] = "",
    key: Annotated[
        str, Meta(description="A file with the certificate's key.", extra={"metavar": "FILE"})
    ] = "",
    log: Annotated[
        Literal["info", "warning", "error"],
        Meta(description="What is logged to standard error: every call, or only what is wrong."),
    ] = "info",
    check: Annotated[bool, Meta(description="Say whether it could start, and stop there.")] = False,
) -> Served:
    from refold.edges.server.rate_limits import limits_of
    from refold.edges.server.serve import ServerSettings, checked, serve, url_of

    given = ServerSettings(
        store=store or server_store(),
        direct=direct or server_direct(),
        host=host,
        port=port,
        names=name,
        trusted_proxies=trusted_proxy,
        workers=workers,
        limits=limits_of(limit),
        certificate=certificate,
        key=key,
        log_level=log,
    )
    checked_store, url = checked(given), url_of(given)

    def announce() -> None:
        if session.screen is not None:
            session.screen.note(f"serving {checked_store} at {url}/ORG; stop with Ctrl-C")

    if not check:
        serve(given, announce)
    return Served(url=url, store=checked_store, workers=workers, stopped=not check)


class LoggedIn(Result, frozen=True, kw_only=True):
    """`expires_ms` is 0 for a token that never expires."""

    url: str
    token: str
    scope: str
    expires_ms: int
    file: str

    def show(self, screen: Screen) -> None:
        until = f" until {_day(self.expires_ms)}" if self.expires_ms else ""
        screen.line(f"Logged in to {self.url}: {self.token} may {self.scope}{until}.")
        use = f"{screen.call('list')} --store {self.url}"
        screen.line(f"Kept in {self.file}. Use it with: {use}")


class LoggedOut(Result, frozen=True, kw_only=True):
    """`was_known` if there was a token to forget."""

    url: str
    was_known: bool

    def show(self, screen: Screen) -> None:
        if not self.was_known:
            screen.line(f"There was no token for {self.url}.")
            return
        screen.line(f"The token for {self.url} is forgotten here.")
        revoke = screen.call("token revoke")
        screen.line(f"It stays valid until it ends or is revoked: {revoke}, on the server.")


@command(
    "login",
    details="You type the token without seeing it, or pipe it to standard input. It is checked by "
    "a call, and kept for this address alone.",
    on="nothing",
)
def login(
    session: Session,
    *,
    url: Annotated[
        str,
        Meta(
            description="The organization on the server: https://HOST/ORG.",
            extra={"positional": True, "metavar": "URL"},
        ),
    ],
    forget: Annotated[bool, Meta(description="Forget the token for this address.")] = False,
) -> LoggedIn | LoggedOut:
    address = server_place(url)
    if forget:
        return LoggedOut(url=address, was_known=logins.forget(address, os.environ))
    secret = session.secret(f"Token for {address}")
    about = token_info(address, secret)
    file = logins.keep(address, secret, os.environ)
    return LoggedIn(
        url=address, token=about.id, scope=about.scope, expires_ms=about.expires_ms, file=str(file)
    )


class Allowed(Result, frozen=True, kw_only=True):
    """The address and key named in the files of a folder, and whether they are allowed now. `url`
    is empty if there are none. `trusted` says who else can write what in the folder, `settings`
    what its files make less safe."""

    folder: str
    url: str = ""
    key_env: str = ""
    allowed: bool
    trusted: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()

    def show(self, screen: Screen) -> None:
        verb = "may" if self.allowed else "may no longer"
        for reason in self.trusted:
            screen.line(visible(f"{reason}."))
        if self.trusted:
            screen.line(visible(f"refold {verb} use the store and files in {self.folder}."))
        elif not self.url and not self.settings:
            screen.line(f"The files of {self.folder} name nothing that has to be allowed.")
        if self.url:
            key = f"with the key in {self.key_env}" if self.key_env else "without a key of its own"
            screen.line(f"The files of {self.folder} {verb} send texts to {self.url}, {key}.")
        for line in self.settings:
            screen.line(visible(f"The files of {self.folder} {verb} set {line}."))


@command(
    "allow",
    details="Also settings that make something less safe, such as redact = false, and other users "
    "who can write in this project. What changes later has to be allowed again.",
    on="nothing",
)
def allow(
    session: Session,
    *,
    revoke: Annotated[bool, Meta(description="Take back what was allowed.")] = False,
) -> Allowed:
    top, writers = sources.foreign_writers()
    trusts = [permissions.trust(top, writer) for writer in dict.fromkeys(writers.values())]
    reasons = tuple(f"{writer} can write {path}" for path, writer in writers.items())
    is_new = not all(permissions.is_allowed(one, os.environ) for one in trusts)
    # Files of a folder can be read once it is trusted. What they ask for is another question.
    request = None if is_new else requested()
    weakened = None if is_new else sources.weakened_settings()
    change = permissions.revoke if revoke else permissions.allow
    for one in trusts:
        change(one, os.environ)
    if request:
        change(request, os.environ)
    if weakened:
        change(weakened, os.environ)
    return Allowed(
        folder=request.folder if request else str(top) if trusts else os.getcwd(),
        url=redacted(request.url) if request else "",
        key_env=request.key_env if request else "",
        allowed=not revoke and bool(request or trusts or weakened),
        trusted=reasons,
        settings=tuple(weakened.lines()) if weakened else (),
    )


def permit_writer(session: Session) -> None:
    """Asks for consent to the writer that the project's files name, unless it was given before or
    nobody can be asked."""
    request = requested()
    if request is None or session.screen is None or permissions.is_allowed(request, os.environ):
        return
    key = f", with the key in {request.key_env}" if request.key_env else ""
    question = f"The files of {request.folder} send texts to {redacted(request.url)}{key}. Allow?"
    if session.screen.ask(visible(question)):
        permissions.allow(request, os.environ)


class TokenAbout(Struct, frozen=True, kw_only=True):
    """A token without its secret. `expires_ms` is 0 for a token that never expires."""

    id: str
    org: str
    scope: Scope
    state: State
    name: str
    created_ms: int
    expires_ms: int


def _about(token: Token) -> TokenAbout:
    return TokenAbout(
        id=token.id,
        org=token.org,
        scope=token.scope,
        state=token.state(time.time_ns() // 1_000_000),
        name=token.name,
        created_ms=token.created_ms,
        expires_ms=token.expires_ms,
    )


def _day(at_ms: int) -> str:
    return local_moment(at_ms)[:10]


@contextmanager
def _organizations(store: str | None) -> Iterator[Orgs]:
    """The organizations of a server's store, closed at the end."""
    orgs = Orgs(store or server_store())
    try:
        yield orgs
    finally:
        orgs.close()


class TokenCreated(Result, frozen=True, kw_only=True):
    token: TokenAbout
    secret: str

    def show(self, screen: Screen) -> None:
        token = self.token
        screen.line(self.secret)
        ends = f"until {_day(token.expires_ms)}" if token.expires_ms else "without an end"
        about = f"{token.id} may {token.scope} in {token.org}, {ends}."
        screen.note(f"{about} This is shown once; only its digest is kept.")


@command(
    "token create",
    details="Only the secret goes to standard output, so that you can pipe it where it belongs. If "
    "you write it to a file, make that readable for you alone (umask 077).",
    on="nothing",
)
def create_token(
    session: Session,
    *,
    org: Org,
    scope: Annotated[
        Scope,
        Meta(
            description="What the token allows: read; write (and read), the default; or admin "
            "(also repair and metrics)."
        ),
    ] = "write",
    days: Annotated[float, Meta(description="How many days it is valid.", le=DAYS_MAX)] = 365.0,
    name: Annotated[
        str, Meta(description="Who or what it is for.", max_length=NAME_CHARS_MAX)
    ] = "",
    store: ServerStore | None = None,
) -> TokenCreated:
    with _organizations(store) as orgs:
        token, secret = Tokens(orgs.own).create(org, scope, name=name, days=days)
    return TokenCreated(token=_about(token), secret=secret)


class TokensListed(Result, frozen=True, kw_only=True):
    store: str
    tokens: tuple[TokenAbout, ...]

    def show(self, screen: Screen) -> None:
        if not self.tokens:
            create = screen.call("token create")
            screen.line(f"There are no tokens in {self.store}; {create} makes one.")
            return
        rows = [
            (
                one.id,
                one.org,
                one.scope,
                one.state,
                _day(one.created_ms),
                _day(one.expires_ms) if one.expires_ms else "never",
                one.name,
            )
            for one in self.tokens
        ]
        screen.table(("ID", "ORG", "SCOPE", "STATE", "CREATED", "EXPIRES", "NAME"), rows)


@command("token list", on="nothing")
def list_tokens(
    session: Session,
    *,
    org: Org | None = None,
    store: ServerStore | None = None,
) -> TokensListed:
    with _organizations(store) as orgs:
        tokens = [_about(one) for one in Tokens(orgs.own).list() if org in (None, one.org)]
        return TokensListed(store=orgs.shown_place, tokens=tuple(tokens))


class Revoked(Result, frozen=True, kw_only=True):
    token: TokenAbout

    def show(self, screen: Screen) -> None:
        screen.line(f"{self.token.id} of {self.token.org} is revoked; servers know in a second.")


@command("token revoke", details="It cannot be made valid again; create another.", on="nothing")
def revoke_token(
    session: Session,
    *,
    token: Annotated[
        str,
        Meta(
            description="The id of the token, as the list shows it.",
            extra={"positional": True, "metavar": "TOKEN"},
        ),
    ],
    store: ServerStore | None = None,
) -> Revoked:
    with _organizations(store) as orgs:
        return Revoked(token=_about(Tokens(orgs.own).revoke(token)))


class Audited(Result, frozen=True, kw_only=True):
    """The newest entries, oldest first; `more` says whether there are older ones."""

    org: str
    entries: tuple[Entry, ...]
    more: bool = False

    def show(self, screen: Screen) -> None:
        rows = [
            (
                local_moment(one.at_ms),
                one.token,
                one.name,
                one.action,
                one.what,
                one.result or ("unknown" if one.call else ""),
                f"{one.times:,}",
                one.route,
            )
            for one in self.entries
        ]
        if rows:
            heads = ("WHEN", "TOKEN", "NAME", "ACTION", "WHAT", "RESULT", ">TIMES", "ROUTE")
            screen.table(heads, rows)
        else:
            screen.line(f"Nothing was read or erased in {self.org}.")
        if self.more:
            screen.line(more_line(len(self.entries)))


@command(
    "token audit",
    details="Reads are counted for each second, token and conversation. The result of an erasure"
    " that was cut off is unknown.",
    on="nothing",
)
def audit_tokens(
    session: Session,
    *,
    org: Org,
    limit: Annotated[int, Meta(description="At most this many.", ge=1, le=AUDIT_LIMIT_MAX)] = 100,
    store: ServerStore | None = None,
) -> Audited:
    name = org_checked(org)
    with _organizations(store) as orgs:
        entries = entries_of(orgs.own, name, limit=limit + 1)
        return Audited(org=name, entries=tuple(entries[-limit:]), more=len(entries) > limit)
