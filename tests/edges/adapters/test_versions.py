"""An adapter says so if the installed framework is not one that it knows."""

from __future__ import annotations

import logging
import re
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from refold.edges.adapters.guest import check_version
from refold.errors import Invalid

ROOT = Path(__file__).parent.parent.parent.parent
ADAPTERS = sorted(
    file
    for file in (ROOT / "src/refold/edges/adapters").glob("*.py")
    if file.stem not in ("__init__", "guest")
)
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"][
    "optional-dependencies"
]


@pytest.mark.parametrize("adapter", ADAPTERS, ids=lambda file: file.stem)
def test_every_adapter_checks_the_version_of_its_framework(adapter: Path) -> None:
    extra = adapter.stem.replace("_", "-")
    assert f'check_version("{extra}")' in adapter.read_text("utf-8")
    [named, *_] = EXTRAS[extra]
    assert re.fullmatch(r"[\w.-]+>=[0-9.]+,<[0-9.]+", named)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 4), st.integers(0, 80), st.sampled_from(["", ".0", ".7", "rc1", ".post1"]))
def test_an_older_framework_is_refused_and_a_newer_one_is_reported(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    major: int,
    minor: int,
    end: str,
) -> None:
    caplog.clear()
    requirement = "pydantic-ai-slim<3,>=2.66"
    lines = ["apsw>=3.46", 'langchain<2,>=1.3; extra == "langchain"']
    lines.append(f'{requirement}; extra == "pydantic-ai"')
    version = f"{major}.{minor}{end}"
    monkeypatch.setattr(metadata, "requires", lambda _: lines)
    monkeypatch.setattr(metadata, "version", {"pydantic-ai-slim": version}.__getitem__)
    with caplog.at_level(logging.WARNING, "refold.adapters"):
        if (major, minor) < (2, 66):
            with pytest.raises(Invalid, match=f"pydantic-ai-slim {version} is older") as refusal:
                check_version("pydantic-ai")
            assert refusal.value.hint == f"pip install '{requirement}'"
        else:
            check_version("pydantic-ai")
    assert ("is newer than this adapter knows" in caplog.text) == (major >= 3)
