"""What is wrong with a prompt, and how much of it the provider has in its cache.

Neighbours: `run` asks for every prompt of every policy.
"""

from __future__ import annotations

from collections.abc import Iterable

from refold.replay.texts import Message, tokens_of_all

ASKED_CHARS = 2_000  # of a request, by which it is known
USER_FIRST = frozenset({"anthropic", "gemini"})  # the dialects in which the user must speak first


def faults_of(prompt: list[Message], budget: int, request: str) -> list[str]:
    """What a provider would refuse or a user not forgive: too long, or what `Order` finds."""
    order = Order()
    order.extend(prompt)
    found = ["over budget"] if tokens_of_all(prompt) > budget else []
    return found + order.faults(request)


class Order:
    """Reads a prompt message by message: one that grew is read on from where it ended. Whether the
    user must speak first depends on the provider."""

    def __init__(self, *, user_first: bool = True) -> None:
        self._found: dict[str, None] = {}  # each once, in the order found
        self._asked: set[str] = set()
        self._waiting: set[str] = set()
        self._user_spoke = not user_first

    def faults(self, request: str) -> list[str]:
        """What is wrong with the prompt as far as it was read: the latest request gone, a result
        without its call, a call without its result, an assistant who speaks before any user. Each
        is named once, however many messages show it."""
        is_missing = bool(request) and request[:ASKED_CHARS] not in self._asked
        return [*(["latest request missing"] if is_missing else []), *self._found]

    def extend(self, messages: Iterable[Message]) -> None:
        """Reads what comes next."""
        for message in messages:
            if message["role"] == "tool":
                self._answer(message.get("tool_call_id", ""))
            else:
                self._say(message)

    def _answer(self, call: str) -> None:
        if call not in self._waiting:
            self._found["orphaned result"] = None
        self._waiting.discard(call)

    def _say(self, message: Message) -> None:
        if self._waiting:
            self._found["unanswered call"] = None
        calls = message.get("tool_calls")
        self._waiting = {call["id"] for call in calls} if calls else set()
        if message["role"] == "user":
            self._user_spoke = True
            self._asked.add((message.get("content") or "")[:ASKED_CHARS])
        elif message["role"] == "assistant" and not self._user_spoke:
            self._found["assistant before user"] = None


def same_prefix(before: list[str], now: list[str]) -> int:
    """How many texts of a prompt are those of the one before."""
    if before == now[: len(before)]:
        return len(before)
    pairs = enumerate(zip(before, now))
    return next((at for at, (a, b) in pairs if a != b), min(len(before), len(now)))
