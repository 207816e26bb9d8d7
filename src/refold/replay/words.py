"""What the figures of a replay mean, in sentences: the same in the terminal and on the page.

A figure that differs from another command's, or is not there, says why. Neighbours: `run` has the
figures, `page` and `edges.commands.replay` show these sentences.
"""

from __future__ import annotations

from collections.abc import Iterable

from refold.display import number
from refold.replay.needs import RECENT
from refold.replay.run import Outcome, Replayed

MEASURE = (
    "Names kept: a turn uses names (paths, identifiers, numbers), and some of them were last seen"
    f" more than {RECENT} messages ago. The share is how many of those still had a line in the"
    " prompt that says something about them."
)


def size_words(replayed: Replayed) -> str:
    """How large the session is, and what of the window refold uses."""
    messages = number(replayed.messages, "message")
    said = f"{messages}, {replayed.tokens:,} tokens, window {replayed.window:,}"
    return f"{said}; {cap_words(replayed)}" if replayed.cap < replayed.window else said


def cap_words(replayed: Replayed) -> str:
    """What refold does with a window that is larger than its own cap."""
    return f"refold compacts at {replayed.cap:,} at the latest (tokens_cap)"


def counted_words(replayed: Replayed, messages: int, tokens: int) -> str:
    """Why the size is another than that of the log, of which the list says `messages` and
    `tokens`."""
    said = (
        "Everything ever said counts here, except thinking and images, at four characters a token "
        "for every policy. The list counts the page as it is now, for its model:"
        f" {tokens:,}."
    )
    if messages == replayed.messages:
        return said
    return (
        f"{said} The log has {number(messages, 'message')}: here a system prompt counts as one, "
        "consecutive messages of an assistant count as one, and results count with their calls."
    )


def measure_words(replayed: Replayed) -> str:
    """What `names kept` says, or why it says nothing."""
    if any(one.needed for one in replayed.outcomes):
        return MEASURE
    if replayed.tokens <= replayed.window:
        none = "the session was never larger than the window"
    else:
        none = (
            f"after the window was full, no turn used a name from more than {RECENT} messages ago"
        )
    return f"{MEASURE} Here there are none (-): {none}."


def faults_words(outcomes: Iterable[Outcome]) -> str:
    """For which policies no fault is counted, and why."""
    free = dict.fromkeys(f'"{one.policy}"' for one in outcomes if one.faulty is None)
    return f"Faults are not counted (-) for {' and '.join(free)}: no window limits their prompts."
