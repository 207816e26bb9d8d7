"""Where settings come from, and which names in a shared environment are meant as settings."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import refold
from refold.config import NUMBERS, Config
from refold.errors import Invalid, RefoldError
from refold.settings.sources import PREFIX, loaded, writer_loaded

NOWHERE = Path("/nowhere")
FOREIGN = (
    "REFOLD_BENCH_DATA",
    "REFOLD_BENCH_PEERS",
    "REFOLD_DATA",
    "REFOLD_STORE",
    "REFOLD_WRITER_URL",
    "REFOLD_X",
)


@pytest.mark.parametrize("name", FOREIGN)
def test_a_variable_of_somebody_else_is_no_setting(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(name, "memory:")
    assert loaded() == (Config(), {})
    refold.open("work").close()


@pytest.mark.parametrize(
    "name", ["WARN_RATO", "TARGET_RATIOS", "KEEPRECENT", "TOKEN_CAP", "WRITER_WAIT"]
)
def test_a_variable_that_is_nearly_a_setting_is_refused_with_its_name(
    name: str, tmp_path: Path
) -> None:
    with pytest.raises(Invalid, match=name.lower()) as caught:
        loaded(folder=tmp_path, environ={f"{PREFIX}{name}": "1"})
    assert (caught.value.hint or "").startswith("did you mean")


@pytest.mark.parametrize("name", Config.__struct_fields__)
def test_every_setting_can_stand_in_the_environment(name: str, tmp_path: Path) -> None:
    value = {
        "durability": "none",
        "memory_extract": "ask",
        "memory_embedder": "semantic",
        "memory_vectors": "chroma",
        "ladder": '["hide"]',
        "dialect": "anthropic",
        "tool_kinds": "{}",
        "strategy": "{}",
        "compact_when": "[]",
        "models": "{}",
    }
    texts = {
        "exclude_tools": "[]",
        "compact_share": "0.4",
        "memory_threshold": "0.4",
        "auto": "false",
        "writer_checks": "true",
        "cache": "false",
        "alternate_roles": "true",
        "redact": "false",
        "force": "true",
        **value,
    }
    text = texts.get(name, "0.85" if name == "warn_ratio" else "0.9" if "ratio" in name else "7000")
    _, origins = loaded(folder=tmp_path, environ={f"{PREFIX}{name.upper()}": text})
    assert origins == {name: "environment"}


def test_files_environment_and_arguments_win_in_this_order(tmp_path: Path) -> None:
    """G-62"""
    (tmp_path / "refold.toml").write_text(
        'keep_recent = 1\ntokens_cap = 1\n[writer]\nurl = "http://localhost"\n'
    )
    (tmp_path / "pyproject.toml").write_text("[tool.refold]\nkeep_recent = 2\n")
    config, origins = loaded(
        {"keep_recent": 4}, folder=tmp_path, environ={"REFOLD_KEEP_RECENT": "3"}
    )
    assert (config.keep_recent, config.tokens_cap) == (4, 1)
    assert origins == {"keep_recent": "arguments", "tokens_cap": "refold.toml"}


DEFAULTS = {name: getattr(Config(), name) for name in Config.__struct_fields__}
OTHERWISE = {
    "warn_ratio": 0.5, "compact_ratio": 0.85, "critical_ratio": 0.99, "target_ratio": 0.4,
    "ladder": ["hide"], "auto": False, "exclude_tools": ["x"], "tool_kinds": {"save": "modify"},
    "cache": False, "durability": "none", "redact": False, "dialect": "gemini", "force": True,
    "strategy": {"hide": {"preset": "half"}}, "writer_wait_s": 1.5,
    "models": {"gpt-*": {"force": True}}, "compact_when": [{"tokens": 7}],
}  # fmt: skip


@pytest.mark.parametrize("name", DEFAULTS)
@pytest.mark.parametrize("as_config", [True, False])
def test_an_argument_wins_over_a_file_also_where_it_is_the_default(
    name: str, as_config: bool, tmp_path: Path
) -> None:
    other = OTHERWISE.get(name, 7)
    environ = {f"{PREFIX}{name.upper()}": json.dumps(other), "REFOLD_MESSAGES_CAP": "9"}
    given = {name: DEFAULTS[name]}
    config, origins = loaded(
        Config(**given) if as_config else given, folder=tmp_path, environ=environ
    )
    assert getattr(config, name) == DEFAULTS[name] != other
    assert origins[name] == "arguments"
    assert config.messages_cap == (DEFAULTS[name] if name == "messages_cap" else 9)


def test_a_name_in_a_file_or_an_argument_that_is_no_setting_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="writer"):
        loaded({"writer": {}}, folder=tmp_path, environ={})
    (tmp_path / "refold.toml").write_text("bench_data = 1\n")
    with pytest.raises(Invalid, match="bench_data"):
        loaded(folder=tmp_path, environ={})


# --- settings that are at fault ---

NESTED = ("[" * 3_000 + "]" * 3_000, '{"a":' * 3_000, "[" * 5_000)
HOSTILE = st.one_of(
    st.text(st.characters(), max_size=30),
    st.sampled_from(["\udc83", "nan", "-1", "1e400", "9" * 5_000, "null", "{}", "[]", *NESTED]),
    st.from_type(float).map(repr),
)


@given(st.sampled_from([*Config.__struct_fields__, "writer_url", "writer_window"]), HOSTILE)
def test_a_variable_is_a_setting_or_is_refused_whatever_it_holds(name: str, text: str) -> None:
    environ = {f"{PREFIX}{name.upper()}": text}
    with suppress(RefoldError):
        loaded(folder=NOWHERE, environ=environ)
    with suppress(RefoldError):
        writer_loaded(folder=NOWHERE, environ=environ)


@given(
    content=st.one_of(
        st.binary(max_size=60), HOSTILE.map(lambda text: f"a = {text}".encode("utf-8", "replace"))
    )
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_a_file_is_settings_or_is_refused_whatever_it_holds(content: bytes, tmp_path: Path) -> None:
    for name in ("refold.toml", "pyproject.toml"):
        (tmp_path / name).write_bytes(content)
    for read in (loaded, writer_loaded):
        with suppress(RefoldError):
            read(folder=tmp_path, environ={})


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("value", [float("nan"), float("inf"), 10**40, -1])
def test_a_number_that_is_none_or_has_no_end_is_refused(name: str, value: float) -> None:
    with pytest.raises(Invalid, match=name):
        loaded({name: value}, folder=NOWHERE, environ={})


@pytest.mark.parametrize("config", ["x", [1], 7, b"x", {5: 1}, {"strategy": {1: 2}}])
def test_what_is_no_configuration_is_refused(config: Any) -> None:
    with pytest.raises(Invalid):
        refold.open("x", store="memory:", config=config)
