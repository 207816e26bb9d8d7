"""`refold context` and `/context`: what a conversation holds, by the names that the chat programs
before us gave these commands.

Those that mean the same as another command are that command (`context stats` is `stats`); the
modules here are those that are more. Neighbours: `edges/displays` has the texts and pictures,
`edges/workspace` the folder that files are added from.

`refold context` and `/context`: a conversation at a glance.

In a pipe it is the plain text of `displays.overview`; on a terminal with colors a picture of the
window, how its size went, and what is largest. Only the page is looked at, and a bounded part of
the log: a conversation of ten thousand messages is shown as fast as one of ten.

`refold context status`: how full the window is, and what fills it; as a box or as one line if
that is asked for.

How large the page was over a conversation, from a bounded part of its log.

A short log is folded once more, which is exact. Of a long one some stretches are read, spread
evenly, and what the provider reported in them counts; where nothing was reported, nothing is known.

`refold context messages`: every message in one line, also one that the page does not show.

`refold context search`: what this conversation said, and what is remembered across all.

`refold context prune`: the messages that the work needs least leave the page.

One strategy, by default that which scores messages by what the latest request needs, until the page
has at most so many tokens, by default half of the window. It is a compaction like any other: one
batch, which `undo` takes back.

`refold context summarize`: the older messages become a summary, whether the page is full or not.

With a writer the words are a model's, without one they are taken from the messages by code. It is a
compaction by one strategy: one batch, which `undo` takes back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Annotated, Literal

from msgspec import Meta, Struct

from refold.artifacts.kinds.structured import LISTED_CHARS_MAX, items_in
from refold.artifacts.listing import StoredArtifact, is_in_log
from refold.core.codec import decode
from refold.core.model import Artifact, Event, Message, Role, Slot, Usage, View
from refold.core.shortened import ERASED
from refold.edges.commands import search
from refold.edges.commands.command import (
    COMPACTION,
    TEXT,
    Arguments,
    Command,
    Result,
    Screen,
    batch_noun,
    number,
    short_line,
)
from refold.edges.commands.compact import WRITER, CompactArguments, Compacted, Planned
from refold.edges.commands.compact import run_compact as compact
from refold.edges.commands.compact import show as compaction_shown_show
from refold.edges.commands.memory import memory_of, show_entries
from refold.edges.commands.session import Session
from refold.edges.commands.show import State, body_of, event_row, state_of, whole_slots
from refold.edges.displays.overview import (
    ARTIFACTS_SHOWN,
    MESSAGES_SHOWN,
    ArtifactLine,
    Overview,
    Said,
    WindowPart,
    overview_lines,
    page_parts,
    part_of,
    usage_box,
    usage_lines,
    window_parts,
)
from refold.edges.displays.panel import Large, Panel, panel_lines
from refold.edges.displays.phrases import advice, header
from refold.engine.context import Context
from refold.engine.stats import Stats
from refold.errors import RefoldError
from refold.log.points import sizes_of
from refold.log.trace import pages_of
from refold.log.unfold import body_text
from refold.memory.entry import MemoryEntry
from refold.search.snippets import LIMIT_MAX
from refold.strategies.registry import BUILT_IN

FOLDED_MAX = 1_000  # events that are all folded
STRETCHES, STRETCH_EVENTS = 48, 8


class Size(Struct, frozen=True, kw_only=True):
    """The tokens of the page after an event."""

    seq: int
    tokens: int


def sizes(context: Context, current: int) -> tuple[Size, ...]:
    """The sizes that are known, oldest first; the last is that of now."""
    head = context.view.head
    if head <= FOLDED_MAX:
        known = sizes_of(context.log.events(limit=FOLDED_MAX))
    else:
        known = _reported(context, head)
    found = [Size(seq=seq, tokens=tokens) for seq, tokens in known if seq < head]
    return (*found, Size(seq=head, tokens=current)) if head else ()


def _reported(context: Context, head: int) -> list[tuple[int, int]]:
    """What calls were billed for, at so many places of the log."""
    found: dict[int, int] = {}
    for stretch in range(STRETCHES):
        after = head * stretch // STRETCHES
        for event in context.log.events(after=after, limit=STRETCH_EVENTS):
            found.update(_size(event))
    return sorted(found.items())


def _size(event: Event) -> dict[int, int]:
    body = decode(event) if event.kind == "usage" else None
    if isinstance(body, Usage) and body.input:
        return {event.seq: body.input + body.output}
    return {}


TEXT_CHARS = 200
LARGEST = 5
PLAIN = Meta(description="The plain text, also on a terminal with colors.")


class ContextArguments(Arguments, frozen=True, kw_only=True):
    plain: Annotated[bool, PLAIN] = False


class Summary(Result, frozen=True, kw_only=True):
    """What a conversation holds. `parts` sum to the window; `history` is the size of the page
    over the log, `compactions` where it was compacted; `largest` are the slots that cost most."""

    overview: Overview
    model: str
    level: str
    due: str
    compact_at: int
    warn_at: int
    parts: tuple[WindowPart, ...]
    history: tuple[Size, ...]
    compactions: tuple[int, ...]
    largest: tuple[Large, ...]
    pins: tuple[int, ...]
    active: int
    summaries: int
    plain: bool


def run_context(session: Session, arguments: ContextArguments) -> Summary:
    with session.context() as context:
        stats, view = context.stats(), context.view
        return Summary(
            overview=_overview(context, stats, view),
            model=stats.model,
            level=stats.level,
            due=stats.due,
            compact_at=stats.compact_at,
            warn_at=stats.warn_at,
            parts=window_parts(view, context.budget),
            history=sizes(context, stats.current),
            compactions=_compactions(context),
            largest=_largest(view, stats.current),
            pins=tuple(sorted(view.pins)),
            active=stats.active,
            summaries=stats.summaries,
            plain=arguments.plain,
        )


def _compactions(context: Context) -> tuple[int, ...]:
    """Where the page was compacted, which a hide by hand and room that was made are not."""
    standing = (one for one in context.log.batches() if one.live)
    return tuple(one.seq for one in standing if batch_noun(one.purpose) == COMPACTION)


def _overview(context: Context, stats: Stats, view: View) -> Overview:
    kept = _kept(context)
    types = Counter[str](one.artifact.type for one in kept)
    return Overview(
        conversation=stats.conversation,
        title=stats.title,
        messages=stats.by_role,
        artifacts=dict(types),
        current=stats.current,
        window=stats.window,
        cost=stats.cost,
        created_ms=stats.created_ms,
        updated_ms=stats.updated_ms,
        recent=tuple(_said(slot) for slot in _newest(view)),
        first=tuple(_artifact(context, one) for one in kept[:ARTIFACTS_SHOWN]),
    )


def _kept(context: Context) -> list[StoredArtifact]:
    """The artifacts that are there, each content once."""
    there: dict[str, StoredArtifact] = {}
    for one in context.artifacts.list():
        if not one.cleaned_ms and not is_in_log(one.artifact):
            there.setdefault(one.id, one)
    return list(there.values())


def _newest(view: View) -> list[Slot]:
    return [slot for slot in view.slots[-2 * MESSAGES_SHOWN :] if not slot.standin][
        -MESSAGES_SHOWN:
    ]


def _said(slot: Slot) -> Said:
    return Said(role=slot.message.role, text=body_text(slot.message)[:TEXT_CHARS])


def _artifact(context: Context, one: StoredArtifact) -> ArtifactLine:
    found = one.artifact
    results = _results(context, found) if found.type == "search_result" else 0
    return ArtifactLine(
        id=found.id, name=found.name, type=found.type, lines=found.lines, results=results
    )


def _results(context: Context, found: Artifact) -> int:
    """How many results a search gave that are listed in JSON; 0 where each is a line, or where its
    content cannot be read."""
    if found.size_bytes > LISTED_CHARS_MAX:
        return 0
    try:
        return len(items_in(context.unfold(found.id).text))
    except RefoldError:
        return 0


def _largest(view: View, current: int) -> tuple[Large, ...]:
    """The slots that cost most, in the provider's tokens."""
    scale = current / view.tokens if view.tokens else 0.0
    slots = sorted(view.slots, key=lambda slot: -slot.tokens)[:LARGEST]
    return tuple(_large(slot, view, scale) for slot in slots)


