"""Lines that an agent gives again; the measure of it, on examples made by hand."""

from __future__ import annotations

import pytest
from bench.exact import Found, telling_lines, weigh_lines, weigh_survival

from refold.replay.policies import BASELINES, Refold


def test_a_line_is_the_same_with_a_number_a_path_or_other_blanks() -> None:
    line = "return total_of(basket, discount) or nothing"
    forms = [f"   {line}", f"12\t{line}", f"src/shop.py:12: {line}", line.replace(" ", "  ")]
    assert {frozenset(telling_lines({"role": "tool", "content": form})) for form in forms} == {
        frozenset(telling_lines({"role": "tool", "content": line}))
    }
    for short in ("} else {", "ok ok ok", "return nothing"):
        assert telling_lines({"role": "tool", "content": short}) == set()


@pytest.mark.parametrize("name, share", [("everything", 1.0), ("window, cut to half", 0.0)])
def test_a_line_given_again_is_looked_for_in_the_prompt(name: str, share: float) -> None:
    command = "make release channel=stable target=harbour"
    work = [{"role": "assistant", "content": f"{n} " + "some words " * 300} for n in range(30)]
    asked = {"role": "user", "content": "Release it."}
    given = {"role": "assistant", "content": command}
    lines = Found()
    weigh_lines(BASELINES[name](), [asked, given, *work, given], 4_000, lines)
    assert lines.row()[0] == share
    assert lines.wanted == 1


def test_a_quoted_need_survives_or_not_by_the_number_of_further_compactions() -> None:
    asked = {"role": "user", "content": "Keep the harbour running."}
    told = {"role": "assistant", "content": "The pilot boat berths at pier_seventeen tonight."}
    work = [
        {"role": "assistant", "content": f"Step {n}: read gauge_{n}.\n" + "tide rises " * 120}
        for n in range(120)
    ]
    again = {"role": "assistant", "content": "Now I send it to pier_seventeen."}
    fates = weigh_survival(Refold(), [asked, told, *work, again], 4_000)
    assert {more for more, _ in fates} == {1, 3, 10}
    assert max(fates.values()) == 1
