"""`refold sync verify`: reads all that the far store keeps, decrypts it where there is a key, and
says what is not as it was sent.

An artifact that is lost or damaged there can be sent again: its digest proves that it is the same.
So can a conversation, or its end, that was there and is not: any sync does it. A damaged log cannot
be, because others may have gone on from what stands there.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

from msgspec import Meta, field
from msgspec.structs import replace

from refold.conversations.log_check import Problem
from refold.conversations.verifier import Verification, verify
from refold.core import codec
from refold.core.model import Artifact
from refold.edges.commands.command import Arguments, Command, Screen
from refold.edges.commands.session import Session
from refold.edges.commands.sync import FAR, KEY, synced_store
from refold.edges.commands.text import number
from refold.edges.commands.verify import NAME, Verified
from refold.edges.commands.verify import show as show_verified
from refold.errors import Denied, NotFound, RefoldError
from refold.log.log import now_ms
from refold.log.reading import is_memory, kept_logs
from refold.stores.protocol import Store, SyncedStore

MEND = Meta(
    description="Send again what the far store lost, and artifacts that are damaged only there."
)


class SyncVerifyArguments(Arguments, frozen=True, kw_only=True):
    conversation: Annotated[str, NAME] | None = None
    far: Annotated[str, FAR] | None = None
    key: Annotated[str, KEY] | None = None
    mend: Annotated[bool, MEND] = False


class FarVerified(Verified, frozen=True, kw_only=True):
    """What was checked there. `whole_here` are conversations that are damaged there and not in the
    near store; `sent_again` are the artifacts and `conversations_again` the conversations that were
    mended, before all was checked. `lost` is how many events of a conversation were there and are
    gone; `is_all_lost` says that the far store has no conversation that it had."""

    whole_here: tuple[str, ...] = ()
    artifacts_here: tuple[str, ...] = ()
    sent_again: tuple[str, ...] = ()
    conversations_again: tuple[str, ...] = ()
    lost: dict[str, int] = field(default_factory=dict)
    is_all_lost: bool = False


def run(session: Session, arguments: SyncVerifyArguments) -> FarVerified:
    synced = synced_store(session, arguments.far, arguments.key)
    near: Store = getattr(synced, "near", session.target)
    found = _checked(near, synced, arguments.conversation)
    if not arguments.mend or not (found.artifacts_here or found.lost):
        return found
    if found.lost:
        synced.sync(tuple(found.lost))
    for digest in found.artifacts_here:
        _send_again(digest, near, synced.far)
    mended = _checked(near, synced, arguments.conversation)
    return replace(
        mended,
        sent_again=_names(found.artifacts_here),
        conversations_again=tuple(id for id in found.lost if id not in mended.lost),
    )


def _checked(near: Store, synced: SyncedStore, name: str | None) -> FarVerified:
    """What is wrong there, and what of it is whole here."""
    far, refused, reports = synced.far, set[str](), list[Verification]()
    absent: NotFound | None = None
    for id in [name] if name is not None else [about.id for about in kept_logs(far)]:
        try:
            reports.append(_verified(far, id, refused))
        except NotFound as error:
            absent = error
    found = _together(far, reports)
    told = {one.conversation for one in found.problems if one.part in ("log", "store")}
    lost = synced.losses(() if name is None else (name,), besides=told)
    if absent is not None and not lost.events:
        raise absent
    problems = (*found.problems, *(_loss(far, *one) for one in lost.events.items()))
    return replace(
        found,
        ok=not problems,
        problems=problems,
        whole_here=tuple(id for id in sorted(told - refused) if _is_whole(near, id)),
        artifacts_here=tuple(sorted(_artifacts_here(near, found.problems))),
        lost=lost.events,
        is_all_lost=lost.is_all,
    )


def _loss(far: Store, id: str, count: int) -> Problem:
    what = f"the far store has lost {number(count, 'event')} that it had"
    return Problem(part="log", what=what, conversation=id, file=far.url)


def _artifacts_here(near: Store, problems: Iterable[Problem]) -> set[str]:
    """The digests of artifacts that are lost or damaged there, and whole here."""
    lost: set[str] = set()
    for one in problems:
        if one.part == "artifact":
            lost.update(_digests_in(near, one.conversation, one.seq))
    return {digest for digest in lost if _is_kept(near, digest)}


def _digests_in(near: Store, id: str, seq: int) -> list[str]:
    """What an event names here; nothing where this device does not have it."""
    try:
        bodies = [codec.decode(event) for event in near.read(id, after=seq - 1, last=seq, limit=1)]
    except RefoldError:
        return []
    return [body.digest for body in bodies if isinstance(body, Artifact)]


def _is_kept(store: Store, digest: str) -> bool:
    try:
        for _ in store.get(digest):
            pass
    except RefoldError:
        return False
    return True


def _send_again(digest: str, near: Store, far: Store) -> None:
    far.put(near.get(digest))
    if not _is_kept(far, digest):
        # A store keeps what it has, damaged or not.
        far.drop(digest, before_ms=now_ms() + 1)
        far.put(near.get(digest))


def _names(digests: Iterable[str]) -> tuple[str, ...]:
    return tuple(codec.artifact_id(digest) for digest in digests)


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
    if verified.sent_again:
        names = ", ".join(verified.sent_again)
        screen.line(f"{number(len(verified.sent_again), 'artifact')} sent again: {names}")
    for id in verified.conversations_again:
        screen.line(f"{id} sent again")
    if verified.artifacts_here:
        count = number(len(verified.artifacts_here), "artifact")
        mend = screen.call("sync verify", "--mend")
        screen.line(f"{count} can be sent again from this device: {mend}")
    if verified.lost:
        count = number(len(verified.lost), "conversation")
        again = screen.call("sync", *(("--new-far",) if verified.is_all_lost else ()))
        if verified.is_all_lost:
            screen.line(
                "It has nothing of what it had before. Is it mounted? If it was emptied on purpose:"
            )
        screen.line(f"{count} can be sent again from this device: {again}")
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
    " key. What was there and is lost is a problem as well, and sync status says so from then on."
    " Nothing is changed on either side, unless --mend is given.",
    on="store",
    arguments=SyncVerifyArguments,
    run=run,
    show=show,
)