def _large(slot: Slot, view: View, scale: float) -> Large:
    return Large(
        seq=slot.seq,
        last=slot.last,
        part=part_of(slot),
        tokens=round(slot.tokens * scale),
        text=body_text(slot.message)[:TEXT_CHARS],
        is_pinned=slot.seq in view.pins,
        is_request=slot.seq == view.request,
    )


def show_context(summary: Summary, screen: Screen) -> None:
    id = summary.overview.conversation
    if summary.plain or not screen.draws:
        for line in overview_lines(
            summary.overview, call=lambda name: screen.call(f"context {name}", id)
        ):
            screen.line(line)
        return
    shown = Panel(
        overview=summary.overview,
        model=summary.model,
        level=summary.level,
        compact_at=summary.compact_at,
        warn_at=summary.warn_at,
        parts=summary.parts,
        history=tuple((one.seq, one.tokens) for one in summary.history),
        compactions=summary.compactions,
        largest=summary.largest,
        pins=summary.pins,
        has_color=screen.has_color,
    )
    for parts in panel_lines(
        shown, screen.columns, lambda name, *words: screen.call(name, id, *words)
    ):
        screen.line(*parts)


CONTEXT = Command(
    name="context",
    reads=True,
    arguments=ContextArguments,
    run=run_context,
    show=show_context,
)


