"""What a provider reports of a call, held against our own count of it.

A report that cannot be true bills nothing and ties nothing; one that is only too small is billed
all the same. Neighbours: `fold` adds reports up, `compaction.active_model` tells of an ignored one.
"""

from __future__ import annotations

from refold.core.model import Usage

REPLY_RATIO_MAX, SPARE_TOKENS = 4, 1_000
# What a provider may report of a request, in parts of our own count; beside it a frame that every
# request has, however short.
USAGE_MIN, USAGE_MAX, USAGE_FRAME_TOKENS = 0.25, 4, 100
TOKENS_MAX = 1 << 24  # more than any model reads or writes in one call


def is_plausible(usage: Usage, shown: int) -> bool:
    """Whether a report tells how large a request is that we counted as `shown`, 0 where we do not
    know. A count of nothing says nothing, and is no error."""
    is_enough = usage.input == 0 or usage.input >= shown * USAGE_MIN
    return is_enough and is_possible(usage, shown)


def is_possible(usage: Usage, shown: int) -> bool:
    """Whether such a request may have been billed like this."""
    read = (usage.input, usage.cache_read, usage.cache_write)
    written = (usage.output, usage.reasoning)
    most = shown * USAGE_MAX + USAGE_FRAME_TOKENS if shown else TOKENS_MAX
    return min(*read, *written) >= 0 and max(read) <= most and max(written) <= TOKENS_MAX


def reported_reply(usage: Usage, reply: int) -> int:
    """What the reply adds to the next request: the provider's count without the reasoning, which
    is not sent back, or our own where that cannot be the reply alone."""
    reported = usage.output - usage.reasoning
    return reported if 0 < reported <= REPLY_RATIO_MAX * reply + SPARE_TOKENS else reply
