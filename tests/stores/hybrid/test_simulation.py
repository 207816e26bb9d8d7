"""Whatever is lost, doubled, delayed, killed, cut, cloned or restored: nothing is lost, nothing is
said twice, and everybody ends with the same. A failing schedule names its seed."""

from __future__ import annotations

import pytest

from refold.core.codec import to_line
from refold.core.model import ENCRYPTED
from refold.stores.encrypted.keys import Key, Keys
from refold.stores.hybrid.conversation_sync import Exchange, all_conversations
from tests.stores.hybrid.planted import BUGS
from tests.stores.hybrid.world import World, check_all

ACTIONS = 40
CHUNKS, CHUNK, ENCRYPTED_CHUNKS = 10, 30, 4
SOAK = 10_000


def run(seed: int, exchange: type[Exchange] = Exchange, keys: Keys | None = None) -> World:
    world = World(seed, exchange, keys=keys)
    world.run(ACTIONS)
    check_all(world)
    return world


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_i1_to_i5_i7_i9_and_i11_hold_under_every_schedule(chunk: int) -> None:
    worlds = [run(seed) for seed in range(chunk * CHUNK, (chunk + 1) * CHUNK)]
    # A world in which nothing goes wrong would show nothing.
    assert sum(sum(1 for _ in all_conversations(world.server)) > 2 for world in worlds) > CHUNK / 2


@pytest.mark.parametrize("seed", [1253, 2295, 5716, 20284, 20410, 20599, 21254])
def test_a_schedule_that_once_failed_holds(seed: int) -> None:
    run(seed)


@pytest.mark.parametrize("chunk", range(ENCRYPTED_CHUNKS))
def test_the_same_holds_where_the_server_can_read_nothing(chunk: int) -> None:
    keys = Keys(path="a.key", keys=(Key(b"k" * 32),))
    for seed in range(chunk * CHUNK, (chunk + 1) * CHUNK):
        world = run(seed, keys=keys)
        logs = [world.server.read(one.id, limit=10_000) for one in all_conversations(world.server)]
        assert {event.by for log in logs for event in log} == {ENCRYPTED}


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.__name__)
def test_a_planted_bug_is_caught(bug: type[Exchange]) -> None:
    with pytest.raises(AssertionError, match=r"I\d|no end"):
        for seed in range(CHUNKS * CHUNK):
            run(seed, bug)


def test_one_seed_is_one_history() -> None:
    def told(world: World) -> list[list[bytes]]:
        logs = [world.server.read(one.id) for one in all_conversations(world.server)]
        return [[to_line(event) for event in log] for log in logs]

    assert told(run(7)) == told(run(7))


@pytest.mark.soak
def test_ten_thousand_schedules() -> None:
    for seed in range(SOAK):
        run(seed)
