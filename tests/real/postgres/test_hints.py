"""Hints between processes of one database: told to all who listen, never kept, never trusted."""

from __future__ import annotations

import time
from contextlib import contextmanager

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refold.errors import Invalid, RefoldError, Unavailable
from refold.stores import hints_of, open_orgs
from refold.stores.contract.kit import grown
from refold.stores.postgres import notifications
from refold.stores.postgres.notifications import PAYLOAD_BYTES_MAX, payload_in, payloads_of
from refold.stores.protocol import Hint
from tests.real.postgres.cluster import Bouncer, Server
from tests.real.postgres.conftest import fresh_org
from tests.real.postgres.test_store import new_database

NAMES = st.text("abcdefghijklmnopqrstuvwxyz0123456789.-_", min_size=1, max_size=64)
HINTS = st.builds(Hint, NAMES, NAMES, st.integers(0, 2**62))


@contextmanager
def user(url: str, direct: str = ""):
    """One process' way to tell and hear."""
    store = open_orgs(url)("server.own")
    grown(store, fresh_org(), 1)
    try:
        yield hints_of(store, direct)
    finally:
        store.close()


def heard_of(ear, count: int) -> list[Hint]:
    found: list[Hint] = []
    end = time.monotonic() + 120
    while len(found) < count:
        assert time.monotonic() < end, f"heard only {len(found)}"
        found += ear.receive(1.0)
    return found


@given(given=st.lists(HINTS, max_size=400))
@settings(max_examples=60, deadline=None)
def test_every_payload_fits_and_together_they_are_what_was_told(given: list[Hint]) -> None:
    payloads = payloads_of("me", given)
    assert payloads and all(len(text.encode()) <= PAYLOAD_BYTES_MAX for text in payloads)
    decoded = [payload_in(text) for text in payloads]
    assert [Hint(*change) for one in decoded for change in one.changes] == given


def test_what_one_tells_the_others_hear_and_it_does_not(server: Server) -> None:
    told = [Hint("acme", f"log-{number}", number) for number in range(1_000)]
    with (
        user(server.url) as one,
        user(server.url) as two,
        one.receiver() as own,
        two.receiver() as second,
        two.receiver() as third,
    ):
        one.publish(told)
        assert heard_of(second, 1_000) == heard_of(third, 1_000) == told
        assert own.receive(0.2) == []


def test_behind_a_pooler_hints_are_told_and_heard_on_the_direct_way(
    server: Server, bouncer: Bouncer
) -> None:
    with user(bouncer.url) as no_way, user(bouncer.url, server.url) as direct:
        with pytest.raises(Invalid, match="pooler"), no_way.receiver():
            pass
        with direct.receiver() as ear:
            no_way.publish([Hint("acme", "log", 3)])
            assert heard_of(ear, 1) == [Hint("acme", "log", 3)]


def test_a_direct_way_to_another_database_is_found_out(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notifications, "CHECK_S", 0.5)
    with user(server.url, new_database(server)) as wrong:
        with pytest.raises(Unavailable, match="does not receive") as refusal, wrong.receiver():
            pass
        assert "same database" in refusal.value.hint and refusal.value.retry_after_s is None


@pytest.mark.parametrize("direct", ["sqlite:here", "http://db/work", "nonsense", "postgresql://"])
def test_a_direct_way_that_is_no_address_is_refused(server: Server, direct: str) -> None:
    with pytest.raises(Invalid), user(server.url, direct):
        pass


FORGED = ["", "{", "[]", "null", '{"sender":"x"}', '{"sender":"x","changes":[["a","b",-1]]}',
    '{"sender":"x","changes":[["a","b"]]}', "[" * 3_000, '{"sender":1,"changes":[]}',
    '{"sender":"x","changes":[["%s","b",1]]}' % ("a" * 200)]  # fmt: skip


def test_what_is_not_ours_on_the_channel_is_not_heard(server: Server) -> None:
    with user(server.url) as one, user(server.url) as two, one.receiver() as ear:
        with psycopg.connect(server.url, autocommit=True) as stranger:
            for text in FORGED:
                stranger.execute("SELECT pg_notify(%s, %s)", (notifications.CHANNEL, text))
        two.publish([Hint("acme", "log", 1)])
        assert heard_of(ear, 1) == [Hint("acme", "log", 1)]


def test_a_connection_that_is_ended_is_told(server: Server) -> None:
    with user(server.url) as one, one.receiver() as ear:
        named = f"SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = '{notifications.NAME}'"
        assert server.psql(named) == "1"
        with pytest.raises(RefoldError) as lost:
            ear.receive(5.0)
        assert isinstance(lost.value, Unavailable)


def test_telling_does_not_wait_for_the_disk_and_leaves_nothing_set(server: Server) -> None:
    with user(server.url) as one:
        one.publish([Hint("acme", "log", 1)])
        shown = one._connections.run(
            lambda link: link.execute("SHOW synchronous_commit").fetchone()
        )
        assert shown == ("on",)
