"""A log of memories that came with a clone, or that a team mate appended to, destroys nothing of the user's and opens
no store: only the user's own order does, which is in the user's own data folder."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

import refold
from refold import decoding
from refold.core.model import Memory
from refold.log.draft import Draft
from refold.log.log import Log
from refold.memory.erasure import Forgetter, Order
from refold.memory.fold import sealed
from refold.memory.journal import Journal
from refold.stores import open_store
from tests.edges.cli.rooms import run

SECRET = "The staging key is Xylophone12"
OTHER = "Deployments happen on Tuesday"
TALK, HEAD = "talk", 4
PLACES = ("own", "sqlite", "relative", "home", "files", "http", "hybrid")


@pytest.fixture(scope="module")
def listener() -> Iterator[socket.socket]:
    """An attacker's server: nobody connects to it."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0)
        yield server


def is_called(listener: socket.socket) -> bool:
    try:
        listener.accept()[0].close()
    except BlockingIOError:
        return False
    return True


def urls(folder: Path, listener: socket.socket) -> dict[str, str]:
    http = f"http://127.0.0.1:{listener.getsockname()[1]}/acme"
    return {
        "own": f"sqlite:{folder}/.refold/refold.db",
        "sqlite": f"sqlite:{folder}/far.db",
        "relative": f"{os.path.relpath(folder)}/relative.db",
        "home": "sqlite:~/home.db",
        "files": f"files:{folder}/tree",
        "http": http,
        "hybrid": f"hybrid:{folder}/near.db?far={http}",
    }


def talk(url: str) -> None:
    """A conversation of the user's, whose page shows the memory."""
    with refold.open(TALK, store=url, window=24_000, embedder=False) as context:
        entry = context.memory.store(SECRET, scope="user")
        context.append({"role": "user", "content": f"Note: {SECRET}"})
        context.append({"role": "user", "content": "What is the staging key?"})
        assert "Xylophone12" in str(context.request())
        context.memory.update(entry.id, metadata={"seen": 1})


def events(url: str) -> list[object]:
    store = open_store(url, read_only=True)
    try:
        return list(store.read(TALK))
    finally:
        store.close()


def plant(url: str, bodies: list[Memory]) -> None:
    store = open_store(url)
    Log(store, "memory.project").append([Draft(body=body, by="user") for body in bodies])
    store.close()


ENTRIES = st.sampled_from(["mem-0123456789abcdef", "mem-1", "\x1b[2J"])
SOURCES = st.one_of(st.none(), st.tuples(st.just(TALK), st.integers(1, HEAD)))
SAID = st.builds(
    lambda entry, content, source, trust: Memory(
        entry=entry, content=content, source=source, trust=trust
    ),
    ENTRIES,
    st.sampled_from([SECRET, OTHER, "key", "What is the staging key?"]),
    SOURCES,
    st.sampled_from(["user", "model", "tool", "import"]),
)


def marker(entry: str, stores: list[str], source: tuple[str, int] | None, seal: str) -> Memory:
    metadata = {"stores": stores} if stores else {}
    words = sealed(seal) if seal else ""
    return Memory(entry=entry, state="forgotten", source=source, metadata=metadata, seal=words)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    said=st.lists(SAID, max_size=3),
    places=st.lists(st.sampled_from(PLACES), max_size=3, unique=True),
    entries=st.lists(ENTRIES, min_size=1, max_size=2, unique=True),
    source=SOURCES,
    seal=st.sampled_from(["", "staging key xylophone12"]),
)
def test_what_a_planted_log_says_is_forgotten_destroys_nothing_and_calls_nobody(
    tmp_path_factory, listener, said, places, entries, source, seal
):
    folder = tmp_path_factory.mktemp("project")
    known = urls(folder, listener)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("HOME", str(folder))
        patched.setenv("XDG_DATA_HOME", str(folder / "data"))
        patched.setenv("REFOLD_USER_STORE", f"sqlite:{folder}/user.db")
        patched.setenv("REFOLD_TOKEN", "rft_secret")
        victims = [known[name] for name in ("own", "sqlite", "relative", "home", "files")]
        for url in victims:
            talk(url)
        before = [events(url) for url in victims]
        stores = [known[name] for name in places]
        plant(known["own"], [*said, *(marker(one, stores, source, seal) for one in entries)])
        with refold.open_memory(store=known["own"], embedder=False) as memory:
            memory.store("The port is 8080")
            assert memory.retrieve("which port?")
            assert [events(url) for url in victims] == before
            assert not is_called(listener)
            reasons = [reason for name, reason in memory.said if name == "memory-failed"]
            assert len(reasons) == 1 and "refold memory forget ID" in reasons[0]
            assert "\x1b" not in reasons[0]
        with refold.open("new", store=known["own"], window=24_000, embedder=False) as context:
            context.append({"role": "user", "content": "Which port?"})
            context.request()
        assert [events(url) for url in victims] == before
        assert not is_called(listener)
        # An order for one of the user's own entries does not carry out what the log asks for.
        with refold.open_memory(store=known["own"], embedder=False) as memory:
            memory.forget(memory.store("The pager code is Marimba7").id)
        assert [events(url) for url in victims] == before
        assert not is_called(listener)


class Killed(Exception):
    """The process ends here."""


