"""What the figures of a replay mean, in sentences: the same in the terminal and on the page.

A figure that differs from another command's, or is not there, says why. Neighbours: `run` has the
figures, `page` and `edges.commands.replay` show these sentences.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from refold.display import number
from refold.replay.needs import RECENT
from refold.replay.run import Outcome, Replayed


def size_words(replayed: Replayed) -> str:
    """How large the session is, and what of the window refold uses."""
    messages = number(replayed.messages, "message")
    said = f"{messages}, {replayed.tokens:,} tokens, window {replayed.window:,}"
    return f"{said}; {cap_words(replayed)}" if replayed.cap < replayed.window else said


def cap_words(replayed: Replayed) -> str:
    """What refold does with a window that is larger than its own cap."""
    return f"refold compacts at {replayed.cap:,} at the latest (tokens_cap)"


def counted_words(
    replayed: Replayed, messages: int, tokens: int, *, taken_back: int = 0, off_page: int = 0
) -> str:
    """What is played, and why its size is another than that of the page, of which the list says
    `messages` and `tokens`."""
    parts = [*_left_words(taken_back, off_page)]
    everything = "Everything else ever said" if taken_back else "Everything ever said"
    how = "except thinking and images, at four characters a token for every policy."
    parts.append(f"{everything} counts here, {how}")
    parts.append(f"The list counts the page as it is now, for its model: {tokens:,}.")
    if messages + off_page != replayed.messages:
        log = f"{'Without those, the' if taken_back else 'The'} log has"
        parts.append(
            f"{log} {number(messages + off_page, 'message')}: here a system prompt counts as one, "
            "consecutive messages of an assistant count as one, and results count with their calls."
        )
    return " ".join(parts)


def _left_words(taken_back: int, off_page: int) -> Iterator[str]:
    """What of the log is played although it is off the page, and what is not played."""
    if off_page:
        those = f"the {number(off_page, 'message')} that {_are(off_page)} off the page since"
        yield f"The session is played as it was before you went back, with {those}."
    if taken_back:
        were = "was" if taken_back == 1 else "were"
        those = f"{number(taken_back, 'message')} {were} taken back before the session went on"
        yield f"{those}, and {_are(taken_back)} not played."


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


def measure_words(replayed: Replayed) -> str:
    """What `names kept` says, or why it says nothing."""
    needed = max((one.needed for one in replayed.outcomes), default=0)
    if needed:
        return names_words(f"{needed:,}")
    if replayed.tokens <= replayed.window:
        none = "the session was never larger than the window"
    else:
        none = (
            f"after the window was full, no turn used a name from more than {RECENT} messages ago"
        )
    return f"{names_words('some')} Here there are none (-): {none}."


def names_words(how_many: str) -> str:
    """What `names kept` says, of so many names."""
    return (
        f"Names kept: a turn uses names (paths, identifiers, numbers), and {how_many} of them were"
        f" last seen more than {RECENT} messages ago. The share is how many of those still had a"
        " line in the prompt that says something about them."
    )


def faults_words(outcomes: Iterable[Outcome]) -> str:
    """For which policies no fault is counted, and why."""
    free = dict.fromkeys(f'"{one.policy}"' for one in outcomes if one.faulty is None)
    return f"Faults are not counted (-) for {' and '.join(free)}: no window limits these prompts."
