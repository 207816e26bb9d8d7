"""To-dos and their state, from the tools that keep lists and from check lists in text.

A tool's own list is its word: it may reopen what was done. A check list in text may close an item,
never reopen it. What a newer list of the same tool leaves out is no longer to be done. Neighbour:
`ledger`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from refold.core.model import Fact, TodoState
from refold.display import one_line, whole_words
from refold.ledger.actions import Action
from refold.ledger.facts import UNCLEANED, Cutter, of_kind
from refold.ledger.tools import compact

TODO_MAX = 300
TODO_READ = 10_000
ITEMS_MAX = 200

_STATES: dict[str, TodoState] = {
    "completed": "done", "complete": "done", "done": "done", "finished": "done", "closed": "done",
    "cancelled": "cancelled", "canceled": "cancelled", "deleted": "cancelled",
    "skipped": "cancelled", "dropped": "cancelled", "removed": "cancelled",
    "abandoned": "cancelled",
}  # fmt: skip
_CHECK_STATES: dict[str, TodoState] = {
    " ": "open",
    "x": "done",
    "X": "done",
    "~": "cancelled",
    "-": "cancelled",
}
_TEXT_NAMES = ("content", "step", "description", "title", "subject", "task", "text", "name")
_LIST_NAMES = ("todos", "plan", "items", "tasks", "todolist", "todo_list", "task_list", "todoList")
_NUMBER_NAMES = ("taskId", "task_id", "id")
_STATE_NAMES = ("status", "state")
_CHECK = re.compile(r"[ \t]{0,20}(?:[-*+]|\d{1,3}[.)]) \[([ xX~-])\] +(\S[^\n]{0,10000})")
_CREATED = re.compile(r"[Tt]ask #?(\w{1,20}) created")

Item = tuple[str, TodoState]


class Listing(NamedTuple):
    """Items with their states as one source gave them. `whole`: it is the tool's complete list."""

    seq: int
    items: tuple[Item, ...]
    by_tool: bool
    whole: bool = False


def listings(
    actions: Iterable[Action], known: Sequence[Fact], cutter: Cutter = UNCLEANED
) -> Iterator[Listing]:
    """What the tools that keep lists were told, in order."""
    by_number = {_number_of(fact.text): fact.text for fact in of_kind(known, "todo")}
    for action in actions:
        if action.kind != "todo" or action.ok is False:
            continue
        items, whole = _complete_list(action.arguments, cutter)
        if not items:
            items = _changed_item(action, by_number, cutter)
        if items or whole:
            yield Listing(action.seq, tuple(items), True, whole)


def checked(text: str, seq: int, cutter: Cutter = UNCLEANED) -> Listing | None:
    """The check list in a text."""
    if "[" not in text:
        return None
    matches = [_CHECK.match(line) for line in text.split("\n") if "] " in line[:40]]
    items = [(_item_text(match[2], cutter), _CHECK_STATES[match[1]]) for match in matches if match]
    return Listing(seq, tuple(items[:ITEMS_MAX]), False) if items else None


def settled_todos(found: Iterable[Listing], known: Sequence[Fact]) -> dict[str, Fact]:
    """Every to-do that the listings say something new about, with its state after all of them."""
    before = {fact.text: fact for fact in of_kind(known, "todo")}
    after = dict(before)
    listed: set[str] = set()
    for listing in sorted(found, key=lambda listing: listing.seq):
        _apply_items(after, listing)
        if listing.whole:
            kept = {text for text, _ in listing.items}
            _cancel(after, listed - kept, listing.seq)
            listed = kept
    return {text: fact for text, fact in after.items() if before.get(text) != fact}


def _apply_items(todos: dict[str, Fact], listing: Listing) -> None:
    """Gives the to-dos the states that a listing has; only a tool may reopen one."""
    for text, state in listing.items:
        old = todos.get(text)
        may_change = listing.by_tool or state != "open"
        if old is None or (old.state != state and may_change):
            todos[text] = _todo(text, state, listing.seq)


def _cancel(todos: dict[str, Fact], texts: Iterable[str], seq: int) -> None:
    """Cancels those of the to-dos that are open."""
    for text in texts:
        if todos[text].state == "open":
            todos[text] = _todo(text, "cancelled", seq)


def _todo(text: str, state: TodoState, seq: int) -> Fact:
    return Fact(kind="todo", text=text, seq=seq, state=state)


def stateless(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """What a tool that keeps a list was told, without the states of its items."""
    return {
        name: [_without_state(entry) for entry in value] if isinstance(value, list) else value
        for name, value in arguments.items()
        if name not in _STATE_NAMES
    }


def _without_state(entry: Any) -> Any:
    if not isinstance(entry, Mapping):
        return entry
    return {name: value for name, value in entry.items() if name not in _STATE_NAMES}


# --- what a tool was told ---


def _complete_list(arguments: Mapping[str, Any], cutter: Cutter) -> tuple[list[Item], bool]:
    """The items of a complete list, and whether there was one."""
    value = next((arguments[name] for name in _LIST_NAMES if name in arguments), None)
    if isinstance(value, str):
        listing = checked(value, 0, cutter)
        return (list(listing.items), True) if listing else ([], False)
    if not isinstance(value, list):
        return [], False
    items = [item for entry in value[:ITEMS_MAX] if (item := _item(entry, cutter))]
    return items, bool(items) or not value


def _item(entry: object, cutter: Cutter) -> Item | None:
    if not isinstance(entry, Mapping):
        return None
    texts = (entry[name] for name in _TEXT_NAMES if isinstance(entry.get(name), str))
    text = next(texts, "")
    if not text.strip():
        return None
    return _item_text(text, cutter), _state_of(entry.get("status", entry.get("state")))


def _changed_item(action: Action, by_number: dict[str, str], cutter: Cutter) -> list[Item]:
    """One item that a tool changes by its number, or creates."""
    number = _number_argument(action.arguments)
    if not number:
        return _created_item(action, by_number, cutter)
    text = by_number.get(number, "")
    if not text or "status" not in action.arguments:
        return []
    return [(text, _state_of(action.arguments["status"]))]


def _created_item(action: Action, by_number: dict[str, str], cutter: Cutter) -> list[Item]:
    """The item that a tool creates; its number, where the result tells it, is kept in its text."""
    named = {name: action.arguments.get(name) for name in ("subject", "title")}
    item = _item(named, cutter)
    if item is None or not compact(action.tool).endswith(("create", "add")):
        return []
    text = item[0]
    created = _CREATED.search(action.output[:200])
    if created:
        text = f"[{created[1]}] {text}"
        by_number[created[1]] = text
    return [(text, "open")]


def _number_argument(arguments: Mapping[str, Any]) -> str:
    """The number of an item that a tool changes."""
    number = next((arguments[name] for name in _NUMBER_NAMES if name in arguments), "")
    return str(number)[:20]


def _number_of(text: str) -> str:
    """The number of a to-do that was created with one: `[4] Write the test`."""
    end = text.find("] ", 0, 24)
    return text[1:end] if text.startswith("[") and end > 0 else ""


def _state_of(value: object) -> TodoState:
    if not isinstance(value, str) or len(value) >= 40:
        return "open"
    return _STATES.get(value.lower().strip(), "open")


def _item_text(text: str, cutter: Cutter) -> str:
    return cutter.end(one_line(whole_words(text, TODO_READ)), TODO_MAX)
