"""Free names: what somebody else calls a conversation, beside the id by which refold knows it.

An id is safe as a file name everywhere; a name is any text, such as the id of a session in another
program. Names are told by `meta` events, and found through the list. A conversation that is made
for a name gets an id that follows from the name, so two processes that begin it at once write one
log, and the next look goes straight there. Neighbours: `listing` has the metadata, `engine.opening`
opens by name.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable

from refold.checked import quoted
from refold.conversations.listing import meta_of
from refold.core.codec import conversation_checked
from refold.display import is_text
from refold.errors import Invalid, NotFound
from refold.log.log import Log
from refold.log.reading import conversations, is_taken
from refold.stores.protocol import Store

CHARS_MAX, NAMES_MAX = 1_000, 100
WORDS_CHARS, DIGEST_CHARS, SHOWN_CHARS = 40, 12, 200
IDS_SHOWN, IDS_TRIED = 10, 100


def names_checked(names: Iterable[str]) -> tuple[str, ...]:
    """These names, each once. Invalid if one is empty, too long, or no text."""
    checked = tuple(dict.fromkeys(map(_name_checked, names)))
    if len(checked) > NAMES_MAX:
        said = f"{len(checked)} names are too many for one conversation"
        raise Invalid(said, hint=f"at most {NAMES_MAX}")
    return checked


def _name_checked(name: str) -> str:
    if not isinstance(name, str) or not name.strip() or len(name) > CHARS_MAX or not is_text(name):
        said = f"{quoted(name)} is not a name"
        raise Invalid(said, hint=f"a text of 1 to {CHARS_MAX:,} characters, without surrogates")
    return name


def named(store: Store, name: str) -> str | None:
    """The id of the conversation that has this name; None if none has. Invalid, with their ids, if
    several have."""
    made_for_it = _first_id(name)
    found = [made_for_it] if _has_name(store, made_for_it, name) else []
    found += [
        about.id
        for about in conversations(store)
        if about.id != made_for_it and name in (meta_of(store, about).names or ())
    ]
    if len(found) > 1:
        ids = ", ".join(found[:IDS_SHOWN]) + (", …" if len(found) > IDS_SHOWN else "")
        said = f"{len(found)} conversations are called {quoted(name, SHOWN_CHARS)}: {ids}"
        raise Invalid(said, hint="say which, by its id")
    return found[0] if found else None


def _has_name(store: Store, id: str, name: str) -> bool:
    try:
        return name in (meta_of(store, store.conversation(id)).names or ())
    except NotFound:
        return False


def id_of_named(store: Store, name: str) -> str:
    """The same; a name that nobody has is returned where it can be an id, else NotFound."""
    found = named(store, name)
    if found is not None:
        return found
    try:
        return conversation_checked(name)
    except Invalid as error:
        said = f"no conversation is called {quoted(name, SHOWN_CHARS)}"
        raise NotFound(said, hint="refold list shows ids and names") from error


def id_for(store: Store, name: str) -> str:
    """An id for a new conversation of this name, by which nobody is known yet; or the id under
    which another process has made it since it was looked for."""
    first = _first_id(_name_checked(name))
    for number in range(1, IDS_TRIED + 1):
        id = first if number == 1 else f"{first}-{number}"
        if not is_taken(store, id) or _has_name(store, id, name):
            return id
        Log(store, id)  # Corrupt if it cannot be read: it may have the name
    raise Invalid(f"{IDS_TRIED} conversations were made for this name", hint="give an id")


def _first_id(name: str) -> str:
    """The id that follows from a name: its words, and enough of its digest to tell it from others
    that begin like it."""
    plain = unicodedata.normalize("NFKD", name[:CHARS_MAX]).encode("ascii", "ignore").decode()
    words = re.sub(r"[^a-z0-9]+", "-", plain.lower())[:WORDS_CHARS].strip("-")
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:DIGEST_CHARS]
    return f"{words or 'named'}-{digest}"
