"""`refold sync`: brings this store and a far one together, compares and checks them, lists devices;
`refold sync key` creates and applies the keys that encrypt the far store; a status lists them.

A check fetches everything the far store has, and decrypts it if there is a key. A lost or damaged
artifact is sent again, because its digest proves it; a lost end of a log comes with any sync. A
damaged log is left alone: other devices may have continued it. In a key file the first key
encrypts, all decrypt, and names reveal nothing of them. Neighbours: `verify_scan_erase`,
`refold.stores`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta, field
from msgspec.structs import replace

from refold.conversations.verifier import Problem, Verification, verify
from refold.core import codec, ids
from refold.core.model import Artifact
from refold.display import local_moment
from refold.edges.commands.command import Progress, Result, Screen, Yes, command, number, short_line
from refold.edges.commands.session import Session
from refold.edges.commands.verify_scan_erase import ID_POSITION, Verified
from refold.errors import Corrupt, Denied, Invalid, NotFound, RefoldError
from refold.log.log import now_ms
from refold.log.stored_logs import conversations_and_memories, is_memory
from refold.stores import key_ids, make_key, synced_of
from refold.stores.protocol import WAITING, Device, Store, Synced, SyncedStore, SyncListener

Far = Annotated[str, Meta(description="The far store, if the store's URL names none.")]
Key = Annotated[
    str,
    Meta(description="The key file, if the store's URL names none.", extra={"metavar": "FILE"}),
]
STYLES = {
    "synced": "green",
    "forked": "yellow",
    "pending": "yellow",
    "blocked": "red",
    "held": "red",
}


_KEY_USES = (" encrypts and decrypts", " decrypts")


def synced_store(session: Session, far: str | None, key: str | None = None) -> SyncedStore:
    """The session's store with its far store; `far` and `key` override those of its URL. The
    redaction setting of the URL still applies."""
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


class SyncResult(Result, frozen=True, kw_only=True):
    """The state of conversations; after a sync, only changed and pending ones. `same` counts the
    others. `keys` are the names of the keys for the far store; the first encrypts."""

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
    keys: tuple[str, ...] = ()

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

    def show(self, screen: Screen) -> None:
        if self.is_under_way:
            screen.line("Another sync of this store is running; it does the same.")
            return
        for one in self.conversations:
            screen.line(
                (STYLES[one.state], f"{one.state:8}"), f" {one.conversation}{_details(one)}"
            )
        if self.reason:
            screen.line(("red", f"{self.far}: {short_line(self.reason, 300)}"))
            again = "once it lets you in" if self.is_refused else "later"
            screen.line(f"What was written is kept here; sync again {again}.")
        elif not self.is_status:
            waiting = sum(one.state in WAITING for one in self.conversations)
            same = number(self.same + len(self.conversations) - waiting, "conversation")
            not_yet = f", {waiting} not yet" if waiting else ""
            screen.line(f"{same} the same in {self.near} and {self.far}{not_yet}.")
        elif self.at_ms:
            screen.line(f"This device is {self.device}.")
        elif not self.conversations:
            screen.line(f"There are no conversations in {self.near}.")
        for place, key in enumerate(self.keys):
            screen.line(("green" if place == 0 else "", key), _KEY_USES[place > 0])


def _details(one: Synced) -> str:
    """The effect of a sync on a conversation, or its pending events."""
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


class FarVerified(Verified, frozen=True, kw_only=True):
    """The result of a check of the far store. `whole_here` are conversations that are damaged only
    there; `sent_again` and `conversations_again` are the artifacts and conversations repaired
    before the final check. `lost` counts the lost events by conversation; `is_all_lost` if the far
    store lost every conversation."""

    whole_here: tuple[str, ...] = ()
    artifacts_here: tuple[str, ...] = ()
    sent_again: tuple[str, ...] = ()
    conversations_again: tuple[str, ...] = ()
    lost: dict[str, int] = field(default_factory=dict)
    is_all_lost: bool = False

    def show(self, screen: Screen) -> None:
        super().show(screen)
        if self.sent_again:
            names = ", ".join(self.sent_again)
            screen.line(f"{number(len(self.sent_again), 'artifact')} sent again: {names}")
        for id in self.conversations_again:
            screen.line(f"{id} sent again")
        if self.artifacts_here:
            count = number(len(self.artifacts_here), "artifact")
            repair = screen.call("sync", "", "--verify", "--repair")
            screen.line(f"{count} can be sent again from this device: {repair}")
        if self.lost:
            count = number(len(self.lost), "conversation")
            again = screen.call("sync", "", *(("--new-far",) if self.is_all_lost else ()))
            if self.is_all_lost:
                screen.line(
                    "It has nothing of what it had before. Is it mounted? If it was emptied on "
                    "purpose:"
                )
            screen.line(f"{count} can be sent again from this device: {again}")
        if self.whole_here:
            [first, *others] = self.whole_here
            delete = screen.call("delete", first, "--store", self.store)
            screen.line(f"{first} is whole on this device, which sends it again after:")
            screen.line(f"{delete}, then {screen.call('sync')}")
            if others:
                screen.line(f"The same goes for {', '.join(others)}.")


class DevicesListed(Result, frozen=True, kw_only=True):
    """The devices, latest sync first."""

    far: str
    devices: tuple[Device, ...]

    def show(self, screen: Screen) -> None:
        rows = [
            (one.name, local_moment(one.at_ms), "this one" if one.is_here else "")
            for one in self.devices
        ]
        if rows:
            screen.table(("DEVICE", "SYNCED ALL", ""), rows)
        else:
            sync = screen.call("sync")
            screen.line(f"No device is known that syncs with {self.far}; {sync} asks.")


class ForgottenDevice(Result, frozen=True, kw_only=True):
    device: str
    far: str

    def show(self, screen: Screen) -> None:
        screen.line(f"{self.device} is no longer listed in {self.far}, until it syncs again.")
        screen.line("What it has stays on it, and its token still lets it in.")


@command(
    "sync",
    details="Sends what the far store does not have and fetches what is missing here, of these "
    "conversations or of all. If a conversation grew on both sides, the far log wins, and what was "
    "said here continues as a fork. A blocked conversation says why, and each sync tries it again. "
    "--verify fetches and checks everything, and decrypts it where the store has a key; from then "
    "on, --status knows about losses too. --devices shows the list of the last sync of everything; "
    "a device reports at most once an hour, and one whose token may only read cannot report. "
    "--forget-device changes only that list: nothing is removed from the device, and its token is "
    "not revoked.",
    on="store",
)
def sync(
    session: Session,
    *,
    conversations: Annotated[
        tuple[str, ...], Meta(description="The conversations; by default all.", extra=ID_POSITION)
    ] = (),
    status: Annotated[
        bool, Meta(description="Sync nothing: show the state that is known here.")
    ] = False,
    verify: Annotated[
        bool, Meta(description="Sync nothing: check that the far store keeps what was sent to it.")
    ] = False,
    repair: Annotated[
        bool,
        Meta(
            description="With --verify: send again what the far store lost, and artifacts that are "
            "damaged only there."
        ),
    ] = False,
    devices: Annotated[
        bool, Meta(description="List the devices that sync with the far store.")
    ] = False,
    forget_device: Annotated[
        str,
        Meta(
            description="Remove this device from the list, until it syncs again.",
            extra={"metavar": "NAME"},
        ),
    ]
    | None = None,
    far: Far | None = None,
    key: Key | None = None,
    new_far: Annotated[
        bool, Meta(description="The far store is new, or was emptied on purpose: fill it.")
    ] = False,
    take_plain: Annotated[
        bool,
        Meta(
            description="With a key: also take plain text from the far store, which anybody there "
            "could have written."
        ),
    ] = False,
) -> SyncResult | FarVerified | DevicesListed | ForgottenDevice:
    if sum((status, verify, devices, forget_device is not None)) > 1:
        modes = "--status, --verify, --devices and --forget-device"
        raise Invalid(f"{modes} exclude each other", hint="pass only one of them")
    if repair and not verify:
        raise Invalid("--repair is for --verify", hint="refold sync --verify --repair")
    store = synced_store(session, far, key)
    if verify:
        near: Store = getattr(store, "near", session.target)
        return _verified(near, store, conversations, repair=repair)
    if devices:
        return DevicesListed(far=store.far_url, devices=tuple(store.devices()))
    if forget_device is not None:
        store.forget_device(forget_device)
        return ForgottenDevice(device=forget_device, far=store.far_url)
    before = store.sync_status(conversations if status else ())
    if status:
        keys, reason = _key_names(store)
        return SyncResult(
            near=before.near,
            far=before.far,
            conversations=before.conversations,
            is_status=True,
            at_ms=before.at_ms,
            device=before.device,
            reason=before.reason or reason,
            keys=keys,
        )
    pending = sum(one.pending for one in before.conversations)
    with session.progress("syncing") as progress:
        listener = _listener(progress, pending) if progress else None
        report = store.sync(
            conversations, new_far=new_far, takes_plain=take_plain, progress=listener
        )
    return SyncResult(
        near=before.near,
        far=before.far,
        conversations=report.synced,
        same=report.same,
        is_under_way=report.is_under_way,
        device=before.device,
        reason=report.reason,
        is_refused=report.is_refused,
    )


def _key_names(store: SyncedStore) -> tuple[tuple[str, ...], str]:
    """The names of the keys for the far store, the newest first; if the key file is unreadable, the
    reason."""
    try:
        keys = getattr(store.far, "keys", None)
    except (Denied, Corrupt) as error:
        return (), f"{error.message}; {error.hint}"
    return (tuple(key.id for key in keys.keys) if keys else ()), ""


def _listener(progress: Progress, pending: int) -> SyncListener:
    """A listener whose total grows: the number of events to fetch is unknown at the start."""
    done = 0

    def listen(conversation: str, count: int) -> None:
        nonlocal done
        done += count
        progress(conversation, done, max(pending, done))

    return listen


def _verified(
    near: Store, synced: SyncedStore, names: Sequence[str], *, repair: bool
) -> FarVerified:
    """The result of a check, with `repair` after sending the repairable parts again."""
    before = _checked(near, synced, names)
    if not repair or not (before.artifacts_here or before.lost):
        return before
    if before.lost:
        synced.sync(tuple(before.lost))
    for digest in before.artifacts_here:
        synced.far.put(near.get(digest))
        if not _is_kept(synced.far, digest):
            # A store keeps the content that it has, even if damaged.
            synced.far.drop(digest, before_ms=now_ms() + 1)
            synced.far.put(near.get(digest))
    after = _checked(near, synced, names)
    return replace(
        after,
        sent_again=tuple(ids.artifact_id(digest) for digest in before.artifacts_here),
        conversations_again=tuple(id for id in before.lost if id not in after.lost),
    )


def _checked(near: Store, synced: SyncedStore, names: Sequence[str]) -> FarVerified:
    """The damage in the far store, and the parts that are intact here."""
    far, refused, reports = synced.far, set[str](), list[Verification]()
    absent: dict[str, NotFound] = {}
    for id in names or [about.id for about in conversations_and_memories(far)]:
        try:
            reports.append(_report(far, id, refused))
        except NotFound as error:
            absent[id] = error
    problems = [problem for report in reports for problem in report.problems]
    damaged = {one.conversation for one in problems if one.part in ("log", "store")}
    lost = synced.losses(names, besides=damaged)
    for id, absence in absent.items():
        if id not in lost.events:
            raise absence
    digests = {
        digest
        for one in problems
        if one.part == "artifact"
        for digest in _digests_in(near, one.conversation, one.seq)
    }
    for id, count in lost.events.items():
        what = f"the far store has lost {number(count, 'event')} that it had"
        problems.append(Problem(part="log", what=what, conversation=id, file=far.url))
    return FarVerified(
        store=far.url,
        ok=not problems,
        conversations=sum(report.conversations for report in reports),
        events=sum(report.events for report in reports),
        artifacts=sum(report.artifacts for report in reports),
        memories=sum(report.memories for report in reports),
        problems=tuple(problems),
        remarks=tuple(remark for report in reports for remark in report.remarks),
        whole_here=tuple(id for id in sorted(damaged - refused) if _is_whole(near, id)),
        artifacts_here=tuple(sorted(digest for digest in digests if _is_kept(near, digest))),
        lost=lost.events,
        is_all_lost=lost.is_all,
    )


def _report(far: Store, id: str, refused: set[str]) -> Verification:
    """The report on one conversation. One with another key does not stop the check; it is added to
    `refused`, because it may be intact."""
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


def _digests_in(near: Store, id: str, seq: int) -> list[str]:
    """The digests of artifacts that an event names; none if this device does not have it."""
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


def _is_whole(near: Store, id: str) -> bool:
    try:
        return not verify(near, id).problems
    except RefoldError:
        return False


FILE_POSITION = {"positional": True, "metavar": "FILE"}


class KeyMade(Result, frozen=True, kw_only=True):
    """The names of the key that encrypts from now on and of the older keys, which only decrypt.
    `is_derived` for a key made from a passphrase."""

    file: str
    key: str
    older: tuple[str, ...]
    is_derived: bool = False

    def show(self, screen: Screen) -> None:
        screen.line(f"The key {self.key} is in {self.file}, which only you can read.")
        if self.older:
            screen.line("It encrypts from now on; the older keys still decrypt.")
            screen.line(f"{screen.call('sync key apply')} encrypts the far store again with it.")
        screen.line(f"Use it in the URL of the store: hybrid:NEAR?far=FAR&key={self.file}")
        if self.is_derived:
            screen.line(
                "The same passphrase and name give the same key on your other devices. Without"
            )
            screen.line("them and without the file, nobody can read the far store.")
        else:
            screen.line(
                "Copy the file to your other devices, never through the far store. Keep another"
            )
            screen.line("copy: without it, nobody can read the far store.")
        screen.line(
            "The far store still sees the ids of conversations, and so the words of the names and"
        )
        screen.line("the files that an id was made of.")


@command(
    "sync key new",
    details="Without --passphrase the key is random, and you copy the file to your other devices. "
    "An existing file is not overwritten. You type the passphrase without seeing it, or pipe it to "
    "standard input.",
    on="nothing",
)
def new_key(
    session: Session,
    *,
    file: Annotated[
        str,
        Meta(
            description="The file to make, such as ~/.config/refold/acme.key.", extra=FILE_POSITION
        ),
    ],
    rotate: Annotated[
        bool,
        Meta(description="Put a newer key in front of those in the file, which still decrypt."),
    ] = False,
    passphrase: Annotated[
        bool,
        Meta(
            description="Ask for a passphrase: with the same name it gives the same key on every "
            "device."
        ),
    ] = False,
    name: Annotated[
        str, Meta(description="With --passphrase: what the key is for, such as acme.")
    ] = "",
) -> KeyMade:
    if name and not passphrase:
        hint = "leave out --name, or add --passphrase"
        raise Invalid("--name is for a key that is made from a passphrase", hint=hint)
    secret = session.secret("Passphrase") if passphrase else ""
    key = make_key(file, passphrase=secret, name=name, rotates=rotate)
    path = os.path.abspath(os.path.expanduser(file))
    return KeyMade(file=path, key=key, older=tuple(key_ids(path)[1:]), is_derived=passphrase)


class KeyApplied(Result, frozen=True, kw_only=True):
    """The former state of each conversation that was encrypted again."""

    far: str
    conversations: dict[str, str]

    def show(self, screen: Screen) -> None:
        for id, what in self.conversations.items():
            screen.line(f"{id}: {what}")
        done = f"{number(len(self.conversations), 'conversation')} encrypted again in {self.far}"
        screen.line(f"{done}; everything there has the newest key now.")


@command(
    "sync key apply",
    details="Sync first: both sides must be the same. Each conversation is deleted in the far "
    "store and sent again; this store always has everything. Backups of the far store are not "
    "reached, and a device without a key sends plain text again.",
    on="store",
)
def apply_key(
    session: Session, *, far: Far | None = None, key: Key | None = None, yes: Yes = False
) -> KeyApplied:
    store = synced_store(session, far, key)
    session.confirm(
        "Delete from the far store what the newest key did not encrypt, and send it again?", yes
    )
    return KeyApplied(far=store.far.url, conversations=store.encrypt_again())
