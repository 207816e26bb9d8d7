"""What helps to test a program that uses refold: a writer that plays prepared answers, a clock that
stands still, and the contract that every store keeps.

    with refold.testing.fixed_clock(1_700_000_000_000) as clock:
        context = refold.open("test", store="memory:", writer=ScriptedWriter("Goal: …"))
        clock.advance(hours=2)

A `memory:` store needs no files. `CLAUSES` are the clauses of the store contract; `stores.contract`
says how to run them on a store of your own.
"""

from __future__ import annotations

from refold.stores.contract import CLAUSES, Clause, Make, Place, name
from refold.testing.clock import Clock, fixed_clock
from refold.testing.writer import ScriptedWriter

__all__ = ["CLAUSES", "Clause", "Clock", "Make", "Place", "ScriptedWriter", "fixed_clock", "name"]
