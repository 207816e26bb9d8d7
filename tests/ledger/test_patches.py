"""The files that a patch changes."""

from __future__ import annotations

from refold.ledger.scripts import patched


def test_a_unified_diff_names_its_files() -> None:
    diff = (
        "--- a/x.py\n+++ b/x.py\n@@\n-1\n+2\n--- /dev/null\n+++ b/new\n--- a/old\n+++ /dev/null\n"
    )
    assert patched(diff) == [("modify", "x.py"), ("create", "new"), ("delete", "old")]
    assert patched("*** Update File: a\n*** Move to: b\n") == [("delete", "a"), ("create", "b")]
