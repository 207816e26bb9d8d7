"""The registry of open conversations, and the conversation of each request.

The longest known front decides; a session header only decides between equals. Two lists that share
a front and then differ are two branches, each open on its own. A conversation that is not open is
looked up in the store. A front without an answer identifies nothing: many sessions begin with the
same words. The first answer is compared by its calls and text, because a client may reword it, or
retry without having read it; every later answer follows a known front. One call at a time opens a
new conversation. Neighbours: `observer` mirrors lists into the conversations, `body` recognizes
answers.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count

import refold
from refold import dialects
from refold.conversations.importer import Recognised, recognise
from refold.core.call_arguments import canonical_arguments
from refold.core.model import Block, Message, Text, ToolCall, View, is_shown
from refold.dialects.protocol import GO_ON
from refold.edges.proxy.body import Begun, ParsedCall, Wire, is_answer
from refold.edges.proxy.deferred_tools import deferred_in
from refold.edges.proxy.folding import Compaction, Folding
from refold.edges.proxy.own_tools import tools as inside
from refold.edges.proxy.own_tools.tools import Kept, added_in
from refold.edges.proxy.page import Encoded, as_the_client_has_them, has_thoughts_of
from refold.edges.proxy.savings import NOTE, Account, CallLine, line_of
from refold.edges.proxy.upstream import Limits
from refold.engine.mirror import Mirrored, Unchanging
from refold.errors import RefoldError
from refold.log.notes import Noted
from refold.settings.sources import KEEPER, LIMITS, limits_of, noted_limits
from refold.stores.protocol import Store

log = logging.getLogger("refold.proxy")
# Dialects that bind thinking to every block before it, so the client's own messages are sent.
# Others bind an item to the reasoning before it, and only the renderer knows what may stay.
BINDING = frozenset({"anthropic"})
_NUMBERS = count()
# A difference in the last two messages or the last answer is an amendment: see `engine.mirror`.
AMENDED_MAX = 2


class OpenConversation:
    """An open conversation and its latest list. Callers hold its `guard`."""

    def __init__(
        self, context: refold.Context, parsed: ParsedCall, *, known: int, native: Compaction
    ) -> None:
        self.guard = threading.Lock()
        self.native = native
        self.number = next(_NUMBERS)
        self.context = context
        self.known = known  # messages of the list that the log had when it was opened
        self.inside = Kept(parsed.dialect)
        self.dialect, self.session, self.model = parsed.dialect, parsed.session, parsed.model
        self._opened_for = parsed.messages
        self.began_at = 0.0  # the time of the call with the first answer
        self.retries = False  # whether that call was a retry
        self.has_tools = parsed.has_tools
        self.seen: list[Wire] = []
        self.places: tuple[tuple[int, ...], ...] = ()  # the seqs of each message of that list
        self.beside: tuple[bytes, ...] = ()
        self.headers: dict[str, str] = {}  # needed by the page, in addition to the client's own
        self.size_bytes = 0
        self.begun: Begun | None = None  # the beginning that the next body may share
        self.takes_replies = True  # the client repeats answers unchanged
        self.unkept: list[Wire] = []  # the last answer, until it is in the log
        self.encoded = Encoded()
        self.opened_at = self.used_at = time.monotonic()
        self.read_log()

    def read_log(self) -> None:
        """Takes what the log says of the conversation, which a list may have moved to a branch."""
        notes, view = self.context.log.notes(), self.context.view
        calls = list(_calls(notes))
        self.has_inside = any(note.kind == inside.KEPT_NOTE for note in notes)
        has_opening = any(is_shown(slot.message) for slot in view.slots)
        # Once folded, always folded: its thinking belongs to the page, and the client's own list
        # may no longer fit.
        self.is_swapped = self.has_inside or has_opening or any(line.folded for line, _ in calls)
        self.tools = added_in(notes)  # our own, from the beginning of the conversation
        self.deferred = deferred_in(notes)
        # The newest seq answered through the proxy: later thinking belongs to our page.
        self.answered = view.anchor.upto if view.anchor else 0
        self.account = Account()
        if calls:
            self.account.resume(*calls[-1])
        tag(self.context, self.session)

    @property
    def listed(self) -> list[Wire]:
        """The latest list, or the one that the conversation was opened for."""
        return self.seen or self._opened_for

    @property
    def is_unrepeated(self) -> bool:
        """Whether the client has not sent the first answer back yet."""
        return is_unrepeated(self.listed)

    def take(self, parsed: ParsedCall) -> None:
        """Takes the client's latest list."""
        self.seen, self.size_bytes = parsed.messages, parsed.size_bytes
        self.begun = parsed.begun
        self.session = parsed.session or self.session
        self.has_tools = self.has_tools or parsed.has_tools
        self.unkept = []
        self.used_at = time.monotonic()

    def own_wires(self, parsed: ParsedCall, *, upto: int | None = None) -> Sequence[Wire] | None:
        """The messages of the page in the client's own form, up to a seq of the log if given. None
        where the renderer's form is required."""
        if parsed.dialect not in BINDING:
            return None
        context = self.context
        shown = context.page(parsed.dialect)
        if is_answer(parsed.messages[-1]) and shown[-1].message.get("content") == GO_ON:
            del shown[-1]  # the client wants the model to continue these words
        if upto is not None:
            shown = [one for one in shown if max(one.seqs, default=0) <= upto]
        wires = self.encoded.messages(context.view, shown, self.places, parsed.messages)
        return as_the_client_has_them(wires, parsed.messages, parsed.dialect)

    def list_as_it_came(self, parsed: ParsedCall, page: Sequence[Wire]) -> Sequence[Wire]:
        """The client's list with the rounds inside it, as long as the page shows exactly that; else
        the page."""
        inner = self.inside.inner(parsed.messages)
        view, own = self.context.view, parsed.messages
        came = self.encoded.as_it_came(view, self.places, own, inner, parsed.dialect)
        return page if came is None or not has_thoughts_of(came, page) else came

    def mirror(self, messages: Unchanging, beside: ParsedCall | None = None) -> Mirrored:
        """Lets the log follow the list, and the system prompt and tools of a call. A new answer in
        the list belongs to the page sent last, whatever happened to that page since."""
        id = self.context.id
        mirrored = self.context.mirror(
            messages,
            system=None if beside is None else beside.system,
            tools=None if beside is None else beside.tools,
            inner=self.inside.inner(messages),
            upto=self.answered or None,
        )
        if self.context.id != id:
            self.read_log()
        return mirrored

    def show_opening(self, opening: Message) -> None:
        """Puts an opening on the page after the first words, which are in the log; once."""
        if not any(is_shown(slot.message) for slot in self.context.view.slots):
            self.context.append(opening, by="memory")
            self.is_swapped = True

    def keep_reply(self) -> None:
        """Writes the last answer to the log in the form in which the client will repeat it."""
        if self.unkept and self.takes_replies:
            seen = Unchanging([*self.seen, *self.unkept])
            self.mirror(seen)
            self.answered = self.context.view.head
        self.unkept = []

    def close(self) -> None:
        """Writes the last answer and closes the conversation."""
        try:
            self.keep_reply()
        finally:
            self.context.close()


