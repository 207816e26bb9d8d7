"""What `replay` gives back: each session with what every policy did, and the policy that did best
beside refold."""

from __future__ import annotations

from msgspec import Struct

from refold.edges.commands.command import Result
from refold.replay.run import FREE, OURS, Outcome, Replayed

ROWS_SHOWN = 20


class Played(Struct, frozen=True, kw_only=True):
    """One session, played. `position` is its place in the list, by which `@1` names it (0 if it
    has none). `remark` says why the window is what it is; `messages` and `tokens` are what the list
    says of the conversation, `taken_back` and `off_page` are those of `Said`. `best_other` is the
    policy of `best_of_others`."""

    session: str
    position: int = 0
    title: str = ""
    messages: int
    tokens: int
    taken_back: int = 0
    off_page: int = 0
    replayed: Replayed
    best_other: str
    remark: str = ""


class Replays(Result, frozen=True, kw_only=True):
    """What became of each session, newest first. Why a session was `skipped`, or is `damaged` and
    cannot be read, by its id. At most `limit` have a row of their own if all were asked for."""

    sessions: list[Played]
    skipped: dict[str, str]
    damaged: dict[str, str]
    is_total: bool = False
    limit: int = ROWS_SHOWN
    page: str = ""

    @property
    def outcome(self) -> str:
        return "corrupt" if self.damaged else "ok"


def best_of_others(replayed: Replayed) -> str:
    """Of the other policies that keep to the window, the one that kept most names; of equals, the
    one with fewer faults, then the cheaper."""
    others = [one for one in replayed.outcomes if one.policy not in {OURS, *FREE}]
    return min(others, key=_rank).policy


def _rank(outcome: Outcome) -> tuple[float, int, float]:
    paid = outcome.sent if outcome.dollars is None else outcome.dollars
    return -(outcome.kept or 0.0), outcome.faulty or 0, paid
