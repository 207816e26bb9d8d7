"""A store on a team's server, over a real socket. The whole contract runs in tests/real/server."""

from __future__ import annotations

import os
from contextlib import nullcontext

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import refold
from refold.errors import Denied, Invalid, RefoldError, Unavailable
from refold.settings import logins
from refold.stores import contract, open_store
from tests.edges.server.running import Running
from tests.servers import Play, serving

pytestmark = pytest.mark.usefixtures("home")


# It writes an event that was not sealed as it stands: a server takes in only what can be verified.
NOT_VERIFIED = "every_field_of_an_event_is_kept"


class RemotePlace:
    """An organization of its own."""

    def __init__(self, running: Running) -> None:
        self.url = running.place(dict(os.environ))

    def open(self):
        return open_store(self.url)


@pytest.mark.parametrize("clause", contract.logs.CLAUSES, ids=contract.name)
def test_the_remote_store_keeps_the_contract_of_logs(clause, running):
    if clause.__name__ != NOT_VERIFIED:
        clause(lambda: RemotePlace(running))


def test_a_conversation_on_a_server_is_like_any_other(running):
    url = RemotePlace(running).url
    with refold.open("c", store=url, model="gpt-4o", window=4_000) as context:
        for number in range(40):
            context.append({"role": "user", "content": f"step {number} " + "words " * 50})
            context.append({"role": "assistant", "content": f"done {number}"})
            context.request()
        context.compact(target=1_500)
        page = context.request()
    with refold.open("c", store=url, model="gpt-4o", window=4_000) as again:
        assert again.request() == page
        assert again.undo()
        assert again.search("step")


def test_whoever_is_not_logged_in_is_told_how(running):
    with pytest.raises(Denied) as caught:
        open_store(f"http://127.0.0.1:{running.port}/nobody").conversations()
    assert "refold login" in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "http://example.com/acme",
        "https://example.com",
        "https://example.com/a/b",
        "https://user:pass@example.com/acme",
        "https://example.com/acme?token=x",
        "https://",
        "https://example.com:99999/acme",
    ],
)
def test_an_address_that_is_none_is_refused(url):
    with pytest.raises(Invalid):
        open_store(url)


def test_a_server_that_is_away_is_unavailable(monkeypatch):
    from refold.settings import logins
    from refold.stores.remote import client

    monkeypatch.setattr(client, "DEADLINE_S", 0.2)
    place = "http://127.0.0.1:9/acme"
    logins.keep(place, "rft_x", dict(os.environ))
    store = open_store(place)
    store.client.deadline_s = 0.2
    with pytest.raises(Unavailable):
        store.conversations()


def test_the_file_of_logins_is_for_the_user_alone(running, home):
    RemotePlace(running)
    path = home / "data" / "refold" / "logins.json"
    assert path.stat().st_mode & 0o777 == 0o600


class Counted:
    """Counts the calls that a client sends."""

    def __init__(self, store) -> None:
        self.client, self.calls = store.client, 0
        sent = self.client.transmit

        def counted(*given):
            self.calls += 1
            return sent(*given)

        self.client.transmit = counted


def test_without_a_login_nothing_is_sent(running):
    store = open_store(f"http://127.0.0.1:{running.port}/nobody")
    counted = Counted(store)
    with pytest.raises(Denied):
        store.conversations()
    assert counted.calls == 0


@pytest.mark.parametrize("status", [200, 301, 302, 400, 401, 403, 404, 405, 407, 410, 451])
@pytest.mark.parametrize("body", [b"<html>", b"{}", b'{"error":"new","message":"no"}'])
def test_what_trying_again_cannot_help_is_asked_once(running, status, body):
    """A proxy that refuses, another program at the address, a code of a later server."""
    import httpx

    store = open_store(RemotePlace(running).url)
    store.client.http = httpx.Client(
        transport=httpx.MockTransport(lambda _: httpx.Response(status, content=body))
    )
    counted = Counted(store)
    with pytest.raises(Denied if status in (401, 403) else RefoldError):
        store.conversations()
    assert counted.calls == 1


