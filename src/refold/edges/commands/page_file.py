"""What `refold page --html` writes: a conversation gathered for `displays.browser`."""

from __future__ import annotations

from msgspec import UNSET

from refold.core.model import Event, View
from refold.display import number
from refold.edges.commands.context.history import sizes
from refold.edges.commands.native_part import native_part, written
from refold.edges.displays.browser import Browsed, browser_page
from refold.edges.displays.parts import window_parts
from refold.edges.displays.timeline import Written, timeline
from refold.engine.context import Context
from refold.engine.stats import Stats
from refold.log.reading import pages_of
from refold.log.trace import history_of
from refold.redaction import redactor
from refold.stores.protocol import Store
from refold.tokens.models import dollars

MESSAGES_MAX = 20_000


def page_file(store: Store, context: Context) -> str:
    """The document, without secrets unless the settings leave them in exports. Of a very long log
    the newest messages are in it."""
    view, stats = context.view, context.stats()
    pages = pages_of(store, context.id, last=view.head) if view.head else ()
    events = [event for page in pages for event in page]
    shown, left_out = _newest(events)
    browsed = Browsed(
        conversation=context.id,
        title=stats.title,
        facts=_facts(stats),
        window=stats.window,
        parts=window_parts(view, context.budget),
        sizes=tuple((one.seq, one.tokens) for one in sizes(context, stats.current)),
        batches=tuple(context.log.batches()),
        items=timeline(shown, view, history_of(events), _written(context, view)),
        left_out=left_out,
    )
    return browser_page(browsed, redactor(context.config.redact, "exports"))


def _written(context: Context, view: View) -> dict[int, Written]:
    """What providers wrote on this page, by the seq of its slot."""
    found = ((slot.seq, native_part(context, slot)) for slot in view.slots)
    return {seq: written(one) for seq, one in found if one is not UNSET}


def _newest(events: list[Event]) -> tuple[list[Event], int]:
    """The newest messages, and how many there are before them."""
    messages = [event for event in events if event.kind == "message"]
    return messages[-MESSAGES_MAX:], max(0, len(messages) - MESSAGES_MAX)


def _facts(stats: Stats) -> tuple[str, ...]:
    sizes = f"{stats.percent:.1f}% full, {stats.current:,} of {number(stats.window, 'token')}"
    messages = f"{number(stats.messages, 'message')}, {stats.active:,} of them on the page"
    billed = f"billed {dollars(stats.cost)}" if stats.cost else ""
    facts = (stats.model or "unknown model", sizes, messages, billed)
    return tuple(fact for fact in facts if fact)
