"""What a person writes for a place in the log: `41` or `#41`, or the name of a checkpoint.

A name wins over a number, so `checkpoint` refuses names that are numbers. What is not there is an
error that says what is. Neighbours: `restore`, `diff`, `fork` take a point; `why`, `pin` and
`unpin` take a message.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Meta

from refold.core.model import View
from refold.display import nearest
from refold.edges.commands.text import short_line
from refold.errors import Invalid, NotFound

POINT_HELP = "A seq such as 41 or #41, or the name of a checkpoint."
NAMES_SHOWN = 5
_SEQ = re.compile(r"#?([0-9]{1,15})")
MESSAGES = Meta(
    description="The messages, by seq: 41 or #41.",
    min_length=1,
    extra={"positional": True, "metavar": "SEQ"},
)


def is_seq(text: str) -> bool:
    """Whether the text is a number, as `41` or `#41`."""
    return _SEQ.fullmatch(text.strip()) is not None


def check_checkpoint(name: str) -> None:
    """Invalid for a name that would be taken for a seq."""
    if is_seq(name):
        reason = f"{short_line(name, 80)!r} is the name of an event, not of a checkpoint"
        raise Invalid(reason, hint="choose a name that is not a number")


def seq_of(text: str) -> int:
    """The seq that `41` or `#41` names; Invalid for anything else."""
    found = _SEQ.fullmatch(text.strip())
    if found is None:
        reason = f"{short_line(text, 80)!r} is not the seq of an event"
        raise Invalid(reason, hint="give it as 41 or #41")
    return int(found[1])


def point_seq(view: View, text: str) -> int:
    """The seq of a point: that of the checkpoint of this name, or the seq itself. NotFound if the
    log has neither."""
    if text in view.checkpoints:
        return view.checkpoints[text]
    if not is_seq(text):
        reason = f"there is no checkpoint {short_line(text, 80)!r}"
        raise NotFound(reason, hint=_known_points(text, list(view.checkpoints)))
    seq = seq_of(text)
    if not 1 <= seq <= view.head:
        raise NotFound(f"there is no event #{seq}", hint=f"the log goes from #1 to #{view.head}")
    return seq


def _known_points(text: str, names: Sequence[str]) -> str:
    """Which checkpoints may have been meant."""
    near = nearest(text, names, limit=NAMES_SHOWN) or names[-NAMES_SHOWN:]
    known = ", ".join(short_line(name, 80) for name in near)
    return f"checkpoints: {known or 'none'}; a seq such as 41 will do as well"
