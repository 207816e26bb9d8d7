"""Follows an external history: frameworks and proxies pass their whole list at every call.

The list is compared with the log by fingerprints of its beginnings (`log.fingerprints`). New
messages are appended. A change in the last two messages, or in the last answer, amends them: the
old ones are reverted. Any other difference means another history: the log continues in a fork, or
in the branch that has the list, so two owners that take turns do not rewrite each other's log. A
page that refold rendered is recognized when it comes back. Nothing is written twice. Neighbours:
`recorder` appends, `log.open_log` moves between branches.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from refold.core.model import Meta, Revert
from refold.dialects.tools import plain_system, plain_tools
from refold.engine.metadata_and_config import changes
from refold.engine.pages import Pages
from refold.engine.recorder import Keyed, Parsed, Recorder, append_keyed
from refold.errors import Conflict, Invalid
from refold.log.fingerprints import BEGINNING, Fronts, front_of, is_same_text, key_of
from refold.log.open_log import OpenLog
from refold.log.stored_logs import branches

AMENDED_MAX = 2  # messages at the end that may change within one history
TRIES_MAX = 5
ID_CHARS_MAX, FRONT_CHARS = 64, 8

Inner = Mapping[int, Sequence[Any]]  # by place in the list: messages that replace the owner's
NOTHING_INSIDE: Inner = MappingProxyType({})
NOTHING_SAID = Meta()

Kind = Literal["same", "grown", "amended", "forked", "moved"]


class Mirrored(Struct, frozen=True, kw_only=True):
    """The result of following a list. `kind`: nothing new, messages appended, the last ones
    amended, the history forked, or continued in a known branch. `first_new` is the place of the
    first appended message (the length of the list if there is none), `seqs` are the seqs of each
    message of the list (empty for stand-ins), `conversation` is the current conversation."""

    kind: Kind
    first_new: int
    seqs: tuple[tuple[int, ...], ...]
    conversation: str


class Unchanging(list[Any]):
    """A list whose messages never change: they need not be copied, and the same objects are
    recognized at once."""


class Mirror:
    """Follows one owner's list in the log that is held open."""

    def __init__(self, log: OpenLog, recorder: Recorder, pages: Pages) -> None:
        self._log, self._recorder, self._pages = log, recorder, pages
        self._branches: dict[str, Fronts] = {}
        self._seen: list[Any] = []  # copies of the latest list
        self._seen_fronts: list[bytes] = []
        self._parsed: dict[int, Parsed] = {}  # new messages, by place

    def take_front(self, system: Any, tools: list[Any] | None) -> None:
        """Takes the owner's system prompt and tools. The provider decides whether two tools may
        have the same name."""
        system, tools = plain_system(system), plain_tools(tools)
        if system is not None and is_same_text(self._log.metadata.system, system):
            system = None
        if system is not None or tools is not None:
            with self._log.guard:
                self._log.check_writable()
                self._log.pending = changes(self._log, Meta(), system, tools)

    def take(
        self, messages: Sequence[Any], inner: Inner = NOTHING_INSIDE, upto: int | None = None
    ) -> Mirrored:
        """Brings the log up to the list. `inner` messages replace a new message at their place.
        `upto` is the head under which the newest reply was made."""
        try:
            return self._take(messages, inner, upto)
        finally:
            self._parsed.clear()

    def _take(self, messages: Sequence[Any], inner: Inner, upto: int | None) -> Mirrored:
        kind: Kind = "same"
        first_new = len(messages)
        with self._log.guard:
            self._log.check_writable()
            for _ in range(TRIES_MAX):
                self._log.catch_up()
                if not messages and len(self._own_fronts()):
                    hint = "open a new conversation, or clear this one"
                    raise Invalid("the list that was handed over is empty", hint=hint)
                fronts = self._fronts_of(messages)
                known, places = self._longest(fronts)
                if known == len(fronts) and places == len(self._own_fronts()):
                    seqs = tuple(map(self._own_fronts().seqs_of, fronts))
                    return Mirrored(
                        kind=kind, first_new=first_new, seqs=seqs, conversation=self._log.id
                    )
                found = self._follow(messages, fronts, known, places, inner, upto)
                kind = max(kind, found, key=_WEIGHT.__getitem__)
                # Thinking from another history does not belong to this one.
                upto = 0 if found == "forked" else upto
                first_new = min(first_new, known)
        message = f"{self._log.id}: other writers got in first {TRIES_MAX} times"
        raise Conflict(message, head=self._log.state.head, hint="hand the list over again")

    # --- comparing ---

    def _fronts_of(self, messages: Sequence[Any]) -> list[bytes]:
        """The fronts of a list; messages unchanged since the last call are not parsed again."""
        same = _common(self._seen, messages)
        del self._seen[same:], self._seen_fronts[same:]
        fronts = self._seen_fronts
        is_copied = not isinstance(messages, Unchanging)
        for place in range(same, len(messages)):
            message = messages[place]
            parsed = self._parsed[place] = self._recorder.parse_once(message)
            fronts.append(front_of(fronts[-1] if fronts else BEGINNING, parsed.messages))
            self._seen.append(_copied(message) if is_copied else message)
        return list(fronts)

    def _own_fronts(self) -> Fronts:
        """The fronts of the current log."""
        return self._branch(self._log.id)

    def _branch(self, id: str) -> Fronts:
        fronts = self._branches.setdefault(id, Fronts())
        if id == self._log.id:
            fronts.follow(self._log.log.read, self._log.state.head)
        else:
            fronts.follow_stored(self._log.store, id)
        return fronts

    def _longest(self, fronts: Sequence[bytes]) -> tuple[int, int]:
        """How many messages of the list the log has, and how many places they take there."""
        known, places = self._own_fronts().longest(fronts)
        if known == len(fronts) or places == len(self._own_fronts()):
            return known, places
        shown = self._page_length(fronts)
        return (shown, len(self._own_fronts())) if shown > known else (known, places)

    def _page_length(self, fronts: Sequence[bytes]) -> int:
        """The length of refold's own page if the list begins with it; else 0."""
        for settle in (True, False):
            before = BEGINNING
            page = self._pages.page(None, settle=settle, at=None)
            for shown in page:
                before = front_of(before, self._recorder.parse(shown.message))
            if page and len(page) <= len(fronts) and fronts[len(page) - 1] == before:
                return len(page)
        return 0

    # --- following ---

    def _follow(
        self,
        messages: Sequence[Any],
        fronts: Sequence[bytes],
        known: int,
        places: int,
        inner: Inner,
        upto: int | None,
    ) -> Kind:
        """Takes one step towards the list, and returns its kind."""
        if places == len(self._own_fronts()):
            given = [
                Keyed(key_of(fronts[place]), inner[place], upto=upto)
                if place in inner
                else Keyed(key_of(fronts[place]), [messages[place]], self._parsed.get(place), upto)
                for place in range(known, len(messages))
            ]
            append_keyed(self._log, self._recorder, given)
            return "grown"
        branch = self._better_branch(fronts, known)
        if branch is not None:
            self._move(branch)
            return "moved"
        if len(self._own_fronts()) - places <= AMENDED_MAX or self._is_one_answer(places):
            seqs = [seq for one in self._own_fronts().seqs[places:] for seq in one]
            self._log.append([self._log.draft(Revert(seq=seq)) for seq in seqs])
            return "amended"
        self._fork(places, fronts[known] if known < len(fronts) else fronts[known - 1])
        return "forked"

    def _better_branch(self, fronts: Sequence[bytes], known: int) -> str | None:
        """The branch of this history that has more of the list than the current log."""
        best, most = None, known
        for id in self._other_branches(fronts):
            length = self._branch(id).longest(fronts)[0]
            if length > most:
                best, most = id, length
        return best

    def _other_branches(self, fronts: Sequence[bytes]) -> Iterator[str]:
        """The branches followed before; then, if none of these has the whole list, all others."""
        known = [id for id in self._branches if id != self._log.id]
        yield from known
        whole = any(self._branches[id].longest(fronts)[0] == len(fronts) for id in known)
        if not whole and self._log.state.head:
            there = branches(self._log.store, self._log.id)
            yield from (id for id in there if id not in self._branches)

    def _is_one_answer(self, places: int) -> bool:
        """Whether everything after these places is one answer of the model: in some dialects, an
        answer is several messages."""
        slots = [self._log.state.slot_at(first) for first, *_ in self._own_fronts().seqs[places:]]
        return all(slot is not None and slot.message.role == "assistant" for slot in slots)

    def _fork(self, places: int, front: bytes) -> None:
        """Continues in a conversation that shares the log up to these places."""
        id = _fork_id(self._log.id, front)
        metadata = self._log.metadata
        if not places:
            # Only the metadata is shared.
            is_new = not self._log.store.head(id)
            about = Meta(tags=metadata.tags, metadata=metadata.metadata)
            self._move(id, about if is_new else NOTHING_SAID)
            return
        self._log.write_pending()
        try:
            self._log.store.fork(self._log.id, self._own_fronts().seqs[places][0] - 1, id)
        except Conflict:
            self._move(id)  # another caller was faster
            return
        title = f"Fork of {metadata.title or self._log.id}"
        self._move(id, Meta(title=title, names=() if metadata.names else None))

    def _move(self, id: str, about: Meta = NOTHING_SAID) -> None:
        """Continues in another conversation. The model, windows, system prompt and tools are the
        owner's, so they hold there too, whatever it had."""
        own = self._log.metadata
        self._log.move(id)
        about = replace(about, model=own.model, windows=own.windows)
        self._log.pending = changes(self._log, about, None, None)
        self.take_front(own.system, own.tools)
        if self._log.pending:
            self._log.append([])


_WEIGHT: dict[Kind, int] = {"same": 0, "grown": 1, "moved": 2, "amended": 3, "forked": 4}


def _fork_id(id: str, front: bytes) -> str:
    """The id of the branch that begins with this front: every process derives the same."""
    end = front.hex()[:FRONT_CHARS]
    return f"{id[: ID_CHARS_MAX - FRONT_CHARS - 1].rstrip('.-')}-{end}"


def _common(seen: Sequence[Any], messages: Sequence[Any]) -> int:
    """The length of the common beginning of two lists."""
    length = min(len(seen), len(messages))
    if seen[:length] == list(messages[:length]):
        return length
    return next(at for at in range(length) if seen[at] != messages[at])


def _copied(message: Any) -> Any:
    """A deep copy: the owner may change the original."""
    if isinstance(message, dict):
        return {key: _copied(value) for key, value in message.items()}
    if isinstance(message, list):
        return [_copied(value) for value in message]
    return message if isinstance(message, str | int | float | bool | None) else _Changeable()


class _Changeable:
    """Replaces an object that may change unseen: never equal, not even to itself."""

    def __eq__(self, other: object) -> bool:
        return False

    __hash__ = None  # type: ignore[assignment]
