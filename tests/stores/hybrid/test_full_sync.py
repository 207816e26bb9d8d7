"""A whole sync: what it tries again, what it leaves, and what it says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from refold.core import codec, ids
from refold.core.model import Artifact
from refold.errors import Denied, RefoldError, Unavailable
from refold.stores import open_store
from refold.stores.contract.kit import TEXT, grown, sealed
from refold.stores.hybrid.diverged_logs import fork_id
from refold.stores.hybrid.full_sync import Timing
from refold.stores.hybrid.store import HybridStore
from refold.stores.in_memory import MemoryStore
from refold.stores.protocol import Synced


class Failing(MemoryStore):
    """A far store whose appends fail as it is told, before or after they are done."""

    def __init__(self, fault: Callable[[str, int], RefoldError | None]) -> None:
        super().__init__()
        self.fault, self.tries, self.is_after = fault, 0, False

    def append(self, conversation: str, events: Any, *, expect: int) -> None:
        self.tries += 1
        error = self.fault(conversation, self.tries)
        if error is None or self.is_after:
            super().append(conversation, events, expect=expect)
        if error is not None:
            raise error


def pair(far: MemoryStore, waits: list[float] | None = None) -> HybridStore:
    paused = waits if waits is not None else []
    timing = Timing(now_ms=lambda: 5, wait=paused.append, share=lambda: 0.5)
    return HybridStore(MemoryStore(), lambda: far, url="hybrid:test", timing=timing)


def test_what_may_pass_is_tried_again_and_what_will_not_is_blocked() -> None:
    def busy(conversation: str, number: int) -> RefoldError | None:
        return (
            Unavailable("busy", retry_after_s=7.0 if number == 2 else None) if number < 3 else None
        )

    waits: list[float] = []
    far = Failing(busy)
    store = pair(far, waits)
    events = grown(store, "c", 3)
    assert store.sync().is_done
    assert far.read("c") == events
    # Longer each time, and as long as the far store asks.
    assert waits == [1.0, 7.0]

    far = Failing(lambda *_: Denied("this token only reads") if not far.is_after else None)
    store = pair(far)
    grown(store, "c", 3)
    [blocked] = store.sync().synced
    assert (blocked.state, blocked.pending, blocked.reason) == (
        "blocked",
        3,
        "this token only reads",
    )
    assert far.tries == 1
    assert not store.sync(skip_blocked=True).synced or far.tries == 2
    far.is_after = True
    assert store.sync().is_done


def test_a_conversation_that_fails_delays_no_other() -> None:
    far = Failing(
        lambda id, _: Denied("no") if id == "a" else Unavailable("x") if id == "b" else None
    )
    store = pair(far)
    for id in "abcd":
        grown(store, id, 2)
    states = {one.conversation: one.state for one in store.sync().synced}
    assert states == {"a": "blocked", "b": "pending", "c": "synced", "d": "synced"}


def test_a_far_store_that_does_not_answer_is_left_after_three() -> None:
    far = Failing(lambda *_: Unavailable("down"))
    store = pair(far)
    for number in range(20):
        grown(store, f"c{number:02}", 1)
    report = store.sync()
    assert {one.state for one in report.synced} == {"pending"}
    assert far.tries <= 5


def test_i2_an_answer_that_was_lost_does_not_send_twice() -> None:
    far = Failing(lambda _, number: Unavailable("no answer") if number < 3 else None)
    far.is_after = True
    store = pair(far)
    events = grown(store, "c", 3)
    assert store.sync().is_done
    assert far.read("c") == events


def test_however_much_waits_it_is_sent() -> None:
    far = MemoryStore()
    store = pair(far)
    events = sealed(None, [TEXT] * 5_000)
    store.append("c", events, expect=0)
    assert store.sync().is_done
    assert far.read("c", limit=10_000) == events


def test_a_second_sync_says_that_one_is_under_way(tmp_path: Path) -> None:
    url = f"hybrid:{tmp_path}/x.db?far=files:{tmp_path}/far"
    first, second = open_store(url), open_store(url)
    grown(first, "c", 2)
    seen = []
    first.sync(progress=lambda *_: seen.append(second.sync()))
    assert [report.is_under_way for report in seen] == [True]
    assert second.sync().same == 1
    first.close()
    second.close()


def test_i11_how_each_conversation_stands_is_shown(tmp_path: Path) -> None:
    far = Failing(lambda id, _: Denied("no") if id == "b" else None)
    near = open_store(f"sqlite:{tmp_path}/x.db")
    store = HybridStore(near, lambda: far, url="hybrid:test")

    def standing() -> dict[str, tuple[str, int, str]]:
        found = store.sync_status().conversations
        return {one.conversation: (one.state, one.pending, one.reason) for one in found}

    grown(store, "b", 2)
    events = grown(store, "a", 2)
    assert standing() == {"a": ("pending", 2, ""), "b": ("pending", 2, "")}
    store.sync()
    assert standing() == {"a": ("synced", 0, ""), "b": ("blocked", 2, "no")}
    grown(store, "a", 1, before=events[-1])
    assert standing() == {"a": ("pending", 1, ""), "b": ("blocked", 2, "no")}
    store.close()


def test_how_it_stands_is_said_for_each_far_store(tmp_path: Path) -> None:
    for far in ("one", "two"):
        store = open_store(f"hybrid:sqlite:{tmp_path}/x.db?far=files:{tmp_path}/{far}")
        if far == "one":
            grown(store, "c", 2)
        [before] = store.sync_status().conversations
        assert (before.state, before.pending) == ("pending", 2)
        store.sync()
        [after] = store.sync_status().conversations
        assert (after.state, after.pending) == ("synced", 0)
        store.close()


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"device": 3}', b"\xff"])
def test_a_record_that_is_damaged_costs_nothing(damage: bytes, tmp_path: Path) -> None:
    store = open_store(f"hybrid:sqlite:{tmp_path}/x.db?far=files:{tmp_path}/far")
    grown(store, "c", 2)
    store.sync()
    Path(store.derived_path("sync.json")).write_bytes(damage)
    assert store.sync_status().conversations[0].pending == 2
    assert store.sync().same == 1
    assert store.sync_status().conversations[0].state == "synced"
    store.close()


def test_a_sync_says_what_it_did() -> None:
    far = MemoryStore()
    store = pair(far)
    digest = store.put([b"large"])
    body = codec.encode(Artifact(id=ids.artifact_id(digest), digest=digest))
    events = sealed(None, [TEXT, TEXT])
    events += sealed(events[-1], [body], kind="artifact")
    store.append("c", events, expect=0)
    [done] = store.sync().synced
    assert done == Synced(conversation="c", state="synced", pushed=3, contents=1)
    assert b"".join(far.get(digest)) == b"large"
    assert store.sync().same == 1


def test_what_is_only_far_is_fetched() -> None:
    far = MemoryStore()
    events = grown(far, "c", 4)
    far.fork("c", 2, "f")
    store = pair(far)
    assert store.sync().is_done
    assert store.near.read("c") == events
    assert store.near.conversation("f") == far.conversation("f")


def test_what_was_deleted_here_is_not_fetched_again(tmp_path: Path) -> None:
    store = open_store(f"hybrid:{tmp_path}/x.db?far=files:{tmp_path}/far")
    grown(store, "c", 2)
    store.sync()
    store.delete("c")
    store.sync()
    # A thread that heard of the last change names it, which is not a person's asking.
    assert store.sync(["c"], skip_blocked=True).is_done
    assert store.conversations() == []
    with pytest.raises(RefoldError):
        store.read("c")
    store.sync(["c"])
    assert len(store.read("c")) == 2
    store.close()


def test_a_fork_that_went_on_otherwise_is_forked_itself() -> None:
    far = MemoryStore()
    store = pair(far)
    shared = grown(store, "c", 2)
    store.sync()
    theirs = grown(far, "c", 1, before=shared[-1])
    mine = grown(store, "c", 2, before=shared[-1])
    # The fork was made of the first event by a sync that was killed, and somebody went on in it.
    fork = fork_id("c", mine[0])
    store.near.fork("c", 2, fork)
    store.near.append(fork, mine[:1], expect=2)
    other = grown(store, fork, 1, before=mine[0])
    assert store.sync().is_done
    assert store.read("c") == far.read("c") == [*shared, *theirs]
    assert store.read(fork) == far.read(fork) == [*shared, mine[0], *other]
    again = fork_id(fork, mine[1])
    assert store.read(again) == far.read(again) == [*shared, *mine]


def test_a_fork_whose_name_is_taken_blocks_and_loses_nothing() -> None:
    far = MemoryStore()
    store = pair(far)
    shared = grown(store, "c", 2)
    store.sync()
    grown(far, "c", 1, before=shared[-1])
    mine = grown(store, "c", 2, before=shared[-1])
    taken = grown(store, fork_id("c", mine[0]), 4)
    states = {one.conversation: one.state for one in store.sync().synced}
    assert states["c"] == "blocked"
    assert store.read("c") == [*shared, *mine]
    assert store.read(fork_id("c", mine[0])) == taken


def test_i3_a_far_log_that_is_not_a_chain_is_not_taken_in() -> None:
    far = MemoryStore()
    events = grown(far, "c", 3)
    far.logs["c"].events[1] = events[0]
    store = pair(far)
    [blocked] = store.sync().synced
    assert blocked.state == "blocked"
    assert store.conversations() == []
