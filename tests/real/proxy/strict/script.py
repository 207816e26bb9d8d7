"""What the upstream answers: what a test says, in order, or what was recorded.

An answer is in the provider's own shape, without signatures, which the server adds: Anthropic a list
of blocks, Chat a message, Responses a list of items, Gemini a list of parts. A failure takes the
place of an answer once. A request names its queue by the header `x-script`; an empty queue gives
the default.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from threading import Lock
from typing import Any

from tests.real.proxy.strict.wire import Json, Refusal


@dataclass(frozen=True)
class Answer:
    """What is said; `slow_s` before it begins, `piece_s` between the pieces of a stream, `cut_at`
    the byte of the body after which the connection ends."""

    said: Any
    slow_s: float = 0.0
    piece_s: float = 0.0
    cut_at: int | None = None


@dataclass(frozen=True)
class Failure:
    """An error instead of an answer; status 0 ends the connection without one. With `says_tokens`
    it is the refusal of a request that is too long."""

    status: int
    retry_after_s: int | None = None
    says_tokens: tuple[int, int] | None = None

    def refusal(self, overflow: Callable[[int, int], Refusal]) -> Refusal:
        """The error it is, in the words of the provider that gives it."""
        if self.says_tokens:
            said = overflow(*self.says_tokens)
            said.is_scripted = True
            return said
        message, after = "the script says so", self.retry_after_s
        return Refusal(message, status=self.status, retry_after_s=after, is_scripted=True)


Play = Answer | Failure
Chosen = Callable[[Json], Play | None]


class Script:
    """Plays by queue. `choose`, if given, is asked first, with the request's body."""

    def __init__(self, default: Any = None, choose: Chosen | None = None) -> None:
        self.default, self.choose = default, choose
        self._queues: dict[str, deque[Play]] = defaultdict(deque)
        self._lock = Lock()

    def add(self, *plays: Any, queue: str = "") -> None:
        """Plays, or what is to be said as it is."""
        made = (play if isinstance(play, Answer | Failure) else Answer(play) for play in plays)
        with self._lock:
            self._queues[queue].extend(made)

    def answer(
        self, queue: str, request: Json, default: Any, overflow: Callable[[int, int], Refusal]
    ) -> Answer:
        """The next answer. Refusal if a failure is next."""
        play = self._next(queue, request, default)
        if isinstance(play, Failure):
            raise play.refusal(overflow)
        return play

    def _next(self, queue: str, request: Json, default: Any) -> Play:
        chosen = self.choose(request) if self.choose else None
        if chosen is not None:
            return chosen
        with self._lock:
            if self._queues[queue]:
                return self._queues[queue].popleft()
        return Answer(default if self.default is None else self.default)


def answers_in(messages: Iterable[Json]) -> list[list[Json]]:
    """What the assistant said in a recorded list of Anthropic messages, turn by turn; answers that
    follow one another are one."""
    turns: list[list[Json]] = []
    last = ""
    for message in messages:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        if message["role"] == "assistant":
            if last == "assistant":
                turns[-1].extend(blocks)
            else:
                turns.append(list(blocks))
        last = message["role"]
    return turns
