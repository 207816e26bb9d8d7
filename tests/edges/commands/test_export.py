"""`refold export` and `refold import`: a conversation as a file, and back."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.edges.cli.rooms import as_json, run

pytestmark = pytest.mark.usefixtures("alone")


def test_an_export_is_imported_into_another_store(url: str, tmp_path: Path) -> None:
    file = str(tmp_path / "a.json")
    assert as_json("export", "fix-login", file)["size_bytes"] == os.path.getsize(file)
    other = f"sqlite:{tmp_path / 'other' / 'refold.db'}"
    assert "is now fix-login" in run("import", file, "--store", other).stdout
    assert as_json("show", "fix-login", "--store", other) == as_json(
        "show", "fix-login", "--store", url
    )
    again = run("import", file, "--store", other)
    assert again.exit_code == 4 and "--id NEW" in again.stderr
    assert as_json("import", file, "--id", "copy", "--store", other)["conversation"] == "copy"
    assert run("verify", "--store", other).exit_code == 0


def test_an_export_goes_through_a_pipe(url: str, tmp_path: Path) -> None:
    exported = run("export", "fix-login", "-").stdout_bytes
    assert json.loads(exported)["format"] == "refold-export"
    assert run("export", "fix-login", "-", "--json").stdout_bytes == exported
    assert run("export", "fix-login", "-", "--format", "markdown").stdout.startswith(
        "# Fix the login test\n"
    )
    imported = run("import", "-", "--id", "copy", input=exported)
    assert imported.exit_code == 0 and "standard input is now copy" in imported.stdout


def test_a_file_that_exists_is_replaced_by_force_only(url: str, tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("mine")
    refused = run("export", "fix-login", "a.md")
    assert refused.exit_code == 4 and "--force" in refused.stderr
    assert run("export", "fix-login", "a.md", "--force").exit_code == 0
    assert (tmp_path / "a.md").read_text().startswith("# Fix the login test")
