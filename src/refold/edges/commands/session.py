"""The environment of a command: a store, a conversation, the settings and a screen.

The store is opened when it is first used and closed with the session, so a result can be read from
it until then. Reading commands never write, not even a bookmark: their store is opened read-only.
A number such as `@2` means what the last list in this terminal showed, however the order changes;
the numbers are kept in the user's data folder, by terminal and store. What is removed for good is
named by its whole id or name, or is shown and confirmed.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, BinaryIO

import msgspec

from refold import decoding
from refold.checked import check_whole
from refold.display import cut, number, one_line
from refold.edges.commands.command import Progress, Removable, Screen, show_removable
from refold.errors import Conflict, Corrupt, Invalid, NotFound, RefoldError
from refold.system.disk import read_own, replace_file

if TYPE_CHECKING:
    from refold.config import Config
    from refold.engine.context import Context
    from refold.stores.protocol import Store
    from refold.writer.asker import Writer

FOR_GOOD = "what this removes cannot be brought back"
SECRET_BYTES_MAX = 10_000
TITLE_CHARS = 60
_NUMBERS = dict[int, str]
LISTS_MAX, NUMBERS_MAX = 64, 20_000  # kept lists of all terminals, and numbers of one


class Session:
    """One use of the commands. A `conversation` may be named by its id, or by its number, `@1`.
    `screen` is None if no one is watching. With `read_only`, stores refuse every write; with
    `derives`, only stores without write permission do. `holding` is for a program that has its
    conversation open, such as a chat."""

    def __init__(
        self,
        *,
        store_url: str | None = None,
        conversation: str | None = None,
        screen: Screen | None = None,
        stdin: BinaryIO | None = None,
        read_only: bool = False,
        derives: bool = False,
    ) -> None:
        self.store_url, self._name = store_url, conversation
        self._read_only, self._derives = read_only, derives
        self.screen, self.stdin = screen, stdin
        self._stores: list[Store] = []
        self._found: dict[str, str] = {}  # ids by typed name
        self._unprinted: list[str] = []
        # What was shown before its removal: its state then, and the function that reads it.
        self._shown: dict[str, tuple[object, Callable[[], object]]] = {}
        self._held: Context | None = None
        self.has_writer = False

    @classmethod
    def holding(
        cls,
        context: Context,
        store: Store,
        *,
        screen: Screen | None = None,
        stdin: BinaryIO | None = None,
        has_writer: bool = False,
    ) -> Session:
        """A session on an open conversation, which stays open: commands use the caller's context
        and store. `has_writer` if the context has a writer. Close the session after each
        command."""
        session = cls(conversation=context.id, screen=screen, stdin=stdin)
        session._held, session.has_writer = context, has_writer
        # Assigning to a cached property replaces its value.
        session.store = session.target = store
        session.config = context.config
        return session

    # --- the store ---

    @cached_property
    def store(self) -> Store:
        """The named store, which must exist, or the project's, which may not exist yet."""
        if self.store_url or os.environ.get("REFOLD_STORE"):
            return _check_there(self.target)
        return self.target

    @cached_property
    def target(self) -> Store:
        """The store for a command that writes; it need not exist."""
        from refold.settings.sources import default_store

        return self.open_store(self.store_url or default_store(), creates=True)

    def open_store(self, url: str, *, creates: bool = False) -> Store:
        """Opens another store, which must exist unless the command creates it. The session closes
        it."""
        from refold.stores import is_writable, open_store

        read_only = self._read_only or (self._derives and not is_writable(url))
        store = open_store(url, read_only=read_only)
        self._stores.append(store)
        return store if creates else _check_there(store)

    def close(self) -> None:
        """Closes all opened stores, and reports incomplete writes that they moved aside."""
        while self._stores:
            store = self._stores.pop()
            for one in store.recovered:
                size = number(one.size_bytes, "byte")
                if self.screen is not None:
                    what = f"{one.conversation}: {size} half written"
                    self.screen.note(f"{what}, moved to {one.file}")
            store.close()

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # --- the conversation ---

    @property
    def is_named(self) -> bool:
        """Whether a conversation is named."""
        return self._name is not None

    @property
    def conversation(self) -> str:
        """The id of the named conversation."""
        if self._name is None:
            raise Invalid("no conversation is named", hint="refold list shows their ids")
        return self.find(self._name)

    def check_conversation(self) -> None:
        """Raises NotFound if the named conversation does not exist."""
        self.store.conversation(self.conversation)

    def find(self, name: str, *, is_shown: bool = False) -> str:
        """The id for a name: an id, how only one begins, or a number such as `@1`. A name is looked
        up once, because a write changes which conversation is the newest. Unless the caller shows
        the conversation, `tell_found` will. NotFound, with the store's URL, if there is none."""
        if name not in self._found:
            told = len(self._unprinted)
            self._found[name] = self._look_up(name)
            if is_shown:
                del self._unprinted[told:]
        return self._found[name]

    def _look_up(self, name: str) -> str:
        from refold.conversations.listing import id_of, meta_of, title_of

        id = id_of(self.store, name, self.numbers() if name.startswith("@") else None)
        try:
            about = self.store.conversation(id)
        except NotFound as error:
            raise NotFound(f"{error.message} in {self.store.url}", hint=error.hint) from error
        except Corrupt:
            # The command decides how to handle damage.
            return id
        if name != id and self.screen is not None and not (self._read_only or self._derives):
            title = title_of(self.store, id, meta_of(self.store, about).title or "")
            shown = cut(one_line(title), TITLE_CHARS)
            self._unprinted.append(f"Conversation {id} ({name}): {shown}")
        return id

    def removable(self, *, yes: bool, name: str | None = None) -> str:
        """The id of a conversation that will be removed for good, named as `check_whole` wants it.
        A number must have been printed in this terminal."""
        from refold.conversations.listing import has_name

        typed = (self._name or "") if name is None else name
        id = self.conversation if name is None else self.find(name)
        self.store.conversation(id)
        is_printed = not typed.startswith("@") or typed[1:] in map(str, self.numbers())
        if not has_name(self.store, id, typed):
            self.check_whole(typed, id, yes=yes or not is_printed)
        return id

    def check_whole(self, typed: str, id: str, *, yes: bool) -> None:
        """Raises Invalid for something that will be removed for good if its id was not typed whole
        and nobody will be shown what is removed."""
        if yes or self.screen is None or not self.screen.can_ask:
            check_whole(typed, id)

    # --- the numbers of the last list ---

    def numbers(self) -> Mapping[int, str]:
        """The ids by number, as last printed in this terminal for this store; empty if none were,
        or without a terminal."""
        path = self._numbers_file()
        try:
            return {} if path is None else decoding.decode(read_own(str(path)), _NUMBERS)
        except (OSError, msgspec.MsgspecError):
            return {}

    def remember(self, numbers: Mapping[int, str]) -> None:
        """Remembers the numbers that a list prints, instead of those before."""
        path = self._numbers_file()
        if path is None:
            return
        try:
            # First of all the old numbers go: they must not outlive the list that they were from.
            path.unlink(missing_ok=True)
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            newest = dict(islice(numbers.items(), NUMBERS_MAX))
            replace_file(str(path), msgspec.json.encode(newest))
            kept = sorted(path.parent.iterdir(), key=lambda one: one.lstat().st_mtime_ns)
            for old in kept[:-LISTS_MAX]:
                old.unlink(missing_ok=True)
        except OSError as error:
            if self.screen is not None:
                reason = f"{path.parent} cannot be written ({error.strerror})"
                self.screen.note(f"{reason}: later, a number may mean another conversation")

    def numbered(self, ids: Sequence[str]) -> dict[str, int]:
        """The numbers of these conversations in this terminal: those they have, and the next ones
        for the others, which are remembered; empty without a terminal."""
        if self._numbers_file() is None:
            return {}
        numbers = dict(self.numbers())
        known = {id: number for number, id in numbers.items()}
        for id in ids:
            if id not in known:
                known[id] = max(numbers, default=0) + 1
                numbers[known[id]] = id
        self.remember(numbers)
        return {id: known[id] for id in ids}

    def _numbers_file(self) -> Path | None:
        from refold.settings.permissions import data_folder

        terminal = _terminal()
        if not terminal:
            return None
        try:
            folder = data_folder(os.environ) / "refold" / "lists"
        except RefoldError:
            return None
        return folder / hashlib.sha256(f"{terminal} {self.store.url}".encode()).hexdigest()[:32]

    # --- what commands say about conversations ---

    def tell_found(self) -> None:
        """Prints which conversations `@1` and names refer to; commands that only read show them
        anyway."""
        while self._unprinted and self.screen is not None:
            self.screen.line(self._unprinted.pop(0))

    @contextmanager
    def context(
        self,
        *,
        window: int | None = None,
        writer: Writer | None = None,
        writes: bool = False,
    ) -> Iterator[Context]:
        """The open conversation; NotFound if it does not exist. With `writes`, the context is
        closed as an agent's is."""
        if self._held is not None and window is None and writer is None:
            yield self._held
            return
        from refold.engine.context import Context

        id = self.store.conversation(self.conversation).id
        config = self.config_beside if window is None else self.config
        context = Context(self.store, id, config=config, window=window, writer=writer)
        yield context
        if writes:
            context.close()

    @cached_property
    def config(self) -> Config:
        """The settings of this project."""
        from refold.settings.sources import loaded

        return loaded()[0]

    @property
    def config_beside(self) -> Config:
        """The settings for the conversation, with the limits of the proxy that records it, if
        any."""
        if self._held is not None:
            return self.config
        from refold.conversations.listing import meta_of
        from refold.settings.sources import loaded_for

        about = self.store.conversation(self.conversation)
        return loaded_for(meta_of(self.store, about).metadata or {})

    # --- the person at the screen ---

    def progress(self, doing: str) -> AbstractContextManager[Progress | None]:
        """A function that shows progress: `show(what, done, total)`; None if no one is watching."""
        return nullcontext() if self.screen is None else self.screen.progress(doing)

    @contextmanager
    def followed(self, doing: str, conversation: str | None = None) -> Iterator[Store]:
        """The store, with progress shown as one conversation or all are read."""
        with self.progress(doing) as progress:
            if progress is None:
                yield self.store
                return
            from refold.stores import with_progress

            total = self._event_count(conversation)

            def listen(id: str, done: int) -> None:
                progress(f"{doing} {id}", min(done, total), total)

            yield with_progress(self.store, listen)

    def _event_count(self, conversation: str | None) -> int:
        """The number of events of one conversation or of all; 0 if unreadable, which the command
        itself will report."""
        from refold.log.stored_logs import conversations

        try:
            about = [one for one in conversations(self.store) if conversation in (None, one.id)]
        except RefoldError:
            return 0
        return sum(one.head for one in about)

    def confirm(self, question: str, yes: bool, reason: str = FOR_GOOD) -> None:
        """Asks before something is removed; raises Invalid with the reason if nobody can be
        asked."""
        if yes:
            return
        if self.screen is None:
            raise Invalid(reason, hint="confirm it with --yes")
        if self.screen.can_ask:
            self.tell_found()
        self.screen.confirm(question, reason)

    def removable_conversation(self, id: str, events: int | None = None) -> Removable:
        """A conversation as it is shown before it is removed, or some of its events are."""
        from refold.conversations.listing import meta_of, title_of

        about = self.store.conversation(id)
        # A part of a conversation is removed as far as it was shown, whatever was added after that.
        self.note_shown(id, partial(self._state, id, is_whole=events is None))
        title = title_of(self.store, id, meta_of(self.store, about).title or "")
        size = about.head if events is None else events
        return Removable(id=id, title=title, at_ms=about.updated_ms, size=size, unit="event")

    def note_shown(self, id: str, state: Callable[[], object]) -> None:
        """Keeps the state of an item that is shown before its removal. An empty state may be
        removed."""
        self._shown[id] = state(), state

    def _state(self, id: str, *, is_whole: bool) -> object:
        """What tells a conversation from a later one of its id, and with `is_whole` from a longer
        one: the seals of its events. None if it is gone."""
        try:
            about = self.store.conversation(id)
            first = self.store.read(id, limit=1)
        except Corrupt:
            return None  # damage may be the reason for its removal
        except NotFound:
            return None
        return first[0].chain if first else b"", (about.head, about.chain) if is_whole else ()

    def confirm_removal(
        self, items: Sequence[Removable], question: str, yes: bool
    ) -> tuple[Removable, ...]:
        """Shows everything that will be removed for good, and asks. Returns what the result of the
        command has to show, because nobody was asked. Conflict if something is not as it was shown
        when the answer comes."""
        if yes or self.screen is None or not self.screen.can_ask:
            self.confirm(question, yes)
            return tuple(items)
        self._unprinted.clear()  # the table has the ids
        show_removable(items, self.screen)
        self.confirm(question, yes)
        for item in items:
            shown, state = self._shown.get(item.id, (None, lambda: None))
            now = state()
            if now and now != shown:
                reason = f"{item.id} changed while you were asked"
                raise Conflict(reason, hint="nothing was removed; look at it again")
        return ()

    def ask(self, question: str) -> bool:
        """The answer of the person at the screen; no if there is no one."""
        if self.screen is None or not self.screen.can_ask:
            return False
        self.tell_found()
        return self.screen.ask(question)

    def secret(self, question: str) -> str:
        """A secret typed at the terminal without echo, or the first line of standard input."""
        typed = None if self.screen is None else self.screen.secret(question)
        if typed is None and self.stdin is not None:
            typed = self.stdin.readline(SECRET_BYTES_MAX).decode("utf-8", "replace")
        if not typed or not typed.strip():
            raise Invalid("no secret was given", hint="type it, or pipe it to standard input")
        return typed.strip()


def _check_there(store: Store) -> Store:
    from refold.stores import is_there

    if not is_there(store):
        raise NotFound(f"there is no store {store.url}", hint="check its name")
    return store


def _terminal() -> str:
    """The terminal and the login on it; empty without a terminal. A process number may be used
    again, so the start of the login's first process counts too, where the system tells it."""
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        try:
            if stream.isatty():
                device, leader = os.fstat(stream.fileno()).st_rdev, os.getsid(0)
                break
        except (AttributeError, OSError, ValueError):
            continue  # closed, or replaced by a program
    else:
        return ""
    try:
        started = Path(f"/proc/{leader}/stat").read_bytes().rpartition(b")")[2].split()[19].decode()
    except (OSError, IndexError):
        started = ""
    return f"{device} {leader} {started}"
