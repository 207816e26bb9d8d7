"""A synced store is its near store: it keeps the contract, whatever the far store does."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

import pytest

from refold.errors import Conflict, Invalid, NotFound, Unavailable
from refold.log.log import Log
from refold.settings import logins
from refold.stores import Store, contract, open_store, reading_store
from refold.stores.contract.kit import grown, sealed
from refold.stores.hybrid.address import address_of
from refold.stores.hybrid.store import HybridStore
from refold.stores.hybrid.sync_record import Move, Moves
from refold.stores.in_memory import MemoryStore


class Place:
    """A near store of a kind, with a folder as the far one."""

    def __init__(self, root: Path, kind: str) -> None:
        folder = root / secrets.token_hex(4)
        near = {"sqlite": f"sqlite:{folder}/near.db", "files": f"files:{folder}/near"}[kind]
        self.url = f"hybrid:{near}?far=files:{folder}/far"

    def open(self) -> Store:
        return open_store(self.url)


@pytest.mark.parametrize("clause", contract.CLAUSES, ids=contract.name)
@pytest.mark.parametrize("kind", ["sqlite", "files"])
def test_the_hybrid_store_keeps_the_contract(
    kind: str, clause: contract.Clause, tmp_path: Path
) -> None:
    clause(lambda: Place(tmp_path, kind))


class Silent(MemoryStore):
    """A far store that is down."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    def __getattribute__(self, name: str):
        if name in (
            "head",
            "conversation",
            "conversations",
            "read",
            "append",
            "put",
            "get",
            "fork",
        ):
            self.asked += 1
            raise Unavailable("down")
        return super().__getattribute__(name)


def pair(far: MemoryStore) -> HybridStore:
    return HybridStore(MemoryStore(), lambda: far, url="hybrid:test")


def test_an_append_never_asks_the_far_store() -> None:
    far = Silent()
    store = pair(far)
    grown(store, "c", 5)
    assert [event.seq for event in store.read("c")] == [1, 2, 3, 4, 5]
    assert far.asked == 0


def test_what_is_unknown_near_is_fetched_with_the_same_ids_and_chains() -> None:
    far = MemoryStore()
    events = grown(far, "c", 5)
    far.fork("c", 3, "f")
    assert pair(far).read("c") == events
    store = pair(far)
    assert store.read("f") == events[:3]
    assert store.conversation("f").parent == "c"


def test_a_far_store_that_is_down_is_asked_once_and_not_found_is_the_answer() -> None:
    far = Silent()
    store = pair(far)
    for _ in range(3):
        with pytest.raises(NotFound):
            store.read("c")
    assert far.asked == 1


def test_i4_an_append_that_was_sealed_for_another_log_is_refused() -> None:
    far = MemoryStore()
    first, second = pair(far), pair(far)
    events = grown(first, "c", 2)
    first.sync()
    second.sync()
    theirs = grown(second, "c", 1, before=events[-1])
    mine = grown(first, "c", 1, before=events[-1])
    second.sync()
    first.sync()
    assert first.read("c") == [*events, *theirs]
    with pytest.raises(Conflict):
        first.append("c", sealed(mine[-1], [b"{}"]), expect=3)
    first.append("c", sealed(theirs[-1], [b"{}"]), expect=3)


@pytest.mark.parametrize(
    "url",
    [
        "hybrid:",
        "hybrid:x.db",
        "hybrid:?far=files:x",
        "hybrid:x.db?far=",
        "hybrid:https://h/o?far=files:x",
        "hybrid:x.db?far=memory:",
        "hybrid:hybrid:x.db?far=files:y?far=files:z",
        "hybrid:x.db?far=files:y&sync_s=soon",
        "hybrid:x.db?far=files:y&sync_s=-1",
        "hybrid:x.db?far=files:y&sync_s=nan",
        "hybrid:x.db?far=files:y&often=1",
    ],
)
def test_a_url_that_does_not_name_two_stores_is_refused(url: str) -> None:
    with pytest.raises(Invalid) as refusal:
        open_store(url)
    assert refusal.value.hint


