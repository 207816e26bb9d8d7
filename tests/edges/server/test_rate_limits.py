"""What a server is told to take is for its machine: its processes divide it, and none is left
without room. A limit that makes no sense is refused by its name."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import asdict, fields

from refold.edges.server.access import client_of
from refold.edges.server.rate_limits import Limits, limits_of
from refold.edges.server.serve import ServerSettings, uvicorn_config
from refold.errors import Invalid
from tests.edges.cli.rooms import run
from tests.edges.server.kit import Served, no_time_passes, served

NAMES = [field.name for field in fields(Limits)]
DIVIDED = {"calls_per_s", "burst", "wrong_tokens_per_minute", "open_calls_per_s", "calls_at_once", "listeners", "held_bytes"}  # fmt: skip
NUMBERS = st.builds(
    Limits,
    calls_per_s=st.floats(1, 1e6),
    burst=st.integers(1, 10**6),
    wrong_tokens_per_minute=st.integers(1, 10**4),
    calls_at_once=st.integers(1, 10**4),
    listeners=st.integers(1, 10**5),
    body_bytes=st.integers(1, 10**6),
    held_bytes=st.integers(10**6, 10**9),
)


@given(limits=NUMBERS, workers=st.integers(1, 64))
def test_all_workers_together_take_what_was_set(limits: Limits, workers: int) -> None:
    share = limits.share(workers)
    for name, most in asdict(limits).items():
        one = getattr(share, name)
        if name not in DIVIDED:
            assert one == most
            continue
        least = limits.body_bytes if name == "held_bytes" else 1
        assert one >= min(most / workers, least) > 0
        # No more than was set, unless each has the least that makes sense.
        assert one * workers <= most * (1 + 1e-9) or one == least


def test_one_worker_takes_all() -> None:
    assert Limits().share(1) == Limits()


@pytest.mark.parametrize("name", NAMES)
def test_every_limit_can_be_set(name: str) -> None:
    value = 64 * 1024 * 1024 if name.endswith("_bytes") else 7
    assert getattr(limits_of([f"{name}={value}"]), name) == value


@pytest.mark.parametrize(
    "text",
    ["", "calls_per_s", "calls_per_s=", "calls_per_s=0", "calls_per_s=-1", "calls_per_s=nan", "burst=inf",
     "burst=1.5", "burst=1e3x", "calls=3", "header_s=0", "body_bytes=1000000000000000", "=1", "body_bytes=",
     "held_bytes=1", "calls_per_s=ten", "Burst=3", "burst =3", "\x1b[31m=1"],
)  # fmt: skip
def test_what_is_no_limit_is_refused(text: str) -> None:
    with pytest.raises(Invalid) as refusal:
        limits_of([text])
    assert refusal.value.hint and "\x1b" not in str(refusal.value)


def test_the_last_of_two_counts() -> None:
    assert limits_of(["burst=5", "burst=6"]).burst == 6


def test_a_misspelt_limit_names_the_one_that_was_meant(tmp_path) -> None:
    refused = run("serve", "--check", "--store", f"sqlite:{tmp_path}", "--limit", "call_per_s=9")
    assert refused.exit_code == 2 and "calls_per_s" in refused.stderr


def test_a_caller_without_a_token_is_limited_except_for_what_watches_the_server(
    tmp_path, monkeypatch
) -> None:
    """Behind a load balancer everybody may have one address, and its checks have it, too."""
    no_time_passes(monkeypatch)

    async def work(it: Served) -> None:
        answers = [await it.client.get("/openapi.json") for _ in range(30)]
        refused = [one for one in answers if one.status_code == 429]
        assert len(refused) == 26 and answers[0].status_code == 200
        assert all(one.headers["connection"] == "close" for one in refused)
        assert (await it.call("GET", "conversations")).status_code == 200
        for path in ("/health", "/ready"):
            assert {(await it.client.get(path)).status_code for _ in range(30)} == {200}

    served(tmp_path, work, limits=Limits(open_calls_per_s=2.0))


def test_a_token_without_calls_left_still_gets_the_metrics(tmp_path, monkeypatch) -> None:
    no_time_passes(monkeypatch)

    async def work(it: Served) -> None:
        statuses = [(await it.call("GET", "conversations")).status_code for _ in range(4)]
        assert statuses == [200, 200, 429, 429]
        assert {(await it.call("GET", "metrics")).status_code for _ in range(9)} == {200}

    served(tmp_path, work, limits=Limits(burst=2))


@pytest.mark.parametrize("peer", ["10.1.2.3", "10.9.9.9", "2001:db8::1"])
@pytest.mark.parametrize("forwarded", [["9.9.9.9"], ["1.1.1.1, 9.9.9.9"], ["1.1.1.1", "9.9.9.9, 10.1.0.1"]])  # fmt: skip
def test_limits_count_the_address_that_a_trusted_proxy_names(tmp_path, peer, forwarded) -> None:
    """What a caller wrote there itself counts for nothing."""
    trusted = ServerSettings(store="", trusted_proxies=("10.1.0.0/16", "2001:db8::1"))
    config = uvicorn_config(trusted)
    seen: list[str] = []

    async def app(scope, receive, send) -> None:
        seen.append(client_of(scope))

    config.app, config.factory = app, False
    config.load()
    headers = [(b"x-forwarded-for", value.encode()) for value in forwarded]
    scope = {"type": "http", "client": (peer, 1), "headers": headers, "asgi": {}}
    asyncio.run(config.loaded_app(scope, None, None))
    assert seen == [peer if peer == "10.9.9.9" else "9.9.9.9"]


@pytest.mark.parametrize("proxy", ["*", "", "proxy.example.com", "10.0.0.1/8", "10.0.0.1,10.0.0.2"])
def test_only_an_address_or_a_network_is_a_trusted_proxy(tmp_path, proxy: str) -> None:
    store = f"sqlite:{tmp_path}"
    refused = run("serve", "--check", "--store", store, "--trusted-proxy", proxy)
    assert refused.exit_code == 2 and "10.0.0.0/24" in refused.stderr
