"""To-dos and their state, from the tools that keep lists and from check lists in text.

A tool's own list is authoritative: it may reopen an item. A check list in text may close an item,
never reopen it. An item missing from a newer list of the same tool is cancelled. Neighbour:
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
    " ": "open", "x": "done", "X": "done", "~": "cancelled", "-": "cancelled",
}  # fmt: skip
_TEXT_NAMES = ("content", "step", "description", "title", "subject", "task", "text", "name")
_LIST_NAMES = ("todos", "plan", "items", "tasks", "todolist", "todo_list", "task_list", "todoList")
_NUMBER_NAMES = ("taskId", "task_id", "id")
_STATE_NAMES = ("status", "state")
_CHECK = re.compile(r"[ \t]{0,20}(?:[-*+]|\d{1,3}[.)]) \[([ xX~-])\] +(\S[^\n]{0,10000})")
_CREATED = re.compile(r"[Tt]ask #?(\w{1,20}) created")

Item = tuple[str, TodoState]


class Listing(NamedTuple):
    """Items with their states from one source. `whole`: it is the tool's complete list."""

    seq: int
    items: tuple[Item, ...]
    by_tool: bool
    whole: bool = False


def listings(
    actions: Iterable[Action], known: Sequence[Fact], cutter: Cutter = UNCLEANED
) -> Iterator[Listing]:
    """The lists of to-do tools, in order."""
    # The number of an item is kept in its text: `[4] Write the test`.
    by_number: dict[str, str] = {}
    for fact in of_kind(known, "todo"):
        end = fact.text.find("] ", 0, 24)
        is_numbered = fact.text.startswith("[") and end > 0
        by_number[fact.text[1:end] if is_numbered else ""] = fact.text
    for action in actions:
        if action.kind != "todo" or action.ok is False:
            continue
        items, whole = _complete_list(action.arguments, cutter)
        if not items:
            items = _changed_item(action, by_number, cutter)
        if items or whole:
            yield Listing(action.seq, tuple(items), True, whole)


def checked(text: str, seq: int, cutter: Cutter = UNCLEANED) -> Listing | None:
    """The check list in the text."""
    if "[" not in text:
        return None
    matches = [_CHECK.match(line) for line in text.split("\n") if "] " in line[:40]]
    items = [(_item_text(match[2], cutter), _CHECK_STATES[match[1]]) for match in matches if match]
    return Listing(seq, tuple(items[:ITEMS_MAX]), False) if items else None


def settled_todos(found: Iterable[Listing], known: Sequence[Fact]) -> dict[str, Fact]:
    """The to-dos with a new state after all of these listings. Only a tool may reopen one, and its
    complete list cancels open items that it leaves out."""
    before = {fact.text: fact for fact in of_kind(known, "todo")}
    after = dict(before)
    listed: set[str] = set()
    for listing in sorted(found, key=lambda listing: listing.seq):
        for text, state in listing.items:
            old = after.get(text)
            may_change = listing.by_tool or state != "open"
            if old is None or (old.state != state and may_change):
                after[text] = _todo(text, state, listing.seq)
        if listing.whole:
            kept = {text for text, _ in listing.items}
            for text in listed - kept:
                if after[text].state == "open":
                    after[text] = _todo(text, "cancelled", listing.seq)
            listed = kept
    return {text: fact for text, fact in after.items() if before.get(text) != fact}


def _todo(text: str, state: TodoState, seq: int) -> Fact:
    return Fact(kind="todo", text=text, seq=seq, state=state)


def stateless(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a to-do tool, without the states of its items."""

    def without_state(entry: Any) -> Any:
        if not isinstance(entry, Mapping):
            return entry
        return {name: value for name, value in entry.items() if name not in _STATE_NAMES}

    return {
        name: [without_state(entry) for entry in value] if isinstance(value, list) else value
        for name, value in arguments.items()
        if name not in _STATE_NAMES
    }


# --- arguments of to-do tools ---


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
    """The item that a tool changes by its number, or creates. The number of a new item, if the
    result has it, is kept in its text."""
    arguments = action.arguments
    number = next((arguments[name] for name in _NUMBER_NAMES if name in arguments), "")
    if number := str(number)[:20]:
        text = by_number.get(number, "")
        return [(text, _state_of(arguments["status"]))] if text and "status" in arguments else []
    item = _item({name: arguments.get(name) for name in ("subject", "title")}, cutter)
    if item is None or not compact(action.tool).endswith(("create", "add")):
        return []
    text = item[0]
    if created := _CREATED.search(action.output[:200]):
        text = f"[{created[1]}] {text}"
        by_number[created[1]] = text
    return [(text, "open")]


def _state_of(value: object) -> TodoState:
    if not isinstance(value, str) or len(value) >= 40:
        return "open"
    return _STATES.get(value.lower().strip(), "open")


def _item_text(text: str, cutter: Cutter) -> str:
    return cutter.end(one_line(whole_words(text, TODO_READ)), TODO_MAX)
