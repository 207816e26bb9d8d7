"""The process that writes a session of Claude Code to the log, started by `events` as `python -m
refold.edges.hooks.follower SESSION TRANSCRIPT STORE`.

Large outputs that wait become artifacts, what is new in the transcript is appended, and what the
log knows is written down to be offered after the next compaction. One process at a time works for a
session; another that comes asks it to look once more, and ends. Neighbours: `edges.importers` reads
the transcript, `events` starts this.
"""

from __future__ import annotations

import contextlib
import fcntl
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
from refold.engine.sub_agent import known
from refold.settings.sources import default_store, loaded
from refold.stores import open_store
from refold.stores.protocol import Store

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
    """Whether this is the only process at work; if not, the other is asked to look again."""
    state.make(folder)
    path = os.path.join(folder, "lock")
    with open(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            state.write(folder, AGAIN, b"")
            yield False
            return
        yield True


def follow(session: str, transcript: Path, url: str) -> None:
    """Writes what there is, and what comes meanwhile."""
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
            offer = _HEADING.format(id=id) + known(context.view, config)
            state.write(folder, "offer", offer[:OFFER_CHARS].encode("utf-8", "replace"))


def put_pending(folder: str, store: Store, id: str, config: Config) -> None:
    """Puts the outputs that wait into the store, each under the handle that its stub names."""
    waiting = sorted(Path(folder).glob("*.json"))
    if not waiting:
        return
    with Context(store, id, config=config) as context:
        for path in waiting:
            about = decoding.decode(path.read_bytes(), Artifact)
            content = path.with_suffix(".content")
            text = content.read_bytes().decode("utf-8", "surrogatepass")
            context.artifacts.put(
                text, name=about.name, type=about.type, mime=about.mime, origin=about.origin
            )
            path.unlink()
            content.unlink()


if __name__ == "__main__":
    main(sys.argv[1:])
