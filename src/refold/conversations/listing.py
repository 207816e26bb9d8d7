"""The conversations of a store, newest first, and finding one of them again.

A conversation is named by its id, by a name of its own, or by its place in that order: `@1` (or
`@`) is the one that was written to last. What a log says of itself (`meta_of`) is read from the
bookmark and the events after it; nothing is folded unless an event reaches back. Neighbours: a
store below, `names` knows names, `deleter` sweeps in this order, the command line above.

Free names: what somebody else calls a conversation, beside the id by which refold knows it.

An id is safe as a file name everywhere; a name is any text, such as the id of a session in another
program. Names are told by `meta` events, and found through the list. A conversation that is made
for a name gets an id that follows from the name, so two processes that begin it at once write one
log, and the next look goes straight there. Neighbours: `listing` has the metadata, `engine.opening`
opens by name.

What a person typed in a text of a user: without what the person's program put before it.

Agents put rules of the folder, their surroundings and commands into the words of the user, each as
an element whose name no text for people has (`<environment_context>`, `<command-name>`). Such
elements in front go; what a command was called by and was given stays. Neighbours: `listing` makes
titles of the words, `log.front` knows reminders.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable
from os.path import normpath
from pathlib import PurePath

from msgspec.structs import replace

from refold.checked import quoted
from refold.core import bookmark
from refold.core.bookmark import Bookmark
from refold.core.codec import conversation_checked, decode
from refold.core.fold import merged
from refold.core.model import Conversation, Message, Meta, ToolResult
from refold.core.shortened import text_of
from refold.core.switches import REACHING
from refold.display import cut, is_text, one_line, plain_text
from refold.errors import Corrupt, Invalid, NotFound, RefoldError
from refold.log.log import Log
from refold.log.trace import chain_at, conversations, is_taken, pages_of
from refold.stores.protocol import Store

FOLDER = "cwd"  # in the metadata: the folder that a conversation was held in
PREVIEW_CHARS = 80
PREVIEW_EVENTS = 40
REDACTED_CHARS = 2_000
UNTITLED = "Untitled"
POSITION_DIGITS = 18
POSITION_HINT = "@1 is the newest conversation, @2 the one before"


def newest(store: Store, *, tag: str = "", folder: str = "") -> list[Conversation]:
    """All conversations, the one that was written to last first; with a tag, those that carry
    it, with a folder, those that were held in it or below it."""
    ordered = sorted(conversations(store), key=_newest_first)
    if not tag and not folder:
        return ordered
    return [about for about in ordered if _fits(meta_of(store, about), tag, folder)]


def _fits(meta: Meta, tag: str, folder: str) -> bool:
    if tag and tag not in (meta.tags or ()):
        return False
    return not folder or _is_below((meta.metadata or {}).get(FOLDER), folder)


def _is_below(path: object, folder: str) -> bool:
    """Whether a path is the folder or below it; by its words, for it may be another machine's."""
    if not isinstance(path, str) or not path:
        return False
    place, wanted = PurePath(normpath(path)), PurePath(normpath(folder))
    return place == wanted or wanted in place.parents


def _newest_first(about: Conversation) -> tuple[int, str]:
    """What conversations are sorted by."""
    return -about.updated_ms, about.id


def described(store: Store, about: Conversation) -> Conversation:
    """The conversation, with the tags, the metadata and the names that it was given."""
    meta = meta_of(store, about)
    return replace(
        about, tags=meta.tags or (), metadata=meta.metadata or {}, names=meta.names or ()
    )


def meta_of(store: Store, about: Conversation) -> Meta:
    """The model, tags, metadata and names of a conversation: from its bookmark and what its log
    says since. Of a log that cannot be read, what the bookmark knows."""
    mark = _bookmark(store, about.id)
    known = mark.meta if mark else Meta()
    if mark and (mark.head, mark.chain) == (about.head, about.chain):
        return known
    try:
        since = _meta_since(store, about, mark)
        return Log(store, about.id).state.meta if since is None else since
    except RefoldError:
        return known


def _meta_since(store: Store, about: Conversation, mark: Bookmark | None) -> Meta | None:
    """What the bookmark knows, with what the events after it say; None if that needs a fold."""
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


