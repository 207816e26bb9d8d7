"""What only a server can show: order, orgs, limits, forks of the process, versions, refusals."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import psycopg
import pytest

import refold
from refold.core import codec
from refold.errors import Conflict, Corrupt, Denied, Invalid, NotFound, RefoldError, Unavailable
from refold.stores import Store, open_store
from refold.stores.contract.kit import grown, sealed
from refold.stores.postgres import connections, schema
from refold.stores.postgres import connections as link
from tests.real.postgres.cluster import Bouncer, Server, running
from tests.real.postgres.conftest import fresh_org


@pytest.fixture
def store(url: str):
    store = open_store(url)
    yield store
    store.close()


def new_database(server: Server) -> str:
    name = fresh_org().replace("-", "_")
    server.new_database(name)
    return f"postgresql://refold@127.0.0.1:{server.port}/{name}"


# --- order ---


def test_a_reader_never_skips_a_number_that_commits_late(
    server: Server, store: Store, url: str
) -> None:
    """The first writer has its number and sleeps before it commits; the second must wait."""
    events = grown(store, "log", 1)
    org = url.partition("org=")[2]
    first, second = sealed(events[0], [b"first"])[0], sealed(events[0], [b"second"])[0]
    seen: list[list[int]] = []
    with psycopg.connect(server.admin_url) as slow:
        slow.execute(
            f"UPDATE {schema.NAME}.conversations SET head = 2, chain = %s WHERE org = %s",
            (first.chain, org),
        )
        refused: list[RefoldError] = []
        rival = threading.Thread(target=lambda: refused.append(_refusal_of(store, second)))
        rival.start()
        for _ in range(20):
            seen.append([event.seq for event in store.read("log")])
            time.sleep(0.01)
        slow.rollback()
    rival.join()
    assert seen == [[1]] * 20
    assert refused == [None] and [event.body for event in store.read("log")][1] == b"second"


def _refusal_of(store: Store, event: codec.Event) -> RefoldError | None:
    try:
        store.append("log", [event], expect=event.seq - 1)
    except RefoldError as error:
        return error
    return None


# --- orgs ---


def test_orgs_do_not_see_each_other(server: Server) -> None:
    here, there = (open_store(f"{server.url}?org={fresh_org()}") for _ in range(2))
    mine = grown(here, "log", 3)
    here.keep_bookmark("log", b"mine")
    here.fork("log", 2, "fork")
    digest = here.put([b"mine"])
    assert there.conversations() == [] and there.bookmark("log") is None
    for ask in (
        lambda: there.read("log"),
        lambda: there.conversation("log"),
        lambda: there.fork("log", 1, "new"),
        lambda: there.erase("log", 1),
        lambda: there.delete("fork"),
        lambda: there.salvage("log"),
        lambda: there.keep_bookmark("log", b"x"),
        lambda: list(there.get(digest)),
    ):
        with pytest.raises(NotFound):
            ask()
    yours = grown(there, "log", 2)
    assert there.drop(digest, before_ms=1 << 42)
    there.delete("log")
    assert here.read("log") == mine and yours != mine
    assert b"".join(here.get(digest)) == b"mine" and here.bookmark("log") == b"mine"
    here.close()
    there.close()


# --- limits ---


def test_a_server_that_was_found_to_be_away_is_not_waited_for_again(
    server: Server, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries, connected = [], link.connected

    def counted(conninfo: str, org: str) -> link.Link:
        tries.append(org)
        return connected(conninfo.replace(str(server.port), "1"), org)

    monkeypatch.setattr(link, "connected", counted)
    store = open_store(f"{url}&wait_s=6")
    with pytest.raises(Unavailable):
        store.conversations()
    assert len(tries) > 2, "the first call waits, and tries again"
    time.sleep(1.0)
    for _ in range(3):
        tries.clear()
        with pytest.raises(Unavailable):
            store.conversations()
        assert len(tries) == 1
    monkeypatch.setattr(link, "connected", connected)
    assert store.conversations() == []
    assert time.monotonic() - store.connections.pool.away_since() < 0.1, "forgotten"
    store.close()


def test_a_lock_that_is_not_released_ends_in_unavailable(
    server: Server, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link, "_LIMITS", link._LIMITS.replace("'5s'", "'100ms'"))
    store = open_store(f"{url}&wait_s=0.3")
    events = grown(store, "log", 1)
    with psycopg.connect(server.admin_url) as holder:
        holder.execute(f"SELECT 1 FROM {schema.NAME}.conversations FOR UPDATE")
        began = time.monotonic()
        with pytest.raises(Unavailable) as refusal:
            store.append("log", sealed(events[0], [b"{}"]), expect=1)
        assert refusal.value.retry_after_s and time.monotonic() - began < 60
    store.append("log", sealed(events[0], [b"{}"]), expect=1)
    store.close()


@pytest.mark.parametrize("behind", [False, True])
def test_every_statement_and_lock_has_a_limit_and_commits_are_durable(
    server: Server, bouncer: Bouncer, behind: bool
) -> None:
    server.psql("ALTER ROLE refold SET synchronous_commit = off", "postgres")
    store = open_store(f"{(bouncer if behind else server).url}?org={fresh_org()}")
    names = "statement_timeout lock_timeout idle_in_transaction_session_timeout synchronous_commit"

    def settings(one: link.Link) -> list[str]:
        rows = [one.execute("SELECT current_setting(%s)", (name,)) for name in names.split()]
        return [row.fetchone()[0] for row in rows]

    assert store.connections.run(settings) == ["30s", "5s", "1min", "on"]
    if behind:
        # What is set for us must not stay on a connection that others get next.
        with psycopg.connect(bouncer.url, autocommit=True, prepare_threshold=None) as other:
            for _ in range(10):
                assert other.execute("SHOW statement_timeout").fetchone() == ("0",)
    store.close()
    server.psql("ALTER ROLE refold RESET synchronous_commit", "postgres")


def test_an_answer_that_does_not_come_is_given_up(
    server: Server, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(f"{url}&wait_s=0")
    grown(store, "log", 1)
    monkeypatch.setattr(link, "ANSWER_S", 0.3)
    with pytest.raises(Unavailable):
        store.connections.run(lambda one: one.execute("SELECT pg_sleep(20)"))
    assert store.conversation("log").head == 1
    store.close()


def test_more_threads_than_connections_wait_for_their_turn(server: Server) -> None:
    store = open_store(f"{server.url}?org={fresh_org()}&connections_max=2")
    logs = [f"log-{n}" for n in range(12)]
    threads = [threading.Thread(target=grown, args=(store, log, 5)) for log in logs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {about.id: about.head for about in store.conversations()} == dict.fromkeys(logs, 5)
    assert len(server.backends()) < 40
    store.close()


# --- answers that are lost ---


@pytest.fixture
def lost(monkeypatch: pytest.MonkeyPatch):
    """Every piece of work is done, its answer lost, and done again."""
    kept: dict[int, object] = {}
    bounded = link.bounded

    def bounded_and_lost(one: link.Link, work, way):
        done = bounded(one, work, way)
        if not one.is_again:
            kept[len(kept)] = done
            raise psycopg.OperationalError("the connection was lost on the way back")
        return done

    monkeypatch.setattr(connections, "bounded", bounded_and_lost)
    return kept


def test_what_was_done_and_not_heard_of_is_done_once(store: Store, lost: dict[int, object]) -> None:
    events = grown(store, "log", 4)
    store.append("log", more := sealed(events[-1], [b"{}"] * 3), expect=4)
    assert store.read("log") == events + more
    store.fork("log", 5, "fork")
    own = grown(store, "fork", 2, before=more[0])
    store.keep_bookmark("fork", b"mark")
    digest = store.put([b"content" * 100_000])
    store.erase("fork", 6)
    assert store.read("fork", after=6) == own[1:] and store.read("fork", after=5)[0].erased
    assert b"".join(store.get(digest)) == b"content" * 100_000
    assert store.rewrite("log", events[:2], after=0, seen=store.salvage("log")) == ""
    assert store.read("log") == events[:2]
    assert store.drop(digest, before_ms=1 << 42)
    store.delete("fork")
    store.delete("log")
    assert store.conversations() == [] and len(lost) > 20


def test_a_conflict_stays_a_conflict_however_often_it_is_asked(
    store: Store, lost: dict[int, object]
) -> None:
    events = grown(store, "log", 3)
    with pytest.raises(Conflict):
        store.append("log", sealed(events[0], [b"other"]), expect=1)
    grown(store, "other", 1)
    with pytest.raises(Conflict):
        store.fork("log", 2, "other")
    with pytest.raises(NotFound):
        store.erase("log", 9)
    assert store.read("log") == events


# --- a fork of the process ---

FORKED = """
import os, sys
from refold.stores import open_store
from refold.stores.contract.kit import grown, sealed
store = open_store(sys.argv[1])
mine = grown(store, "parent", 3)
if pid := os.fork():
    mine += grown(store, "parent", 20, before=mine[-1])
    assert os.waitpid(pid, 0)[1] == 0
    assert store.read("parent") == mine
    assert store.conversation("child").head == 20
    store.close()
