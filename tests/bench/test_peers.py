"""The measure of the peers: our adapter for its harness, and its table."""

from __future__ import annotations

from pathlib import Path

from bench.peers import table_of
from bench.peers_adapter import Adapter


def test_the_adapter_for_the_peers_harness_survives_a_reopen(tmp_path: Path) -> None:
    adapter = Adapter(str(tmp_path), "")
    adapter.open(new=True)
    adapter.seed([{"role": "user", "content": "go"}])
    call = {
        "role": "assistant",
        "content": "x",
        "call": {"id": "c1", "name": "bash", "args": {"cmd": "ls"}},
    }
    adapter.turn_append([call, {"role": "tool", "call_id": "c1", "name": "bash", "content": "out"}])
    assert adapter.prepare() == 3
    assert adapter.count() > 0
    adapter.close()
    adapter.open(new=False)
    assert adapter.prepare() == 3
    adapter.close()


def test_peers_are_shown_as_ratios_to_the_floor_with_the_reason_of_what_failed() -> None:
    rows = [
        {"peer": "floor:sqlite_full", "n": 100, "turn_cpu_us_median": 200.0},
        {"peer": "ours:refold", "n": 100, "turn_cpu_us_median": 400.0},
        {"peer": "other", "n": 100, "error": "no such module"},
    ]
    text = str(table_of(rows, {"adk": "no wheel"}))
    assert "2.000" in text
    assert "other: no such module" in text
    assert "adk was not installed: no wheel" in text
