"""A server on a disk that fills up: it says so before the disk is full, loses nothing, and deletions
make room again."""

from __future__ import annotations

import os

import httpx
import pytest

from tests.real.server.process import running
from tests.stores import disks
from tests.waiting import until

SMALL, LARGE = 500, 60_000


@pytest.mark.parametrize("kind", ["sqlite", "files"])
def test_a_full_disk_is_not_ready_until_a_deletion_makes_room(tmp_path, kind):
    place = tmp_path / "disk"
    with (
        disks.tmpfs(place, 16 * 1024 * 1024),
        running(tmp_path, store=f"{kind}:{place}/orgs", workers=1) as team,
    ):
        _, secret = team.token("acme", "write")
        team.wait_for("acme", secret)

        def call(method: str, path: str, **given: object) -> httpx.Response:
            url = f"{team.url}/api/v1/orgs/acme/context/conversations/{path}"
            headers = {"Authorization": f"Bearer {secret}"}
            return httpx.request(method, url, headers=headers, timeout=60, **given)

        def append(id: str, key: str, size: int) -> int:
            message = {"role": "user", "content": f"{key} {os.urandom(size).hex()}"}
            body = {"key": key, "message": message}
            return call("POST", f"{id}/messages", json=body).status_code

        taken: list[str] = []
        while (status := append(f"c{len(taken) % 3}", f"k{len(taken)}.", LARGE)) == 200:
            taken.append(f"k{len(taken)}.")
        assert status == 503 and len(taken) > 20
        until(lambda: not team.is_ready())
        there = "".join(call("GET", f"c{at}/events").text for at in range(3))
        assert all(f"{key} " in there for key in taken)
        assert call("DELETE", "c2").status_code == 204
        until(team.is_ready)
        assert append("c0", "after", SMALL) == 200
        assert call("DELETE", "c1").status_code == 204
        assert call("DELETE", "c0").status_code == 204
        assert append("new", "after", LARGE) == 200
