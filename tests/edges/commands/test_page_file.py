"""`refold show --html`: a file for a browser."""

from __future__ import annotations

from pathlib import Path

import pytest

from refold.edges.displays.browser import MARK
from refold.errors import OUTCOMES
from refold.stores import open_store
from tests.edges.cli.rooms import run
from tests.edges.displays.test_browser import filled


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("form", [(), ("--format", "plain")])
def test_the_command_writes_the_file_and_replaces_only_its_own(
    tmp_path: Path, form: tuple[str, ...]
) -> None:
    """X-46"""
    url = f"sqlite:{tmp_path / 'x.db'}"
    store = open_store(url)
    filled(store, 8).close()
    store.close()
    for _ in range(2):
        done = run("show", "talk", "--html", "talk.html", "--store", url, *form)
        assert done.exit_code == 0 and "open it in a browser" in done.stdout
    file = Path("talk.html")
    assert MARK in file.read_text()[:100] and file.stat().st_mode & 0o077 == 0
    assert ("<script>" in file.read_text()) == (not form)
    file.write_text("mine")
    done = run("show", "talk", "--html", "talk.html", "--store", url)
    assert done.exit_code == OUTCOMES["conflict"][1] and file.read_text() == "mine"
    for target in ("mine.html", "none.html", "talk.html"):
        link = Path("link.html")
        link.symlink_to(target)
        before = sorted(Path().iterdir())
        done = run("show", "talk", "--html", "link.html", "--store", url)
        assert done.exit_code == OUTCOMES["conflict"][1] and link.is_symlink()
        assert sorted(Path().iterdir()) == before
        link.unlink()
    assert run("show", "talk", "1", "--html", "x.html", "--store", url).exit_code == 2
    assert run("show", "talk", "--html", "none/x.html", "--store", url).exit_code != 0
