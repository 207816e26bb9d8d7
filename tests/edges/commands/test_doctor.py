"""`refold doctor`: what refold runs on, and what to fix."""

from __future__ import annotations

import json
import os
from contextlib import closing
from datetime import date
from pathlib import Path
from types import SimpleNamespace

import pytest

from refold.core import codec, ids
from refold.edges.commands.doctor import MASK, model_findings, without_secrets
from refold.stores import open_store
from tests.edges.cli.rooms import as_json, run

pytestmark = pytest.mark.usefixtures("alone", "lasting")
NEWER = [
    ("vote", b'{"up":1}', "event vote"),
    ("edit", b'{"type":"fold","batch":"b"}', "edit fold"),
    ("message", b'{"role":"user","blocks":[{"type":"smell","of":"rain"}]}', "block smell"),
]
MODEL_INFO = "refold.edges.commands.doctor.model_info"


@pytest.fixture
def lasting(monkeypatch: pytest.MonkeyPatch) -> None:
    """No model retires: what the stories use may do so one day."""
    monkeypatch.setattr(MODEL_INFO, lambda name: SimpleNamespace(retires=""))


def test_doctor_is_content_with_a_sound_installation(url: str) -> None:
    result = run("doctor")
    assert result.exit_code == 0, result.stdout
    for part in (
        "SQLite: 3.",
        "No problems found.",
        "tokens_cap: 256000 (default)",
        "as of 20",
        "WAL: works here",
    ):
        assert part in result.stdout
    assert as_json("doctor")["ok"] is True


def test_doctor_creates_nothing(tmp_path: Path) -> None:
    assert run("doctor").exit_code == 0
    assert os.listdir(tmp_path) == []


def test_doctor_says_where_a_setting_comes_from(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "refold.toml").write_text(
        'warn_ratio = 0.7\n[strategy.gist]\napi_key = "abc123"\nnote = "sk-abcdefghijklmnop1234"'
    )
    monkeypatch.setenv("REFOLD_TOKENS_CAP", "100000")
    text = run("doctor").stdout
    assert "warn_ratio: 0.7 (refold.toml)" in text and "tokens_cap: 100000 (environment)" in text
    assert "abc123" not in text and "sk-abc" not in text and MASK in text


def test_doctor_says_what_to_fix(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.chmod(tmp_path / ".refold" / "refold.db", 0o644)
    os.chmod(tmp_path / ".refold", 0o755)
    monkeypatch.setenv("REFOLD_WARN_RATO", "0.7")
    result = run("doctor")
    assert result.exit_code == 1 and "chmod 600" in result.stdout and "chmod 700" in result.stdout
    assert "did you mean warn_ratio?" in result.stdout and "3 problems found." in result.stdout
    found = json.loads(run("doctor", "--json").stdout)
    assert found["ok"] is False and len(found["problems"]) == 3


def test_doctor_reports_a_store_that_does_not_open(tmp_path: Path) -> None:
    (tmp_path / "a.db").write_bytes(b"nonsense" * 1_000)
    result = run("doctor", "--store", "sqlite:a.db")
    assert result.exit_code == 1 and "opens: " in result.stdout


def test_secrets_are_masked() -> None:
    assert without_secrets("postgresql://me:secret@host/db").startswith("postgresql://me:[redacted")
    assert without_secrets({"a": [{"auth_token": "x", "size": 3}]}) == {
        "a": [{"auth_token": MASK, "size": 3}]
    }
    assert without_secrets({"api_key": ["abc123"], "note": "plain"}) == {
        "api_key": [MASK],
        "note": "plain",
    }


def test_doctor_names_a_misspelt_strategy(url: str, tmp_path: Path) -> None:
    """G-14, G-61"""
    (tmp_path / "refold.toml").write_text('ladder = ["dedupe", "gist", "hide"]\n')
    text = run("doctor").stdout
    assert "there is no strategy 'dedupe'" in text and "did you mean dedup?" in text
    assert "All is well" not in text


@pytest.mark.parametrize(
    ("day", "said"),
    [("2026-11-30", "retires on"), ("2026-11-01", "retired on"), ("2027-06-01", ""), ("", "")],
)
def test_doctor_warns_of_models_that_retire(
    day: str, said: str, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = SimpleNamespace(retires=day)
    monkeypatch.setattr(MODEL_INFO, lambda name: row)
    with closing(open_store(url)) as store:
        found = list(model_findings(store, date(2026, 11, 17)))
    assert [one.name for one in found] == (["claude-sonnet-4-5"] if said else [])
    assert all(said in one.value and "choose another model" in one.value for one in found)


@pytest.mark.parametrize("kind, body, name", NEWER)
def test_doctor_names_what_a_newer_version_wrote(
    url: str, kind: str, body: bytes, name: str
) -> None:
    with closing(open_store(url)) as store:
        about = store.conversation("fix-login")
        event = codec.seal(
            about.chain,
            about.head + 1,
            id=ids.uuid7(1, bytes(10)),
            at_ms=1,
            by="newer",
            kind=kind,
            body=body,
            salt=b"s" * 16,
        )
        store.append("fix-login", [event], expect=about.head)
    [found] = as_json("doctor")["problems"]
    assert found["name"] == f"fix-login #{event.seq}" and found["value"] == f"unknown {name}"
    assert "upgrade" in found["advice"]