class ConversationRegistry:
    """The open conversations of one store, the most recent ones."""

    def __init__(self, store: Store, folding: Folding, limits: Limits) -> None:
        self.store, self.folding, self._limits = store, folding, limits
        self._guard = threading.Lock()
        self._opening = threading.Lock()  # one call at a time opens a new conversation
        self._held: OrderedDict[int, OpenConversation] = OrderedDict()

    # --- lookup ---

    def begun(self) -> list[Begun]:
        """The beginnings that the next bodies may share."""
        with self._guard:
            return [held.begun for held in self._held.values() if held.begun is not None]

    def find(self, parsed: ParsedCall) -> OpenConversation:
        """The conversation of a list with an answer: open, stored, or new."""
        held = self._going_on(parsed)
        if held is not None:
            return held
        found = recognise(self.store, parsed.messages, parsed.dialect)
        if found is not None and has_first_answer(self.store, found, parsed):
            return self._hold(parsed, found.conversation.id, found.shared)
        with self._opening:
            return self._going_on(parsed) or self._hold(parsed, _new_id(parsed), 0)

    def _going_on(self, parsed: ParsedCall) -> OpenConversation | None:
        """The open conversation with the longest part of a list, or with its first answer reworded;
        a branch of it is opened on its own."""
        held, shared = self._nearest(parsed)
        if held is None:
            return self._reworded(parsed)
        rest = held.listed[shared:]
        if len(rest) <= AMENDED_MAX or all(map(is_answer, rest)):
            return held
        return self._hold(parsed, held.context.id, shared)

    def begin(
        self, parsed: ParsedCall, *, at: float, anyway: bool = False
    ) -> OpenConversation | None:
        """The conversation of a list that came at a time and now has its first answer: a new one,
        one begun again, or one that its client has continued meanwhile. None if another
        conversation has the same words and answer, since they cannot be distinguished; `anyway`
        opens a new one all the same."""
        found = None if anyway else recognise(self.store, parsed.messages, parsed.dialect)
        is_known = found is not None and _has_answer(parsed.messages[: found.shared])
        stored = begun_in(self.store, parsed)
        with self._opening:
            held = self._begun_again(parsed, at)
            if held is not None:
                return held
            if not anyway and (held := self._nearest(parsed)[0] or self._reworded(parsed, at)):
                return held if held.opened_at > at else None
            if stored is not None and not self._holds(stored):
                return self._hold(parsed, stored, words_in(parsed.messages), at)
            return None if is_known else self._hold(parsed, _new_id(parsed), 0, at)

    def _reworded(self, parsed: ParsedCall, at: float | None = None) -> OpenConversation | None:
        """The open conversation with the same first answer as a list, reworded; or one opened since
        a time to continue from it."""
        for held in self._with_words_of(parsed):
            is_near = held.is_unrepeated if at is None else held.opened_at > at
            if is_near and are_alike(held.listed, parsed.messages, parsed.dialect):
                return held
        return None

    def _with_words_of(self, parsed: ParsedCall) -> list[OpenConversation]:
        """The open conversations with the same first words, newest first."""
        words = words_in(parsed.messages)
        with self._guard:
            held = [one for one in self._held.values() if one.dialect == parsed.dialect]
        return [
            one
            for one in reversed(held)
            if words_in(one.listed) == words == common(one.listed, parsed.messages[:words])
        ]

    def _begun_again(self, parsed: ParsedCall, at: float) -> OpenConversation | None:
        """The conversation that the same client began with these words and gave up on."""
        there = (one for one in self._with_words_of(parsed) if one.is_unrepeated)
        return next((one for one in there if _is_same_client(one, parsed, at)), None)

    def _holds(self, id: str) -> bool:
        with self._guard:
            return any(held.context.id == id for held in self._held.values())

    def beside(self, parsed: ParsedCall) -> OpenConversation | None:
        """The open conversation that a list continues exactly, if any."""
        held, shared = self._nearest(parsed)
        return held if held is not None and shared == len(held.listed) else None

    def _nearest(self, parsed: ParsedCall) -> tuple[OpenConversation | None, int]:
        best, most = None, (0, False, 0.0)
        with self._guard:
            there = list(self._held.values())
        for held in there:
            if held.dialect != parsed.dialect:
                continue
            shared = common(held.listed, parsed.messages)
            rank = (shared, bool(parsed.session) and held.session == parsed.session, held.used_at)
            if rank > most and _has_answer(parsed.messages[:shared]):
                best, most = held, rank
        return best, most[0]

    # --- opening and closing ---

    @contextmanager
    def aside(self) -> Iterator[ConversationRegistry]:
        """A registry with the same settings and a store in memory, for trying something out."""
        registry = ConversationRegistry(refold.open_store("memory:"), self.folding, self._limits)
        try:
            yield registry
        finally:
            registry.close()

    def open(
        self, parsed: ParsedCall, id: str, native: Compaction, *, offloads: bool = True
    ) -> refold.Context:
        """Opens a conversation, new or known, with the settings of the proxy."""
        context = refold.open(
            id,
            store=self.store,
            model=parsed.model or None,
            window=self.folding.window,
            config=self.folding.settings(parsed, offloads=offloads),
            native=native if self.folding.native else None,
        )
        tag(context, parsed.session)
        return context

    def _hold(self, parsed: ParsedCall, id: str, known: int, at: float = 0.0) -> OpenConversation:
        native = Compaction()
        context = self.open(parsed, id, native, offloads=self.folding.folds)
        held = OpenConversation(context, parsed, known=known, native=native)
        held.began_at, held.retries = at, parsed.retries
        with self._guard:
            self._held[held.number] = held
            gone = list(self._over_limits(held))
        for one in gone:
            with one.guard:
                one.close()
        return held

    def _over_limits(self, newest: OpenConversation) -> list[OpenConversation]:
        """Removes and returns the least recently used conversations, until the limits are kept."""
        gone: list[OpenConversation] = []
        ordered = sorted(self._held.values(), key=lambda held: held.used_at)
        size = sum(held.size_bytes for held in ordered)
        for held in ordered:
            is_full = len(self._held) > self._limits.conversations or size > self._limits.seen_bytes
            if not is_full or held is newest:
                break
            size -= held.size_bytes
            gone.append(self._held.pop(held.number))
        return gone

    def drop(self, held: OpenConversation) -> None:
        """Drops a conversation after a failure; the caller holds its guard."""
        with self._guard:
            self._held.pop(held.number, None)
        held.context.close()

    def close(self) -> None:
        """Closes all conversations and the store."""
        with self._guard:
            held, self._held = list(self._held.values()), OrderedDict()
        for one in held:
            # A log that cannot be written must not keep the others open.
            try:
                with one.guard:
                    one.close()
            except RefoldError as error:
                log.warning("%s: the last answer is not kept (%s)", one.context.id, error.code)
        self.store.close()