@pytest.mark.parametrize("status", [400, 405, 406, 410, 413, 415, 422, 451, 499])
@pytest.mark.parametrize("body", [b"<html>", b'{"error":"new","message":"no"}'])
def test_what_a_far_store_will_never_take_is_blocked_and_sent_when_it_will(
    running, tmp_path, status, body
):
    """M-36: whoever refuses, a call that will not pass does not count as one that waits."""
    import httpx

    store = open_store(f"hybrid:sqlite:{tmp_path}/near.db?far={RemotePlace(running).url}")
    for id in ("a", "b"):
        refold.open(id, store=store).append({"role": "user", "content": id})

    def answered(request):
        if request.method == "POST" and "/a/events" in str(request.url):
            return httpx.Response(status, content=body)
        found = passed.send(
            httpx.Request(
                request.method, request.url, content=request.read(), headers=request.headers
            )
        )
        return httpx.Response(found.status_code, content=found.content)

    with httpx.Client() as passed:
        client = store.far.client
        usual, client.http = (
            client.http,
            httpx.Client(transport=httpx.MockTransport(answered)),
        )
        states = {one.conversation: one.state for one in store.sync().synced}
        assert states == {"a": "blocked", "b": "synced"}
        client.http = usual
    assert {one.conversation: one.state for one in store.sync().synced} == {"a": "synced"}
    store.close()


@pytest.mark.parametrize(("status", "calls"), [(429, 3), (503, 1)])
def test_what_must_not_be_done_twice_is_asked_again_only_where_nothing_was_done(
    running, status, calls
):
    import httpx

    busy = httpx.Response(
        status, content=b'{"error":"busy","message":"slow down"}', headers={"retry-after": "0"}
    )
    answers = [busy, busy, httpx.Response(204)]
    store = open_store(RemotePlace(running).url)
    store.client.http = httpx.Client(transport=httpx.MockTransport(lambda _: answers.pop(0)))
    counted = Counted(store)
    with nullcontext() if status == 429 else pytest.raises(Unavailable):
        store.fork("c", 1, "d")
    assert counted.calls == calls


def test_a_login_that_ran_out_is_read_again_once(running):
    from refold.settings import logins

    place = RemotePlace(running).url
    store = open_store(place)
    assert store.conversations() == []
    [old] = [one for one in running.app.tokens.list() if place.endswith(f"/{one.org}")]
    running.app.tokens.revoke(old.id)
    counted = Counted(store)
    with pytest.raises(Denied):
        store.conversations()
    assert counted.calls == 1, "the same token is not tried twice"
    logins.keep(place, running.app.tokens.create(old.org, "read")[1], os.environ)
    assert store.conversations() == []
    with pytest.raises(Denied, match="may read"):
        store.erase("c", 1)


def test_a_token_that_changes_while_a_store_is_open_is_used_for_the_same_call(running):
    from refold.settings import logins

    place = RemotePlace(running).url
    store = open_store(place)
    assert store.conversations() == []
    [old] = [one for one in running.app.tokens.list() if place.endswith(f"/{one.org}")]
    logins.keep(place, running.app.tokens.create(old.org, "read")[1], os.environ)
    running.app.tokens.revoke(old.id)
    counted = Counted(store)
    assert store.conversations() == []
    assert counted.calls == 2


PLACES = [f"{host}/{org}" for host in ("https://a.example", "http://localhost:8") for org in "xy"]
NAMED = [
    None,
    "",
    "a.db",
    "hybrid:a.db?far=files:m",
    "hybrid:a.db?far=https://a.example/y&sync_s=5",
]


