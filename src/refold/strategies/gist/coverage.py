"""What the page tells of each name so far, and what one more line would be worth for it.

A name that nothing on the page tells is worth its need. Once a line tells it well, a further line
is worth little, and less with every repetition. Only names that are told change, so what a line is
worth is one sum over its names. Neighbours: `choice` tells what it takes, `lines` says how well a
line tells a name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from refold.strategies.gist.lines import BARE, Shown

AGAIN = 0.02  # worth of one more line for a name that has one
BESIDE = 0.04  # worth of also having the line next to it


class Coverage:
    """Per name: how well it is told, and what a line is worth for it."""

    def __init__(self, need: Mapping[str, float], shown: Shown) -> None:
        self.need = need
        self.told = shown.told()  # how well each name is told, from 0 to 1
        self.paired = set(shown.names)  # names with a line whose neighbour is also on the page
        self.repeats: dict[str, int] = {}  # how many further lines a name has got
        self.gain = dict(need)  # what a line is worth that tells the name well
        self.most = {name: value * (1.0 + BESIDE) for name, value in need.items()}  # at most
        for name in need.keys() & self.told.keys():
            self._weigh(name)

    def tell(self, name: str, quality: float) -> None:
        """One more line on the page tells this name, so well."""
        if quality > self.told.get(name, 0.0):
            self.told[name] = quality
        else:
            self.repeats[name] = self.repeats.get(name, 0) + 1
        self._weigh(name)

    def _weigh(self, name: str) -> None:
        """Notes what lines are worth for a name, as it is told now."""
        more = 1.0 - self.told.get(name, 0.0)
        need = self.need[name]
        if more > AGAIN:
            self.gain[name] = need * more
            self.most[name] = need * (more + BESIDE)
        else:
            self.gain[name] = self._repeat_gain(name)
            self.most[name] = need * (AGAIN + BESIDE)

    def _repeat_gain(self, name: str) -> float:
        """What one more line is worth for a name that is told as well already."""
        return self.need[name] * (AGAIN / (1 + self.repeats.get(name, 0)))

    def bare_gain(self, name: str) -> float:
        """What a line is worth that hardly tells the name."""
        more = BARE - self.told.get(name, 0.0)
        if more > AGAIN:
            return self.need[name] * more
        return self._repeat_gain(name)

    def worth_at_most(self, names: Iterable[str]) -> float:
        """What a line with these names is worth if it tells all of them well."""
        worth, most = 0.0, self.most
        for name in names:
            worth += most[name]
        return worth

    def worth(self, names: Iterable[str], bare: Sequence[str]) -> float:
        """What a line with these names is worth alone; `bare` are those that it hardly tells."""
        worth, gain = 0.0, self.gain
        for name in names:
            worth += self.bare_gain(name) if name in bare else gain[name]
        return worth

    def unpaired_need(self, names: Iterable[str]) -> float:
        """The need of those of the names that have no line with its neighbour yet."""
        return sum([self.need[name] for name in names if name not in self.paired])