def _is_same_client(held: OpenConversation, parsed: ParsedCall, at: float) -> bool:
    """Whether a conversation began for the client of a call at a time: the client says that it
    retries, or it has the same session and asks again only after an answer."""
    if parsed.session != held.session:
        return False
    if parsed.retries or (held.retries and held.began_at > at):
        return True
    return bool(parsed.session) and held.opened_at < at


def common(seen: Sequence[Wire], messages: Sequence[Wire]) -> int:
    """The number of messages that two lists have in common at their beginning."""
    for at, (one, other) in enumerate(zip(seen, messages, strict=False)):
        if one is not other and one != other and _texts_alike(one) != _texts_alike(other):
            return at
    return min(len(seen), len(messages))


def _texts_alike(message: Wire) -> Wire:
    """The message, with a list of one text as that text: clients write a marked text as a list."""
    content = message.get("content")
    if not isinstance(content, list) or len(content) != 1 or not isinstance(content[0], dict):
        return message
    is_text = content[0].keys() == {"type", "text"}
    return {**message, "content": content[0]["text"]} if is_text else message


def _calls(notes: Sequence[Noted]) -> Iterator[tuple[CallLine, float]]:
    """The call lines of a conversation, each with its time in seconds."""
    for note in notes:
        line = line_of(note.data) if note.kind == NOTE else None
        if line is not None:
            yield line, note.at_ms / 1_000


