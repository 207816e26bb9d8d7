"""`refold sync verify`: reads all that the far store keeps, decrypts it where there is a key, and
says what is not as it was sent."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

from refold.conversations.log_check import Problem
from refold.conversations.verifier import Verification, verify
from refold.edges.commands.command import Arguments, Command
from refold.edges.commands.session import Session
from refold.edges.commands.sync import FAR, KEY, synced_store
from refold.edges.commands.verify import NAME, Verified, show
from refold.errors import Denied
from refold.log.reading import is_memory, kept_logs
from refold.stores.protocol import Store


class SyncVerifyArguments(Arguments, frozen=True, kw_only=True):
    conversation: Annotated[str, NAME] | None = None
    far: Annotated[str, FAR] | None = None
    key: Annotated[str, KEY] | None = None


def run(session: Session, arguments: SyncVerifyArguments) -> Verified:
    far = synced_store(session, arguments.far, arguments.key).far
    name = arguments.conversation
    ids = [name] if name is not None else [about.id for about in kept_logs(far)]
    return _together(far, [_verified(far, id) for id in ids])


def _verified(far: Store, id: str) -> Verification:
    """The report on one conversation; one of another key delays no other."""
    try:
        return verify(far, id)
    except Denied as error:
        problem = Problem(part="store", what=error.message, conversation=id, file=far.url)
        memories = int(is_memory(id))
        return Verification(
            conversations=1 - memories,
            events=0,
            artifacts=0,
            memories=memories,
            problems=(problem,),
        )


def _together(far: Store, reports: Iterable[Verification]) -> Verified:
    reports = [*reports]
    problems = tuple(problem for report in reports for problem in report.problems)
    return Verified(
        store=far.url,
        ok=not problems,
        conversations=sum(report.conversations for report in reports),
        events=sum(report.events for report in reports),
        artifacts=sum(report.artifacts for report in reports),
        memories=sum(report.memories for report in reports),
        problems=problems,
        remarks=tuple(remark for report in reports for remark in report.remarks),
    )


COMMAND = Command(
    name="sync verify",
    details="Every event and artifact is fetched and checked, and decrypted where the store has a"
    " key. Nothing is changed on either side.",
    on="store",
    arguments=SyncVerifyArguments,
    run=run,
    show=show,
)