else:
    grown(store, "child", 20)
    assert len(store.read("parent")) >= 3
    store.close()
    sys.exit(0)
"""


def test_parent_and_child_of_a_fork_go_on_with_connections_of_their_own(url: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORKED, url], capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stderr) == (0, "")


# --- versions ---

NEXT_VERSION = """
import sys
from refold.stores.postgres import schema
old, new = schema.VERSION, schema.VERSION + 1
schema.VERSION, schema.NAME = new, f"refold_{new}"
schema.STEPS = {old: f"ALTER TABLE refold_{new}.conversations ADD COLUMN star boolean DEFAULT false"}
schema.TABLES = schema.TABLES.replace(f"refold_{old}", f"refold_{new}")
from refold.stores import open_store
store = open_store(sys.argv[1])
print(store.conversation("log").head)
"""


def test_a_store_of_the_version_before_meets_the_new_one_and_says_so(server: Server) -> None:
    url = new_database(server)
    old = open_store(url)
    events = grown(old, "log", 3)
    reader = open_store(url, read_only=True)
    assert reader.conversation("log").head == 3
    done = subprocess.run([sys.executable, "-c", NEXT_VERSION, url], capture_output=True, text=True)
    assert done.stdout == "3\n", done.stderr
    # Also on connections that were open all the while; and nothing is written.
    for store in (old, reader, open_store(url)):
        for ask in (
            lambda store=store: store.read("log"),
            lambda: old.append("log", sealed(events[-1], [b"{}"]), expect=3),
        ):
            with pytest.raises(Invalid) as refusal:
                ask()
            assert (
                f"version {schema.VERSION + 1}" in str(refusal.value)
                and "upgrade" in refusal.value.hint
            )
    for store in (old, reader):
        store.close()


def test_many_who_begin_at_once_make_one_schema(server: Server) -> None:
    url = new_database(server)
    stores = [open_store(url) for _ in range(8)]
    logs = [f"log-{n}" for n in range(8)]
    threads = [threading.Thread(target=grown, args=(one, log, 2)) for one, log in zip(stores, logs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [about.head for about in stores[0].conversations()] == [2] * 8
    for one in stores:
        one.close()


def test_reading_a_database_without_our_tables_creates_nothing(server: Server) -> None:
    url = new_database(server)
    for store in (open_store(url), open_store(url, read_only=True)):
        assert store.conversations() == [] and store.bookmark("log") is None
        with pytest.raises(NotFound):
            store.read("log")
        for write in (
            lambda store=store: store.fork("log", 1, "new"),
            lambda store=store: store.erase("log", 1),
            lambda store=store: store.delete("log"),
            lambda store=store: store.keep_bookmark("log", b""),
        ):
            with pytest.raises((NotFound, Denied)):
                write()
        store.close()
    count = "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'refold%'"
    assert server.psql(count, url.rpartition("/")[2]) == "0"


# --- refusals ---


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda url: url.replace("refold@", "nobody-here@"), Denied),
        (lambda url: url.replace("/work", "/no-such-database"), Invalid),
        (lambda url: url.replace("/work?", "/work?nonsense=1&"), Invalid),
        (
            lambda url: url.replace("127.0.0.1:", "127.0.0.1:1,127.0.0.1:2") + "&wait_s=0",
            RefoldError,
        ),
        (lambda url: url.partition("@")[0] + "@127.0.0.1:1/work?wait_s=0.2", Unavailable),
        (lambda url: url.partition("@")[0] + "@no-such-host.invalid/work?wait_s=0.2", Unavailable),
    ],
)
def test_why_there_is_no_connection_is_said_at_once(change, expected, url: str) -> None:
    began = time.monotonic()
    store = open_store(change(url))
    with pytest.raises(expected) as refusal:
        store.conversations()
    assert refusal.value.hint and time.monotonic() - began < 60
    store.close()


def test_a_role_that_may_not_write_is_denied(server: Server, url: str) -> None:
    grown(store := open_store(url), "log", 1)
    store.close()
    server.psql("CREATE ROLE reader LOGIN")
    server.psql(f"GRANT USAGE ON SCHEMA {schema.NAME} TO reader")
    server.psql(f"GRANT SELECT ON ALL TABLES IN SCHEMA {schema.NAME} TO reader")
    reading = open_store(url.replace("refold@", "reader@"))
    [event] = reading.read("log")
    with pytest.raises(Denied):
        reading.append("log", sealed(event, [b"{}"]), expect=1)
    reading.close()


def test_an_empty_schema_that_was_given_is_enough(server: Server) -> None:
    url = new_database(server)
    name = url.rpartition("/")[2]
    server.psql("CREATE ROLE modest LOGIN", "postgres")
    server.psql(f"CREATE SCHEMA {schema.NAME} AUTHORIZATION modest", name)
    store = open_store(url.replace("refold@", "modest@"))
    assert len(grown(store, "log", 2)) == 2
    store.close()


def test_a_password_is_in_no_error(server: Server) -> None:
    server.psql("CREATE ROLE locked NOLOGIN PASSWORD 'hunter2secret'", "postgres")
    store = open_store(f"postgresql://locked:hunter2secret@127.0.0.1:{server.port}/work?wait_s=0")
    with pytest.raises(RefoldError) as refusal:
        store.conversations()
    told = f"{refusal.value} {refusal.value.hint} {store.url} {store!r} {refusal.value.__cause__}"
    assert "hunter2secret" not in told
    store.close()


# --- damage ---


def test_damage_is_told_and_repaired(server: Server, store: Store, url: str) -> None:
    context = refold.open("talk", store=store)
    for n in range(6):
        context.append({"role": "user", "content": f"message {n}"})
    context.close()
    org = url.partition("org=")[2]
    where = f"WHERE org = '{org}' AND conversation = 'talk'"
    server.psql(f"UPDATE {schema.NAME}.events SET body = 'broken' {where} AND seq = 3")
    server.psql(f"DELETE FROM {schema.NAME}.events {where} AND seq = 5")
    with pytest.raises(Corrupt):
        store.read("talk")
    refold.conversations.repair(store, "talk")
    kept = server.psql(f"SELECT count(*) FROM {schema.NAME}.damaged {where}")
    assert int(kept) == 1
    assert list(codec.check(store.read("talk"))) == []
    digest = store.put([b"a" * 600_000])
    server.psql(
        f"UPDATE {schema.NAME}.chunks SET bytes = 'other' WHERE org = '{org}' AND number = 1"
    )
    with pytest.raises(Corrupt):
        list(store.get(digest))
    assert store.put([b"a" * 600_000]) == digest
    assert b"".join(store.get(digest)) == b"a" * 600_000


# --- copies ---


def test_a_copy_there_and_back_is_equal_to_the_byte(url: str, tmp_path: Path) -> None:
    near = f"sqlite:{tmp_path}/near.db"
    with refold.open("talk", store=near, window=8_000) as context:
        for n in range(30):
            context.append({"role": "user", "content": f"naïve \x00 \u2028 {n} " * 20})
            context.append({"role": "assistant", "content": "x" * 900})
        context.request("anthropic")
        context.fork("branch", at=7).close()
    refold.conversations.copy(near, url)
    refold.conversations.copy(url, f"files:{tmp_path}/back")
    refold.conversations.copy(url, f"sqlite:{tmp_path}/back.db")
    assert {one.state for one in refold.conversations.copy(near, url)} == {"same"}
    for id in ("talk", "branch"):
        exports = []
        for n, store in enumerate(
            (near, url, f"files:{tmp_path}/back", f"sqlite:{tmp_path}/back.db")
        ):
            path = tmp_path / f"{id}-{n}.json"
            refold.conversations.export(store, id, str(path))
            exports.append(path.read_bytes())
        assert len(set(exports)) == 1


def test_a_large_artifact_streams_in_and_out_with_little_memory(url: str) -> None:
    code = """