BOX = Meta(description="As a box: messages on the page and in all.")
HEADER = Meta(description="As one line: messages on the page and in all, and how full it is.")


class StatusArguments(Arguments, frozen=True, kw_only=True):
    box: Annotated[bool, BOX] = False
    header: Annotated[bool, HEADER] = False


class Status(Result, frozen=True, kw_only=True):
    """The size of the next request, and its parts, which sum to it."""

    conversation: str
    model: str
    current: int
    window: int
    percent: float
    level: str
    messages: int
    active: int
    summaries: int
    oldest_age_ms: int
    parts: dict[str, int]
    form: Literal["usage", "box", "header"]


def run_context_status(session: Session, arguments: StatusArguments) -> Status:
    with session.context() as context:
        stats = context.stats()
        parts = page_parts(context.view, context.budget)
    return Status(
        conversation=stats.conversation,
        model=stats.model,
        current=stats.current,
        window=stats.window,
        percent=stats.percent,
        level=stats.level,
        messages=stats.messages,
        active=stats.active,
        summaries=stats.summaries,
        oldest_age_ms=stats.oldest_age_ms,
        parts=parts,
        form="box" if arguments.box else "header" if arguments.header else "usage",
    )


def show_context_status(status: Status, screen: Screen) -> None:
    for line in _lines(status, screen.columns):
        screen.line(line)
    if status.form == "box":
        percent = 1_000 * status.current // status.window / 10  # cut, as in the other forms
        full = f"of the window, {percent:.1f}% is used"
        screen.line(("dim", f"Usage counts messages on the page of all messages; {full}."))
    if status.level != "ok" and status.form != "header":
        compact = screen.call("compact", status.conversation)
        screen.line(("yellow", advice(status.current, status.window, compact)))


def _lines(status: Status, columns: int) -> list[str]:
    match status.form:
        case "box":
            return usage_box(status.active, status.messages, status.summaries, columns)
        case "header":
            return [header(status.active, status.messages, int(status.percent))]
    return usage_lines(
        current=status.current,
        window=status.window,
        messages=status.messages,
        oldest_age_ms=status.oldest_age_ms,
        parts=status.parts,
    )


CONTEXT_STATUS = Command(
    name="context status",
    reads=True,
    arguments=StatusArguments,
    run=run_context_status,
    show=show_context_status,
)


MESSAGES_TEXT_CHARS, LINE_CHARS = 300, 100
ROLE = Meta(description="Only messages of this role.")
STYLES = {"hidden": "dim", "shortened": "yellow"}


class MessagesArguments(Arguments, frozen=True, kw_only=True):
    role: Annotated[Role, ROLE] | None = None


class Listed(Struct, frozen=True, kw_only=True):
    """One message; `role` is empty if it was erased, `text` is how it begins."""

    seq: int
    role: str
    tokens: int
    shown: State
    text: str


class Messages(Result, frozen=True, kw_only=True):
    conversation: str
    messages: Iterator[Listed]


def run_context_messages(session: Session, arguments: MessagesArguments) -> Messages:
    with session.context() as context:
        view = context.view
    pages = pages_of(session.store, context.id, last=view.head)
    events = (event for page in pages for event in page if event.kind == "message")
    return Messages(conversation=context.id, messages=_listed(events, view, arguments.role))


def _listed(events: Iterator[Event], view: View, role: Role | None) -> Iterator[Listed]:
    slots = whole_slots(view)
    for event in events:
        row = event_row(event)
        body = body_of(row)
        said, text = "", ERASED
        if isinstance(body, Message):
            said, text = body.role, body_text(body)
        if role in (None, said):
            yield Listed(
                seq=event.seq,
                role=said,
                tokens=event.tokens,
                shown=state_of(event, slots),
                text=text[:MESSAGES_TEXT_CHARS],
            )


def show_context_messages(found: Messages, screen: Screen) -> None:
    for one in found.messages:
        note = "" if one.shown == "whole" else f" ({one.shown})"
        head = f"#{one.seq} [{(one.role or 'erased').capitalize()}]{note} "
        screen.line((STYLES.get(one.shown, "cyan"), head), short_line(one.text, LINE_CHARS))


