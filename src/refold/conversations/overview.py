"""The overview of a store: a row for each conversation, read from its bookmark instead of its log.

A row costs one bookmark and one short read, however long the log is. The few events that came after
the bookmark are added up; only those that reach back need a fold. A long log without a bookmark,
such as one just synced, has no sizes until it is opened. A row is valid as long as its `head` and
`chain` are, so a caller that shows the same store again can keep the rows that did not change.
Neighbours: `listing` has the order, titles and names, `refold.conversations.list` is the door.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress

from msgspec.structs import replace

from refold.conversations.listing import (
    FOLDER,
    IMPORTED,
    PART_OF,
    UNTITLED,
    is_erased,
    meta_of,
    preview,
    shown_title,
)
from refold.core import bookmark
from refold.core.bookmark import Bookmark
from refold.core.budget import current_tokens, factor_of
from refold.core.codec import continues
from refold.core.fold import Fold
from refold.core.model import ENCRYPTED as AUTHOR_ENCRYPTED
from refold.core.model import Conversation, Message, Slot
from refold.core.shortened import ERASED
from refold.errors import Corrupt, Denied, NotFound, RefoldError
from refold.log.log import Log
from refold.log.stored_logs import chain_at, pages_of
from refold.stores.protocol import Store
from refold.tokens.models import model_info

ENCRYPTED = "[encrypted]"  # a title that only devices with the key can read
_SILENT = Message(role="user")
UNMARKED_EVENTS = 300  # a writer keeps a bookmark before its log is longer


class Overview(Conversation, frozen=True, kw_only=True):
    """A conversation of a list, with sizes and cost. `project` is the folder it was held in,
    `agent` the program it was imported from, `part_of` the conversation whose sub-agent it is.
    `tokens` is the size of its next request, `peak` the largest request that was reported, `window`
    the model's; `messages`, `tokens` and `cost` are None if they are unknown without reading the
    log, or if the model has no price. `preview` is the beginning of its first words. Of one whose
    words were all `erased`, the id, the size and the times are left; `damaged` is the reason why a
    log is unreadable."""

    preview: str = ""
    project: str = ""
    agent: str = ""
    part_of: str = ""
    model: str = ""
    messages: int | None = None
    tokens: int | None = None
    window: int = 0
    peak: int = 0
    calls: int = 0
    cost: float | None = None
    erased: bool = False
    encrypted: bool = False
    damaged: str = ""

    @property
    def label(self) -> str:
        """The title for display: the given one, else the first words."""
        if self.encrypted:
            return ENCRYPTED
        return self.title or self.preview or (ERASED if self.erased else UNTITLED)

    @property
    def fill(self) -> float | None:
        """The used share of the window."""
        return None if self.tokens is None or not self.window else self.tokens / self.window

    @property
    def peak_tokens(self) -> int:
        """The size of the largest request: as reported, or as we count the page."""
        return self.peak or self.tokens or 0

    @property
    def peak_fill(self) -> float:
        """The share of the window that the largest request used."""
        return self.peak_tokens / self.window if self.window else 0.0


def overviews(store: Store, listed: Iterable[Conversation]) -> Iterator[Overview]:
    """The rows of these conversations, in their order; those deleted meanwhile are left out."""
    for about in listed:
        try:
            yield overview_of(store, about)
        except NotFound:
            continue


def overview_of(store: Store, about: Conversation) -> Overview:
    """The row of one conversation, readable or not."""
    sized, damaged, is_encrypted = None, "", False
    try:
        sized = _sized(store, about)
    except Corrupt as error:
        damaged = error.message
    except Denied:
        is_encrypted = True
    meta = meta_of(store, about) if sized is None else sized.meta
    metadata = meta.metadata or {}
    info = model_info(meta.model)
    words = preview(store, about.id)
    row = Overview(
        id=about.id,
        head=about.head,
        chain=about.chain,
        title=shown_title(about.title),
        parent=about.parent,
        parent_seq=about.parent_seq,
        at_ms=about.at_ms,
        updated_ms=about.updated_ms,
        tags=meta.tags or (),
        metadata=metadata,
        names=meta.names or (),
        preview=words,
        project=_text(metadata.get(FOLDER)),
        agent=_text(metadata.get(IMPORTED)),
        part_of=_text(metadata.get(PART_OF)),
        model=meta.model or "",
        window=(meta.windows or {}).get(info.name, info.window),
        erased=not (about.title or words or damaged) and _is_erased(store, about.id),
        encrypted=is_encrypted,
        damaged=damaged,
    )
    if sized is None:
        return row
    page, totals = bookmark.size(sized) if isinstance(sized, Bookmark) else sized, sized.totals
    lesson = sized.lessons.get(info.name)
    learned = row.window
    if lesson is not None:
        # Imported late: hardly any conversation needs the dialects.
        from refold.dialects.overflow import LIMIT_MIN

        learned = max(LIMIT_MIN, lesson.limit)
    return replace(
        row,
        messages=sum(sized.counts.values()),
        tokens=current_tokens(page, factor_of(page, info.name)),
        window=min(row.window, learned),
        peak=totals.peak,
        calls=totals.calls,
        cost=None if totals.unpriced else totals.cost,
    )


def _sized(store: Store, about: Conversation) -> Bookmark | Fold | None:
    """The bookmark, or the fold if events came after it; None for a long log without one."""
    mark = bookmark.read(store.bookmark(about.id))
    if mark is not None and (mark.head, mark.chain) == (about.head, about.chain):
        return mark
    if mark is None and about.head > UNMARKED_EVENTS:
        return None
    return _sums(store, about, mark) or Log(store, about.id).state


def _sums(store: Store, about: Conversation, mark: Bookmark | None) -> Fold | None:
    """The fold of the bookmark and the events after it, without what its messages say; None if
    that needs a whole fold, or to find damage."""
    state = Fold()
    if mark is not None:
        if mark.head > about.head or chain_at(store, about, mark.head) != mark.chain:
            return None
        known = {place: Slot(*place[:2], _SILENT, *place[2:]) for place in mark.slots}
        seqs = bookmark.needed(mark, known)
        found = {seq: store.read(about.id, after=seq - 1, limit=1) for seq in seqs}
        if not all(found.values()):
            return None
        state = bookmark.resumed(mark, {seq: one for seq, [one] in found.items()}, known)
    for events in pages_of(store, about.id, after=state.head, last=about.head):
        for event in events:
            is_plain = event.by != AUTHOR_ENCRYPTED and continues(event, state.chain)
            if not is_plain or event.kind == "edit" or not state.add(event):
                return None
    return state


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _is_erased(store: Store, id: str) -> bool:
    with suppress(RefoldError):
        return is_erased(store, id)
    return False