def _has_answer(messages: Sequence[Wire]) -> bool:
    return any(map(is_answer, messages))


def _new_id(parsed: ParsedCall) -> str:
    """A new id; a client's session may have many conversations."""
    words = "".join(char for char in parsed.session.lower() if char in "0123456789abcdef-")[:8]
    return "-".join(part for part in (TAG, words.strip("-"), secrets.token_hex(4)) if part)


TAG = KEEPER  # of the conversations that were kept here
_Content = tuple[set[tuple[str, str, str]], str]  # the calls of an answer, and its text


def words_in(messages: Sequence[Wire]) -> int:
    """The number of messages before the first answer."""
    return next((at for at, one in enumerate(messages) if is_answer(one)), len(messages))


def is_unrepeated(messages: Sequence[Wire]) -> bool:
    """Whether a list has nothing after its first answer."""
    words = words_in(messages)
    return words < len(messages) and all(map(is_answer, messages[words:]))


def are_alike(one: Sequence[Wire], other: Sequence[Wire], dialect: str) -> bool:
    """Whether two lists with the same first words have the same first answer, even if reworded."""
    return _are_alike(
        _content(_first_answer(one), dialect), _content(_first_answer(other), dialect)
    )


# --- in the store ---


def has_first_answer(store: Store, found: Recognised, parsed: ParsedCall) -> bool:
    """Whether a stored conversation has the first answer of a list, even if reworded."""
    words = words_in(parsed.messages)
    if found.shared != words:
        return found.shared > words
    answer = _unrepeated(_view(store, found))
    theirs = _content(_first_answer(parsed.messages), parsed.dialect)
    return answer is not None and _are_alike(_content_of(answer), theirs)


