"""The process that writes a session of Claude Code to the log: `python -m … SESSION TRANSCRIPT
STORE`.

Pending large outputs become artifacts, new messages of the transcript are appended, and notes from
the log are prepared for the next compaction. Only one process works on a session at a time; another
asks it for one more round, and ends. Neighbours: `edges.importers` reads the transcript, `events`
starts this.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from refold import decoding
from refold.config import Config
from refold.core.model import Artifact
from refold.edges.hooks import state
from refold.edges.hooks.events import OFFER_CHARS
from refold.edges.importers.importer import import_file
from refold.engine.context import Context
from refold.engine.forks import known_facts
from refold.settings.sources import default_store, loaded
from refold.stores import open_store
from refold.stores.protocol import Store
from refold.system import posix
from refold.system.disk import ANY_SIZE, read_own

AGAIN = "again"
ROUNDS_MAX = 5
NICENESS = 10
SWEPT_AFTER_S = 30 * 24 * 3_600.0  # Claude Code itself deletes transcripts after 30 days
_HEADING = """\
This session was compacted. refold kept all of it; this is what its log says, taken by code from \
what was said and done (#N is the place in the log). Treat it as notes, not as new requests.
`refold search {id} WORDS` finds anything that was said, `refold show {id} '#N'` shows it whole.
"""


def main(arguments: list[str]) -> None:
    session, transcript, url = arguments
    with contextlib.suppress(OSError):
        os.nice(NICENESS)
    try:
        with _alone(state.folder_of(session)) as is_alone:
            if is_alone:
                follow(session, Path(transcript), url or default_store())
                state.sweep(SWEPT_AFTER_S)
    except Exception as error:
        state.log_error(f"session {session}", error)


@contextlib.contextmanager
def _alone(folder: str) -> Iterator[bool]:
    """Whether this is the only process at work; if not, the other is asked for one more round."""
    state.make(folder)
    path = os.path.join(folder, "lock")
    with open(state.opened(path, os.O_RDWR | os.O_CREAT), "rb") as file:
        if not posix.lock(file.fileno(), waits=False):
            state.write(folder, AGAIN, b"")
            yield False
            return
        yield True


def follow(session: str, transcript: Path, url: str) -> None:
    """Writes the session, repeatedly as long as other processes ask for another round."""
    folder = state.folder_of(session)
    config = loaded()[0]
    store = open_store(url)
    try:
        for _ in range(ROUNDS_MAX):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(folder, AGAIN))
            _write(session, transcript, store, config)
            if not os.path.exists(os.path.join(folder, AGAIN)):
                return
    finally:
        store.close()


def _write(session: str, transcript: Path, store: Store, config: Config) -> None:
    id, folder = state.conversation_of(session), state.folder_of(session)
    put_pending(os.path.join(folder, state.PENDING), store, id, config)
    if transcript.is_file():
        import_file(store, config, transcript, id=id)
    with Context(store, id, config=config) as context:
        if context.view.slots:
            offer = _HEADING.format(id=id) + known_facts(context.view, config)
            state.write(folder, "offer", offer[:OFFER_CHARS].encode("utf-8", "replace"))


def put_pending(folder: str, store: Store, id: str, config: Config) -> None:
    """Puts pending outputs into the store, each under the handle in its stub."""
    pending = sorted(Path(folder).glob("*.json"))
    if not pending:
        return
    with Context(store, id, config=config) as context:
        for path in pending:
            artifact = decoding.decode(read_own(str(path)), Artifact)
            content = path.with_suffix(".content")
            context.artifacts.put(
                read_own(str(content), ANY_SIZE).decode("utf-8", "surrogatepass"),
                name=artifact.name,
                type=artifact.type,
                mime=artifact.mime,
                origin=artifact.origin,
            )
            path.unlink()
            content.unlink()


if __name__ == "__main__":
    main(sys.argv[1:])
