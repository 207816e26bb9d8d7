"""Of contradicting rules the later is in force, if it is sure that they speak of the same thing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.core.model import Message, Text
from refold.memory.entry import MemoryEntry
from refold.memory.extraction import taken_from
from refold.memory.standing_rules import is_standing, rules_of

THINGS = ("main", "production", "staging", "gateway", "billing")
# What is ordered first, and what ends it.
FORBIDDEN = (
    ("Never push to {}.", "From now on, you may push to {}."),
    ("Always deploy to {}.", "From now on, never deploy to {}."),
    ("Pushe nie auf {}.", "Ab jetzt darfst du auf {} pushen."),
    ("Ne pousse jamais sur {}.", "Désormais, tu peux pousser sur {}."),
)
INSTEAD = (
    ("Always use {}, never {}.", "From now on, use {1} instead of {0}."),
    ("Nutze immer {}, nie {}.", "Ab jetzt nutze {1} statt {0}."),
    ("Utilise toujours {}, jamais {}.", "Désormais utilise {1} au lieu de {0}."),
)


def in_force(*said: str) -> list[str]:
    """The rules that are shown of these, said one day after another."""
    return [
        rule.clause
        for rule in rules_of(
            MemoryEntry(id=f"m{day}", content=text, valid_from_ms=day, seq=day, trust="user")
            for day, text in enumerate(said, start=1)
        )
    ]


@given(st.sampled_from([*FORBIDDEN, *INSTEAD]), st.permutations(THINGS), st.integers(0, 2))
def test_a_change_ends_the_rule_that_it_contradicts_and_no_other(pair, things, other):
    old, new = (text.format(*things) for text in pair)
    beside = FORBIDDEN[other][0].format(things[2])
    assert in_force(old, beside, new) == [new, beside]
    assert in_force(new, beside, old)[:2] == [old, beside], "an earlier change ends nothing"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Never push to {}.", "From now on, push hotfixes to {}."),
        ("Never push to {}.", "From now on, you may push to the other {} branch on Fridays."),
        ("Never push to {}.", "From now on, you may push to {}frame."),
        ("Never push to {}-v1.", "From now on, you may push to {}-v2."),
        ("Never push to {}.", "From now on, you may push to qa, not {}."),
        ("Always use {}.", "From now on, use {} in Python."),
        ("Always use {}.", "From now on, use npm instead of {} in the folder of documents."),
        ("Never push to {}.", "Always push to the mirror of {}."),
    ],
)
def test_both_are_shown_the_newest_first_where_it_is_not_sure(old, new):
    for thing in THINGS:
        assert in_force(old.format(thing), new.format(thing)) == [
            new.format(thing),
            old.format(thing),
        ]


@pytest.mark.parametrize("first", ["Implement the following plan:", "Setz das um:", "Voilà :"])
@pytest.mark.parametrize("gap", ["\n", "\n\n"])
@pytest.mark.parametrize("own", ["", "\n\nFrom now on, speak German."])
def test_a_document_below_a_first_line_with_a_colon_sets_no_rule(first, gap, own):
    """What follows it may belong to it: a person says whether it is theirs."""
    text = f"{first}{gap}# Fix the reader\n\n## Plan\n\nAlways close every file.{own}"
    taken = taken_from([(1, Message(role="user", blocks=(Text(text),)))])
    assert [one for one in taken if one.trust == "user"] == []
    beside = f"Always close every file.\n\n{first} see #12."
    taken = taken_from([(1, Message(role="user", blocks=(Text(beside),)))])
    assert [one.trust for one in taken if one.kind == "constraint"] == ["user"]


@pytest.mark.parametrize(
    "said",
    [
        "still reads for the quick reader as if we start a new branch always",
        "Das klingt, als ob wir den Zweig immer löschen.",
        "On dirait comme si nous fermons toujours le fichier.",
    ],
)
def test_a_comparison_is_no_rule(said):
    assert not is_standing(said)