CONTEXT_MESSAGES = Command(
    name="context messages",
    reads=True,
    arguments=MessagesArguments,
    run=run_context_messages,
    show=show_context_messages,
)


QUERY = Meta(description="What to look for.", extra=TEXT)
LIMIT = Meta(description="At most this many of each.", ge=1, le=LIMIT_MAX)


class ContextSearchArguments(Arguments, frozen=True, kw_only=True):
    query: Annotated[str, QUERY]
    limit: Annotated[int, LIMIT] = 10


class ContextFound(Result, frozen=True, kw_only=True):
    conversation: str
    said: search.Found
    remembered: tuple[MemoryEntry, ...]


def run_context_search(session: Session, arguments: ContextSearchArguments) -> ContextFound:
    id = session.conversation
    words = (arguments.query,)
    given = search.SearchArguments(query=words, conversations=(id,), limit=arguments.limit)
    with memory_of(session) as memory:
        remembered = memory.retrieve(arguments.query, arguments.limit)
    return ContextFound(
        conversation=id, said=search.run_search(session, given), remembered=tuple(remembered)
    )


def show_context_search(result: ContextFound, screen: Screen) -> None:
    search.show_search(result.said, screen)
    if result.remembered:
        screen.line(("bold", "Remembered"))
        show_entries(result.remembered, screen, "")


CONTEXT_SEARCH = Command(
    name="context search",
    derives=True,
    arguments=ContextSearchArguments,
    run=run_context_search,
    show=show_context_search,
)


STRATEGY = Meta(
    description="By default relevance.", extra={"metavar": "NAME", "completes": "strategy"}
)
MAX_TOKENS = Meta(description="By default half of the window.", ge=0, extra={"metavar": "N"})
DRY_RUN = Meta(description="Say what would go, and change nothing.")


class PruneArguments(Arguments, frozen=True, kw_only=True):
    strategy: Annotated[str, STRATEGY] = "relevance"
    max_tokens: Annotated[int, MAX_TOKENS] | None = None
    dry_run: Annotated[bool, DRY_RUN] = False


def run_context_prune(session: Session, arguments: PruneArguments) -> Planned | Compacted:
    target = arguments.max_tokens
    if target is None:
        with session.context() as context:
            target = context.budget.window // 2
    given = CompactArguments(
        strategies=(arguments.strategy,),
        target=target,
        settings=_prune_size(arguments.strategy, target),
        dry_run=arguments.dry_run,
    )
    return compact(session, given)


def _prune_size(strategy: str, target: int) -> tuple[str, ...]:
    """The size as a setting, for strategies that have a size of their own."""
    _, settings = BUILT_IN.get(strategy, ("", {}))
    return (f"max_tokens={target}",) if "max_tokens" in settings else ()


def show_context_prune(done: Planned | Compacted, screen: Screen) -> None:
    if isinstance(done, Planned) and done.edits:
        saved = number(done.tokens_before - done.tokens_after, "token")
        screen.line(f"Would hide: {number(done.removed, 'message')}, {saved}")
    compaction_shown_show(done, screen)


CONTEXT_PRUNE = Command(
    name="context prune",
    details="Nothing is lost: undo takes it back.",
    arguments=PruneArguments,
    run=run_context_prune,
    show=show_context_prune,
)


INSTRUCTIONS = Meta(description="What the writer should pay attention to.", extra=TEXT)
KEEP = Meta(description="This many of the newest messages stay as they are.", ge=0)
SUMMARIZE_DRY_RUN = Meta(description="Say what would be summarized, and change nothing.")


class SummarizeArguments(Arguments, frozen=True, kw_only=True):
    instructions: Annotated[str, INSTRUCTIONS] = ""
    keep: Annotated[int, KEEP] | None = None
    writer: Annotated[str, WRITER] | None = None
    dry_run: Annotated[bool, SUMMARIZE_DRY_RUN] = False


def run_context_summarize(session: Session, arguments: SummarizeArguments) -> Planned | Compacted:
    kept = () if arguments.keep is None else (f"keep={arguments.keep}",)
    given = CompactArguments(
        strategies=("summarize",),
        settings=kept,
        instructions=arguments.instructions,
        writer=arguments.writer,
        dry_run=arguments.dry_run,
    )
    return compact(session, given)


CONTEXT_SUMMARIZE = Command(
    name="context summarize",
    details="Nothing is lost: undo takes it back.",
    arguments=SummarizeArguments,
    run=run_context_summarize,
    show=compaction_shown_show,
)
