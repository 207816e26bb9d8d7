"""Whether the page shows what was found."""

from __future__ import annotations

import refold
from tests.search.talks import full_text, memory, talk


def test_a_message_that_no_page_shows_is_found_with_its_seq():
    """G-51"""
    store = memory()
    context = refold.open("work", store=store)
    for number in range(30):
        context.append(
            {
                "role": "user",
                "content": f"the {number}th thing is a walrus{number} " + "filler " * 20,
            }
        )
        context.append({"role": "assistant", "content": "noted"})
    context.compact("hide", target=500)
    [hit, *_] = full_text(store).search("walrus3")
    assert (hit.seq, hit.hidden) == (7, True)
    [hit, *_] = full_text(store).search("walrus29")
    assert (hit.seq, hit.hidden) == (59, False)


def test_what_a_restore_took_back_is_found_and_marked_as_hidden():
    store = memory()
    context = refold.open("work", store=store)
    context.append({"role": "user", "content": "first the zebra"})
    context.append({"role": "user", "content": "then the walrus"})
    context.restore(1)
    hits = full_text(store).search("walrus zebra")
    assert {hit.seq: hit.hidden for hit in hits} == {1: False, 2: True}


def test_a_long_log_without_a_bookmark_is_not_read_to_say_whether_a_message_is_hidden(monkeypatch):
    store = memory()
    talk(store, "a", ["walrus", *["more"] * 10])
    assert full_text(store).search("walrus")[0].hidden is False
    monkeypatch.setattr("refold.search.snippets.TAIL_EVENTS", 5)
    assert full_text(store).search("walrus")[0].hidden is None