def _bookmark(store: Store, conversation: str) -> Bookmark | None:
    """The bookmark of a conversation; None if it has none that can be read."""
    try:
        return bookmark.read(store.bookmark(conversation))
    except Corrupt:
        return None


def id_of(store: Store, name: str) -> str:
    """The id that a name stands for: `@n` for the n-th newest, itself, or the one conversation
    that has this name."""
    if not name.startswith("@"):
        return _id_by_name(store, plain_text(name))
    position = _position(name)
    there = newest(store)
    if position > len(there):
        raise NotFound(f"there is no conversation {name}", hint=f"{store.url} holds {len(there)}")
    return there[position - 1].id


def _id_by_name(store: Store, name: str) -> str:

    try:
        return store.conversation(name).id
    except Corrupt:
        return name
    except (NotFound, Invalid):
        return id_of_named(store, name)


def _position(name: str) -> int:
    digits = name[1:] or "1"
    if not digits.isdecimal() or len(digits) > POSITION_DIGITS or int(digits) < 1:
        raise Invalid(f"{quoted(name)} is not a valid position", hint=POSITION_HINT)
    return int(digits)


def title_of(store: Store, conversation: str, given: str) -> str:
    """What a conversation is called, wherever it is shown: by the title it was given, else by how
    it began."""
    return given or preview(store, conversation) or UNTITLED


def preview(store: Store, conversation: str, *, after: int = 0) -> str:
    """How the conversation began, or went on after a seq: the first words that a user typed, on
    one line, without secrets. Taken out before the cut: half of a secret is not recognized any
    more."""
    try:
        words = _first_words(store, conversation, after)
    except NotFound:
        return ""  # nothing was written yet
    except RefoldError as error:
        # A list shows what it can; `refold verify` says what is wrong.
        return f"[{error.code}]"
    if not words:
        return ""
    from refold.redaction import redacted

    return cut(redacted(words[:REDACTED_CHARS]), PREVIEW_CHARS)


def _first_words(store: Store, conversation: str, after: int) -> str:
    """The first words that a user typed; where nobody typed any, the first that a program said
    for him."""
    # Late: a status line, which needs nobody's words, loads this module.

    first = ""
    for event in store.read(conversation, after=after, limit=PREVIEW_EVENTS):
        said = _user_texts(decode(event))
        if words := one_line(" ".join(filter(None, map(typed, said)))):
            return words
        first = first or one_line(" ".join(said))
    return first


def _user_texts(body: object) -> list[str]:
    """What a user says in an event, without his program's reminders; nothing if it is not a
    user's."""
    if not isinstance(body, Message) or body.role != "user":
        return []
    from refold.log.front import without_reminders

    said = (block for block in body.blocks if not isinstance(block, ToolResult))
    return [without_reminders(text_of(block)) for block in said]


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


def id_by_name(store: Store, name: str) -> str | None:
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
    found = id_by_name(store, name)
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


# Names with a hyphen or an underscore; those of HTML have none.
_OPENING = re.compile(r"\s*<([A-Za-z]+[-_][\w-]*|INSTRUCTIONS)>")
_RULES = re.compile(r"\s*# AGENTS\.md instructions[^\n]*\n")
_COMMAND = ("command-name", "command-args")
_INPUT = re.compile(r"</?user_input[^<>]{0,100}>")  # what Cline puts around what was typed


def typed(text: str) -> str:
    """The words of a text that a person typed; nothing if there are none."""
    command: dict[str, str] = {}
    text = _INPUT.sub("", text)
    at = 0
    while (found := _element(text, at)) is not None:
        name, inner, at = found
        command[name] = inner.strip()
    called = [command[name] for name in _COMMAND if command.get(name)]
    return " ".join([*called, text[at:].strip()]).strip()


def _element(text: str, at: int) -> tuple[str, str, int] | None:
    """The name of the element that begins there, what is in it, and where it ends."""
    rules = _RULES.match(text, at)
    opening = _OPENING.match(text, rules.end() if rules else at)
    if opening is None:
        return None
    closing = f"</{opening[1]}>"
    end = text.find(closing, opening.end())
    if end < 0:
        return None
    return opening[1], text[opening.end() : end], end + len(closing)