def test_reading_a_synced_store_fetches_nothing(tmp_path: Path) -> None:
    far = open_store(f"files:{tmp_path}/far")
    grown(far, "c", 2)
    far.close()
    url = f"hybrid:sqlite:{tmp_path}/near.db?far=files:{tmp_path}/far"
    store = open_store(url)
    grown(store, "here", 1)
    for reader in (reading_store(store), open_store(url, read_only=True)):
        with pytest.raises(NotFound):
            reader.read("c")
        assert len(reader.read("here")) == 1
        reader.close()
    assert len(store.read("c")) == 2
    store.close()


@pytest.mark.parametrize(
    ("far", "options", "sync_s"),
    [
        ("https://refold.example.com/acme", "&sync_s=60", 60.0),
        ("files:/mnt/R&D/refold", "", 0.0),
        ("files:/mnt/R&D/refold", "&redact=hold&sync_s=5", 5.0),
        ("postgresql://u:p%40ss@h/db?org=acme&sslmode=require", "&sync_s=60", 60.0),
        ("postgresql://u@h/db?org=acme&sslmode=require", "", 0.0),
    ],
)
def test_the_far_store_keeps_what_is_its_own(far: str, options: str, sync_s: float) -> None:
    address = address_of(f"sqlite:x.db?far={far}{options}")
    assert (address.near, address.far, address.sync_s) == ("sqlite:x.db", far, sync_s)


def test_a_token_of_the_environment_counts_for_the_far_store() -> None:
    place = "https://refold.example.com/acme"
    environ = {"REFOLD_STORE": f"hybrid:x.db?far={place}&sync_s=60", "REFOLD_TOKEN": "rft_x"}
    assert logins.token_for(place, environ) == "rft_x"
    assert (
        logins.token_for("https://other.example.com/acme", {**environ, "HOME": "/nowhere"}) is None
    )


def test_a_local_store_becomes_a_synced_one_without_a_copy(tmp_path: Path) -> None:
    plain = open_store(f"sqlite:{tmp_path}/x.db")
    events = grown(plain, "c", 3)
    plain.close()
    store = open_store(f"hybrid:sqlite:{tmp_path}/x.db?far=files:{tmp_path}/far")
    assert store.read("c") == events
    store.close()


def test_a_reader_follows_a_log_that_a_sync_replaced(tmp_path: Path) -> None:
    urls = [f"hybrid:sqlite:{tmp_path}/{name}.db?far=files:{tmp_path}/far" for name in ("a", "b")]
    mine, theirs = map(open_store, urls)
    events = grown(mine, "c", 2)
    mine.sync()
    theirs.sync()
    grown(mine, "c", 2, before=events[-1])
    reader = Log(open_store(urls[0], read_only=True), "c")
    grown(theirs, "c", 3, before=events[-1])
    theirs.sync()
    [forked] = mine.sync().synced
    assert reader.catch_up()
    assert reader.conversation == forked.fork
    assert reader.state.head == 4
    for store in (mine, theirs, reader.store):
        store.close()


def test_a_move_by_another_process_is_seen_by_the_next_append(tmp_path: Path) -> None:
    path = str(tmp_path / "sync-moves.jsonl")
    here, there = Moves(path), Moves(path)
    for number in range(3):
        assert not here.enter(f"log {number}")
        here.leave()
        with there.replacing(Move(conversation=f"log {number}", goes_on="fork")):
            pass
        assert here.enter(f"log {number}")
        here.leave()
    # One that begins now knows of all, also if the count was lost.
    os.unlink(tmp_path / "sync-moves.count")
    later = Moves(path)
    assert all(later.enter(f"log {number}") for number in range(3))
    for _ in range(3):
        later.leave()
    for one in (here, there, later):
        one.close()
