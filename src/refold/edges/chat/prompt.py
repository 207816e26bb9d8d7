"""What a person types on a terminal that can move its cursor: several lines, history, completion,
and the numbers of the context below the line. Needs the extra `chat` (prompt_toolkit).

Enter sends; Alt-Enter, or a backslash at the end of a line, begins another. Completion runs in a
thread of its own and history is read in another, so no key waits for the disk. Neighbours: `lines`
is the same for plain terminals, `completion` finds the words.

What can stand where the cursor is: slash commands with what they take, handles, conversations,
paths.

Commands are completed as in a shell (`edges.commands.candidates`). All of it is asked when a
person wants it, in a thread of its own: a key never waits for the log or the disk. Whatever goes
wrong gives no word. Neighbour: `prompt` offers the words.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from importlib import import_module
from itertools import islice
from pathlib import Path
from threading import Thread
from typing import Any

from msgspec import Struct

from refold.edges.chat.input import PROMPT, in_quotes, mention
from refold.edges.commands.candidates import in_chat
from refold.edges.commands.command import Taking
from refold.edges.commands.session import Session
from refold.edges.workspace import NEVER
from refold.errors import RefoldError

HISTORY_BYTES_MAX = 1_000_000


class PromptLines:
    """Lines of a terminal, by prompt_toolkit."""

    can_ask = True
    shows_status = True

    def __init__(self, root: Path, history: Path) -> None:
        from prompt_toolkit import PromptSession
        from prompt_toolkit.completion import DynamicCompleter

        self.find_names: Callable[[], Names] = lambda: Names(root)
        self._names = Names(root)
        self._ahead: list[str | None] = []
        self._session: Any = PromptSession(
            history=_history(history),
            # It asks for the completer at every key, and needs no class of its own.
            completer=DynamicCompleter(lambda: self),
            complete_in_thread=True,
            complete_while_typing=False,
            key_bindings=_keys(),
            prompt_continuation="  ",
        )

    def read(self, status: str) -> str | None:
        if self._ahead:
            return self._ahead.pop()
        self._names = self.find_names()
        return self._prompted(bottom_toolbar=status)

    def read_ahead(self, module: str) -> None:
        """Reads the first line while a module is loaded, once the prompt stands there."""
        loading = Thread(target=import_module, args=(module,), daemon=True)
        try:
            self._ahead = [self._prompted(pre_run=loading.start)]
        except KeyboardInterrupt:
            # As at any prompt: the line is gone, the next is asked for.
            self._ahead = []
        loading.join()

    def _prompted(self, **given: Any) -> str | None:
        try:
            text: str = self._session.prompt(PROMPT, **given)
        except EOFError:
            return None
        return text

    def ask(self, question: str) -> str:
        from prompt_toolkit import prompt

        try:
            answer: str = prompt(f"{question} ")
        except EOFError:
            return ""
        return answer.strip()

    def get_completions(self, document: Any, event: Any) -> Iterator[Any]:
        """What the word before the cursor could become; it may have spaces in it."""
        from prompt_toolkit.completion import Completion

        line = document.text_before_cursor.rpartition("\n")[2]
        size = len(last_word(line))
        for word in words_for(line, self._names):
            yield Completion(word, start_position=-size)


def _keys() -> Any:
    """Enter sends, the others begin a new line."""
    from prompt_toolkit.key_binding import KeyBindings

    keys = KeyBindings()

    def send(event: Any) -> None:
        buffer = event.current_buffer
        if buffer.complete_state and buffer.complete_state.current_completion:
            buffer.complete_state = None
        elif buffer.document.current_line_before_cursor.endswith("\\"):
            buffer.delete_before_cursor()
            buffer.insert_text("\n")
        else:
            buffer.validate_and_handle()

    def begin_line(event: Any) -> None:
        event.current_buffer.insert_text("\n")

    keys.add("enter")(send)
    # Enter that was typed while a reply came in arrives as Ctrl-J.
    keys.add("c-j")(send)
    keys.add("escape", "enter")(begin_line)
    return keys


def _history(file: Path) -> Any:
    """The lines of earlier chats, for their owner alone; in memory where they cannot be kept."""
    from prompt_toolkit.history import FileHistory, InMemoryHistory, ThreadedHistory

    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(file, os.O_WRONLY | os.O_CREAT, 0o600))
        if file.stat().st_size > HISTORY_BYTES_MAX:
            file.write_bytes(b"\n# " + _newest_half(file.read_bytes()))
    except OSError:
        return InMemoryHistory()
    return ThreadedHistory(FileHistory(str(file)))


def _newest_half(content: bytes) -> bytes:
    """The second half of a history, from the beginning of an entry on."""
    return content[len(content) // 2 :].partition(b"\n# ")[2]


ENTRIES_MAX = 500
# The last word; a space after a backslash is part of it, or one between quotes that are still open.
_LAST = re.compile(r'(?<![\w@])@"[^"\n]*\Z|(?:\\ |[^ ])*\Z')


class Names(Struct, frozen=True):
    """What a line can name: the folder's files but for those of the store, what the session
    knows, and commands that only the chat has."""

    root: Path
    session: Session | None = None
    own: Mapping[str, Taking] = {}
    guards: Container[str] = ()


def last_word(text: str) -> str:
    """The word that is being typed."""
    found = _LAST.search(text)
    return found[0] if found else ""


def words_for(text: str, names: Names) -> list[str]:
    """The words that the last, unfinished word of a text could become."""
    last = last_word(text)
    if text.startswith("/"):
        found = _command_words(text, last, names)
    elif last.startswith('@"'):
        found = [in_quotes(path) for path in paths(last[2:], names.root, names.guards)]
    elif last.startswith("@"):
        name = last[1:].replace("\\ ", " ")
        found = [mention(path) for path in paths(name, names.root, names.guards)]
    else:
        found = []
    return sorted({word for word in found if word.startswith(last) and word != last})


def _command_words(text: str, last: str, names: Names) -> Iterable[str]:
    candidates = [one.text for one in in_chat(text, names.session, also=names.own)]
    if " " not in text:
        return [f"/{name}" for name in candidates]
    try:
        return _handles(names.session) if last.startswith("#") else candidates
    except (RefoldError, OSError):
        return candidates


def _handles(session: Session | None) -> list[str]:
    """The newest messages on the page."""
    if session is None:
        return []
    with session.context() as context:
        return [f"#{slot.seq}" for slot in context.view.slots[-ENTRIES_MAX:]]


def paths(text: str, root: Path, without: Container[str] = ()) -> list[str]:
    """The files and folders of the folder that begin with a text; folders end with a slash."""
    folder, _, name = text.rpartition("/")
    if os.path.isabs(text) or ".." in folder.split("/"):
        return []
    prefix = f"{folder}/" if folder else ""
    try:
        with os.scandir(root / folder) as found:
            entries = list(islice((one for one in found if one.name.startswith(name)), ENTRIES_MAX))
    except (OSError, ValueError):
        return []
    shown = [one for one in entries if one.name not in NEVER and one.path not in without]
    return [f"{prefix}{one.name}{'/' if one.is_dir() else ''}" for one in shown]
