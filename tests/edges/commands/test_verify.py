"""`refold verify`: what is wrong, and where."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.edges.cli.rooms import as_json, run

pytestmark = pytest.mark.usefixtures("alone")


def test_verify_says_what_is_wrong_and_where(url: str, tmp_path: Path) -> None:
    assert (
        "1 conversation, 21 events, 1 artifact checked: everything is as it was written."
        in run("verify").stdout
    )
    assert as_json("verify", "fix-login")["ok"] is True
    [file] = (tmp_path / ".refold" / "artifacts").glob("art-*")
    file.write_bytes(b"changed")
    result = run("verify")
    assert result.exit_code == 5 and str(file) in result.stdout and "fix-login #" in result.stdout
    report = json.loads(run("verify", "--json").stdout)
    assert report["ok"] is False and report["problems"][0]["part"] == "artifact"
