from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, and nothing of this machine's own."""
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for name in ("CLAUDE_PROJECT_DIR", "CLAUDE_CONFIG_DIR", "REFOLD_STORE"):
        monkeypatch.delenv(name, raising=False)
    return folder


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The processes that events would start: none is."""
    commands: list[list[str]] = []
    monkeypatch.setattr(
        "subprocess.Popen",
        lambda command, **_: commands.append(command),
    )
    return commands
