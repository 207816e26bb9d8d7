"""`refold show`: the page as the model sees it, the whole log, or what stands behind a handle.

A slot is a heading of ours (`#41 tool, 1,204 tokens`, and what was done to it) and the message's
text, set in. The log shows every event, also those that no page shows any more.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from refold.edges.cli.options import command, conversation_argument, opened, store_option
from refold.edges.cli.screen import Screen, one_line

if TYPE_CHECKING:
    from refold.core.model import Applied, Event, Slot, View
    from refold.engine.context import Context

BRIEF_CHARS = 100
_LINES = re.compile(r"(\d{1,9})(?:-(\d{0,9}))?")


@command(
    "show",
    conversation_argument,
    click.option("--all", "whole", is_flag=True, help="The log: every event, also hidden ones."),
    click.option("--seq", type=click.IntRange(min=1), help="One event, as it came."),
    click.option("--handle", metavar="H", help="What stands behind a handle: #41, #41-58, art-..."),
    click.option("--lines", metavar="A-B", help="Only these lines of it, counted from 1."),
    click.option("--brief", is_flag=True, help="One line for each slot or event."),
    store_option,
)
def show_(
    screen: Screen,
    conversation: str,
    whole: bool,
    seq: int | None,
    handle: str | None,
    lines: str | None,
    brief: bool,
    store: str | None,
) -> None:
    """Shows the page of a conversation as the model sees it."""
    if sum((whole, seq is not None, handle is not None)) > 1:
        raise click.UsageError("--all, --seq and --handle exclude each other")
    if lines is not None and seq is None and handle is None:
        raise click.UsageError("--lines needs --seq or --handle")
    with opened(conversation, store) as context:
        if handle is not None or seq is not None:
            _show_originals(screen, context, handle or f"#{seq}", seq, _span(lines))
        elif whole:
            _show_log(screen, context, brief)
        else:
            _show_page(screen, context, brief)


def _span(lines: str | None) -> tuple[int, int] | None:
    """`5`, `5-9` or `5-` as a first and last line; -1 means the end."""
    if lines is None:
        return None
    found = _LINES.fullmatch(lines)
    if found is None:
        raise click.UsageError(f"--lines {one_line(lines, 40)!r} is not of the form 5-9, 5- or 5")
    first, last = int(found[1]), found[2]
    return first, first if last is None else int(last or -1)


# --- behind a handle ---


def _show_originals(
    screen: Screen, context: Context, handle: str, seq: int | None, lines: tuple[int, int] | None
) -> None:
    from refold.errors import NotFound

    try:
        unfolded = context.unfold(handle, lines=lines)
    except NotFound:
        event = _event_at(context, seq) if seq is not None else None
        if event is None or event.kind == "message":
            raise
        _show_event(screen, context, event)
        return
    if screen.json_output:
        screen.emit({"conversation": context.id, "handle": unfolded.handle, "text": unfolded.text})
    else:
        screen.line(unfolded.text)


def _event_at(context: Context, seq: int) -> Event | None:
    return next(
        (event for event in context.log.events(after=seq - 1, limit=1) if event.seq == seq), None
    )


def _show_event(screen: Screen, context: Context, event: Event) -> None:
    if screen.json_output:
        screen.emit({"conversation": context.id, "event": _event_fields(event)})
    else:
        screen.line(
            ("bold", f"#{event.seq} {one_line(event.kind, 40)}"), f" by {one_line(event.by, 40)}"
        )
        screen.block(event.body.decode("utf-8", "replace"))


def _event_fields(event: Event) -> dict[str, Any]:
    """The event as JSON: its envelope, and its body where it has one."""
    import json

    return {
        "seq": event.seq,
        "id": event.id,
        "at_ms": event.at_ms,
        "by": event.by,
        "kind": event.kind,
        "tokens": event.tokens,
        "body": None if event.erased else json.loads(event.body),
    }


# --- the page ---


def _show_page(screen: Screen, context: Context, brief: bool) -> None:
    view = context.view
    if screen.json_output:
        slots = (_slot_fields(context, slot) for slot in view.slots)
        screen.emit_each(_page_fields(context, view), "slots", slots)
        return
    title = one_line(view.title or "Untitled", 200)
    screen.line(
        ("bold", f"{context.id}: {title}"),
        f" ({len(view.slots):,} slots, head #{view.head})",
    )
    for name, value, tokens in (
        ("system", view.system, view.system_tokens),
        ("tools", view.tools, view.tools_tokens),
    ):
        if value:
            screen.line(("cyan", name), f", {tokens:,} tokens")
            _show_text(screen, _as_text(value), brief)
    for slot in view.slots:
        _show_slot(screen, context, slot, brief)


def _page_fields(context: Context, view: View) -> dict[str, Any]:
    import msgspec

    return {
        "conversation": context.id,
        "title": view.title,
        "head": view.head,
        "tokens": view.tokens,
        "system": msgspec.to_builtins(view.system),
        "tools": msgspec.to_builtins(view.tools),
        "pins": sorted(view.pins),
    }


def _slot_fields(context: Context, slot: Slot) -> dict[str, Any]:
    import msgspec

    return {
        "seq": slot.seq,
        "last": slot.last,
        "role": slot.message.role,
        "tokens": slot.tokens,
        "blocks": msgspec.to_builtins(slot.message.blocks),
        "edits": [
            {"seq": edit.seq, "block": edit.block, "what": _edit_text(context, edit)}
            for edit in slot.edits
        ],
    }


def _show_slot(screen: Screen, context: Context, slot: Slot, brief: bool) -> None:
    from refold.log.unfold import body_text

    role = "stand-in" if slot.standin else slot.message.role
    screen.line(("cyan", f"{slot.span} {role}"), f", {slot.tokens:,} tokens")
    for edit in slot.edits:
        screen.line(("yellow", "  edited by "), one_line(_edit_text(context, edit), 200))
    _show_text(screen, body_text(slot.message), brief)


def _edit_text(context: Context, edit: Applied) -> str:
    event = _event_at(context, edit.seq)
    return _summary(event) if event is not None else f"#{edit.seq}"


def _show_text(screen: Screen, text: str, brief: bool) -> None:
    if brief:
        screen.line("  ", one_line(text[: 2 * BRIEF_CHARS], BRIEF_CHARS))
    else:
        screen.block(text)
        screen.line()


def _as_text(value: Any) -> str:
    """A system prompt or a list of tools for reading."""
    import msgspec

    if isinstance(value, str):
        return value
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode("utf-8", "replace")


# --- the log ---


def _show_log(screen: Screen, context: Context, brief: bool) -> None:
    view = context.view
    shown = {slot.seq: slot for slot in view.slots if not slot.standin}
    if screen.json_output:
        events = (
            {**_event_fields(event), "shown": _state(event, shown)}
            for event in _log(context, view.head)
        )
        screen.emit_each({"conversation": context.id, "head": view.head}, "events", events)
        return
    for event in _log(context, view.head):
        if event.kind == "message":
            _show_message(screen, event, _state(event, shown), brief)
        else:
            screen.line(("dim", one_line(_summary(event), 200)))


def _log(context: Context, head: int) -> Iterator[Event]:
    after = 0
    while after < head and (events := context.log.events(after=after, limit=500)):
        yield from (event for event in events if event.seq <= head)
        after = events[-1].seq


def _state(event: Event, shown: dict[int, Slot]) -> str:
    """Whether a message is on the page: `whole`, `shortened`, `hidden`; empty for any other
    event."""
    if event.kind != "message":
        return ""
    slot = shown.get(event.seq)
    return "hidden" if slot is None else "shortened" if slot.edits else "whole"


def _show_message(screen: Screen, event: Event, state: str, brief: bool) -> None:
    from refold.core.codec import decode
    from refold.core.fold import ERASED
    from refold.core.model import Message
    from refold.log.unfold import body_text

    body = decode(event)
    role = body.role if isinstance(body, Message) else "erased"
    style = {"hidden": "dim", "shortened": "yellow"}.get(state, "cyan")
    note = "" if state == "whole" else f", {state}"
    screen.line((style, f"#{event.seq} {role}"), f", {event.tokens:,} tokens{note}")
    _show_text(screen, body_text(body) if isinstance(body, Message) else ERASED, brief)


def _summary(event: Event) -> str:
    """What an event that is no message says, in one line."""
    from refold.core.codec import decode
    from refold.core.model import Hide, Replace, Summarize

    match body := decode(event):
        case Hide() | Summarize():
            action = f"hides {body.span}" if isinstance(body, Hide) else f"summarizes {body.span}"
        case Replace():
            action = f"shortens #{body.seq}, block {body.block}"
        case _:
            return f"#{event.seq} {event.kind}: {event.body[:300].decode('utf-8', 'replace')}"
    return f"#{event.seq} {event.by}: {action}" + (f" ({body.reason})" if body.reason else "")
