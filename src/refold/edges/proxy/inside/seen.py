"""What a client sees of an answer that took several rounds: one answer, without our calls.

A shape knows how one dialect puts answers together, whole and as a stream. Of a stream everything
is passed on as it comes, but our calls and the end: only then is it known whether another round
follows. An answer without a call of ours goes on as the bytes that came. Neighbours: `anthropic`,
`chat`, `gemini` and `responses` are shapes, `rounds` uses them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from msgspec import Struct

from refold.core.model import ToolCall
from refold.edges.proxy.body import Wire
from refold.edges.proxy.inside.events import ServerEvent

Response = dict[str, Any]


class Inside(Struct, frozen=True):
    """An exchange that the client sees a part of: its messages as the client has them, and for
    each place of these where more was said, all of it."""

    seen: list[Wire]
    inner: dict[int, list[Wire]]


class SeenStream(Protocol):
    """One stream made of several."""

    def begin(self) -> None:
        """Another round begins."""
        ...

    def take(self, event: ServerEvent) -> bytes:
        """What is passed on for an event; nothing for what is ours, or may not be the end."""
        ...

    def end(self, response: Response | None) -> bytes:
        """The end, of the one answer that was seen; None if the client saw all there was."""
        ...

    def failed(self, error: bytes) -> bytes:
        """An error of the provider's, in the middle of the stream."""
        ...


class Shape(Protocol):
    """One dialect."""

    def stream(self) -> SeenStream: ...

    def has_ended_well(self, response: Response) -> bool:
        """Whether the model ended the answer itself, so that its calls are complete."""
        ...

    def one(self, responses: Sequence[Response]) -> Response:
        """The answers of all rounds as one, without our calls."""
        ...

    def messages(self, response: Response) -> list[Wire]:
        """An answer as it stands in the next request; without our calls if they are cut off."""
        ...

    def results(self, answered: Sequence[tuple[ToolCall, str]]) -> list[Wire]:
        """What calls gave."""
        ...

    def words(self, last: Response, text: str) -> tuple[Response, list[ServerEvent]]:
        """An answer of ours that says this after the last one, whole and as a stream."""
        ...

    def inside(self, said: Sequence[Sequence[Wire]], seen: Response) -> Inside:
        """What was said in all rounds, with the results in between, as the client has it."""
        ...


def summed(usages: Sequence[Any]) -> Any:
    """Counts added up by their names; of what is no count, the last."""
    total: dict[str, Any] = {}
    for usage in usages:
        for name, value in usage.items() if isinstance(usage, dict) else ():
            total[name] = _added(total.get(name), value)
    return total


def _added(before: Any, value: Any) -> Any:
    if isinstance(value, dict):
        return summed([before, value])
    if value is None:
        return before
    is_count = isinstance(value, int | float) and not isinstance(value, bool)
    return before + value if is_count and isinstance(before, int | float) else value


def whole_in_one(said: Sequence[Sequence[Wire]], seen: Sequence[Wire]) -> Inside:
    """For dialects in which an answer is one message: all that was said takes its place."""
    messages = [one for part in said for one in part]
    is_more = messages != list(seen)
    return Inside(list(seen), {0: messages} if is_more and seen else {})
