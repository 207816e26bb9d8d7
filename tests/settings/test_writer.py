"""Where the writer's settings come from, and that the files of a project never choose an address
or a key alone."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from string import ascii_letters, digits

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from refold.config import Config
from refold.edges.endpoints.writer import configured
from refold.errors import Denied, Invalid, Unavailable
from refold.settings import permissions
from refold.settings.sources import ASKED_FOR, KEY_DOMAINS, WRITER_FIELDS, requested, writer_loaded

EVIL = "https://evil.example/v1"


def allow_all(folder: Path, environ: dict[str, str]) -> None:
    """What `refold allow` does."""
    request = requested(folder, environ)
    assert request is not None
    permissions.allow(request, environ)


def written(folder: Path, **table: str) -> dict[str, str]:
    """A project whose file has these writer's settings; gives an environment with nothing
    allowed."""
    lines = [f'{name} = "{value}"' for name, value in table.items()]
    (folder / "refold.toml").write_text("\n".join(["[writer]", *lines]) + "\n")
    return {"XDG_DATA_HOME": str(folder / "data")}


def test_the_writer_is_named_in_files_environment_and_arguments(tmp_path: Path) -> None:
    table = 'url = "http://localhost:1/v1"\nmodel = "a"\nwindow = 5000\n'
    (tmp_path / "refold.toml").write_text(f"[writer]\n{table}")
    (tmp_path / "pyproject.toml").write_text(
        '[tool.refold.writer]\nmodel = "b"\nkey_env = "MY_KEY"\n'
    )
    environ = {"REFOLD_WRITER_MODEL": "7", "REFOLD_WRITER_TRIES": "2", "REFOLD_WRITER_WAIT_S": "1"}
    environ["XDG_DATA_HOME"] = str(tmp_path / "data")
    allow_all(tmp_path, environ)
    found = writer_loaded({"kind": "gemini"}, folder=tmp_path, environ=environ)
    assert (found.url, found.model, found.window, found.tries) == (
        "http://localhost:1/v1",
        "7",
        5_000,
        2,
    )
    assert (found.key_env, found.kind) == ("MY_KEY", "gemini")


@pytest.mark.parametrize("table", ['key = "sk-1"', "window = []", "wnidow = 1"])
def test_a_bad_table_is_refused_and_a_key_in_it_above_all(table: str, tmp_path: Path) -> None:
    (tmp_path / "refold.toml").write_text(f"[writer]\n{table}\n")
    with pytest.raises(Invalid) as caught:
        writer_loaded(folder=tmp_path, environ={})
    assert "environment" in (caught.value.hint or "")
    assert "sk-1" not in f"{caught.value} {caught.value.hint}"


def test_a_table_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "refold.toml").write_text("writer = 3\n")
    with pytest.raises(Invalid, match="not a table"):
        writer_loaded(folder=tmp_path, environ={})


def test_a_configured_writer_is_an_endpoint_and_without_an_address_there_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert configured() is None
    monkeypatch.setenv("REFOLD_WRITER_URL", "http://localhost:1/v1")
    with pytest.raises(Invalid, match="no model"):
        configured()
    writer = configured(model="small", window=9_000)
    assert writer is not None
    assert (writer.url, writer.model, writer.window) == ("http://localhost:1/v1", "small", 9_000)


# --- trust ---


def test_an_address_of_a_file_is_denied_until_it_is_allowed(tmp_path: Path) -> None:
    environ = written(tmp_path, url=EVIL, key_env="GITHUB_TOKEN")
    with pytest.raises(Denied, match=r"evil\.example with the key in GITHUB_TOKEN") as caught:
        writer_loaded(folder=tmp_path, environ=environ)
    assert "refold allow" in caught.value.hint
    allow_all(tmp_path, environ)
    found = writer_loaded(folder=tmp_path, environ=environ)
    assert (found.url, found.key_env) == (EVIL, "GITHUB_TOKEN")


def test_what_was_allowed_can_be_revoked(tmp_path: Path) -> None:
    environ = written(tmp_path, url=EVIL)
    allow_all(tmp_path, environ)
    request = requested(tmp_path, environ)
    assert request is not None
    permissions.revoke(request, environ)
    with pytest.raises(Denied):
        writer_loaded(folder=tmp_path, environ=environ)


VALUES = st.text(ascii_letters + digits, min_size=1, max_size=8)
PAIRS = st.tuples(VALUES.map(lambda host: f"https://{host}.example/v1"), VALUES)


@given(allowed=PAIRS, found=PAIRS)
@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    max_examples=40,
)
def test_only_the_very_values_that_were_allowed_are_used(
    allowed: tuple[str, str], found: tuple[str, str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("project")
    allow_all(folder, written(folder, url=allowed[0], key_env=allowed[1]))
    environ = written(folder, url=found[0], key_env=found[1])
    if allowed == found:
        assert writer_loaded(folder=folder, environ=environ).url == found[0]
    else:
        with pytest.raises(Denied):
            writer_loaded(folder=folder, environ=environ)


def test_what_is_allowed_in_one_folder_is_not_in_another(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    first.mkdir()
    second.mkdir()
    environ = written(first, url=EVIL)
    written(second, url=EVIL)
    allow_all(first, environ)
    with pytest.raises(Denied):
        writer_loaded(folder=second, environ=environ)


def test_a_variable_of_the_environment_is_asked_for_together_with_the_address(
    tmp_path: Path,
) -> None:
    environ = written(tmp_path, url=EVIL)
    allow_all(tmp_path, environ)
    environ["REFOLD_WRITER_KEY_ENV"] = "OPENAI_API_KEY"
    with pytest.raises(Denied, match="OPENAI_API_KEY"):
        writer_loaded(folder=tmp_path, environ=environ)


def test_a_key_of_a_file_does_not_go_to_another_address(tmp_path: Path) -> None:
    environ = written(tmp_path, url="https://a.example", key_env="GITHUB_TOKEN")
    given = writer_loaded({"url": EVIL}, folder=tmp_path, environ=environ)
    environ["REFOLD_WRITER_URL"] = EVIL
    from_environment = writer_loaded(folder=tmp_path, environ=environ)
    assert given.key_env == from_environment.key_env == ""


@pytest.mark.parametrize("key_env", KEY_DOMAINS)
def test_a_providers_key_goes_to_its_provider_or_to_whom_the_caller_names_with_it(
    key_env: str, tmp_path: Path
) -> None:
    for host in (EVIL, f"https://{KEY_DOMAINS[key_env][0]}.evil.example"):
        environ = written(tmp_path, url=host)
        allow_all(tmp_path, environ)
        with pytest.raises(Denied, match=key_env):
            writer_loaded({"key_env": key_env}, folder=tmp_path, environ=environ)
        both = {"url": host, "key_env": key_env}
        assert writer_loaded(both, folder=tmp_path, environ=environ).key_env == key_env
    environ = written(tmp_path, url=f"https://api.{KEY_DOMAINS[key_env][0]}/v1")
    allow_all(tmp_path, environ)
    found = writer_loaded({"key_env": key_env}, folder=tmp_path, environ=environ)
    assert found.key_env == key_env


def test_what_the_user_says_needs_no_asking(tmp_path: Path) -> None:
    own = {"REFOLD_WRITER_URL": EVIL, "REFOLD_WRITER_KEY_ENV": "MY_KEY"}
    assert writer_loaded(folder=tmp_path, environ=own).key_env == "MY_KEY"
    both = {"url": EVIL, "key_env": "MY_KEY"}
    assert writer_loaded(both, folder=tmp_path, environ={}).url == EVIL


def test_a_table_without_an_address_needs_no_asking(tmp_path: Path) -> None:
    environ = written(tmp_path, model="small")
    assert writer_loaded({"url": EVIL}, folder=tmp_path, environ=environ).model == "small"


def test_answers_are_kept_for_their_owner_only_and_never_in_the_project(tmp_path: Path) -> None:
    written(tmp_path, url=EVIL)
    environ = {"XDG_DATA_HOME": "relative", "HOME": str(tmp_path / "home")}
    allow_all(tmp_path, environ)
    folder = tmp_path / "home" / ".local" / "share" / "refold" / "allowed"
    [file] = folder.iterdir()
    assert stat.S_IMODE(os.stat(file).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700


def test_a_data_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    environ = written(tmp_path, url=EVIL)
    (tmp_path / "data").write_text("a file")
    with pytest.raises(Unavailable, match="cannot be written"):
        allow_all(tmp_path, environ)


def test_no_other_setting_of_a_file_names_a_host_a_variable_or_a_command() -> None:
    telling = ("url", "host", "env", "command", "path", "key", "address", "program", "folder")
    names = {*Config.__struct_fields__, *WRITER_FIELDS}
    found = {name for name in names if set(telling) & set(name.split("_"))}
    assert found == set(ASKED_FOR)
