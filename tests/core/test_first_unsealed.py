"""The quick look at what a server takes in says what the whole check says."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from refold.core.codec import check, continues, first_unsealed
from refold.stores.contract.kit import sealed

CHANGES = {
    "seq": st.integers(-1, 2**64),
    "id": st.sampled_from(["", "x", "0" * 32, "0190F2F0-0000-7000-8000-000000000000"]),
    "at_ms": st.integers(-1, 2**65),
    "by": st.text(max_size=5),
    "kind": st.sampled_from(["note", "message", ""]),
    "body": st.binary(max_size=5),
    "salt": st.binary(max_size=16),
    "digest": st.binary(max_size=17),
    "chain": st.binary(max_size=17),
    "tokens": st.integers(-(2**64), 2**64),
    "counter": st.text(max_size=3),
}
changes = st.sampled_from(sorted(CHANGES)).flatmap(
    lambda name: st.tuples(st.just(name), CHANGES[name])
)


@given(st.integers(0, 3), changes)
def test_an_event_that_was_changed_is_found_wherever_it_stands(at: int, change) -> None:
    events = sealed(None, [b'{"n":%d}' % number for number in range(4)], kind="note")
    assert first_unsealed(events, bytes(16)) is None
    name, value = change
    changed = msgspec.structs.replace(events[at], **{name: value})
    log = [*events[:at], changed, *events[at + 1 :]]
    before = events[at - 1].chain if at else bytes(16)
    is_sealed = continues(changed, before) and not list(
        check([changed], after=changed.seq - 1, before=before)
    )
    found = first_unsealed(log, bytes(16))
    if is_sealed:
        # Another body of an event that counts as erased, or the same value again.
        assert found is None or found.seq > changed.seq
    else:
        assert found is changed
