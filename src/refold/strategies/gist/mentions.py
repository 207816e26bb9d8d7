"""Names of what could not be quoted: where a fold is tight, a list of bare names beside the lines.

A line tells a name and costs as much as six of them. Where only a small part of the text can stay,
most names that will be needed would be on no line at all; there, a part of the room is for a list
of the most needed ones, so that the agent at least knows what to look for. Neighbours: `gist` asks
for it, `names` has the need of names, `draft` shows the list.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from refold.strategies.gist.lines import Passage
from refold.strategies.gist.names import Needs, Row

# The part of the text below which names are listed; what the list may have of the room grows with
# what is missing to that, up to a limit.
TIGHT = 0.06
SHARE, SHARE_MOST = 0.6, 0.3
MARK = "Also named: "
_PLACE = re.compile(r"\.\w+[-:]\d+$")  # `a.py-12`, as searches write it
_SIDES = ("a/", "b/")  # of a diff


def list_share(room: float, text: float) -> float:
    """Which part of the room is for a list, where so much text is folded into it."""
    tightness = 1 - room / (TIGHT * max(1.0, text))
    return min(SHARE_MOST, max(0.0, SHARE * tightness))


def names_line(names: Sequence[str], passages: Iterable[Passage] = ()) -> str:
    """The list as the page shows it, paths that begin at the root with their slash."""
    paths = {name for name in names if "/" in name}
    rooted = set[str]()
    for one in passages:
        for line, held in zip(one.lines, one.names):
            rooted.update(name for name in paths.intersection(held) if _is_rooted(name, line))
    return MARK + ", ".join(f"/{name}" if name in rooted else name for name in names)


def _is_rooted(name: str, line: str) -> bool:
    """Whether a line has the path with a slash before it that does not belong to a longer one."""
    at = line.find(f"/{name}")
    return at == 0 or (at > 0 and not line[at - 1].isalnum() and line[at - 1] not in "._-/")


def further_names(needs: Needs, page: str, chars: int) -> list[str]:
    """The most needed names that a page does not have, in this many characters; none that another
    one contains."""
    odds = needs.odds(needs.rows)
    left = chars - len(MARK)
    found: dict[str, None] = {}
    for name in sorted(odds, key=odds.__getitem__, reverse=True):
        if name in page or not _is_worth_a_place(name, needs.rows) or _is_part(name, found):
            continue
        for shorter in [one for one in found if one in name]:
            del found[shorter]
            left += _price(shorter)
        left -= _price(name)
        if left < 0:
            break
        found[name] = None
    return list(found)


def _price(name: str) -> int:
    """What a name takes in the list: with a comma, a path with its slash."""
    return len(name) + (3 if "/" in name else 2)


def _is_part(name: str, found: Iterable[str]) -> bool:
    return any(name in longer for longer in found)


def _is_worth_a_place(name: str, rows: dict[str, Row]) -> bool:
    """Whether anybody came back to a name: what a single output had once is one of thousands. The
    number of a line and the side of a diff are no names of their own."""
    row = rows[name]
    is_used = bool(row.own or row.user)
    if name.isdigit() or row.held == 1:
        return is_used
    return not _PLACE.search(name) and not (name.startswith(_SIDES) and name[2:] in rows)


def without_secrets(
    names: Sequence[str], passages: Iterable[Passage], redact: Callable[[str], str]
) -> list[str]:
    """The names without those that a line gives away as a secret: a name alone does not show it."""
    wanted = set(names)
    secret: set[str] = set()
    for one in passages:
        lines = [line for line, held in zip(one.lines, one.names) if not wanted.isdisjoint(held)]
        text = "\n".join(lines)
        clean = redact(text)
        if clean != text:
            held = set().union(*one.names) & wanted
            secret.update(name for name in held if clean.count(name) < text.count(name))
    return [name for name in names if name not in secret]
