"""`refold sync verify`: reads all that the far store keeps, decrypts it where there is a key, and
says what is not as it was sent."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

from msgspec.structs import replace

from refold.conversations.log_check import Problem
from refold.conversations.verifier import Verification, verify
from refold.edges.commands.command import Arguments, Command, Screen
from refold.edges.commands.session import Session
from refold.edges.commands.sync import FAR, KEY, synced_store
from refold.edges.commands.text import number
from refold.edges.commands.verify import NAME, Verified
from refold.edges.commands.verify import show as show_verified
from refold.errors import Denied, RefoldError
from refold.log.reading import is_memory, kept_logs
from refold.stores.protocol import Store


class SyncVerifyArguments(Arguments, frozen=True, kw_only=True):
    conversation: Annotated[str, NAME] | None = None
    far: Annotated[str, FAR] | None = None
    key: Annotated[str, KEY] | None = None


class FarVerified(Verified, frozen=True, kw_only=True):
    """What was checked there. `whole_here` are conversations that are damaged there and not in the
    near store."""

    whole_here: tuple[str, ...] = ()


def run(session: Session, arguments: SyncVerifyArguments) -> FarVerified:
    synced = synced_store(session, arguments.far, arguments.key)
    name, far = arguments.conversation, synced.far
    ids = [name] if name is not None else [about.id for about in kept_logs(far)]
    refused: set[str] = set()
    found = _together(far, [_verified(far, id, refused) for id in ids])
    problems = (one for one in found.problems if one.part in ("log", "store"))
    damaged = sorted({one.conversation for one in problems} - refused)
    near: Store = getattr(synced, "near", session.target)
    return replace(found, whole_here=tuple(id for id in damaged if _is_whole(near, id)))


def _is_whole(near: Store, id: str) -> bool:
    """Whether the near store has a conversation as it was written."""
    try:
        return not verify(near, id).problems
    except RefoldError:
        return False


def _verified(far: Store, id: str, refused: set[str]) -> Verification:
    """The report on one conversation; one of another key delays no other, and is `refused`: it
    may be whole."""
    try:
        report = verify(far, id, erasures=True)
    except Denied as error:
        refused.add(id)
        problem = Problem(part="store", what=error.message, conversation=id, file=far.url)
        memories = int(is_memory(id))
        return Verification(
            conversations=1 - memories,
            events=0,
            artifacts=0,
            memories=memories,
            problems=(problem,),
        )
    plain: dict[str, set[int]] = getattr(far, "plain", {})
    if not plain.get(id):
        return report
    count = number(len(plain[id]), "event")
    what = f"{count} in plain text, and the artifacts named there: anybody there can read them"
    problem = Problem(part="store", what=what, conversation=id, file=far.url)
    return replace(report, problems=(*report.problems, problem))


def _together(far: Store, reports: Iterable[Verification]) -> FarVerified:
    reports = [*reports]
    problems = tuple(problem for report in reports for problem in report.problems)
    return FarVerified(
        store=far.url,
        ok=not problems,
        conversations=sum(report.conversations for report in reports),
        events=sum(report.events for report in reports),
        artifacts=sum(report.artifacts for report in reports),
        memories=sum(report.memories for report in reports),
        problems=problems,
        remarks=tuple(remark for report in reports for remark in report.remarks),
    )


def show(verified: FarVerified, screen: Screen) -> None:
    show_verified(verified, screen)
    if verified.whole_here:
        [first, *others] = verified.whole_here
        delete = screen.call("delete", first, "--store", verified.store)
        screen.line(f"{first} is whole on this device, which sends it again after:")
        screen.line(f"{delete}, then {screen.call('sync')}")
        if others:
            screen.line(f"The same goes for {', '.join(others)}.")


COMMAND = Command(
    name="sync verify",
    details="Every event and artifact is fetched and checked, and decrypted where the store has a"
    " key. Nothing is changed on either side.",
    on="store",
    arguments=SyncVerifyArguments,
    run=run,
    show=show,
)
