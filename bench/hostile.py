"""Hostile input at every door: nothing but refold's own errors comes out, nothing hangs, nothing is
lost.

    python -m bench hostile

Each input is given to a new conversation, by a seed that names it. After it the log must be as it
was if it was refused, the context must go on (append, and a request in four dialects), and another
context that opens the same log must show the same page. Neighbours: `hostile_doors`,
`hostile_values`.
"""

from __future__ import annotations

import random
import tempfile
import threading
import traceback
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct

import refold
from bench.hostile_doors import DOORS, RESIZING
from bench.hostile_values import KINDS
from bench.tables import Table
from refold.dialects import DIALECTS, dialect
from refold.display import failure

INPUTS = 1_029
WAIT_S = 5.0
WINDOW = 24_000
WITNESS = "witness"
WORKED: list[dict[str, Any]] = [
    {"role": "user", "content": "go"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "t1", "type": "function", "function": {"name": "bash", "arguments": "{}"}}
        ],
    },
]


class Case(Struct, frozen=True):
    """One input: a door, a kind of value, and the chance that says where it is put."""

    number: int
    door: str
    kind: str
    seed: int

    def __str__(self) -> str:
        return f"{self.number}: {self.kind} at {self.door} (seed {self.seed})"


class Finding(Struct, frozen=True):
    """What was wrong: another exception, a hang or a loss."""

    case: Case
    what: str
    details: str


class Outcome(Struct, frozen=True):
    """How a case ended: taken, refused, or with a finding; and requests that a provider would
    refuse, by our own strict checks."""

    refused: bool = False
    finding: Finding | None = None
    faults: tuple[str, ...] = ()


def cases(count: int = INPUTS, seed: int = 0) -> Iterator[Case]:
    """So many cases; the first of them meet every door and every kind of value."""
    chance = random.Random(seed)
    doors, kinds = list(DOORS), list(KINDS)
    for number in range(count):
        if number % len(doors) == 0:
            chance.shuffle(doors)
        if number % len(kinds) == 0:
            chance.shuffle(kinds)
        yield Case(
            number,
            doors[number % len(doors)],
            kinds[number % len(kinds)],
            chance.randrange(1 << 32),
        )


def run_case(case: Case, folder: Path) -> Outcome:
    """Gives one input to a new conversation, and looks at it after."""
    store = refold.open_store(_url(case, folder))
    try:
        context = refold.Context(store, "work", window=WINDOW)
        for message in WORKED:
            context.append(message)
        return _run(case, context, folder)
    finally:
        store.close()


def _url(case: Case, folder: Path) -> str:
    """Mostly in memory; every tenth on disk, in each kind of store."""
    place = folder / f"case-{case.number}"
    return {0: f"sqlite:{place}.db", 10: f"files:{place}"}.get(case.number % 20, "memory:")


def _run(case: Case, context: refold.Context, folder: Path) -> Outcome:
    before = [*context.log.events()]
    error = _given(case, context, folder)
    if isinstance(error, TimeoutError):
        return Outcome(finding=Finding(case, "hang", f"longer than {WAIT_S:g} s"))
    if error is not None and not isinstance(error, refold.RefoldError):
        return Outcome(finding=Finding(case, "other exception", _place(error)))
    is_refused = isinstance(error, refold.RefoldError)
    try:
        lost, faults = _lost(case, context, before, wrote_nothing=isinstance(error, refold.Invalid))
    except Exception as after:  # noqa: BLE001 - as above
        lost, faults = f"does not go on: {_place(after)}", []
    finding = Finding(case, "loss", lost) if lost else None
    return Outcome(refused=is_refused, finding=finding, faults=tuple(faults))


def _given(case: Case, context: refold.Context, folder: Path) -> BaseException | None:
    """Gives the input in a thread of its own, so that waiting can end; what it raised."""
    raised: list[BaseException] = []

    def give() -> None:
        try:
            DOORS[case.door](context, folder, KINDS[case.kind](), random.Random(case.seed))
        except BaseException as error:  # noqa: BLE001 - that is what is looked for
            raised.append(error)

    thread = threading.Thread(target=give, daemon=True)
    thread.start()
    thread.join(WAIT_S)
    if thread.is_alive():
        return TimeoutError()
    return raised[0] if raised else None


def _lost(
    case: Case, context: refold.Context, before: list[refold.Event], *, wrote_nothing: bool
) -> tuple[str, list[str]]:
    """What is no longer as it must be; and the faults of the requests."""
    events = [*context.log.events()]
    if events[: len(before)] != before:
        return "the log changed", []
    # `undo` writes before it is refused, which is what it is asked to do here.
    if wrote_nothing and events != before and case.door != "undo":
        return "refused, and written", []
    context.append({"role": "user", "content": WITNESS})
    faults: list[str] = []
    for name in DIALECTS:
        try:
            faults += dialect(name).check(context.request(name))
        except refold.OverBudget:
            if case.door not in RESIZING:
                raise
    again = refold.Context(context._open.store, "work", window=WINDOW)
    if again.view.slots != context.view.slots:
        return "another page after opening it again", faults
    if WITNESS not in str(again.view.slots[-1].message):
        return "what was said after it is gone", faults
    problems = refold.conversations.verify(context._open.store, "work").problems
    # What a provider would refuse is among the faults: unknown kinds of blocks are carried.
    damage = [one for one in problems if one.part != "law"]
    return "; ".join(map(str, damage)), faults


def _place(error: BaseException) -> str:
    """Where an exception was raised, in the package."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "refold" in Path(frame.filename).parts] or frames
    where = f"{Path(ours[-1].filename).name}:{ours[-1].lineno} {ours[-1].name}"
    return f"at {where}: {failure(error):.200}"


def run_all(count: int = INPUTS, seed: int = 0) -> list[tuple[Case, Outcome]]:
    """Every case with its outcome."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        return [(case, run_case(case, Path(folder))) for case in cases(count, seed)]


def run(count: int = INPUTS, seed: int = 0) -> list[Table]:
    """The three zeros."""
    done = run_all(count, seed)
    found = [outcome.finding for _, outcome in done if outcome.finding]
    sums = Counter(finding.what for finding in found)
    table = Table(f"{len(done):,} hostile inputs, seed {seed}", ["what", "number", "goal", "met"])
    for what in ("other exception", "hang", "loss"):
        table.at_most(what, sums[what], 0)
    refused = sum(outcome.refused for _, outcome in done)
    table.note(
        f"{len(DOORS)} doors, {len(KINDS)} kinds of values; {refused:,} were refused by an error of "
        f"refold, {len(done) - refused - len(found):,} taken."
    )
    faulty = sum(bool(outcome.faults) for _, outcome in done)
    table.note(f"After {faulty:,} of them a strict check finds a fault in one of four requests.")
    for finding in found[:20]:
        table.note(f"{finding.what}: {finding.case}: {finding.details}")
    return [table]