def tag(context: refold.Context, session: str) -> None:
    """Tags a conversation as kept by a proxy, and notes its limits."""
    view, limits = context.view, limits_of(context.config)
    if TAG in view.tags and noted_limits(view.metadata) == limits:
        return
    known = view.metadata.get(TAG)
    about = dict(known) if isinstance(known, Mapping) else {}
    about.pop(LIMITS, None)
    if TAG not in view.tags and session:
        about["session"] = session
    if limits:
        about[LIMITS] = limits
    tags = view.tags if TAG in view.tags else (*view.tags, TAG)
    context.update(tags=tags, metadata={**view.metadata, TAG: about})


def begun_in(store: Store, parsed: ParsedCall) -> str | None:
    """The stored conversation that the same client began with these words and gave up on."""
    if not parsed.session and not parsed.retries:
        return None
    words = parsed.messages[: words_in(parsed.messages)]
    found = recognise(store, words, parsed.dialect)
    if found is None or found.shared < len(words):
        return None
    view = _view(store, found)
    about = view.metadata.get(TAG)
    session = about.get("session", "") if isinstance(about, Mapping) else ""
    is_same = _unrepeated(view) is not None and session == parsed.session
    return found.conversation.id if is_same else None


def _view(store: Store, found: Recognised) -> View:
    with refold.open(found.conversation.id, store=store, read_only=True) as context:
        return context.view


def _unrepeated(view: View) -> Sequence[Block] | None:
    """The answer of a page that ends with its first answer; None for any other page."""
    roles = [slot.message.role for slot in view.slots]
    words = roles.index("assistant") if "assistant" in roles else len(roles)
    if set(roles[words:]) != {"assistant"}:
        return None
    return [block for slot in view.slots[words:] for block in slot.message.blocks]


# --- the content of an answer ---


def _first_answer(messages: Sequence[Wire]) -> Sequence[Wire]:
    first = words_in(messages)
    rest = messages[first:]
    ends = next((at for at, one in enumerate(rest) if not is_answer(one)), len(rest))
    return rest[:ends]


def _content(answer: Sequence[Wire], dialect: str) -> _Content:
    """The calls and text of an answer; empty if it is unreadable."""
    try:
        parsed = [message for one in answer for message in dialects.parse(one, dialect)]
    except RefoldError:
        return set(), ""
    return _content_of([block for message in parsed for block in message.blocks])


def _content_of(blocks: Sequence[Block]) -> _Content:
    calls = [block for block in blocks if isinstance(block, ToolCall)]
    made = {(call.id, call.name, canonical_arguments(call)) for call in calls}
    texts = [block.text for block in blocks if isinstance(block, Text)]
    return made, "".join("".join(texts).split())


def _are_alike(one: _Content, other: _Content) -> bool:
    if one[0] or other[0]:
        return not one[0].isdisjoint(other[0])
    shorter, longer = sorted((one[1], other[1]), key=len)
    return bool(shorter) and longer.startswith(shorter)
