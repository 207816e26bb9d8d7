"""To-dos and their state, from the tools that keep lists and from check lists in text.

A tool's own list is its word: it may reopen what was done. A check list in text may close an item,
never reopen it. What a newer list of the same tool leaves out is no longer to be done. Neighbour:
`ledger`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from refold.core.model import Fact
from refold.display import cut, one_line
from refold.ledger.actions import Action
from refold.ledger.tools import compact

TODO_MAX = 300
ITEMS_MAX = 200

_STATES = {
    "completed": "done", "complete": "done", "done": "done", "finished": "done", "closed": "done",
    "cancelled": "cancelled", "canceled": "cancelled", "deleted": "cancelled", "skipped": "cancelled",
    "dropped": "cancelled", "removed": "cancelled", "abandoned": "cancelled",
}  # fmt: skip
_TEXT_NAMES = ("content", "step", "description", "title", "subject", "task", "text", "name")
_LIST_NAMES = ("todos", "plan", "items", "tasks", "todolist", "todo_list", "task_list", "todoList")
_STATE_NAMES = ("status", "state")
_CHECK = re.compile(r"[ \t]{0,20}(?:[-*+]|\d{1,3}[.)]) \[([ xX~-])\] +(\S[^\n]{0,1000})")
_CREATED = re.compile(r"[Tt]ask #?(\w{1,20}) created")


class Listing(NamedTuple):
    """Items with their states as one source gave them. `whole`: it is the tool's complete list."""

    seq: int
    items: tuple[tuple[str, str], ...]
    by_tool: bool
    whole: bool = False


def listings(actions: Iterable[Action], known: Sequence[Fact]) -> Iterator[Listing]:
    """What the tools that keep lists were told, in order."""
    names = {
        number: fact.text
        for fact in known
        if fact.kind == "todo" and (number := _number(fact.text))
    }
    for action in actions:
        if action.kind != "todo" or action.ok is False:
            continue
        items, whole = _items(action.arguments)
        if not items:
            items = _single(action, names)
        if items or whole:
            yield Listing(action.seq, tuple(items), True, whole)


def checked(text: str, seq: int) -> Listing | None:
    """The check list in a text."""
    if "[" not in text:
        return None
    items = tuple(
        (
            _cut(match.group(2)),
            "open" if match.group(1) == " " else "cancelled" if match.group(1) in "~-" else "done",
        )
        for line in text.split("\n")
        if "] " in line[:40] and (match := _CHECK.match(line))
    )
    return Listing(seq, items[:ITEMS_MAX], False) if items else None


def settled_todos(found: Iterable[Listing], known: Sequence[Fact]) -> dict[str, Fact]:
    """Every to-do that the listings say something new about, with its state after all of them."""
    state = {fact.text: fact for fact in known if fact.kind == "todo"}
    listed: set[str] = set()
    for listing in sorted(found, key=lambda listing: listing.seq):
        for text, new in listing.items:
            old = state.get(text)
            if old is None or (old.state != new and (listing.by_tool or new != "open")):
                state[text] = Fact(kind="todo", text=text, seq=listing.seq, state=new)
        if listing.whole:
            kept = {text for text, _ in listing.items}
            for text in listed - kept:
                if state[text].state == "open":
                    state[text] = Fact(kind="todo", text=text, seq=listing.seq, state="cancelled")
            listed = kept
    before = {fact.text: fact for fact in known if fact.kind == "todo"}
    return {text: fact for text, fact in state.items() if before.get(text) != fact}


def stateless(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """What a tool that keeps a list was told, without the states of its items."""
    bare = _bare(arguments)
    return {
        name: [*map(_bare, value)] if isinstance(value, list) else value
        for name, value in bare.items()
    }


def _bare(entry: Any) -> Any:
    return (
        {name: value for name, value in entry.items() if name not in _STATE_NAMES}
        if isinstance(entry, Mapping)
        else entry
    )


def _items(arguments: Mapping[str, Any]) -> tuple[list[tuple[str, str]], bool]:
    """The items of a complete list, and whether there was one."""
    value = next((arguments[name] for name in _LIST_NAMES if name in arguments), None)
    if isinstance(value, str):
        listing = checked(value, 0)
        return (list(listing.items), True) if listing else ([], False)
    if not isinstance(value, list):
        return [], False
    items = [_item(entry) for entry in value[:ITEMS_MAX]]
    return [item for item in items if item], bool(any(items) or not value)


def _item(entry: object) -> tuple[str, str] | None:
    if not isinstance(entry, Mapping):
        return None
    text = next((entry[name] for name in _TEXT_NAMES if isinstance(entry.get(name), str)), "")
    return (_cut(text), _state(entry.get("status", entry.get("state")))) if text.strip() else None


def _single(action: Action, names: dict[str, str]) -> list[tuple[str, str]]:
    """One item that a tool creates, or changes by its number."""
    arguments = action.arguments
    item = _item({name: value for name, value in arguments.items() if name in ("subject", "title")})
    number = str(arguments.get("taskId", arguments.get("task_id", arguments.get("id", ""))))[:20]
    if number:
        name = names.get(number, "")
        return [(name, _state(arguments.get("status")))] if name and "status" in arguments else []
    if item is None or not compact(action.tool).endswith(("create", "add")):
        return []
    created = _CREATED.search(action.output[:200])
    text = f"[{created.group(1)}] {item[0]}" if created else item[0]
    if created:
        names[created.group(1)] = text
    return [(text, "open")]


def _number(text: str) -> str:
    end = text.find("] ", 0, 24)
    return text[1:end] if text.startswith("[") and end > 0 else ""


def _state(value: object) -> str:
    return (
        _STATES.get(value.lower().strip(), "open")
        if isinstance(value, str) and len(value) < 40
        else "open"
    )


def _cut(text: str) -> str:
    return cut(one_line(text[: TODO_MAX * 4]), TODO_MAX)
