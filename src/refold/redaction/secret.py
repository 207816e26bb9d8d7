"""A secret that was found in a text: what it is and where.

Neighbour: `find`, and the rules it asks.
"""

from __future__ import annotations

from typing import NamedTuple


class Found(NamedTuple):
    """A secret in a text, `text[start:end]`. Not `sure`: a fixture or encoded bytes look the
    same."""

    kind: str
    start: int
    end: int
    sure: bool = True
