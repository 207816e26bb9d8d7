"""The compactions of a conversation: which there were, what each did to the size of the page, and
whether it still stands; and the size of the page all along.

All of it is computed from the log, by folding it once more up to each batch; nothing is kept for
it. Neighbours: `undo` switches batches off and on, `Context.log` asks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from refold.core.budget import current_tokens, factor_of
from refold.core.codec import decode
from refold.core.fold import Fold, folded
from refold.core.model import Event, Hide, Replace, Summarize
from refold.core.switches import switches


class Batch(Struct, frozen=True, kw_only=True):
    """One compaction: `id` is what `revert` takes, `seq` that of its first edit. It is `live`
    unless it was undone, or lies in a stretch that a restore switched off. `purpose` says what it
    is for where it is no ordinary compaction (`core.model.MADE_ROOM` and its neighbours)."""

    id: str
    seq: int
    at_ms: int
    strategy: str
    edits: int
    tokens_before: int
    tokens_after: int
    live: bool
    purpose: str = ""


def batches_of(events: Iterable[Event]) -> list[Batch]:
    """Every compaction of a log, oldest first."""
    log = list(events)
    off = switches(log).off
    found: dict[str, Batch] = {}
    tokens = 0
    for event, state in _states(log):
        edit = _edit_of(event)
        id = edit.batch if edit else ""
        before, tokens = tokens, _tokens(state)
        if edit and id:
            known = found.get(id) or _begun(edit, event, before)
            found[id] = replace(
                known,
                edits=known.edits + 1,
                tokens_after=tokens,
                live=known.live or event.seq not in off,
            )
    return list(found.values())


def sizes_of(events: Iterable[Event]) -> list[tuple[int, int]]:
    """The size of the page after every event that changed it: seq and tokens."""
    found: list[tuple[int, int]] = []
    for event, state in _states(list(events)):
        tokens = _tokens(state)
        if not found or found[-1][1] != tokens:
            found.append((event.seq, tokens))
    return found


def _states(log: Sequence[Event]) -> Iterator[tuple[Event, Fold]]:
    """Every event, and the page after it; what is given is the same fold, one event further."""
    state = Fold()
    for at, event in enumerate(log):
        if not state.add(event):
            state = folded(log[: at + 1], switches(log[: at + 1]))
        yield event, state


def _edit_of(event: Event) -> Replace | Hide | Summarize | None:
    body = decode(event) if event.kind == "edit" else None
    return body if isinstance(body, Replace | Hide | Summarize) else None


def _begun(edit: Replace | Hide | Summarize, event: Event, tokens_before: int) -> Batch:
    return Batch(
        id=edit.batch,
        seq=event.seq,
        at_ms=event.at_ms,
        strategy=event.by,
        edits=0,
        tokens_before=tokens_before,
        tokens_after=tokens_before,
        live=False,
        purpose=edit.purpose,
    )


def _tokens(state: Fold) -> int:
    """The size of the page in the provider's tokens, as far as they are known."""
    return current_tokens(state, factor_of(state, state.meta.model or ""))
