"""`refold serve`: the team server, until it is stopped.

With `--check` it looks whether it could start, and serves nothing. Neighbour: `edges.server` is the
server itself, imported when it runs.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from refold.edges.commands.command import Arguments, Command, Result, Screen
from refold.edges.commands.session import Session
from refold.edges.commands.token import STORE
from refold.settings.sources import server_direct, server_store

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


def run(session: Session, arguments: ServeArguments) -> Served:
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


def show(served: Served, screen: Screen) -> None:
    if served.stopped:
        screen.note(f"stopped serving {served.store}")
        return
    screen.line(f"{served.store} can be served at {served.url}/ORG.")


COMMAND = Command(
    name="serve",
    details="Nobody can call without a token: see refold token create.",
    on="nothing",
    arguments=ServeArguments,
    run=run,
    show=show,
)
