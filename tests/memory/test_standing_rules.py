"""Of contradicting rules the later is in force, if it is sure that they speak of the same thing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

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


WORDS = st.lists(st.from_regex(r"[b-df-hj-np-tv-z][aeo][lmnr][aeo][lnr]k", fullmatch=True), min_size=2, max_size=2)  # fmt: skip
SHAPES = (
    "Every {} needs a {}.", "All {} reports must have a {}.", "Before each {}, check the {}.", "Stop printing {} and {}.",
    "Whenever a {} is replaced, note the {}.", "Use {} rather than {}.", "We use {}, not {}.", "No more {} in a {}.",
    "Remember that the {} has no {}.", "House rule: no {} without {}.", "As of today the {} is a {}.", "Under no circumstances mix {} and {}.",
    "A {} must never show a {}.", "Jede {} muss ein {} haben.", "Vor jedem {} prüfst du {}.", "Verwende {} statt {}.",
    "Keine {} im {} mehr.", "Unsere Regel: kein {} ohne {}.", "Von jetzt an gilt {} als {}.", "Chaque {} doit avoir un {}.",
    "Avant chaque {}, vérifie le {}.", "Utilise {} plutôt que {}.", "Il ne faut jamais mêler {} et {}.", "Cada {} debe tener un {}.",
    "I prefer {} to {}.", "We decided to drop {} for {}.", "Je préfère {} à {}.",
    "Antes de cada {}, mira el {}.", "Desde hoy el {} es un {}.",
)  # fmt: skip
TELLING = (
    "The {} never shows the {}.", "I always forget the {} of the {}.", "Whenever I open the {}, the {} hangs.",
    "Each time the {} starts, the {} blows.", "Can you use {} instead of {} here?", "All {} should have passed before the {}.",
    "It should never lose its {} after a {}.", "Delete every {} in the {}.", "Nobody told me about the {} and the {}.",
    "Das {} hat immer kein {}.", "Die {} läuft nicht mehr ohne {}.", "Le {} est toujours sans {}.", "La {} ne marche plus avec {}.",
    "Je n'ai jamais vu ce {} ni {}.", "El {} siempre está sin {}.", "La {} ya no funciona con {}.",
)  # fmt: skip


@given(st.sampled_from(SHAPES), WORDS)
def test_an_order_for_everything_of_a_kind_is_a_rule(shape, words):
    assert is_standing(shape.format(*words))


@given(st.sampled_from(TELLING), WORDS)
def test_a_report_of_what_happens_is_no_rule(shape, words):
    assert not is_standing(shape.format(*words))


def test_in_a_long_message_an_order_for_its_task_is_no_rule():
    task = "The calendar shows one header for two months. " * 6 + "Every month must get its own."
    for text in (task, f"{task}\n\nShort.\n\n" * 8):
        taken = taken_from([(1, Message(role="user", blocks=(Text(text),)))])
        assert [one.kind for one in taken if "Every month" in one.content] == ["requirement"]
    entry = MemoryEntry(id="m1", content="Every month must get its own.", tags=("requirement",))
    assert [*rules_of([entry])] == [] and len([*rules_of([replace(entry, tags=())])]) == 1


# Two rules of one form: the things differ, or only the value.
THING_OR_VALUE = (
    "From now on, crane {} is checked weekly.", "Always grease crane {}.", "Never touch src/{}.py.", "Always run tools/{}.sh.",
    "In 'area{}', always use cents.", "Ab jetzt wird Kran {} jede Woche geprüft.", "Désormais, la grue {} est contrôlée chaque lundi.",
)  # fmt: skip
VALUES = (
    "From now on, round up to {} minutes.", "Always round up to {} minutes.", "From now on the code of crane 5 is {}.",
    "From now on, start names with 'n{}_'.", "Ab jetzt hat Kran 5 den Code {}.", "Désormais la limite est de {}.",
)  # fmt: skip


@given(st.lists(st.integers(10, 9_999), min_size=2, max_size=2, unique=True))
def test_a_value_is_replaced_and_a_thing_is_not(numbers):
    for shape in THING_OR_VALUE:
        old, new = map(shape.format, numbers)
        assert in_force(old, new) == [new, old]
    for shape in VALUES:
        old, new = map(shape.format, numbers)
        assert in_force(old, new) == [new]
    assert in_force(*(VALUES[2].replace("5", str(one)).format(4_711) for one in numbers))[1:]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Always write {} first.", "You no longer need to write {} first."),
        ("Never deploy {} on Fridays.", "You can deploy {} on Fridays again."),
        ("Always log in {}.", "No longer log in {}."),
        ("Nie {} ausliefern.", "Du darfst wieder {} ausliefern."),
        ("Ne jamais livrer {}.", "Tu peux de nouveau livrer {}."),
        ("Every {} needs two reviewers.", "Every {} needs one reviewer from now on."),
        ("Use {} instead of Postgres.", "From now on, use Postgres instead of {}."),
    ],
)
def test_what_was_lifted_is_never_shown_alone(old, new):
    for thing in THINGS:
        old_one, new_one = old.format(thing), new.format(thing)
        assert in_force(old_one, new_one) == [new_one]
        assert in_force(new_one, old_one)[0] == old_one, "the order of the dates decides"
    unsure = f"{new_one.rstrip('.')}, if Petra agrees to the exception."
    assert in_force(old_one, unsure) == [unsure, old_one]
    assert in_force("You can try that again.") == [], "it lifts nothing"
