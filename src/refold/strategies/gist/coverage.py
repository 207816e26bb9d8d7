"""What the page says of each name already, and what one more line about it is worth.

Neighbours: `passages` reads the rest of the page, `choice` chooses lines by their worth.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from refold.strategies.gist.passages import BARE, Shown

AGAIN = 0.02  # worth of one more line for a name that already has one
BESIDE = 0.04  # worth of also having the neighbouring line


class Coverage:
    """Per name: how well the page covers it, and the worth of a line for it."""

    def __init__(self, need: Mapping[str, float], shown: Shown) -> None:
        self.need = need
        self.told = shown.told()  # how well each name is covered, from 0 to 1
        self.paired = set(shown.names)  # names with a line whose neighbour is on the page too
        self.repeats: dict[str, int] = {}  # lines that added no coverage to a name
        self.gain = dict(need)  # the worth of a line that covers the name well
        self.most = {name: value * (1.0 + BESIDE) for name, value in need.items()}  # upper bound
        for name in need.keys() & self.told.keys():
            self._weigh(name)

    def tell(self, name: str, quality: float) -> None:
        """Notes one more line with this name on the page, and how well the line covers it."""
        if quality > self.told.get(name, 0.0):
            self.told[name] = quality
        else:
            self.repeats[name] = self.repeats.get(name, 0) + 1
        self._weigh(name)

    def _weigh(self, name: str) -> None:
        """Updates the worth of lines for a name."""
        more = 1.0 - self.told.get(name, 0.0)
        need = self.need[name]
        if more > AGAIN:
            self.gain[name] = need * more
            self.most[name] = need * (more + BESIDE)
        else:
            self.gain[name] = self._repeat_gain(name)
            self.most[name] = need * (AGAIN + BESIDE)

    def _repeat_gain(self, name: str) -> float:
        """The worth of one more line that adds no coverage to a name."""
        return self.need[name] * (AGAIN / (1 + self.repeats.get(name, 0)))

    def bare_gain(self, name: str) -> float:
        """The worth of a line that hardly covers the name."""
        more = BARE - self.told.get(name, 0.0)
        return self.need[name] * more if more > AGAIN else self._repeat_gain(name)

    def worth_at_most(self, names: Iterable[str]) -> float:
        """The worth of a line if it covers all of these names well and completes their pairs."""
        worth, most = 0.0, self.most
        for name in names:
            worth += most[name]
        return worth

    def worth(self, names: Iterable[str], bare: Sequence[str]) -> float:
        """The worth of a line for its names, without pairs; it hardly covers those in `bare`."""
        worth, gain = 0.0, self.gain
        for name in names:
            worth += self.bare_gain(name) if name in bare else gain[name]
        return worth

    def unpaired_need(self, names: Iterable[str]) -> float:
        """The total need of the names that have no line together with its neighbour yet."""
        return sum([self.need[name] for name in names if name not in self.paired])
