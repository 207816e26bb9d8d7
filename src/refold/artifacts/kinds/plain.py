"""Any other text: its first and last lines, and what speaks of trouble between them."""

from __future__ import annotations

from collections.abc import Iterator

from refold.artifacts.kinds.sample import Alike, Sample, Telling, ends, in_turn


def telling(sample: Sample) -> Iterator[Telling]:
    troubled = sample.troubled
    bad = Alike(sample).distinct(troubled) if troubled else []
    yield from ends(sample, first=3, last=2)
    yield from in_turn(bad[:12], ends(sample, first=15, last=8))
    yield from ends(sample, first=60, last=30)