@settings(max_examples=200)
@given(
    token=st.text("abc", min_size=8, max_size=12).map(lambda end: f" rft_{end}\n"),
    named=st.one_of(st.sampled_from(NAMED), st.sampled_from(PLACES).map(lambda one: f"{one}/")),
    opened=st.lists(st.sampled_from(PLACES), min_size=1, max_size=6),
)
def test_a_token_of_the_environment_goes_to_one_server_alone(token, named, opened):
    """To the one in REFOLD_STORE, or else to the first one that the process opens."""
    environ = {"REFOLD_TOKEN": token, "XDG_DATA_HOME": "/nonexistent"}
    environ |= {} if named is None else {"REFOLD_STORE": named}
    given_to = {place for place in opened if logins.token_for(place, environ) == token.strip()}
    logins._owners.clear()
    is_server = named is not None and "http" in named
    far = named.partition("?far=")[2].partition("&")[0] or named.rstrip("/") if is_server else ""
    assert given_to == ({far} & set(opened) if is_server else {opened[0]})


HOSTS = st.one_of(
    st.sampled_from(
        [
            "127.0.0.1.evil.example",
            "localhost.evil.example",
            "xlocalhost",
            "127.1",
            "0.0.0.0",
            "[::2]",
        ]
    ),
    st.from_regex(r"[a-z]{1,8}(\.[a-z]{2,5}){1,2}", fullmatch=True),
    st.ip_addresses(v=4).map(str).filter(lambda one: one != "127.0.0.1"),
)


@given(HOSTS, st.integers(1, 65_535))
def test_no_token_goes_to_another_machine_in_the_clear(host, port):
    """Refused before anything is sent, wherever the address comes from."""
    for url in (f"http://{host}/acme", f"http://{host}:{port}/acme", f"HTTP://{host}/acme"):
        with pytest.raises(Invalid):
            open_store(url)
        with pytest.raises(Invalid):
            open_store(f"hybrid:memory:?far={url}").sync()


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_token_does_not_follow_a_redirect(status, monkeypatch):
    monkeypatch.setenv("REFOLD_TOKEN", f"rft_{status}")
    with serving(Play({})) as other:
        with serving(Play(status=status, location=f"{other.url}/acme")) as server:
            with pytest.raises(RefoldError):
                open_store(f"{server.url}/acme").conversations()
            sent = [headers["authorization"] for _, headers, _ in server.seen]
            assert set(sent) == {f"Bearer rft_{status}"}
        assert other.seen == []


def test_the_first_server_that_is_opened_owns_the_token_not_the_first_that_is_called(monkeypatch):
    monkeypatch.setenv("REFOLD_TOKEN", "rft_of_the_first")
    monkeypatch.setenv("XDG_DATA_HOME", "/nonexistent")
    with serving(Play({})) as first, serving(Play({})) as second:
        open_store(f"{first.url}/acme")
        with pytest.raises(Denied, match=f"REFOLD_TOKEN is for {first.url}/acme"):
            open_store(f"{second.url}/acme").conversations()
        assert second.seen == []


@pytest.mark.parametrize(
    "named", [None, "", ".refold/refold.db", "sqlite:a.db", "hybrid:a.db?far=files:m"]
)
def test_a_token_of_the_environment_counts_for_the_server_that_the_caller_names(
    running, monkeypatch, named
):
    """Also where somebody is logged in: whoever sets it means this process."""
    place = RemotePlace(running).url
    _, secret = running.app.tokens.create(place.rpartition("/")[2], "read")
    monkeypatch.setenv("REFOLD_TOKEN", secret)
    if named is not None:
        monkeypatch.setenv("REFOLD_STORE", named)
    store = open_store(place)
    assert store.conversations() == []
    with pytest.raises(Denied, match="may read"):
        store.erase("c", 1)


def test_a_token_that_is_not_used_is_told(running, monkeypatch):
    monkeypatch.setenv("REFOLD_TOKEN", "rft_x")
    monkeypatch.setenv("REFOLD_STORE", "https://a.example/acme")
    store = open_store(f"http://127.0.0.1:{running.port}/nobody")
    with pytest.raises(Denied, match=r"REFOLD_TOKEN is for https://a\.example/acme"):
        store.conversations()
    monkeypatch.delenv("REFOLD_TOKEN")
    with pytest.raises(Denied, match="REFOLD_TOKEN"):
        store.conversations()
