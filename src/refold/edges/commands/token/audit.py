"""`refold token audit`: who read, erased and administered what in an organization, and which tokens
were created and revoked."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from refold.display import moment
from refold.edges.commands.command import Arguments, Command, Result, Screen
from refold.edges.commands.session import Session
from refold.edges.commands.token import ORG, STORE, orgs_of
from refold.edges.server.audit import Entry, entries_of
from refold.edges.server.orgs import org_checked

LIMIT_MAX = 100_000
LIMIT = Meta(description="How many lines, the newest.", ge=1, le=LIMIT_MAX)


class AuditArguments(Arguments, frozen=True, kw_only=True):
    org: Annotated[str, ORG]
    limit: Annotated[int, LIMIT] = 100
    store: Annotated[str, STORE] | None = None


class Audited(Result, frozen=True, kw_only=True):
    org: str
    entries: tuple[Entry, ...]


def run(session: Session, arguments: AuditArguments) -> Audited:
    org = org_checked(arguments.org)
    with orgs_of(arguments.store) as orgs:
        entries = entries_of(orgs.own, org, limit=arguments.limit)
    return Audited(org=org, entries=tuple(entries))


def show(audited: Audited, screen: Screen) -> None:
    if not audited.entries:
        screen.line(f"Nothing was read or erased in {audited.org}.")
        return
    heads = ("WHEN", "TOKEN", "NAME", "ACTION", "WHAT", "RESULT", ">TIMES", "ROUTE")
    screen.table(heads, map(_cells, audited.entries))


def _cells(one: Entry) -> tuple[str, ...]:
    result = one.result or ("unknown" if one.call else "")
    who = moment(one.at_ms), one.token, one.name
    return *who, one.action, one.what, result, f"{one.times:,}", one.route


COMMAND = Command(
    name="token audit",
    details="Reads are counted for each second, token and conversation. The result of an erasure"
    " that was cut off is unknown.",
    on="nothing",
    arguments=AuditArguments,
    run=run,
    show=show,
)
