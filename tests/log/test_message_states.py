"""The states of messages over time are those of full folds at every place of the log."""

from __future__ import annotations

import random
from itertools import accumulate, chain

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import refold
from refold.core.active_events import switches
from refold.core.budget import current_tokens, factor_of
from refold.core.fold import folded
from refold.core.model import ADOPTED, Event, Prose, Quote, Span, Summarize
from refold.core.shortened import quoted_seqs
from refold.errors import Invalid
from refold.log.log import Log
from refold.log.message_states import States, StateWalk
from refold.stores.in_memory import MemoryStore
from tests.core.logs import bodies, logs, sealed
from tests.log.test_past import grown
from tests.turns import work


def summary(text: str = "", *, quotes: int = 0, purpose: str = "") -> Summarize:
    quoted = (Quote(seq=quotes, role="user", lines=("a line",)),) if quotes else ()
    return Summarize(batch="b1", span=Span(1, 9), text=text, quotes=quoted, purpose=purpose)


quoting = st.builds(
    summary,
    st.sampled_from(["", "- #2 done", "Facts:\n- #3 done\n- #4 done"]),
    quotes=st.integers(0, 5),
)
stories = st.tuples(bodies(), st.lists(st.tuples(st.integers(0, 24), quoting), max_size=3)).map(
    lambda drawn: sealed(with_inserted(*drawn))
)


def with_inserted(bodies: list, others: list) -> list:
    for at, body in others:
        bodies.insert(min(at, len(bodies)), body)
    return bodies


def expected(events: list[Event], erased: set[int]) -> dict[int, str]:
    """The states of messages at the end of a log, from a full fold."""
    found = switches(events)
    slots = {slot.seq: slot for slot in folded(events, found).slots}
    quoted = set(chain(*(quoted_seqs(slot.summary) for slot in slots.values() if slot.summary)))
    states: dict[int, str] = {}
    for event in events:
        seq, slot = event.seq, slots.get(event.seq)
        if event.kind != "message":
            continue
        if seq in found.off:
            states[seq] = "rewound"
        elif slot is None or slot.standin:
            states[seq] = "quoted" if seq in quoted else "hidden"
        elif event.erased or seq in erased:
            states[seq] = "erased"
        else:
            states[seq] = "shortened" if slot.edits else "whole"
    return states


def check(states: States, events: list[Event]) -> None:
    """Compares the states, stand-ins and sizes at every place with full folds."""
    erased = set(folded(events, switches(events)).erased)
    assert states.head == len(events)
    assert [message.seq for message in states.messages] == [
        event.seq for event in events if event.kind == "message"
    ]
    for seq in range(len(events) + 1):
        past = events[:seq]
        state = folded(past, switches(past))
        assert states.at(seq) == expected(past, erased)
        shown = [s for s in states.standins if s.since <= seq and not 0 < s.until <= seq]
        assert sorted((s.edit, s.first, s.last, s.tokens) for s in shown) == sorted(
            (s.edits[0].seq, s.seq, s.last, s.tokens) for s in state.slots if s.standin
        )
        if seq and not erased:
            size = next(tokens for at, tokens in reversed(states.sizes) if at <= seq)
            assert size == current_tokens(state, factor_of(state, state.meta.model or ""))


@settings(deadline=None, max_examples=80)
@given(logs | stories, st.lists(st.integers(1, 4), min_size=1, max_size=5))
def test_the_states_at_every_place_are_those_of_a_full_fold(log, appends) -> None:
    live = grown(log, appends)
    events = list(live.read()) if log else []
    check(StateWalk.continued(None, live).states(), events)


@settings(deadline=None, max_examples=40)
@given(logs | stories, st.lists(st.integers(1, 6), min_size=1, max_size=6))
def test_a_walk_that_goes_on_tells_what_a_new_one_tells(log, appends) -> None:
    store = MemoryStore()
    live, walk, parts = Log(store, "c"), None, []
    ends = [end for end in accumulate(appends) if end < len(log)]
    for start, end in zip([0, *ends], [*ends, len(log)], strict=True):
        store.append("c", log[start:end], expect=start)
        live.catch_up()
        walk = StateWalk.continued(walk, live)
        parts.append(walk.states(after=start))
    whole = StateWalk.continued(None, live).states()
    assert walk is not None and walk.states() == whole
    if not live.state.erased:  # else the walk began again
        assert tuple(chain(*(part.messages for part in parts))) == whole.messages
        assert tuple(chain(*(part.changes for part in parts))) == whole.changes
        assert tuple(chain(*(part.sizes for part in parts))) == whole.sizes


def test_random_acts_of_two_writers_and_a_fork_are_told_as_they_were() -> None:
    rng = random.Random(7)
    one = refold.open("c", store=(store := MemoryStore()), window=8_000, embedder=False)
    two = refold.open("c", store=store, window=8_000, embedder=False)
    seen: dict[int, dict[int, str]] = {}
    for step in range(60):
        context = rng.choice([one, two])
        context.append({"role": "user", "content": f"Use port {4000 + step} for service {step}."})
        work(context, 1, size=6)
        head = context.view.head
        messages = [event.seq for event in context.log.events() if event.kind == "message"]
        acts = [
            lambda: context.compact(target=2_000),  # noqa: B023
            context.undo,
            context.redo,
            lambda: context.restore(rng.randrange(head // 2, head)),  # noqa: B023
            lambda: context.pin(rng.choice(messages)),  # noqa: B023
            lambda: context.pin(rng.choice(messages), on=False),  # noqa: B023
        ]
        if step % 3 == 2:
            rng.choice(acts)()
        states = one.log.states()
        seen[states.head] = states.at(states.head)
    states = two.log.states()
    assert {"whole", "quoted", "rewound"} <= {change.state for change in states.changes}
    assert all(states.at(head) == then for head, then in seen.items())
    check(states, list(one.log.events()))
    fork = two.fork("f", at=states.head // 2)
    work(fork, 2)
    fork.undo()
    check(fork.log.states(), list(fork.log.events()))


def test_states_after_a_head_are_only_what_is_new() -> None:
    context = refold.open("c", store="memory:", window=8_000, embedder=False)
    assert context.log.states().messages == ()
    work(context, 12, size=6)
    head = context.view.head
    assert context.log.states(after=head).changes == ()
    context.compact(target=600)
    new = context.log.states(after=head)
    assert new.messages == () and new.changes and new.standins and new.sizes
    assert all(change.at > head for change in new.changes)
    context.undo()
    assert {change.state for change in context.log.states(after=new.head).changes} == {"whole"}
    with pytest.raises(Invalid, match="after"):
        new.at(head)
    with pytest.raises(Invalid, match="#999"):
        context.log.states(after=999)


def test_a_summary_quotes_by_its_quotes_and_the_lines_of_its_ledger() -> None:
    assert quoted_seqs(summary("- #2 to do\n#3 user\n  - #4 no", quotes=5)) == {2, 5}
    assert quoted_seqs(summary("- #2 from elsewhere", purpose=ADOPTED)) == set()
    prose = Prose(words="- #8 words of a model", span=Span(1, 9), added=("- #7 a request",))
    assert quoted_seqs(Summarize(batch="b", span=Span(1, 9), text="", prose=prose)) == {7}
