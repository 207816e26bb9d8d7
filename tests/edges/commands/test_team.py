"""The commands of a team: a server that starts only if somebody could call it, tokens, logins."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from refold.errors import OUTCOMES
from refold.settings import logins
from tests.edges.cli.rooms import as_json, on_terminal, run
from tests.edges.server.running import Running

pytestmark = pytest.mark.usefixtures("alone")
STORE = ("--store", "sqlite:team")


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    server = Running(tmp_path_factory.mktemp("server"))
    yield server
    server.stop()


def place_and_secret(running: Running) -> tuple[str, str]:
    token, secret = running.app.tokens.create("acme", "write", days=30)
    return f"http://127.0.0.1:{running.port}/{token.org}", secret


def test_a_token_is_created_listed_and_revoked() -> None:
    created = run("token", "create", "--org", "acme", "--name", "ci", *STORE)
    secret = created.stdout.strip()
    assert secret.startswith("rft_") and len(secret) > 40
    assert "shown once" in created.stderr
    listed = run("token", "list", *STORE).stdout
    assert secret not in listed and "acme" in listed and "valid" in listed
    [about] = as_json("token", "list", *STORE)["tokens"]
    assert run("token", "revoke", about["id"], *STORE).exit_code == 0
    [about] = as_json("token", "list", *STORE)["tokens"]
    assert about["state"] == "revoked"
    assert as_json("token", "list", "--org", "other", *STORE)["tokens"] == []


@pytest.mark.parametrize(
    "args",
    [
        ("--org", "Acme"),
        ("--org", "_server"),
        ("--org", ""),
        ("--org", "acme", "--days", "0"),
        ("--org", "acme", "--days", "-3"),
        ("--org", "acme", "--days", "nan"),
        ("--org", "acme", "--days", "99999"),
        ("--org", "acme", "--name", "x" * 101),
        ("--org", "acme", "--scope", "all"),
    ],
)
def test_a_token_that_cannot_be_is_refused(args: tuple[str, ...], tmp_path: Path) -> None:
    assert run("token", "create", *args, *STORE).exit_code == OUTCOMES["invalid"][1]
    assert not (tmp_path / "team").exists()


@pytest.mark.parametrize(
    "store", ["memory:", "https://a.example/acme", "sqlite:", "x.db", "sqlite:file.db"]
)
def test_a_place_that_cannot_hold_organizations_is_refused(store: str, tmp_path: Path) -> None:
    (tmp_path / "file.db").write_bytes(b"")
    for args in (("token", "list"), ("serve", "--check")):
        assert run(*args, "--store", store).exit_code == OUTCOMES["invalid"][1]


def test_revoking_what_is_not_there_is_not_found() -> None:
    assert run("token", "revoke", "tok-1", *STORE).exit_code == OUTCOMES["not-found"][1]


def test_no_server_starts_without_a_valid_token() -> None:
    refused = run("serve", *STORE)
    assert refused.exit_code == OUTCOMES["denied"][1]
    assert "refold token create" in refused.stderr


def test_a_server_says_whether_it_could_start(tmp_path: Path) -> None:
    run("token", "create", "--org", "acme", *STORE)
    found = as_json("serve", "--check", "--port", "9999", *STORE)
    assert (found["url"], found["store"]) == ("http://127.0.0.1:9999", "sqlite:team")


@pytest.mark.parametrize(
    "args",
    [
        ("--host", "0.0.0.0"),
        ("--certificate", "cert.pem"),
        ("--certificate", "cert.pem", "--key", "none.pem"),
        ("--port", "0"),
        ("--workers", "0"),
    ],
)
def test_a_server_that_could_not_be_trusted_does_not_start(args: tuple[str, ...]) -> None:
    run("token", "create", "--org", "acme", *STORE)
    assert run("serve", *args, *STORE).exit_code == OUTCOMES["invalid"][1]


def test_a_port_that_is_taken_is_named(running: Running) -> None:
    run("token", "create", "--org", "acme", *STORE)
    refused = run("serve", "--port", str(running.port), *STORE)
    assert refused.exit_code == OUTCOMES["unavailable"][1]
    assert str(running.port) in refused.stderr


def test_missing_packages_are_named() -> None:
    run("token", "create", "--org", "acme", *STORE)
    code = (
        "import sys, importlib.util as u; found = u.find_spec;"
        "u.find_spec = lambda name, *a: None if name == 'starlette' else found(name, *a);"
        "from refold.edges.cli import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "serve", *STORE], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == OUTCOMES["unavailable"][1]
    assert "starlette" in done.stderr and "refold[server]" in done.stderr


def test_login_keeps_a_token_that_the_server_accepts(running: Running) -> None:
    place, secret = place_and_secret(running)
    done = run("login", place, input=f"{secret}\n")
    assert done.exit_code == 0 and secret not in done.stdout + done.stderr
    assert "may write until" in done.stdout
    assert logins.token_for(place, os.environ) == secret
    assert run("list", "--store", place).exit_code == 0
    assert "is forgotten" in run("login", place, "--forget").stdout
    assert run("list", "--store", place).exit_code == OUTCOMES["denied"][1]
    assert as_json("login", place, "--forget")["was_known"] is False


@pytest.mark.parametrize("typed", ["rft_wrong\n", "\n", "", "two words\n", "rft_ü\n"])
def test_login_keeps_nothing_that_the_server_refuses(running: Running, typed: str) -> None:
    place, _ = place_and_secret(running)
    refused = run("login", place, input=typed)
    assert refused.exit_code in (OUTCOMES["invalid"][1], OUTCOMES["denied"][1])
    assert logins.token_for(place, os.environ) is None


def test_at_a_terminal_the_token_is_not_shown(running: Running, tmp_path: Path) -> None:
    place, secret = place_and_secret(running)
    home = {"XDG_DATA_HOME": str(tmp_path / "data")}
    status, text = on_terminal(
        "login", place, cwd=tmp_path, typed=f"{secret}\n", when="Token for", **home
    )
    assert status == 0 and "Logged in" in text
    assert secret not in text


def test_the_audit_log_is_shown(running: Running) -> None:
    from refold.edges.server.access import Orgs
    from refold.edges.server.audit import Audit, Entry

    orgs = Orgs("sqlite:team")
    entry = Entry(at_ms=1, token="tok-1", action="erase", route="post-erase", what="c", call="1")
    Audit(orgs.own).write("acme", entry)
    orgs.close()
    shown = run("token", "audit", "--org", "acme", *STORE).stdout
    assert "tok-1" in shown and "erase" in shown and "unknown" in shown
    [entry] = as_json("token", "audit", "--org", "acme", *STORE)["entries"]
    assert (entry["action"], entry["what"]) == ("erase", "c")
    assert "Nothing" in run("token", "audit", "--org", "other", *STORE).stdout


def test_the_place_of_a_server_comes_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("REFOLD_SERVER_STORE", f"sqlite:{tmp_path}/there")
    run("token", "create", "--org", "acme")
    assert (tmp_path / "there").is_dir()
    assert json.loads(run("token", "list", "--json").stdout)["tokens"]
    assert run("list").exit_code == 0
