"""`refold scan`: says where secrets stand, and never shows one. Exit status 9 if there are any,
else 5 for damage.

The status is no error's, so that a script can tell "there are secrets" from "the scan failed"
(`errors.OUTCOMES`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from refold.edges.cli.options import (
    command,
    end_with_damage,
    named,
    opened_store,
    store_option,
    tell_damage,
)
from refold.edges.cli.screen import Screen, number

if TYPE_CHECKING:
    from refold.conversations.scanner import FoundSecret, Scan

SECRETS_FOUND = 9


@command(
    "scan",
    click.argument("conversations", metavar="[ID]...", nargs=-1),
    click.option(
        "--all",
        "doubtful",
        is_flag=True,
        help="Also show what is more likely a fixture than a secret.",
    ),
    store_option,
)
def scan_(
    screen: Screen, conversations: tuple[str, ...], doubtful: bool, store: str | None
) -> None:
    """Says where secrets stand, and masks them.

    Looks through every event and artifact of the store, or of the conversations named. Exit status
    9 if any is found.
    """
    from refold.conversations.scanner import scan

    with opened_store(store) as there:
        ids = [named(there, name) for name in conversations]
        with screen.progress("scanning") as show:
            report = scan(there, ids, doubtful=doubtful, progress=show)
        if screen.json_output:
            screen.emit(_as_json(report, there.url))
        else:
            _print(screen, report)
            tell_damage(screen, report.damaged)
    if report.total:
        raise click.exceptions.Exit(SECRETS_FOUND)
    end_with_damage(report.damaged)


def _as_json(report: Scan, url: str) -> dict[str, Any]:
    findings = [
        {name: getattr(one, name) for name in one.__struct_fields__} for one in report.findings
    ]
    return {
        "store": url,
        "ok": not report.total and not report.damaged,
        "conversations": report.conversations,
        "events": report.events,
        "artifacts": report.artifacts,
        "unread": list(report.unread),
        "total": report.total,
        "kinds": report.kinds,
        "truncated": len(findings) < report.total,
        "findings": findings,
        "damaged": report.damaged,
    }


def _print(screen: Screen, report: Scan) -> None:
    if report.findings:
        screen.table(
            ("KIND", "ID", ">EVENT", "ARTIFACT", ">LINE", "MASKED"), map(_row, report.findings)
        )
    if report.total > len(report.findings):
        screen.line(f"Only the first {len(report.findings):,} are shown.")
    for artifact in report.unread:
        screen.line(("yellow", f"{artifact} has no content here; refold verify says why."))
    walked = [
        number(getattr(report, f"{name}s"), name) for name in ("conversation", "event", "artifact")
    ]
    screen.line(f"{', '.join(walked)} scanned: ", _verdict(report))


def _verdict(report: Scan) -> tuple[str, str]:
    if not report.total:
        return "green", "no secrets found."
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in report.kinds.items())
    return "red", f"{number(report.total, 'secret')} ({kinds})."


def _row(one: FoundSecret) -> tuple[str, ...]:
    shown = one.masked if one.sure else f"{one.masked} (unsure)"
    return one.kind, one.conversation, f"#{one.seq}", one.artifact, f"{one.line:,}", shown