import resource, sys, hashlib
from refold.stores import open_store
store = open_store(sys.argv[1])
store.conversations()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
digest = store.put(bytes([n % 251]) * 1_000_000 for n in range(60))
hasher = hashlib.sha256()
for chunk in store.get(digest):
    hasher.update(chunk)
assert hasher.hexdigest() == digest
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
store.close()
"""
    done = subprocess.run(
        [sys.executable, "-c", code, url], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 30


def test_a_machine_without_room_for_an_artifact_says_so_and_keeps_nothing(
    store: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    with pytest.raises(RefoldError) as refusal:
        store.put([b"x" * 500_000] * 4)
    assert "artifact" in str(refusal.value) and refusal.value.hint
    assert store.put([b"small"]) and store.conversations() == []


# --- a standby that is gone ---


def test_a_commit_that_stopped_waiting_for_its_standby_is_not_acknowledged() -> None:
    with running() as server:
        store = open_store(f"{server.url}?wait_s=20")
        events = grown(store, "log", 1)
        server.psql("ALTER SYSTEM SET synchronous_standby_names = 'nobody'", "postgres")
        server.psql("SELECT pg_reload_conf()", "postgres")
        time.sleep(0.2)
        event = sealed(events[0], [b"{}"])[0]
        told: list[RefoldError | None] = []
        writer = threading.Thread(target=lambda: told.append(_refusal_of(store, event)))
        writer.start()
        waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
        server.wait_until(waiting)
        server.answer(
            "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
        )
        writer.join(60)
        assert isinstance(told[0], Unavailable)
        server.psql("ALTER SYSTEM RESET synchronous_standby_names", "postgres")
        server.psql("SELECT pg_reload_conf()", "postgres")
        store.append("log", [event], expect=1)
        assert store.conversation("log").head == 2
        store.close()
