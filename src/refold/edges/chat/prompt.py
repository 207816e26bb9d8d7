"""The prompt of a full terminal: several lines, history, completion, and the status below the line.
Needs the extra `chat` (prompt_toolkit).

Enter sends; Alt-Enter, or a backslash at the end of a line, begins another. Commands are completed
as in a shell, and so are handles, conversations and paths. Completion and history run in separate
threads, so no key waits for the log or the disk; an error there gives no candidates. Neighbours:
`input` serves plain terminals, `edges.commands.completion` completes commands.
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

from refold.display import visible
from refold.edges.chat.input import PROMPT, in_quotes, mention
from refold.edges.commands.command import Taking
from refold.edges.commands.completion import in_chat
from refold.edges.commands.session import Session
from refold.edges.workspace import NEVER
from refold.errors import RefoldError
from refold.system.disk import open_own

HISTORY_BYTES_MAX = 1_000_000
ENTRIES_MAX = 500
# The last word; a space after a backslash belongs to it, and so does one inside open quotes.
_LAST = re.compile(r'(?<![\w@])@"[^"\n]*\Z|(?:\\ |[^ ])*\Z')


class PromptLines:
    """Lines of a terminal, read with prompt_toolkit."""

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
            # Any object with `get_completions` will do.
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
        return self._prompted(bottom_toolbar=visible(status))

    def read_ahead(self, module: str) -> None:
        """Reads the first line while a module is loaded, which begins after the prompt appears."""
        loading = Thread(target=import_module, args=(module,), daemon=True)
        try:
            self._ahead = [self._prompted(pre_run=loading.start)]
        except KeyboardInterrupt:
            # As at any prompt: the line is dropped, and the next one read.
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
            answer: str = prompt(f"{visible(question)} ")
        except EOFError:
            return ""
        return answer.strip()

    def get_completions(self, document: Any, event: Any) -> Iterator[Any]:
        """Candidates for the word before the cursor, which may contain spaces."""
        from prompt_toolkit.completion import Completion

        line = document.text_before_cursor.rpartition("\n")[2]
        size = len(last_word(line))
        for word in words_for(line, self._names):
            yield Completion(word, start_position=-size)


def _keys() -> Any:
    """Enter sends, Alt-Enter begins a new line."""
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
    # Enter typed during a reply arrives as Ctrl-J.
    keys.add("c-j")(send)
    keys.add("escape", "enter")(begin_line)
    return keys


def _history(file: Path) -> Any:
    """The lines of earlier chats, readable for their owner alone; in memory if the disk fails."""
    from prompt_toolkit.history import FileHistory, InMemoryHistory, ThreadedHistory

    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with open(open_own(str(file), os.O_RDWR | os.O_CREAT), "r+b") as opened:
            if os.fstat(opened.fileno()).st_size > HISTORY_BYTES_MAX:
                content = opened.read()
                opened.seek(0)
                opened.truncate()
                # The newest half, from the beginning of an entry.
                opened.write(b"\n# " + content[len(content) // 2 :].partition(b"\n# ")[2])
    except (OSError, RefoldError):
        return InMemoryHistory()
    return ThreadedHistory(FileHistory(str(file)))


class Names(Struct, frozen=True):
    """Sources of completion: the folder's files without the store's, the session, and the commands
    that only a chat has."""

    root: Path
    session: Session | None = None
    own: Mapping[str, Taking] = {}
    guards: Container[str] = ()


def last_word(text: str) -> str:
    """The word being typed."""
    found = _LAST.search(text)
    return found[0] if found else ""


def words_for(text: str, names: Names) -> list[str]:
    """Candidates for the last, unfinished word of the text."""
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
    words = {word for word in found if word.startswith(last) and word != last}
    # A completed word is shown unescaped, so a name that would control the terminal has to be
    # typed.
    return sorted(word for word in words if visible(word) == word)


def _command_words(text: str, last: str, names: Names) -> Iterable[str]:
    candidates = [one.text for one in in_chat(text, names.session, also=names.own)]
    if " " not in text:
        return [f"/{name}" for name in candidates]
    try:
        if last.startswith("#") and names.session is not None:
            with names.session.context() as context:
                return [f"#{slot.seq}" for slot in context.view.slots[-ENTRIES_MAX:]]
    except (RefoldError, OSError):
        return candidates
    return candidates


def paths(text: str, root: Path, without: Container[str] = ()) -> list[str]:
    """The paths in the folder that begin with the text; folders end with a slash."""
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
