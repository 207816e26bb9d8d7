"""The conversations of a store, newest first: their metadata, names, titles, and lookup.

A conversation is found by its id, by a name, by the beginning of its id, or by its number: `@1` (or
`@`) was written last, unless a caller passes the numbers of a list that it has shown.
Metadata (`meta_of`) comes from the bookmark and the events after it, without a fold if possible. An
id is safe as a file name; a name is any text, such as a session id of another program, recorded by
`meta` events. The id of a new conversation derives from its name, so two processes that start it at
once write one log. A title is the first words a person typed, without the elements that agents
insert (`<environment_context>`, `<command-name>`). Neighbours: `deleter` sweeps in this order,
`engine.opening` opens by name.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from os.path import normpath
from pathlib import PurePath

from msgspec.structs import replace

from refold.checked import beginning, quoted
from refold.core import bookmark
from refold.core.active_events import REACHING
from refold.core.bookmark import Bookmark
from refold.core.codec import decode
from refold.core.fold import merged
from refold.core.ids import conversation_checked
from refold.core.model import Conversation, Event, Message, Meta, ToolCall, ToolResult
from refold.core.shortened import ERASED, text_of
from refold.display import ago, cut, is_text, one_line, plain_text
from refold.errors import Corrupt, Invalid, NotFound, RefoldError
from refold.log.log import Log, now_ms
from refold.log.stored_logs import chain_at, conversations, is_taken, newest_first, pages_of
from refold.patterns import regex
from refold.stores.protocol import Store

FOLDER = "cwd"  # metadata key of a conversation's folder
SESSION = "session"  # metadata key of an imported session's own id
IMPORTED = "imported"  # metadata key of the program that a session was imported from
# The programs of agents, by the name of their importer.
PROGRAMS = {
    "claude-code": "claude",
    "codex": "codex",
    "gemini-cli": "gemini",
    "opencode": "opencode",
}
# The command lines that continue a session, before its id.
RESUMING = {
    "claude-code": ("claude", "--resume"),
    "codex": ("codex", "resume"),
    "gemini-cli": ("gemini", "--resume"),
    "opencode": ("opencode", "--session"),
}
PART_OF = "part_of"  # metadata key of a sub-agent's conversation: the one that called it
PREVIEW_CHARS = 80
FIRST_EVENTS, PREVIEW_EVENTS = 4, 40
REDACTED_CHARS = 2_000
UNTITLED = "Untitled"
WORDLESS = ("erase", "revert", "restore", "pin")  # they only refer to other events
_SESSION_ID = regex(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|ses_\w{1,100}", re.A)
POSITION_DIGITS = 18
POSITION_HINT = "@1 is the newest conversation, @2 the one before"


def newest(
    store: Store, *, tag: str = "", folder: str = "", limit: int | None = None
) -> list[Conversation]:
    """The conversations, the last written first, at most `limit`; `tag` and `folder` select, the
    latter including folders below it; a folder that is not absolute is its last name alone."""
    if limit is not None and limit < 0:
        raise Invalid(f"a limit of {limit} conversations", hint="omit it for no limit")
    ordered = newest_first(store)
    if tag or folder:
        ordered = (about for about in ordered if _fits(meta_of(store, about), tag, folder))
    return list(islice(ordered, limit))


def _fits(meta: Meta, tag: str, folder: str) -> bool:
    if tag and tag not in (meta.tags or ()):
        return False
    return not folder or is_below((meta.metadata or {}).get(FOLDER), folder)


def is_below(path: object, folder: str) -> bool:
    """Whether a path is the folder or below it, as text, because it may be of another machine."""
    if not isinstance(path, str) or not path:
        return False
    place, wanted = PurePath(normpath(path)), PurePath(normpath(folder))
    return place == wanted or wanted in place.parents or place.name == folder


def tools_called(store: Store, found: Iterable[Conversation]) -> Counter[str]:
    """How often each tool was called in these conversations; one whose log is damaged has none."""
    counted: Counter[str] = Counter()
    for about in found:
        with suppress(Corrupt):
            for events in pages_of(store, about.id, last=about.head):
                counted += tools_called_in(events)
    return counted


def tools_called_in(events: Iterable[Event]) -> Counter[str]:
    """How often each tool was called in these events."""
    counted: Counter[str] = Counter()
    for event in events:
        body = decode(event) if event.kind == "message" and not event.erased else None
        if isinstance(body, Message):
            counted.update(one.name for one in body.blocks if isinstance(one, ToolCall))
    return counted


def described(store: Store, about: Conversation) -> Conversation:
    """The conversation with its tags, metadata and names."""
    meta = meta_of(store, about)
    return replace(
        about, tags=meta.tags or (), metadata=meta.metadata or {}, names=meta.names or ()
    )


def meta_of(store: Store, about: Conversation) -> Meta:
    """The model, tags, metadata and names of a conversation, from its bookmark and the events
    since; from the bookmark alone if the log is unreadable."""
    try:
        mark = bookmark.read(store.bookmark(about.id))
    except Corrupt:
        mark = None
    known = mark.meta if mark else Meta()
    if mark and (mark.head, mark.chain) == (about.head, about.chain):
        return known
    try:
        since = _meta_since(store, about, mark)
        return Log(store, about.id).state.meta if since is None else since
    except RefoldError:
        return known


def _meta_since(store: Store, about: Conversation, mark: Bookmark | None) -> Meta | None:
    """The metadata of the bookmark and the events after it; None if that needs a fold."""
    known, after = (mark.meta, mark.head) if mark else (Meta(), 0)
    if mark and (after > about.head or chain_at(store, about, after) != mark.chain):
        return None
    for events in pages_of(store, about.id, after=after, last=about.head):
        for event in events:
            if event.kind in REACHING:
                return None
            body = decode(event) if event.kind == "meta" else None
            if isinstance(body, Meta):
                known = merged(known, body)
    return known


def resuming(metadata: Mapping[str, object]) -> tuple[str, ...]:
    """The command line that continues an imported session in its agent; empty if there is none, as
    for a sub-agent or an abandoned branch."""
    agent = str(metadata.get(IMPORTED, ""))
    session = str(metadata.get(SESSION, "")).removeprefix(f"{agent}-")
    if agent not in RESUMING or PART_OF in metadata or not _SESSION_ID.fullmatch(session):
        return ()
    return (*RESUMING[agent], session)


def id_of(store: Store, name: str, numbers: Mapping[int, str] | None = None) -> str:
    """The id for a name: for `@n` the conversation with this number, by default the n-th newest;
    else an id, the name of one conversation, or the beginning of one id."""
    if not name.startswith("@"):
        plain = plain_text(name)
        try:
            return store.conversation(plain).id
        except Corrupt:
            return plain
        except (NotFound, Invalid):
            return id_of_named(store, plain)
    digits = name[1:] or "1"
    if not digits.isdecimal() or len(digits) > POSITION_DIGITS or int(digits) < 1:
        raise Invalid(f"{quoted(name)} is not a valid position", hint=POSITION_HINT)
    if numbers and len(name) > 1:
        again = "refold list numbers the conversations again"
        id = numbers.get(int(digits), "")
        if not id:
            raise NotFound(f"the last list in this terminal has no {name}", hint=again)
        if not is_taken(store, id):
            raise NotFound(f"{name} was {id}, which no longer exists", hint=again)
        return id
    there = newest(store, limit=int(digits))
    if int(digits) > len(there):
        raise NotFound(f"there is no conversation {name}", hint=f"{store.url} holds {len(there)}")
    return there[int(digits) - 1].id


def title_of(store: Store, conversation: str, given: str) -> str:
    """The title of a conversation for display, without secrets: the given one, else its first
    words."""
    if title := shown_title(given) or preview(store, conversation):
        return title
    with suppress(RefoldError):
        return ERASED if is_erased(store, conversation) else UNTITLED
    return UNTITLED


def shown_title(given: str) -> str:
    """A given title without secrets."""
    if not given:
        return ""
    from refold.redaction import redacted

    return redacted(given)


def is_erased(store: Store, conversation: str) -> bool:
    """Whether everything that a conversation said was erased, and nothing was said since."""
    head = store.head(conversation) or 0
    newest_event = store.read(conversation, after=head - 1, limit=1) if head else []
    quiet = (*WORDLESS, "note")  # a device notes that it erased the words as well
    if not newest_event or newest_event[0].kind not in quiet:
        return False
    events = [one for page in pages_of(store, conversation, last=head) for one in page]
    said = [one for one in events if one.kind not in quiet]
    return bool(said) and all(one.erased for one in said)


def preview(store: Store, conversation: str, *, after: int = 0) -> str:
    """The first words a user typed, from the start or after a seq, on one line, without secrets.
    Secrets are removed before the text is cut, because part of a secret is not recognized."""
    try:
        words = _first_words(store, conversation, after)
    except NotFound:
        return ""  # the log is empty
    except RefoldError as error:
        # A list shows what it can; `refold verify` reports the damage.
        return f"[{error.code}]"
    if not words:
        return ""
    from refold.redaction import redacted

    return cut(redacted(words[:REDACTED_CHARS]), PREVIEW_CHARS)


def _first_events(store: Store, conversation: str, after: int) -> Iterator[Event]:
    """The events that a preview looks at; the first few alone, because they usually have
    the words, and the next may be large."""
    for limit in (FIRST_EVENTS, PREVIEW_EVENTS - FIRST_EVENTS):
        events = store.read(conversation, after=after, limit=limit)
        yield from events
        if len(events) < limit:
            return
        after = events[-1].seq


def _first_words(store: Store, conversation: str, after: int) -> str:
    """The first words that a user typed; if there are none, the first inserted by a program."""
    first = ""
    for event in _first_events(store, conversation, after):
        body = decode(event)
        if not isinstance(body, Message) or body.role != "user":
            continue
        # Imported late: a status line loads this module, and needs no text of messages.
        from refold.ledger.sentences import without_insertions
        from refold.log.fingerprints import without_reminders

        blocks = (block for block in body.blocks if not isinstance(block, ToolResult))
        texts = [without_reminders(text_of(block)) for block in blocks]
        if words := one_line(" ".join(filter(None, map(without_insertions, texts)))):
            return words
        first = first or one_line(" ".join(texts))
    return first


# --- names ---

CHARS_MAX, NAMES_MAX = 1_000, 100
WORDS_CHARS, DIGEST_CHARS, SHOWN_CHARS = 40, 12, 200
IDS_SHOWN, IDS_TRIED = 10, 100


def names_checked(names: Iterable[str]) -> tuple[str, ...]:
    """The names without duplicates; Invalid if one is empty, too long, or not writable text."""
    checked = tuple(dict.fromkeys(map(_name_checked, names)))
    if len(checked) > NAMES_MAX:
        problem = f"{len(checked)} names are too many for one conversation"
        raise Invalid(problem, hint=f"at most {NAMES_MAX}")
    return checked


def _name_checked(name: str) -> str:
    if not isinstance(name, str) or not name.strip() or len(name) > CHARS_MAX or not is_text(name):
        problem = f"{quoted(name)} is not a name"
        raise Invalid(problem, hint=f"use 1 to {CHARS_MAX:,} characters, without surrogates")
    return name


def id_by_name(store: Store, name: str) -> str | None:
    """The id of the conversation with this name; None if there is none, Invalid with the ids if
    there are several."""
    made_for_it = _first_id(name)
    found = [made_for_it] if has_name(store, made_for_it, name) else []
    found += [
        about.id
        for about in conversations(store)
        if about.id != made_for_it and name in (meta_of(store, about).names or ())
    ]
    if len(found) > 1:
        ids = ", ".join(found[:IDS_SHOWN]) + (", …" if len(found) > IDS_SHOWN else "")
        problem = f"{len(found)} conversations are called {quoted(name, SHOWN_CHARS)}: {ids}"
        raise Invalid(problem, hint="name one of them by its id")
    return found[0] if found else None


def has_name(store: Store, id: str, name: str) -> bool:
    """Whether the conversation exists and has this name."""
    try:
        return name in (meta_of(store, store.conversation(id)).names or ())
    except NotFound:
        return False


def id_of_named(store: Store, name: str) -> str:
    """The id by a name or by its beginning; an unknown one is returned if it can be an id, else
    NotFound."""
    found = id_by_name(store, name) or _id_beginning(store, name)
    if found is not None:
        return found
    try:
        return conversation_checked(name)
    except Invalid as error:
        problem = f"no conversation is called {quoted(name, SHOWN_CHARS)}"
        raise NotFound(problem, hint="refold list shows ids and names") from error


def _id_beginning(store: Store, typed: str) -> str | None:
    """The only id with this beginning; raises Invalid, with titles and ages, for several."""
    there = {about.id: about for about in conversations(store)}

    def described(id: str) -> str:
        title = title_of(store, id, meta_of(store, there[id]).title or "")
        return f"{id} ({title}, {ago(now_ms() - there[id].updated_ms)})"

    return beginning(typed, there, "conversations", described)


def id_for(store: Store, name: str) -> str:
    """A free id for a new conversation of this name; or the id under which another process has just
    created it."""
    first = _first_id(_name_checked(name))
    for number in range(1, IDS_TRIED + 1):
        id = first if number == 1 else f"{first}-{number}"
        if not is_taken(store, id) or has_name(store, id, name):
            return id
        Log(store, id)  # Corrupt if it cannot be read: it may have the name
    raise Invalid(f"{IDS_TRIED} conversations were made for this name", hint="pass an id")


def _first_id(name: str) -> str:
    """The id derived from a name: its words, and enough of its digest to be unique."""
    plain = unicodedata.normalize("NFKD", name[:CHARS_MAX]).encode("ascii", "ignore").decode()
    words = re.sub(r"[^a-z0-9]+", "-", plain.lower())[:WORDS_CHARS].strip("-")
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:DIGEST_CHARS]
    return f"{words or 'named'}-{digest}"
