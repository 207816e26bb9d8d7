"""What becomes of syncs under faults: the real client and routes, in worlds where calls are lost,
doubled and late, devices die at any step, are cut off, cloned or never come back, disks forget what
was not flushed, clocks are a day wrong and a server is put back from a backup.

Every schedule follows from its number. One that breaks a promise is listed with it.
"""

from __future__ import annotations

import re
from collections import Counter

from bench.tables import Table

SCHEDULES, ACTIONS = 10_000, 40
SHOWN_MAX, OTHER = 20, "something else"
PROMISES = {
    "I1": "lost",
    "I2": "doubled",
    "I3": "a chain or an artifact is broken",
    "I5": "not the same everywhere",
    "I7": "a chain or an artifact is broken",
    "I9": "erased and still there",
    "I11": "did not end",
    "no end": "did not end",
}


def run(schedules: int = SCHEDULES) -> list[Table]:
    # Tests are not part of what is installed: only this measure needs them.
    from tests.stores.hybrid.world import World, check_all

    happened: Counter[str] = Counter()
    broken: Counter[str] = Counter()
    failed: list[str] = []
    for seed in range(schedules):
        world = World(seed)
        try:
            world.run(ACTIONS)
            check_all(world)
        except AssertionError as error:
            broken[_promise(str(error))] += 1
            failed.append(f"{seed}: {error}"[:200])
        happened += world.happened
    table = Table(f"{schedules:,} schedules of {ACTIONS} actions", ["what", "number", "goal", ""])
    for what, number in sorted(happened.items()):
        table.add(what, number, "", "")
    for what in dict.fromkeys([*PROMISES.values(), OTHER]):
        table.at_most(f"schedules: {what}", broken[what], 0)
    for line in failed[:SHOWN_MAX]:
        table.note(line)
    return [table]


def _promise(error: str) -> str:
    found = re.search(r"I\d+|no end", error)
    return PROMISES.get(found[0] if found else "", OTHER)
