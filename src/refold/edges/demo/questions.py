"""Six things the agent saw, and where each can still be found. Code looks; nothing is assumed.

An answer is a line that stood in the session. It is looked for in all text of the request that a side would send, and,
for refold, in what one `unfold` of a handle gives that refold itself put on the page. Neighbours: `script` marks the
facts, `story` asks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from refold.core.model import Slot, Span, ToolResult
from refold.edges.demo import script
from refold.edges.demo.billing import MARK
from refold.edges.demo.sides import Entry
from refold.edges.demo.workshop import Outcome
from refold.engine import Context
from refold.errors import NotFound
from refold.tokens.estimate import estimate
from refold.unfolding import body_text

HANDLE = re.compile(r"art-[a-z2-7]{12}|#\d+(?:-\d+)?")


class Question(Struct, frozen=True):
    """What is asked, and the line that answers it."""

    label: str
    text: str
    answer: str


class Found(Struct, frozen=True, kw_only=True):
    """Where an answer is: on the page, behind a handle of the page, or nowhere. `tokens` is what the unfold gives."""

    place: str
    seq: int = 0
    handle: str = ""
    tokens: int = 0

    @property
    def found(self) -> bool:
        return self.place != "gone"


GONE = Found(place="gone")


def questions(facts: Mapping[str, Outcome]) -> list[Question]:
    """The six questions; their answers come from what the tools really gave."""
    first_line = {name: outcome.text.split("\n", 1)[0] for name, outcome in facts.items()}
    change = first_line["change"].partition(" at line")[0]
    return [
        Question("a rule", "Which file must you never edit?", script.RULE),
        Question("the port", "Which port do we listen on?", script.RULE_PORT),
        Question("a definition", "Which line defines the name you sought?", first_line["definition"]),
        Question("the failure", "Which command failed, exactly?", first_line["failure"]),
        Question("a change", "Which file has your review note?", change),
        Question("the request", "What was my very first request?", script.REQUEST),
    ]


def asked(those: list[Question]) -> str:
    """All questions as one message."""
    lines = [f"{number}. {question.text}" for number, question in enumerate(those, 1)]
    return "Before we stop, six questions about this session:\n" + "\n".join(lines)


def on_page(answer: str, request: Mapping[str, Any]) -> bool:
    """Whether the answer stands anywhere in the request."""
    return any(answer in text for text in texts(request))


def texts(value: Any) -> Iterator[str]:
    """Every text in a request."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            if key != MARK:
                yield from texts(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from texts(inner)


def on_entries(answer: str, request: Mapping[str, Any], entries: Sequence[Entry]) -> Found:
    """Where a plain list of messages has the answer."""
    if not on_page(answer, request):
        return GONE
    return Found(place="page", seq=next((entry.seq for entry in entries if on_page(answer, entry.wire)), 0))


# --- refold's side ------------------------------------------------------------------------------------------------


class Search:
    """Looks for answers on refold's page and one unfold behind it. `seen` holds the originals by seq."""

    def __init__(self, context: Context, request: Mapping[str, Any], seen: Mapping[int, str]) -> None:
        self.request, self.seen, self.slots = request, seen, context.view.slots
        behind = {handle: _unfolded(context, handle) for slot in self.slots for handle in handles(slot)}
        # The smallest first: the answer is best had from the handle that gives least besides it.
        self.behind = sorted(behind.items(), key=lambda item: len(item[1]))

    def find(self, answer: str) -> Found:
        """Where the answer is."""
        if on_page(answer, self.request):
            return Found(place="page", seq=self._on_page_at(answer))
        for handle, text in self.behind:
            if answer in text:
                return Found(place="unfold", handle=handle, seq=self._origin(answer, handle), tokens=estimate(text))
        return GONE

    def _on_page_at(self, answer: str) -> int:
        return next((slot.seq for slot in self.slots if answer in body_text(slot.message)), 0)

    def _origin(self, answer: str, handle: str) -> int:
        """The message behind the handle that says it."""
        span = spanned(handle)
        return next((seq for seq, text in self.seen.items() if answer in text and (span is None or seq in span)), 0)


def _unfolded(context: Context, handle: str) -> str:
    """What the handle gives; nothing if the page only quotes something that looks like a handle."""
    try:
        return context.unfold(handle).text
    except NotFound:
        return ""


def handles(slot: Slot) -> list[str]:
    """The handles that refold put into a slot: in a notice, a summary, a shortened block or a stub."""
    stubbed = any(isinstance(block, ToolResult) and block.artifact for block in slot.message.blocks)
    return HANDLE.findall(body_text(slot.message)) if slot.edits or stubbed else []


def spanned(handle: str) -> Span | None:
    if not handle.startswith("#"):
        return None
    first, _, last = handle[1:].partition("-")
    return Span(int(first), int(last or first))
