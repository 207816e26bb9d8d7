"""A queue of numbered candidates, the densest first, for a choice in which most densities only
fall.

Neighbour: `choice` asks for the first, weighs it again, and takes it or puts it back.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush


class Queue:
    """Candidates by density, the densest first, among equals the one with the lower number. Most
    leave in the order in which they came, so they are sorted once; only those that were put back
    are in a heap."""

    def __init__(self, densities: Sequence[float], floor: float) -> None:
        dense = [(-density, index) for index, density in enumerate(densities) if density >= floor]
        self.waiting = sorted(dense, reverse=True)  # the first one last
        self.moved: list[tuple[float, int]] = []

    def __bool__(self) -> bool:
        return bool(self.waiting or self.moved)

    def pop(self) -> int:
        """The first candidate, taken out of the queue."""
        waiting, moved = self.waiting, self.moved
        if not moved or (waiting and waiting[-1] < moved[0]):
            return waiting.pop()[1]
        return heappop(moved)[1]

    def push(self, density: float, index: int) -> None:
        """Puts a candidate back, with a density of its own."""
        heappush(self.moved, (-density, index))

    def is_ahead_of(self, density: float) -> bool:
        """Whether the first candidate is denser than this."""
        if self.waiting and -self.waiting[-1][0] > density:
            return True
        return bool(self.moved) and -self.moved[0][0] > density
