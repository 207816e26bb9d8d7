"""Names with one mistake in them: a letter left out, doubled, changed, or two that changed
places."""

from __future__ import annotations

from collections.abc import Iterable
from string import ascii_lowercase

from hypothesis import strategies as st


def _with_a_mistake(name: str, at: int, letter: str, kind: int) -> str:
    before, here, after = name[:at], name[at], name[at + 1 :]
    return {
        0: before + after,
        1: before + here + here + after,
        2: before + letter + after,
        3: before + after[:1] + here + after[1:],
    }[kind]


def misspelt(known: Iterable[str]) -> st.SearchStrategy[str]:
    """Names that are nearly one of these, and none of them."""
    names = sorted(known)
    long = [name for name in names if len(name) > 2]
    chosen = st.tuples(
        st.sampled_from(long),
        st.integers(0, 1_000),
        st.sampled_from(ascii_lowercase),
        st.integers(0, 3),
    )
    wrong = chosen.map(lambda one: _with_a_mistake(one[0], one[1] % len(one[0]), one[2], one[3]))
    return wrong.filter(lambda name: name not in names)
