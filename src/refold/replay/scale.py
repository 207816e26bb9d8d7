"""The recorded usage of a session, and how it relates to the sizes that a replay counts.

A replay counts four characters a token, and a session's file lacks the agent's system prompt and
tools. The provider's reports make up for both: `ratio` is the number of the provider's tokens per
token that we count, `front` the part of every prompt that is not in the file. Both are fitted once
per session, and the front is played as blank text, so that it takes up its room in every window. A
prompt that differs from the recorded one costs what was recorded less the difference; the recorded
one costs exactly that. Neighbours: `session` attaches usage to answers, `run` plays.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from statistics import linear_regression, median

from msgspec import Struct
from msgspec.structs import replace

from refold.core.model import Usage
from refold.replay.needs import Message, opening_of, tokens_of
from refold.replay.session import SUMMARY, USAGE

RATIO_MIN, RATIO_MAX = 0.7, 2.0  # outside, the difference has another cause
FITTED_MIN = 4  # calls
FRONT = "[the agent's system prompt and tools, as far as the session does not have them]"


class Scale(Struct, frozen=True, kw_only=True):
    """`front` in our tokens; `calls` is the number of answers with recorded usage, and `peak` the
    largest recorded prompt in the provider's tokens."""

    front: int = 0
    ratio: float = 1.0
    calls: int = 0
    peak: int = 0

    def real(self, tokens: int) -> int:
        """Our tokens in the provider's."""
        return round(tokens * self.ratio)

    def ours(self, tokens: int) -> int:
        """The provider's tokens in ours."""
        return max(1, int(tokens / self.ratio))


def scale_of(messages: list[Message]) -> Scale:
    """The scale of a session; without recorded usage, our own count."""
    pairs = list(_sizes(messages))
    if not pairs:
        return Scale()
    ours, reported = [float(one) for one, _ in pairs], [float(one) for _, one in pairs]
    ratio = 1.0
    if len(pairs) >= FITTED_MIN and max(ours) > min(ours):
        fitted = linear_regression(ours, reported)
        if (
            fitted.intercept < 0
        ):  # tokens that the count misses, such as thinking, grow with the session
            fitted = linear_regression(ours, reported, proportional=True)
        ratio = min(RATIO_MAX, max(RATIO_MIN, fitted.slope))
    front = median(there - ratio * here for here, there in zip(ours, reported))
    return Scale(
        front=max(0, round(front / ratio)),
        ratio=ratio,
        calls=len(pairs),
        peak=int(max(reported)),
    )


def _sizes(messages: list[Message]) -> Iterator[tuple[int, int]]:
    """For each answer with usage, the size of the prompt that the agent sent: as we count it, and
    as reported. A summary replaces everything before it but the system prompt."""
    opening = opening_of([one for one in messages if not one.get(SUMMARY)])
    size = systems = count = 0
    for message in messages:
        tokens = tokens_of(message)
        if message.get(SUMMARY):
            size = systems + tokens
            continue
        if message["role"] == "assistant" and count >= opening and USAGE in message:
            yield size, message[USAGE].input
        systems += tokens if message["role"] == "system" else 0
        size += tokens
        count += 1


def with_front(messages: list[Message], scale: Scale) -> list[Message]:
    """The session with the missing front in its system prompt, as blanks in which no name can be
    found."""
    if not scale.front:
        return messages
    blank = f"{FRONT}\n{' ' * max(0, 4 * scale.front - len(FRONT))}"
    if messages and messages[0]["role"] == "system":
        first = {**messages[0], "content": f"{messages[0].get('content') or ''}\n{blank}"}
        return [first, *messages[1:]]
    return [{"role": "system", "content": blank}, *messages]


class Sent(Struct, frozen=True):
    """One prompt in our tokens: its size, and how much of it begins like the prompt before."""

    tokens: int
    same: int


def billed(
    sent: Iterable[Sent], recorded: Iterable[Sent], calls: Iterable[Usage], scale: Scale
) -> Iterator[Usage]:
    """The usage of a policy's prompts in place of the `recorded` ones, whose reports are `calls`; a
    call without a report has no input, and our own count is used. The cache loses as much of a
    common beginning as it did at the recorded call."""
    before = 0  # tokens of the recorded call before
    for mine, theirs, call in zip(sent, recorded, calls, strict=True):
        if not call.input:
            size, same = scale.real(mine.tokens), scale.real(mine.same)
            before = scale.real(theirs.tokens)
            yield replace(call, input=size, cache_read=same, cache_write=size - same)
            continue
        reusable = min(before, call.input) or call.input
        same = scale.real(mine.same) if before else call.input
        before = call.input
        if mine == theirs:
            yield call
            continue
        size = max(1, call.input - scale.real(theirs.tokens - mine.tokens))
        kept = min(1.0, call.cache_read / reusable)
        read = min(size, round(kept * min(same, size)))
        new = call.input - call.cache_read
        written = round((size - read) * call.cache_write / new) if new > 0 else 0
        written = min(written, size - read)
        written_1h = round(written * call.cache_write_1h / (call.cache_write or 1))
        yield replace(
            call, input=size, cache_read=read, cache_write=written, cache_write_1h=written_1h
        )