@pytest.fixture
def interrupted(tmp_path, monkeypatch) -> tuple[str, str, str]:
    """A forgetting with another store and the source, killed before anything was erased: its store,
    the other one, and the entry."""
    own, far = f"sqlite:{tmp_path}/.refold/refold.db", f"files:{tmp_path}/far"
    for url in (own, far):
        talk(url)
    with refold.open_memory(store=own, embedder=False) as memory:
        entry = memory.store(SECRET, source=(TALK, 2)).id

        def killed(*_given: object) -> None:
            raise Killed

        monkeypatch.setattr(Forgetter, "_erase", killed)
        with pytest.raises(Killed):
            memory.forget(entry, source=True, stores=[far])
    monkeypatch.undo()
    return own, far, entry


def erased(url: str) -> list[int]:
    return [event.seq for event in events(url) if event.erased]


@pytest.mark.parametrize("way", ["the same", "synced"])
def test_the_users_own_order_is_carried_out_after_a_kill_in_the_stores_it_names(
    interrupted, tmp_path, way
):
    own, far, entry = interrupted
    url = own if way == "the same" else f"hybrid:{own}?far=files:{tmp_path}/team"
    with refold.open_memory(store=url, embedder=False) as memory:
        assert memory.list(scope="project") == [] and memory.said == []
        assert next(one.what for one in memory.log() if one.entry == entry) == "forgotten"
    assert 2 in erased(own) and 2 in erased(far)
    orders = Path(os.environ["XDG_DATA_HOME"], "refold", "erasing")
    assert list(orders.iterdir()) == []


def test_only_the_user_may_read_an_order_and_the_log_names_no_store(interrupted, tmp_path):
    _, far, _ = interrupted
    [order] = Path(os.environ["XDG_DATA_HOME"], "refold", "erasing").iterdir()
    assert order.stat().st_mode & 0o777 == 0o600 and order.parent.stat().st_mode & 0o777 == 0o700
    assert far.encode() in order.read_bytes() and b"ylophone" not in order.read_bytes()
    for file in (tmp_path / ".refold").iterdir():
        assert not file.is_file() or far.encode() not in file.read_bytes()


@pytest.mark.parametrize("lost", ["removed", "damaged", "of other words"])
def test_without_the_order_nothing_is_erased_until_the_user_orders_it_again(interrupted, lost):
    own, far, entry = interrupted
    [order] = Path(os.environ["XDG_DATA_HOME"], "refold", "erasing").iterdir()
    if lost == "removed":
        order.unlink()
    elif lost == "damaged":
        order.write_bytes(b"{")
    else:
        seal = sealed("key staging xylophone13")
        read = decoding.decode(order.read_bytes(), Order)
        changed = replace(read, seals=(seal,))
        order.write_bytes(msgspec.json.encode(changed))
    for _ in range(2):
        with refold.open_memory(store=own, embedder=False) as memory:
            assert memory.list(scope="project") == []
            [(_, reason)] = memory.said
            assert entry in reason and "you did not order it here" in reason
    assert erased(own) == erased(far) == []
    with refold.open_memory(store=own, embedder=False) as memory:
        assert entry in memory.forget(entry, source=True, stores=[far]).entries
    assert 2 in erased(own) and 2 in erased(far)
    with refold.open_memory(store=own, embedder=False) as memory:
        assert memory.list() is not None and memory.said == []


def test_an_order_that_cannot_be_written_forgets_nothing(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "file"))
    with refold.open_memory(store=f"sqlite:{tmp_path}/a.db", embedder=False) as memory:
        entry = memory.store(SECRET)
        with pytest.raises(refold.Unavailable, match="cannot be written"):
            memory.forget(entry.id)
        assert [one.id for one in memory.list()] == [entry.id]


def test_an_order_alone_erases_nothing(tmp_path, monkeypatch):
    """A kill before the marker was written: the entry is as it was, and can be forgotten again."""
    own = f"sqlite:{tmp_path}/a.db"
    talk(own)
    before = events(own)
    with refold.open_memory(store=own, embedder=False) as memory:
        entry = memory.store(SECRET, source=(TALK, 2))

        def killed(*_given: object) -> None:
            raise Killed

        monkeypatch.setattr(Journal, "append", killed)
        with pytest.raises(Killed):
            memory.forget(entry.id, source=True)
        monkeypatch.undo()
    with refold.open_memory(store=own, embedder=False) as memory:
        assert entry.id in [one.id for one in memory.list()] and memory.said == []
        assert events(own) == before
        assert memory.forget(entry.id, source=True).messages


@pytest.mark.parametrize("said", [(), (SECRET,)])
def test_the_command_in_the_notice_ends_what_another_began(said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    own, entry = f"sqlite:{tmp_path}/.refold/refold.db", "mem-0123456789abcdef"
    bodies = [Memory(entry=entry, content=content) for content in said]
    plant(own, [*bodies, marker(entry, [], None, "")])
    assert f"'{entry}'" in run("memory", "add", "The port is 80").stderr
    done = run("memory", "forget", entry, "--yes")
    assert done.exit_code == 0 and f"{len(said)} event" in done.stdout
    assert run("memory", "add", "The host is db").stderr == ""


def test_a_team_mate_adds_nothing_to_an_order(interrupted, tmp_path):
    own, _, entry = interrupted
    third = f"sqlite:{tmp_path}/third.db"
    talk(third)
    kept = events(third)
    plant(own, [marker(entry, [third], (TALK, 3), ""), Memory(entry=entry, content="staging")])
    with refold.open_memory(store=own, embedder=False) as memory:
        memory.list()
    assert events(third) == kept
    assert 2 in erased(own)
