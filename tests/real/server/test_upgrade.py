"""A server of the previous version meets a database that a newer one has migrated: it says so in its
log, is no longer ready, and sends its callers on."""

from __future__ import annotations

import subprocess
import sys

import httpx

from tests.real.postgres.cluster import running as running_database
from tests.real.postgres.test_store import NEXT_VERSION
from tests.real.server.process import running


def test_a_server_that_is_older_than_its_database_is_not_ready(tmp_path):
    with (
        running_database({"fsync": "off"}) as database,
        running(tmp_path, store=database.url, workers=1) as team,
    ):
        _, secret = team.token("acme", "admin")
        team.wait_for("acme", secret)
        headers = {"Authorization": f"Bearer {secret}"}
        base = f"{team.url}/api/v1/orgs/acme/context"
        made = httpx.post(f"{base}/conversations", json={"id": "log"}, headers=headers)
        assert made.is_success and team.is_ready()
        migrated = [sys.executable, "-c", NEXT_VERSION, f"{database.url}?org=acme"]
        assert subprocess.run(migrated, timeout=180).returncode == 0
        for path in (
            "conversations",
            "conversations/log",
            "conversations/log/events",
            "search?q=a",
        ):
            answer = httpx.get(f"{base}/{path}", headers=headers)
            assert answer.status_code == 503 and answer.headers["retry-after"]
            assert "postgresql" not in answer.text
        assert not team.is_ready()
        assert "upgrade refold" in (tmp_path / "log").read_text()
