"""Secrets in a log that is shared: taken out before they are sealed, held back, or left."""

from __future__ import annotations

from pathlib import Path

import pytest

import refold
from refold.stores import open_store, synced_of

KEY = "AKIA" + "Q7RZ4M2KX9WLT5VB"
LINE = f"aws_access_key_id = {KEY}"


def url(root: Path, redact: str) -> str:
    return f"hybrid:files:{root}/near?far=files:{root}/far&redact={redact}"


def sync(place: str):
    store = open_store(place)
    report = synced_of(store).sync()
    store.close()
    return report


def bytes_under(root: Path) -> bytes:
    return b"".join(path.read_bytes() for path in root.rglob("*") if path.is_file())


def talk(place: str) -> None:
    call = {"id": "t1", "type": "function", "function": {"name": "cat", "arguments": "{}"}}
    large = f"{LINE}\n" + "line of output\n" * 4_000
    with refold.open("c", store=place, model="gpt-4o", window=4_000) as context:
        context.append({"role": "user", "content": LINE})
        context.append({"role": "assistant", "content": LINE, "tool_calls": [call]})
        context.append_result("t1", large)
        context.append({"role": "assistant", "content": "done"})


@pytest.mark.parametrize("redact", ["append", "hold", "off"])
def test_a_secret_goes_only_where_it_may(redact: str, tmp_path: Path) -> None:
    place = url(tmp_path, redact)
    talk(place)
    report = sync(place)
    near, far = (KEY.encode() in bytes_under(tmp_path / name) for name in ("near", "far"))
    assert (near, far) == {"append": (False, False), "hold": (True, False), "off": (True, True)}[
        redact
    ]
    if redact == "hold":
        [blocked] = report.synced
        assert blocked.state == "held"
        assert "secret" in blocked.reason
        assert KEY not in blocked.reason
    else:
        assert report.is_done


def test_a_history_that_comes_back_is_known_after_redaction(tmp_path: Path) -> None:
    history = [{"role": "user", "content": LINE}, {"role": "assistant", "content": "noted"}]
    with refold.open("c", store=url(tmp_path, "append"), model="gpt-4o") as context:
        context.mirror(history)
        assert context.mirror(history).kind == "same"
        history.append({"role": "user", "content": "go on"})
        assert context.mirror(history).kind == "grown"
