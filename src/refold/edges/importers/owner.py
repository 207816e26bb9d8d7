"""Whose a conversation is: the session that was imported into it, and nobody else.

The metadata of a conversation names its session by the id that it gets unless another is chosen;
one that does not say so is its own. A session may go on only in its own conversation. A list of
messages has no id but its path: it may also go on where it begins with everything that the
conversation has, so a file that was moved, or comes through a pipe, is known again. Neighbours:
`importer` asks before it writes, `follow` has the keys.
"""

from __future__ import annotations

from collections.abc import Iterable

from refold.checked import quoted
from refold.conversations.listing import title_of
from refold.core.codec import decode
from refold.core.model import Meta
from refold.edges.importers.entry import Entry, Rewound, Said, Summed
from refold.edges.importers.known import events_of, known
from refold.edges.importers.parts import named
from refold.engine.context import Context
from refold.errors import Conflict, NotFound
from refold.stores.protocol import Store

IMPORTED, SESSION = "imported", "session"  # in the metadata: the source, and the session's own id
ID_CHARS_FREE, NUMBERS_MAX = 56, 1_000  # of an id that gets a number
TITLE_CHARS = 60


def is_own(context: Context, session: str) -> bool:
    """Whether the conversation is this session's, or nobody's yet."""
    if not context.log.events(limit=1):
        return True
    if context.view.metadata.get(SESSION) == session:
        return True
    return session_in(context, context.id) == session or not any(
        event.kind == "message" for event in events_of(context)
    )


def session_in(context: Context, unsaid: str) -> str:
    """The session that the log named last, also where a user went back to before that."""
    session = unsaid
    for event in events_of(context):
        meta = decode(event) if event.kind == "meta" else None
        if isinstance(meta, Meta) and meta.metadata:
            session = str(meta.metadata.get(SESSION, session))
    return session


def goes_on(context: Context, source: str, entries: Iterable[Entry]) -> bool:
    """Whether what is said in a file begins with all that was imported into the conversation.
    What was erased there may have been anything."""
    wanted = [place.key for place in known(context, source).places]
    said = (named(entry).key for entry in entries if isinstance(entry, Said | Summed | Rewound))
    keys = iter(dict.fromkeys(said))
    return bool(wanted) and all(next(keys, None) == key or not key for key in wanted)


def taken(store: Store, context: Context) -> Conflict:
    """What is said to somebody who names the conversation for another session."""
    metadata = context.view.metadata
    owner = session_in(context, context.id)
    whose = f"follows the session {owner}" if IMPORTED in metadata else "was not imported"
    title = quoted(title_of(store, context.id, context.view.title), TITLE_CHARS)
    said = f"{context.id} {whose} ({title}); nothing was written"
    free = _free(store, context.id)
    return Conflict(said, head=context.view.head, hint=f"choose another id: --id {free}")


def _free(store: Store, id: str) -> str:
    """The id with the first number that is free."""
    for number in range(2, NUMBERS_MAX):
        wanted = f"{id[:ID_CHARS_FREE]}-{number}"
        try:
            store.conversation(wanted)
        except NotFound:
            return wanted
    return "NEW"
