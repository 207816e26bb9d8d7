"""A queue of numbered candidates, the densest first, for a choice in which most densities only
fall.

Neighbour: `choice` asks for the first, weighs it anew, and takes it or puts it back.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush


class Queue:
    """Candidates by density, the densest first, among equals that with the lower number. Most
    leave in the order in which they came, so they are sorted once; only those that were put back
    are in a heap."""

    def __init__(self, densities: Sequence[float], floor: float) -> None:
        self.densities = densities
        numbers = [index for index in reversed(range(len(densities))) if densities[index] >= floor]
        self.waiting = sorted(numbers, key=densities.__getitem__)  # the first one last
        self.moved: list[tuple[float, int]] = []

    def __bool__(self) -> bool:
        return bool(self.waiting or self.moved)

    def pop(self) -> int:
        waiting, moved = self.waiting, self.moved
        if moved and not (waiting and (-self.densities[waiting[-1]], waiting[-1]) < moved[0]):
            return heappop(moved)[1]
        return waiting.pop()

    def push(self, density: float, index: int) -> None:
        heappush(self.moved, (-density, index))

    def is_ahead_of(self, density: float) -> bool:
        if self.waiting and self.densities[self.waiting[-1]] > density:
            return True
        return bool(self.moved) and -self.moved[0][0] > density
