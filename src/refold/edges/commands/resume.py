"""`refold resume`: continues a session in the agent that held it.

An imported session is continued by its agent's own command, in its folder; a conversation of
`refold chat` in a chat. An agent obeys the files of the folder it starts in, and a log may come
with a clone, so any folder but the current one is shown and confirmed first. Neighbours: `search`
shows the same command, `conversations.listing` knows it, `edges.proxy.supervisor` runs it.
"""

from __future__ import annotations

import os
import shlex
from contextlib import chdir

from refold.checked import quoted
from refold.conversations.listing import FOLDER, IMPORTED, meta_of, resuming
from refold.edges.commands.command import Result, Screen, Yes, command
from refold.edges.commands.session import Session
from refold.errors import Invalid, NotFound


class Resumed(Result, frozen=True, kw_only=True):
    """An agent that has ended."""

    conversation: str
    command: tuple[str, ...]
    folder: str

    def show(self, screen: Screen) -> None:
        # In a note: the output is the agent's.
        keeps = f"{screen.call('import', '', '--scan')} keeps what was new"
        screen.note(f"{shlex.join(self.command)} has ended; {keeps}")


@command(
    "resume",
    details="Runs claude --resume, codex resume or the like in the session's folder, after a "
    "question if that is not this one; what refold chat held, in a chat.",
)
def resume(session: Session, *, yes: Yes = False) -> Result:
    about = session.store.conversation(session.conversation)
    metadata = meta_of(session.store, about).metadata or {}
    words, folder = resuming(metadata), metadata.get(FOLDER)
    if not words:
        if agent := metadata.get(IMPORTED):
            reason = f"refold knows no command that continues {about.id} in {agent}"
            hint = f"refold chat --resume {about.id} continues it with a model of yours"
            raise Invalid(reason, hint=hint)
        from refold.edges.commands.chat import chat

        return chat(session, resume=about.id)
    here = place = os.getcwd()
    if isinstance(folder, str) and folder:
        if not os.path.isabs(folder):
            reason = f"{about.id} names the folder {quoted(folder)}, which is not a whole path"
            raise Invalid(reason, hint=f"by hand, in the folder you mean: {shlex.join(words)}")
        if not os.path.isdir(folder):
            hint = f"the session may be of another machine; by hand: {shlex.join(words)}"
            raise NotFound(f"{about.id} was held in {folder}, which is not here", hint=hint)
        place = os.path.realpath(folder)
    if place != here:
        by_hand = f"cd {shlex.quote(place)} && {shlex.join(words)}"
        reason = f"{about.id} was held in another folder; by hand: {by_hand}"
        session.confirm(f"Run this, which obeys the files there: {by_hand} ?", yes, reason)
    from refold.edges.proxy.supervisor import run_agent

    if session.screen is not None:
        session.screen.note(f"running {shlex.join(words)} in {place}")
    session.close()
    with chdir(place):
        ended = run_agent(words, None, os.environ, unkept=lambda _: None)
    if ended.status:
        raise SystemExit(ended.status)
    return Resumed(conversation=about.id, command=words, folder=place)
