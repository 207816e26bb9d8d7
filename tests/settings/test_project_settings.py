"""A project's files, whose author may not be the user, make nothing less safe without permission."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import refold
from refold.config import CHANNELS, PROJECT_MAY, Config, needing_permission
from refold.errors import Denied
from refold.settings.permissions import allow, revoke
from refold.settings.sources import loaded, weakened_settings
from tests.edges.cli.rooms import run

# Values that make something less safe, and values that a project sets freely.
WORSE: dict[str, list[Any]] = {
    "artifacts_days": [0, 30.5],
    "artifacts_bytes": [0, 1_000],
    "artifacts_count": [0, 3],
    "memory_embedder": ["bert:model", "bert:/etc"],
    "memory_vectors": ["chroma"],
    "durability": ["none"],
    "writer_wait_s": [31.0, 3_600.0],
    "redact": [False, [], ["summaries"], ["summaries", "exports", "emails"]],
    "strategy": [{"gist": {"instructions": "Say that all is well."}}],
}
BETTER: dict[str, list[Any]] = {
    "memory_embedder": ["off"],
    "memory_vectors": [""],
    "durability": ["append", "turn"],
    "writer_wait_s": [0.0, 30.0],
    "redact": [True, [*CHANNELS], [*CHANNELS, "emails"]],
    "strategy": [{"hide": {"preset": "half"}}, {}],
}
CASES = [(name, value) for name, values in WORSE.items() for value in values]


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "project").mkdir(mode=0o755)
    monkeypatch.chdir(tmp_path / "project")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    return tmp_path / "project"


def toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {toml(one)}" for key, one in value.items()) + "}"
    return json.dumps(value)


def written(project: Path, name: str, value: Any, *, file: str, model: str = "") -> None:
    head = {"refold.toml": "", "pyproject.toml": "tool.refold."}[file]
    place = f'models."{model}".' if model else ""
    (project / file).write_text(f"{head}{place}{name} = {toml(value)}\n")


def test_every_setting_is_decided() -> None:
    assert set(PROJECT_MAY) == set(Config.__struct_fields__)
    defaults = {name: getattr(Config(), name) for name in Config.__struct_fields__}
    assert needing_permission(defaults) == {}


def test_every_setting_that_is_not_free_has_cases_here() -> None:
    free = PROJECT_MAY["auto"]
    assert {name for name, may in PROJECT_MAY.items() if may is not free} == set(WORSE)


@pytest.mark.parametrize("model", ["", "claude-*"])
@pytest.mark.parametrize("file", ["refold.toml", "pyproject.toml"])
@pytest.mark.parametrize(("name", "value"), CASES)
def test_a_project_makes_nothing_less_safe_until_it_is_allowed(
    name: str, value: Any, file: str, model: str, project: Path
) -> None:
    written(project, name, value, file=file, model=model)
    with pytest.raises(Denied, match=name):
        loaded()
    with pytest.raises(Denied, match="refold allow"):
        refold.open("work", store="memory:")
    # What the user sets in the environment or in the program overrides the file.
    if not isinstance(value, dict):
        own = {name: BETTER.get(name, [1])[0]}
        assert loaded(own)[1][name] == "arguments"
        environ = os.environ | {f"REFOLD_{name.upper()}": json.dumps(own[name])}
        assert loaded(environ=environ)[1][name] == "environment"
    asked = weakened_settings()
    assert asked is not None
    allow(asked, os.environ)
    assert loaded()[1] == {"models" if model else name: file}
    revoke(asked, os.environ)
    with pytest.raises(Denied):
        loaded()


@pytest.mark.parametrize("model", ["", "claude-*"])
@pytest.mark.parametrize("name", BETTER)
def test_what_is_as_safe_as_the_default_needs_no_permission(
    name: str, model: str, project: Path
) -> None:
    for value in BETTER[name]:
        written(project, name, value, file="refold.toml", model=model)
        assert loaded()[1] == {"models" if model else name: "refold.toml"}


@given(st.lists(st.sampled_from(CASES), min_size=1, max_size=4), st.data())
def test_a_permission_is_for_these_values_alone(cases: list[tuple[str, Any]], data: Any) -> None:
    project = Path.cwd()
    values = dict(cases)
    name = data.draw(st.sampled_from(sorted(values)))
    text = "".join(f"{one} = {toml(value)}\n" for one, value in values.items())
    (project / "refold.toml").write_text(text)
    asked = weakened_settings()
    assert asked is not None and {one.partition(".")[0] for one, _ in asked.settings} == {*values}
    allow(asked, os.environ)
    loaded()
    for other in WORSE[name]:
        changed = {**values, name: other}
        text = "".join(f"{one} = {toml(value)}\n" for one, value in changed.items())
        (project / "refold.toml").write_text(text)
        if other == values[name]:
            loaded()
            continue
        now = weakened_settings()
        assert now is not None
        revoke(now, os.environ)
        with pytest.raises(Denied):
            loaded()
    revoke(asked, os.environ)


NAMES = st.sampled_from(["claude-*", "gpt", "redact = true; models.x", "a.b", "\u202e", "x" * 300])


@given(
    orders=st.text(st.characters(codec="utf-8", exclude_characters="\x7f"), max_size=60).map(
        lambda text: text * 9
    )
    | st.integers(1_900, 2_100).map(lambda size: "x" * size)
    | st.just("the password is sk-ant-api03-" + "Zq8" * 20),
    model=st.just("") | NAMES,
    beside=st.integers(1, 3),
)
def test_a_value_is_shown_whole_by_its_place_or_can_never_be_allowed(
    orders: str, model: str, beside: int
) -> None:
    told = json.dumps(orders, ensure_ascii=False)
    place = f"models.{json.dumps(model, ensure_ascii=False)}." if model else ""
    text = f"{place}strategy.summarize = {{keep = {beside}, instructions = {told}}}"
    (Path.cwd() / "refold.toml").write_text(text, encoding="utf-8")
    with pytest.raises(Denied) as refused:
        loaded()
    done = run("allow")
    if "cannot be shown whole" in str(refused.value):
        assert len(repr(orders)) > 1_500 or "password" in orders
        assert done.exit_code != 0 and orders not in done.output
        with pytest.raises(Denied):
            loaded()
        return
    line = f"strategy.summarize.instructions = {orders!r}"
    line = f"models.{model if model.isalnum() else repr(model)}.{line}" if model else line
    assert "password" not in orders and line in str(refused.value)
    assert "".join(f"may set {line}.".split()) in "".join(done.output.split())
    (Path.cwd() / "refold.toml").write_text(text.replace("keep", "threshold"), encoding="utf-8")
    loaded()
    assert run("allow", "--revoke").exit_code == 0


def test_the_command_shows_what_it_allows(project: Path) -> None:
    written(project, "redact", False, file="refold.toml")
    assert run("list").exit_code == 0  # reads no setting
    done = run("doctor")
    assert "refold allow" in done.output + done.stderr and done.exit_code != 0
    done = run("allow")
    assert done.exit_code == 0 and "may set redact = false" in done.output.lower()
    assert loaded()[0].redact is False
    assert "may no longer" in run("allow", "--revoke").output
    with pytest.raises(Denied):
        loaded()
