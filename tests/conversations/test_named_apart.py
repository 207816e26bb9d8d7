"""One name, one conversation: also while another process makes it, and where it cannot be read."""

from __future__ import annotations

from pathlib import Path

import pytest

import refold
from refold.conversations import listing
from refold.errors import Corrupt, Invalid

NAME = "2026-05-01T10:11:12.123Z/abc:def é"


def test_a_conversation_that_is_made_meanwhile_is_not_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process makes it between the two looks."""
    url = f"sqlite:{tmp_path}/a.db"
    look = listing.id_by_name

    def made_meanwhile(store: refold.types.Store, name: str) -> str | None:
        found = look(store, name)
        monkeypatch.setattr("refold.engine.opening.id_by_name", look)
        with refold.open(name=name, store=url) as other:
            other.append({"role": "user", "content": "first"})
        return found

    monkeypatch.setattr("refold.engine.opening.id_by_name", made_meanwhile)
    with refold.open(name=NAME, store=url) as context:
        context.append({"role": "user", "content": "second"})
        assert len(context.view.slots) == 2
    assert len(refold.conversations.list(url)) == 1


def test_one_that_cannot_be_read_is_not_replaced_by_an_empty_one(tmp_path: Path) -> None:
    url = f"files:{tmp_path}"
    with refold.open(name=NAME, store=url) as context:
        context.append({"role": "user", "content": "hello"})
    folder = tmp_path / "conversations" / context.id
    (folder / "bookmark").unlink(missing_ok=True)
    log = folder / "messages.jsonl"
    log.write_bytes(log.read_bytes().replace(b"2026-05-01", b"2026-05-02"))
    with pytest.raises(Corrupt):
        refold.open(name=NAME, store=url).append({"role": "user", "content": "again"})
    assert [path.name for path in (tmp_path / "conversations").iterdir()] == [context.id]


def test_a_name_that_two_have_is_said(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path}/a.db"
    for open_it in ({"name": NAME}, {"conversation": "other"}):
        with refold.open(store=url, **open_it) as context:
            context.append({"role": "user", "content": "hello"})
            context.update(names=[NAME])
    with pytest.raises(Invalid, match="2 conversations"):
        refold.conversations.find(url, NAME)
