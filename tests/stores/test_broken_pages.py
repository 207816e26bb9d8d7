"""A database with broken pages: one repair for each conversation makes it whole, and what could be
read is there."""

from __future__ import annotations

import glob
import os
import random
import shutil
from contextlib import closing
from pathlib import Path

import apsw
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import refold
from refold.conversations.repairer import repair
from refold.conversations.verifier import verify
from refold.edges.cli.app import outcome
from refold.errors import NotFound
from refold.stores.sqlite.database_file import PAGE_BYTES

MESSAGES, NAMES = 70, ("a", "b", "c")
FILLS = {
    "zeros": bytes(PAGE_BYTES),
    "ones": b"\xff" * PAGE_BYTES,
    "noise": random.Random(7).randbytes(PAGE_BYTES),
}


@pytest.fixture(scope="module")
def sound(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("sound") / "work.db"
    for name in NAMES:
        with refold.open(name, store=f"sqlite:{path}") as context:
            for n in range(MESSAGES):
                text = f"{name} says {n} " + "some words " * (n * n % 150)
                context.append({"role": "user", "content": text})
    connection = apsw.Connection(str(path))
    connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    connection.close()
    return path


def schema_pages(path: Path) -> set[int]:
    """The pages that say where everything lies: without them there is no database."""
    connection = apsw.Connection(str(path))
    pages = connection.execute("SELECT pageno FROM dbstat WHERE name = 'sqlite_schema'")
    found = {page - 1 for (page,) in pages}
    connection.close()
    return found


def leaf_pages(path: Path) -> list[int]:
    """The pages with rows of events."""
    with closing(apsw.Connection(str(path))) as connection:
        query = "SELECT pageno FROM dbstat WHERE name = 'events' AND pagetype = 'leaf'"
        return sorted(page - 1 for (page,) in connection.execute(query))


def broken(sound: Path, folder: Path, pages: dict[int, bytes]) -> str:
    """A copy of the database in which these pages are something else."""
    path = folder / f"work{len(os.listdir(folder))}.db"
    shutil.copy(sound, path)
    with open(path, "r+b") as file:
        for page, content in pages.items():
            file.seek(page * PAGE_BYTES)
            file.write(content)
    return str(path)


def said(store: refold.types.Store, name: str) -> list[tuple[int, bytes]]:
    try:
        return [(event.seq, event.body) for event in store.read(name, limit=1_000)]
    except NotFound:
        return []


@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_one_repair_makes_a_conversation_whole(data, sound, tmp_path_factory):
    size = sound.stat().st_size // PAGE_BYTES
    kinds = st.sampled_from(sorted(FILLS))
    places = st.integers(0, size - 1).filter(lambda page: page not in schema_pages(sound))
    drawn = data.draw(st.dictionaries(places, kinds, min_size=1, max_size=4))
    assume(not {1, 2} <= drawn.keys())  # the two places that have the ids
    pages = {page: FILLS[kind] for page, kind in drawn.items()}
    with closing(refold.open_store(f"sqlite:{sound}")) as whole:
        before = {name: said(whole, name) for name in NAMES}
    path = broken(sound, tmp_path_factory.mktemp("broken"), pages)
    with closing(refold.open_store(f"sqlite:{path}")) as store:
        for name in NAMES:
            done = repair(store, name)
            there = said(store, name)
            assert [seq for seq, _ in there] == list(range(1, len(there) + 1))
            kept = [(seq, body) for seq, body in there if seq not in done.erased]
            assert set(kept) <= set(before[name])
            assert (done.changed and done.lost) or there == before[name], name
        for name in NAMES:
            assert not repair(store, name).lost if said(store, name) else True
        assert verify(store).problems == ()


def test_the_command_says_what_it_gave_up_and_keeps_what_was_there(sound, tmp_path, capsys):
    path = broken(sound, tmp_path, {page: bytes(PAGE_BYTES) for page in leaf_pages(sound)[4:6]})
    url = f"sqlite:{path}"
    damaged = [name for name in NAMES if outcome(["show", name, "--store", url])]
    assert damaged and "--repair" in capsys.readouterr().err
    for name in damaged:
        assert outcome(["verify", name, "--repair", "--store", url]) == 0
    report = capsys.readouterr().out
    assert "given up" in report and "damaged-" in report
    assert outcome(["verify", "--store", url]) == 0
    [copy] = glob.glob(f"{path.removesuffix('.db')}.damaged-*.db")
    assert os.stat(copy).st_mode & 0o777 == 0o600
    with closing(refold.open_store(url)) as store:
        [first, *_] = [one.id for one in store.conversations()]
        store.erase(first, 2)
    assert not os.path.exists(copy), "it may hold what was erased"


@pytest.mark.parametrize("share", [0.75, 0.8, 0.9, 0.97, 0.99])
def test_a_file_whose_end_is_missing_is_made_whole_with_what_is_left(share, sound, tmp_path):
    path = tmp_path / "work.db"
    shutil.copy(sound, path)
    os.truncate(path, int(os.path.getsize(path) * share))
    url = f"sqlite:{path}"
    for name in NAMES:
        refold.conversations.repair(url, name)
    assert not refold.conversations.verify(url).problems
    kept = {about.id: about.head for about in refold.conversations.list(url)}
    assert kept["a"] == MESSAGES
    assert 0 < kept["c"] < MESSAGES
