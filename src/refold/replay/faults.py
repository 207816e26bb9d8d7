"""What is wrong with a prompt, and how much of it the provider has in its cache.

Neighbours: `run` asks for every prompt of every policy.
"""

from __future__ import annotations

from refold.replay.texts import Message, tokens_of_all


def faults_of(prompt: list[Message], budget: int, request: str) -> list[str]:
    """What a provider would refuse or a user not forgive: too long, or what `faults_in` finds."""
    found = ["over budget"] if tokens_of_all(prompt) > budget else []
    return found + faults_in(prompt, request)


def faults_in(prompt: list[Message], request: str) -> list[str]:
    """The latest request gone, a result without its call, a call without its result, an assistant
    who speaks before any user."""
    asked = {
        (message.get("content") or "")[:2_000] for message in prompt if message["role"] == "user"
    }
    found = ["latest request missing"] if request and request[:2_000] not in asked else []
    return found + _order_faults(prompt)


def _order_faults(prompt: list[Message]) -> list[str]:
    found: list[str] = []
    waiting: set[str] = set()
    user_spoke = False
    for message in prompt:
        role = message["role"]
        if role == "tool":
            call = message.get("tool_call_id", "")
            if call not in waiting:
                found.append("orphaned result")
            waiting.discard(call)
            continue
        if waiting:
            found.append("unanswered call")
        calls = message.get("tool_calls")
        waiting = {call["id"] for call in calls} if calls else set()
        user_spoke = user_spoke or role == "user"
        if role == "assistant" and not user_spoke:
            found.append("assistant before user")
    return found


def same_prefix(before: list[str], now: list[str]) -> int:
    return next(
        (at for at, (a, b) in enumerate(zip(before, now)) if a != b), min(len(before), len(now))
    )
