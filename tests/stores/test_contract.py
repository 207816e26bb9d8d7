"""Every store keeps every clause of the contract."""

from __future__ import annotations

from pathlib import Path

import pytest

from refold.stores import contract
from tests.stores.places import FilesPlace, HastySqlitePlace, MemoryPlace, SqlitePlace

PLACES = {"memory": MemoryPlace, "sqlite": SqlitePlace, "files": FilesPlace}


@pytest.mark.parametrize("clause", contract.CLAUSES, ids=contract.name)
@pytest.mark.parametrize("kind", PLACES)
def test_the_store_keeps_the_contract(kind: str, clause: contract.Clause, tmp_path: Path) -> None:
    clause(lambda: PLACES[kind](tmp_path))


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["sqlite", "files"])
def test_eight_processes_on_one_log_lose_nothing(kind: str, tmp_path: Path) -> None:
    names = [f"writer-{n}" for n in range(8)]
    for _ in range(5):
        place = PLACES[kind](tmp_path)
        contract.concurrency.in_processes(place.url, names, 300)
        store = place.open()
        contract.concurrency.check_crowd(store, "log", names, 300)
        store.close()


def test_the_contract_can_be_imported_without_a_test_framework() -> None:
    import subprocess
    import sys

    code = "import sys, refold.stores.contract; print([n for n in ('pytest', 'hypothesis') if n in sys.modules])"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout
        == "[]\n"
    )


def test_a_hasty_store_keeps_the_contents_clauses(tmp_path: Path) -> None:
    for clause in contract.logs.CONTENTS:
        clause(lambda: HastySqlitePlace(tmp_path))
