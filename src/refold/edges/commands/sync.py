"""The commands of syncing, and what they share: which two stores are meant.

`refold sync`: makes the near and the far store the same, or says how they stand.

`refold sync verify`: reads all that the far store keeps, decrypts it where there is a key, and
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

from refold.conversations.verifier import Problem, Verification, verify
from refold.core import codec
from refold.core.model import Artifact
from refold.edges.commands.command import (
    Arguments,
    Command,
    Progress,
    Result,
    Screen,
    number,
    short_line,
)
from refold.edges.commands.integrity import NAME, Verified
from refold.edges.commands.integrity import show_verify as show_verified
from refold.edges.commands.session import Session
from refold.errors import Denied, Invalid, NotFound, RefoldError
from refold.log.log import now_ms
from refold.log.trace import is_memory, kept_logs
from refold.stores import synced_of
from refold.stores.protocol import WAITING, Store, Synced, SyncedStore, SyncListener

FAR = Meta(description="The far store, if the store's URL names none.")
KEY = Meta(
    description="The key file, if the store's URL names none.",
    extra={"metavar": "FILE"},
)


def synced_store(session: Session, far: str | None, key: str | None = None) -> SyncedStore:
    """The store asked for, as one that is synced: with the far store that it names, or with this
    one, or by this key. What becomes of secrets stays as it says."""
    target = session.target
    named = synced_of(target)
    if far is not None or (key is not None and named is not None):
        near = getattr(target, "near", target)
        url = f"hybrid:{near.url}?far={far or (named.far_url if named else '')}"
        url += f"&redact={named.redact}" if named and named.redact else ""
        url += f"&key={key}" if key is not None else ""
        target = session.open_store(url, creates=True)
    elif key is not None:
        hint = f"name both: refold sync --far URL --key FILE, or hybrid:{target.url}?far=URL&key="
        raise Invalid("--key is for a far store, and none is named", hint=hint)
    store = synced_of(target)
    if store is None:
        hint = f"refold sync --far URL, or name a store that has one: hybrid:{target.url}?far=URL"
        raise Invalid(f"{target.url} is not synced with another store", hint=hint)
    return store


STATUS = "status"
NAMES = Meta(
    description="The conversations; by default all. `status`, or `status ID`, syncs nothing and "
    "says how they stand, without asking anybody.",
    extra={"positional": True, "metavar": "ID"},
)
NEW_FAR = Meta(description="The far store is new, or was emptied on purpose: fill it.")
TAKE_PLAIN = Meta(
    description="With a key: also take plain text from the far store, which anybody there could "
    "have written."
)
STYLES = {
    "synced": "green",
    "forked": "yellow",
    "pending": "yellow",
    "blocked": "red",
    "held": "red",
}


class SyncArguments(Arguments, frozen=True, kw_only=True):
    conversations: Annotated[tuple[str, ...], NAMES] = ()
    far: Annotated[str, FAR] | None = None
    key: Annotated[str, KEY] | None = None
    new_far: Annotated[bool, NEW_FAR] = False
    take_plain: Annotated[bool, TAKE_PLAIN] = False


class SyncResult(Result, frozen=True, kw_only=True):
    """How the conversations stand: after a sync those that it touched or that wait, else all.
    `same` others needed nothing."""

    near: str
    far: str
    conversations: tuple[Synced, ...]
    same: int = 0
    is_status: bool = False
    is_under_way: bool = False
    at_ms: int = 0
    device: str = ""
    reason: str = ""
    is_refused: bool = False

    @property
    def outcome(self) -> str:
        if self.is_status:
            return "ok"
        states = {one.state for one in self.conversations}
        if self.is_refused:
            return "conflict"
        if self.reason or "pending" in states:
            return "unavailable"
        return "conflict" if states & {"blocked", "held"} or self.is_under_way else "ok"


def run_sync(session: Session, arguments: SyncArguments) -> SyncResult:
    store = synced_store(session, arguments.far, arguments.key)
    ids = arguments.conversations
    if ids[:1] == (STATUS,):
        status = store.sync_status(ids[1:])
        return SyncResult(
            near=status.near,
            far=status.far,
            conversations=status.conversations,
            is_status=True,
            at_ms=status.at_ms,
            device=status.device,
            reason=status.reason,
        )
    status = store.sync_status()
    pending = sum(one.pending for one in status.conversations)
    with session.progress("syncing") as progress:
        listener = _listener(progress, pending) if progress else None
        report = store.sync(
            ids,
            new_far=arguments.new_far,
            takes_plain=arguments.take_plain,
            progress=listener,
        )
    return SyncResult(
        near=status.near,
        far=status.far,
        conversations=report.synced,
        same=report.same,
        is_under_way=report.is_under_way,
        device=status.device,
        reason=report.reason,
        is_refused=report.is_refused,
    )


def _listener(progress: Progress, pending: int) -> SyncListener:
    """What is to come from the far store is not known before, so the total grows with it."""
    done = 0

    def listen(conversation: str, count: int) -> None:
        nonlocal done
        done += count
        progress(conversation, done, max(pending, done))

    return listen


def show_sync(result: SyncResult, screen: Screen) -> None:
    if result.is_under_way:
        screen.line("Another sync of this store is running; it does the same.")
        return
    for one in result.conversations:
        screen.line((STYLES[one.state], f"{one.state:8}"), f" {one.conversation}{_done(one)}")
    if result.reason:
        screen.line(("red", f"{result.far}: {short_line(result.reason, 300)}"))
        again = "once it lets you in" if result.is_refused else "later"
        screen.line(f"What was written is kept here; sync again {again}.")
    elif not result.is_status:
        screen.line(_sum(result))
    elif result.at_ms:
        screen.line(f"This device is {result.device}.")
    elif not result.conversations:
        screen.line(f"There are no conversations in {result.near}.")


def _done(one: Synced) -> str:
    """What was done for a conversation, or waits, in words."""
    parts = [
        f"{number(one.pending, 'event')} to send" if one.pending else "",
        f"{number(one.pushed, 'event')} sent" if one.pushed else "",
        f"{number(one.pulled, 'event')} fetched" if one.pulled else "",
        f"{number(one.contents, 'artifact')} copied" if one.contents else "",
        f"{number(one.erased, 'event')} erased" if one.erased else "",
        f"it grew on both sides: what was said here is {one.fork}" if one.fork else "",
        short_line(one.reason, 300),
    ]
    text = ", ".join(part for part in parts if part)
    return f": {text}" if text else ""


def _sum(result: SyncResult) -> str:
    waiting = sum(one.state in WAITING for one in result.conversations)
    same = result.same + len(result.conversations) - waiting
    said = f"{number(same, 'conversation')} the same in {result.near} and {result.far}"
    return f"{said}, {waiting} not yet." if waiting else f"{said}."


SYNC = Command(
    name="sync",
    details="sync [ID ...] syncs these conversations, by default all; sync status [ID ...] only "
    "says how they differ. A sync sends what the far store does not have and fetches what is "
    "missing here. If a conversation grew on both sides, the far log stands, and what was said "
    "here continues as a fork. A blocked conversation says why, and each sync tries it again.",
    on="store",
    arguments=SyncArguments,
    run=run_sync,
    show=show_sync,
)


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


def run_sync_verify(session: Session, arguments: SyncVerifyArguments) -> FarVerified:
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


def show_sync_verify(verified: FarVerified, screen: Screen) -> None:
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


SYNC_VERIFY = Command(
    name="sync verify",
    details="Every event and artifact is fetched and checked, and decrypted where the store has a"
    " key. What was there and is lost is a problem as well, and sync status says so from then on."
    " Nothing is changed on either side, unless --mend is given.",
    on="store",
    arguments=SyncVerifyArguments,
    run=run_sync_verify,
    show=show_sync_verify,
)
