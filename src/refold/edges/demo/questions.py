"""Six questions about the session, and a search for their answers by code.

An answer is a few words that occurred close together in the session. Its words are searched in the
text of a side's next request and, for refold, behind the handles that refold itself put on the
page, one `unfold` away. Neighbours: `script` marks the facts, `story` asks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct

from refold.core.model import Slot, Span, ToolResult
from refold.edges.demo import script
from refold.edges.demo.script import Outcome
from refold.edges.demo.sides import MARK, Entry
from refold.engine.context import Context
from refold.errors import NotFound
from refold.log.unfold import body_text
from refold.tokens.estimate import estimate

NEAR_CHARS = 300
HANDLE = re.compile(r"art-[a-z2-7]{12}|#\d+(?:-\d+)?")


class Question(Struct, frozen=True):
    """A question, and the words of its answer, in order and close together."""

    text: str
    words: tuple[str, ...]

    @property
    def answer(self) -> str:
        return ": ".join(self.words)

    def answered(self, text: str) -> bool:
        """Whether the text has the answer."""
        if any(word not in text for word in self.words):
            return False
        near = f"[\\s\\S]{{0,{NEAR_CHARS}}}?".join(map(re.escape, self.words))
        return re.search(near, text) is not None


class Found(Struct, frozen=True, kw_only=True):
    """The location of an answer: on the page, behind a handle of the page (of `tokens` tokens), or
    nowhere."""

    place: Literal["page", "unfold", "gone"]
    seq: int = 0
    handle: str = ""
    tokens: int = 0

    @property
    def found(self) -> bool:
        return self.place != "gone"


GONE = Found(place="gone")


def questions(facts: Mapping[str, Outcome]) -> list[Question]:
    """The six questions, with answers from the real tool results."""
    failure = facts["failure"].text.split("\n")
    command = failure[0].partition(": ")[2]
    definition = facts["definition"].text.split("\n")[0]
    _, _, line = definition.split(":", 2)
    name = re.split(r"\W+", line)[1]
    change = facts["change"].text.split("\n")[0].partition(" at line")[0]
    return [
        Question("Which file must you never edit?", (script.RULE,)),
        Question("Which port do we listen on?", (script.RULE_PORT,)),
        Question(f"Where is {name} defined?", (definition,)),
        Question("Which command failed, and how?", (command, failure[-1])),
        Question("Which file has your review note?", (change,)),
        Question("What was my very first request?", (script.REQUEST,)),
    ]


def questions_message(questions: list[Question]) -> str:
    """All questions as one message."""
    lines = [f"{number}. {question.text}" for number, question in enumerate(questions, 1)]
    return "Before we stop, six questions about this session:\n" + "\n".join(lines)


def on_page(question: Question, request: Mapping[str, Any]) -> bool:
    """Whether the answer is anywhere in the request."""
    return any(question.answered(text) for text in texts(request))


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


def on_entries(question: Question, request: Mapping[str, Any], entries: Sequence[Entry]) -> Found:
    """The location of the answer in a plain list of messages."""
    if not on_page(question, request):
        return GONE
    holding = (entry.seq for entry in entries if on_page(question, entry.wire))
    return Found(place="page", seq=next(holding, 0))


# --- refold's side ---


class Search:
    """Looks for answers on refold's page and one unfold away from it. `seen` has the originals by
    seq."""

    def __init__(
        self, context: Context, request: Mapping[str, Any], seen: Mapping[int, str]
    ) -> None:
        self.request, self.seen, self.slots = request, seen, context.view.slots
        unfolded: dict[str, str] = {}
        for slot in self.slots:
            for handle in handles(slot):
                unfolded[handle] = _unfolded(context, handle)
        # The smallest first: the best handle gives the least besides the answer.
        self.unfolded = sorted(unfolded.items(), key=lambda item: len(item[1]))

    def find(self, question: Question) -> Found:
        """The location of the answer."""
        if on_page(question, self.request):
            return Found(place="page", seq=self._on_page_at(question))
        for handle, text in self.unfolded:
            if question.answered(text):
                seq, tokens = self._origin(question, handle), estimate(text)
                return Found(place="unfold", handle=handle, seq=seq, tokens=tokens)
        return GONE

    def _on_page_at(self, question: Question) -> int:
        for slot in self.slots:
            if question.answered(body_text(slot.message)):
                return slot.seq
        return 0

    def _origin(self, question: Question, handle: str) -> int:
        """The message with the answer, among those of the handle."""
        span = spanned(handle)
        for seq, text in self.seen.items():
            if question.answered(text) and (span is None or seq in span):
                return seq
        return 0


def _unfolded(context: Context, handle: str) -> str:
    """The text behind the handle; empty if the page only quotes something that looks like one."""
    try:
        return context.unfold(handle).text
    except NotFound:
        return ""


def handles(slot: Slot) -> list[str]:
    """The handles that refold put into a slot: in a notice, a summary, a shortened block or a
    stub."""
    blocks = slot.message.blocks
    is_stub = any(isinstance(block, ToolResult) and block.artifact for block in blocks)
    return HANDLE.findall(body_text(slot.message)) if slot.edits or is_stub else []


def spanned(handle: str) -> Span | None:
    if not handle.startswith("#"):
        return None
    first, _, last = handle[1:].partition("-")
    return Span(int(first), int(last or first))
