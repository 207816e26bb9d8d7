"""The team server: who may call what, logs that lose nothing, limits, and what nobody may learn."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

import msgspec
import pytest

import refold
from refold.core import bookmark
from refold.edges.server.access import Orgs, Tokens
from refold.edges.server.app import Server
from refold.edges.server.rate_limits import Limits
from refold.errors import Corrupt, Unavailable
from refold.log.log import Log
from refold.stores import batch_of, open_store
from refold.stores.contract.kit import sealed
from tests.edges.cli.rooms import run
from tests.edges.server.kit import BASE, Served, no_time_passes, served


def events(count: int, before=None):
    return sealed(
        before, [b'{"kind":"n","data":%d}' % number for number in range(count)], kind="note"
    )


def test_what_is_appended_is_read_back_byte_for_byte(tmp_path):
    async def work(it: Served):
        batch = batch_of(events(5))
        answer = await it.call("POST", "conversations/c/events?expect=0", content=batch)
        assert (answer.status_code, answer.json()) == (200, {"head": 5})
        read = await it.call("GET", "conversations/c/events", scope="read")
        assert read.content == batch
        about = (await it.call("GET", "conversations/c")).json()
        assert (about["id"], about["head"]) == ("c", 5)
        return batch

    served(tmp_path, work)
    with_store = open_store(f"sqlite:{tmp_path}/orgs/acme.db")
    assert [event.seq for event in with_store.read("c")] == [1, 2, 3, 4, 5]
    with_store.close()


def test_an_append_whose_answer_was_lost_is_sent_again_without_harm(tmp_path):
    async def work(it: Served):
        made = events(4)
        first, second = batch_of(made[:2]), batch_of(made[2:])
        for batch, expect in ((first, 0), (second, 2), (second, 2), (first, 0)):
            answer = await it.call("POST", f"conversations/c/events?expect={expect}", content=batch)
            assert answer.status_code == 200
        assert (await it.call("GET", "conversations/c")).json()["head"] == 4
        other = batch_of(events(1))
        answer = await it.call("POST", "conversations/c/events?expect=0", content=other)
        assert (answer.status_code, answer.json()["head"]) == (409, 4)

    served(tmp_path, work)


def test_many_clients_at_once_lose_and_double_nothing(tmp_path):
    async def work(it: Served):
        async def client(number: int) -> None:
            last = None
            for _ in range(10):
                [event] = events(1, last)
                expect = last.seq if last else 0
                path = f"conversations/c{number}/events?expect={expect}"
                answer = await it.call("POST", path, content=batch_of([event]))
                assert answer.status_code == 200, answer.text
                last = event

        await asyncio.gather(*map(client, range(20)))
        listed = (await it.call("GET", "conversations?limit=100")).json()["conversations"]
        assert [one["head"] for one in listed] == [10] * 20

    served(tmp_path, work)


@pytest.mark.parametrize(
    "batch",
    [b"not an event\n", b"{}\n", b"[" * 200_000, b'{"v":1}\n' * 3, b"\xff\xfe\n"],
    ids=["text", "object", "deep", "half", "bytes"],
)
def test_what_is_no_event_is_refused_and_nothing_is_written(tmp_path, batch):
    async def work(it: Served):
        answer = await it.call("POST", "conversations/c/events?expect=0", content=batch)
        assert answer.status_code == 400
        assert (await it.call("GET", "conversations/c")).status_code == 404

    served(tmp_path, work)


def test_events_that_do_not_continue_the_log_are_refused(tmp_path):
    async def work(it: Served):
        made = events(3)
        forged = msgspec.structs.replace(made[1], body=b'{"kind":"forged"}')
        swapped = msgspec.structs.replace(made[1], chain=bytes(16))
        for bad in (forged, swapped, msgspec.structs.replace(made[1], by="somebody else")):
            batch = batch_of([made[0], bad])
            answer = await it.call("POST", "conversations/c/events?expect=0", content=batch)
            assert answer.status_code == 400, answer.text

    served(tmp_path, work)


@pytest.mark.parametrize("piece", ["", "\n", "{}", {}, {"fault": "x", "more": "y"}])
def test_a_piece_of_a_damaged_log_that_is_none_is_refused(tmp_path, piece):
    async def work(it: Served):
        await it.call("POST", "conversations/c/events?expect=0", content=batch_of(events(2)))
        body = {"events": [], "after": 0, "seen": {"pieces": [piece]}}
        answer = await it.call("POST", "conversations/c/rewrite", json=body)
        assert 400 <= answer.status_code < 500, answer.text
        assert (await it.call("GET", "conversations/c")).json()["head"] == 2

    served(tmp_path, work)


def test_a_conversation_in_the_plain_forms(tmp_path):
    async def work(it: Served):
        body = {"id": "login", "title": "Fix the login", "tags": ["web"]}
        assert (await it.call("POST", "conversations", json=body)).status_code == 200
        message = {"message": {"role": "user", "content": "It fails"}, "key": "m1"}
        first = (await it.call("POST", "conversations/login/messages", json=message)).json()
        again = (await it.call("POST", "conversations/login/messages", json=message)).json()
        assert len(first["seqs"]) == 1 and first["written"]
        assert again == {**first, "written": False}
        kept = {"name": "log.txt", "content": "line 1\nline 2"}
        artifact = (await it.call("POST", "conversations/login/artifacts", json=kept)).json()
        assert artifact["id"].startswith("art-")
        shown = (await it.call("GET", "conversations/login/messages", scope="read")).json()
        assert [one["message"]["content"] for one in shown["messages"]] == ["It fails"]
        found = (await it.call("GET", "search?q=fails", scope="read")).json()
        assert found["hits"][0]["conversation"] == "login"
        plain = (await it.call("GET", "conversations/login", scope="read")).json()
        counted = (await it.call("GET", "conversations/login?counts=true", scope="read")).json()
        counts = counted.pop("counts")
        assert counted == plain and "counts" not in plain and plain["title"] == "Fix the login"
        assert (counts["messages"], counts["tags"], counts["calls"]) == (1, ["web"], 0)
        assert counts["tokens"] > 0 and counts["cost"] == 0 and counts["window"] > 0
        wrong = await it.call("GET", "conversations/login?counts=many", scope="read")
        assert (wrong.status_code, wrong.json()["error"]) == (400, "invalid")

    served(tmp_path, work)


@pytest.mark.parametrize(
    ("path", "body", "hint"),
    [
        ("conversations", {"title": "x"}, "an object with `id`, and optionally `title`"),
        ("conversations/c/messages", {"role": "user"}, "an object with `message`"),
        ("conversations/c/artifacts", {"content": "x"}, "`name`"),
        ("conversations", [], "an object with `id`"),
    ],
)
def test_a_body_of_another_form_is_told_what_it_should_have(tmp_path, path, body, hint):
    """M-30"""

    async def work(it: Served):
        answer = await it.call("POST", path, json=body)
        assert answer.status_code == 400 and hint in answer.json()["hint"]

    served(tmp_path, work)


@pytest.mark.parametrize(
    "text", ["short", "a line of much output\n" * 20_000, 'ä \\u0000 "key":"m1"']
)
def test_a_message_that_is_sent_again_is_told_where_it_stands(tmp_path, text):
    """Another text under the same key is not written: the key is the name of the message."""

    async def work(it: Served):
        async def sent(key: str, text: str, role: str = "user"):
            body = {"message": {"role": role, "content": text}, "key": key}
            return (await it.call("POST", "conversations/c/messages", json=body)).json()

        first = [await sent(f"m{number}", f"{number} {text}") for number in range(3)]
        assert all(one["written"] and len(one["seqs"]) == 1 for one in first)
        for number, one in enumerate(first):
            for other in (f"{number} {text}", "another text"):
                again = await sent(f"m{number}", other)
                assert (again["seqs"], again["written"]) == (one["seqs"], False)
        assert (await sent("new", text))["written"]

    served(tmp_path, work)


def test_artifacts_are_streamed_and_known_only_inside_the_organization(tmp_path):
    async def work(it: Served):
        content = b"0123456789" * 300_000
        kept = (await it.call("POST", "artifacts", content=content)).json()
        assert (await it.call("GET", f"artifacts/{kept['digest']}")).content == content
        other = it.token("admin", org="other")
        path = f"/api/v1/orgs/other/context/artifacts/{kept['digest']}"
        assert (await it.call("GET", path, secret=other)).status_code == 404

    served(tmp_path, work)


def test_the_memory_of_an_organization(tmp_path):
    async def work(it: Served):
        body = {"content": "The database listens on port 6432."}
        entry = (await it.call("POST", "memory", json=body)).json()
        found = (await it.call("GET", "memory?q=database port", scope="read")).json()["entries"]
        assert found[0]["id"] == entry["id"]
        assert (await it.call("GET", "memory?scope=user")).status_code == 400
        assert (await it.call("DELETE", f"memory/{entry['id']}")).status_code == 200
        assert (await it.call("GET", "memory?q=database port")).json()["entries"] == []

    served(tmp_path, work)


# --- who may call ---


def concrete(path: str, org: str) -> str:
    values = {"org": org, "id": "c", "digest": "0" * 64, "entry": "mem-0"}
    for name, value in values.items():
        path = path.replace(f"{{{name}}}", value)
    return path


QUERIES = {"/events": "?expect=0", "/search": "?q=x", "/artifacts/{digest}": "?before_ms=0"}
RANKS = {"read": 1, "write": 2, "admin": 3}


def check_described(operation, answer) -> None:
    """The document names the status, and what comes with it; only a conflict has a head."""
    described = operation["responses"][str(answer.status_code)].get("content", {})
    mime = answer.headers.get("content-type", "").partition(";")[0]
    assert (mime in described) if answer.content else not described, (operation, answer)
    if not answer.is_success:
        assert ("head" in answer.json()) == (answer.status_code == 409)


def test_the_document_says_what_calls_that_succeed_are_told(tmp_path):
    """What the callers of every route below do not reach: that something was done."""

    async def work(it: Served):
        paths = (await it.call("GET", "/openapi.json", secret="")).json()["paths"]
        batch = batch_of(events(2))
        calls = [
            ("POST", "conversations/{id}/events", "?expect=0", {"content": batch}),
            ("POST", "conversations/{id}/events", "?expect=1", {"content": batch}),
            ("PUT", "conversations/{id}/bookmark", "", {"content": b"b"}),
            ("GET", "conversations/{id}/bookmark", "", {}),
            ("POST", "conversations/{id}/erase", "", {"json": {"seq": 1}}),
            ("DELETE", "conversations/{id}", "", {}),
        ]
        statuses = []
        for method, path, query, given in calls:
            operation = paths[f"/api/v1/orgs/{{org}}/context/{path}"][method.lower()]
            answer = await it.call(method, concrete(path, "acme") + query, **given)
            check_described(operation, answer)
            statuses.append(answer.status_code)
        assert statuses == [200, 409, 204, 200, 204, 204]
        feed = paths["/api/v1/orgs/{org}/context/feed"]["get"]
        assert "text/event-stream" in feed["responses"]["200"]["content"]

    served(tmp_path, work)


def test_every_route_for_every_caller(tmp_path):
    """Generated from the OpenAPI document: own organization, another, no token, a wrong one, one
    that is revoked, one that has expired, and each scope."""

    async def work(it: Served):
        document = (await it.call("GET", "/openapi.json", secret="")).json()
        revoked_secret = it.token("admin")
        revoked = next(
            one for one in it.server.tokens.list() if one.digest.startswith(_digest(revoked_secret))
        )
        it.server.tokens.revoke(revoked.id)
        expired = it.token("admin", days=0.000_000_01)
        other = it.token("admin", org="other")
        await asyncio.sleep(0.01)
        checked = 0
        for path, operations in document["paths"].items():
            for method, operation in operations.items():
                level = operation["x-level"]
                url = concrete(path, "acme") + next(
                    (q for end, q in QUERIES.items() if path.endswith(end)), ""
                )
                for secret, expected in (
                    ("", 401), ("rft_wrong", 401), (revoked_secret, 401), (expired, 401), (other, 404),
                ):  # fmt: skip
                    it.server.gate.guesses.levels.clear()
                    answer = await it.call(method.upper(), url, secret=secret)
                    check_described(operation, answer)
                    wanted = 200 if level == "open" else expected
                    assert answer.status_code == wanted, (method, path, secret, answer.text)
                    checked += 1
                for scope, rank in RANKS.items():
                    if level == "open":
                        continue
                    answer = await it.call(
                        method.upper(),
                        url + ("&wait=0" if "?" in url else "?wait=0")
                        if path.endswith("/feed")
                        else url,
                        scope=scope,
                    )
                    check_described(operation, answer)
                    refused = rank < RANKS[level]
                    assert (answer.status_code == 403) == refused, (
                        method,
                        path,
                        scope,
                        answer.text,
                    )
                    assert answer.status_code < 500
                    checked += 1
        assert checked > 100

    served(tmp_path, work)


def test_the_guide_lists_every_route_as_it_is(tmp_path):
    guide = (Path(__file__).parents[3] / "docs/guides/team-server.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([A-Z]+) \| `([^`]+)` \| (\w+) \| (.+) \|$", guide, re.MULTILINE)

    async def work(it: Served):
        there = [
            (route.method, route.path.replace(BASE.replace("acme", "{org}"), "…"), route.level)
            for route in it.server.routes
        ]
        assert sorted(row[:3] for row in rows) == sorted(there)
        told = {row[3] for row in rows}
        said = {
            f"{one.summary[0].lower()}{one.summary[1:]}".rstrip(".") for one in it.server.routes
        }
        assert told == said

    served(tmp_path, work)


def test_every_route_has_a_name_of_its_own(tmp_path):
    async def work(it: Served):
        names = [route.name for route in it.server.routes]
        assert len(set(names)) == len(names)
        assert {"get-health", "get-openapi-json", "post-conversations-id-events"} <= {*names}

    served(tmp_path, work)


def _digest(secret: str) -> str:
    import hashlib

    return hashlib.sha256(secret.encode()).hexdigest()


@pytest.mark.parametrize(
    "headers, query, status",
    [
        ({}, "?token=rft_abc", 400),
        ({}, "?access_token=x", 400),
        ({"Authorization": "Basic abc"}, "", 401),
        ({"Authorization": "Bearer"}, "", 401),
        ({"Cookie": "token=SECRET"}, "", 401),
        ({"X-Api-Key": "SECRET"}, "", 401),
        ({"Authorization": "Bearer SECRETx"}, "", 401),
        ({"Authorization": "Bearer secret"}, "", 401),
    ],
)
def test_a_token_counts_in_one_form_only(tmp_path, headers, query, status):
    async def work(it: Served):
        secret = it.secrets["admin"]
        filled = {
            k: v.replace("SECRET", secret).replace("secret", secret.lower())
            for k, v in headers.items()
        }
        answer = await it.call("GET", f"conversations{query}", secret="", headers=filled)
        assert answer.status_code == status

    served(tmp_path, work)


def test_two_tokens_in_one_call_are_refused(tmp_path):
    async def work(it: Served):
        headers = [("Authorization", f"Bearer {it.secrets['admin']}")] * 2
        answer = await it.client.request("GET", f"{BASE}/conversations", headers=headers)
        assert answer.status_code == 400

    served(tmp_path, work)


def test_whoever_guesses_tokens_is_stopped(tmp_path):
    async def work(it: Served):
        statuses = []
        for number in range(60):
            answer = await it.call("GET", "conversations", secret=f"rft_{number}")
            statuses.append(answer.status_code)
        assert statuses[0] == 401
        assert statuses[-1] == 429
        assert int(answer.headers["retry-after"]) >= 1

    served(tmp_path, work)


@pytest.mark.parametrize("ended", ["revoked", "expired"])
def test_wrong_tokens_of_others_at_an_address_never_refuse_a_valid_one(tmp_path, ended):
    """Behind a load balancer all callers have one address, and a leaver's agents go on calling."""

    async def work(it: Served):
        token, secret = it.server.tokens.create("acme", "write", days=1e-9)
        if ended == "revoked":
            it.server.tokens.revoke(token.id)
        statuses = set()
        for number in range(100):
            left = await it.call("GET", "conversations", secret=secret)
            guess = await it.call("GET", "conversations", secret=f"rft_{number}")
            valid = await it.call("GET", "conversations", scope="read")
            statuses.add((left.status_code, valid.status_code))
        assert statuses == {(401, 200)}, "neither counts as a guess"
        assert guess.status_code == 429, "a guess does"
        new = it.token("write")
        assert (await it.call("GET", "conversations", secret=new)).status_code == 200

    served(tmp_path, work)


def test_a_revoked_token_is_refused_at_once_and_its_stream_ends(tmp_path):
    async def work(it: Served):
        token, secret = it.server.tokens.create("acme", "read")
        assert (await it.call("GET", "conversations", secret=secret)).status_code == 200
        it.server.tokens.revoke(token.id)
        assert (await it.call("GET", "conversations", secret=secret)).status_code == 401

    served(tmp_path, work)


@pytest.mark.parametrize("error", [Unavailable("it is away"), Corrupt("it is damaged")])
def test_a_server_starts_without_its_store_and_serves_once_it_is_back(tmp_path, monkeypatch, error):
    """A worker may be replaced while the database is away."""
    Tokens(Orgs(f"sqlite:{tmp_path}/orgs").own).create("acme", "admin")
    is_away = True
    follow = Tokens.follow

    def follow_unless_away(tokens: Tokens) -> None:
        if is_away:
            raise error
        follow(tokens)

    monkeypatch.setattr(Tokens, "follow", follow_unless_away)
    server = Server(Orgs(f"sqlite:{tmp_path}/orgs"), Limits())

    async def start() -> None:
        nonlocal is_away
        await server.start()
        assert not server.tokens.by_id
        is_away = False
        while not server.tokens.by_id:
            await asyncio.sleep(0.05)
        await server.stop()

    asyncio.run(start())


def test_only_its_own_names_and_no_web_page(tmp_path):
    async def work(it: Served):
        bad = [
            {"Host": "evil.example"},
            {"Origin": "http://evil.example"},
            {"Host": "localhost.evil.example"},
        ]
        for headers in bad:
            assert (await it.call("GET", "conversations", headers=headers)).status_code == 403
        assert (
            await it.call("GET", "conversations", headers={"Host": "localhost:8741"})
        ).status_code == 200

    served(tmp_path, work, hosts=frozenset({"127.0.0.1", "localhost"}))


# --- limits ---


def test_what_is_too_large_is_refused_before_it_is_read(tmp_path):
    limits = Limits(body_bytes=10_000, artifact_bytes=20_000)

    async def work(it: Served):
        async def endless():
            for _ in range(1_000):
                yield b"x" * 1_000

        big = await it.call("POST", "conversations/c/events?expect=0", content=b"x" * 20_000)
        assert big.status_code == 413
        assert (
            await it.call("POST", "conversations/c/events?expect=0", content=endless())
        ).status_code == 413
        assert (await it.call("POST", "artifacts", content=endless())).status_code == 413
        headers = {"Content-Length": "99000000000"}
        answer = await it.call("PUT", "conversations/c/bookmark", content=b"x", headers=headers)
        assert answer.status_code == 413
        gzip = {"Content-Encoding": "gzip"}
        assert (await it.call("POST", "memory", content=b"x", headers=gzip)).status_code == 400

    served(tmp_path, work, limits=limits)


def test_a_full_server_says_so_at_once(tmp_path):
    async def work(it: Served):
        it.server._running = 256
        answer = await it.call("GET", "conversations")
        assert (answer.status_code, answer.headers["retry-after"]) == (429, "1")
        it.server._running = 0

    served(tmp_path, work)


def test_one_token_cannot_take_the_whole_server(tmp_path, monkeypatch):
    no_time_passes(monkeypatch)

    async def work(it: Served):
        statuses = [(await it.call("GET", "conversations")).status_code for _ in range(12)]
        assert statuses == [200] * 5 + [429] * 7
        assert (await it.call("GET", "conversations", scope="read")).status_code == 200

    served(tmp_path, work, limits=Limits(calls_per_s=1.0, burst=5))


# --- the feed ---


def test_the_feed_tells_of_a_change_and_of_a_cursor_it_does_not_know(tmp_path):
    async def work(it: Served):
        first = (await it.call("GET", "feed?wait=0")).json()
        assert first["rescan"]
        waiting = asyncio.create_task(it.call("GET", f"feed?after={first['cursor']}&wait=25"))
        await asyncio.sleep(0.05)
        await it.call("POST", "conversations/c/events?expect=0", content=batch_of(events(2)))
        told = (await waiting).json()
        assert told["changes"] == [{"conversation": "c", "head": 2}]
        quiet = (await it.call("GET", f"feed?after={told['cursor']}&wait=0")).json()
        assert (quiet["changes"], quiet["rescan"]) == ([], False)

    served(tmp_path, work)


def test_the_feed_finds_what_another_process_wrote(tmp_path):
    async def work(it: Served):
        it.server.orgs.store("acme").append("a", events(1), expect=0)
        cursor = (await it.call("GET", "feed?wait=0")).json()["cursor"]
        waiting = asyncio.create_task(it.call("GET", f"feed?after={cursor}&wait=25"))
        await asyncio.sleep(1.5)
        it.server.orgs.store("acme").append("b", events(1), expect=0)
        assert {one["conversation"] for one in (await waiting).json()["changes"]} == {"b"}

    served(tmp_path, work)


# --- what is told ---


def test_metrics_and_logs_name_no_secret_and_no_content(tmp_path, caplog):
    caplog.set_level("INFO", logger="refold.server")

    async def work(it: Served):
        body = {"message": {"role": "user", "content": "my canary words"}, "key": "m1"}
        await it.call("POST", "conversations/secret-project/messages", json=body)
        await it.call("GET", "conversations/secret-project/messages")
        text = (await it.call("GET", "metrics")).text
        assert "refold_calls_total" in text
        it.server._lines.write()
        told = text + caplog.text
        for hidden in ("canary", it.secrets["admin"], "secret-project"):
            assert hidden not in told
        lines = [line for message in caplog.messages for line in message.splitlines()]
        assert json.loads(lines[0])["route"] == "post-conversations-id-messages"
        for line in lines:
            json.loads(line)

    served(tmp_path, work)


def test_the_audit_log_says_who_read_and_erased_what(tmp_path):
    from refold.edges.server.audit import entries_of

    async def work(it: Served):
        await it.call("POST", "conversations/c/events?expect=0", content=batch_of(events(2)))
        await it.call("GET", "conversations/c/events", scope="read")
        await it.call("POST", "conversations/c/erase", json={"seq": 1})
        it.server.audit.flush()
        found = entries_of(it.server.orgs.own, "acme", limit=100)
        told = [(one.action, one.what, one.result) for one in found if one.action != "create"]
        assert sorted(told) == [("erase", "c", "done"), ("read", "c", "")]

    served(tmp_path, work)


def test_the_audit_log_says_what_came_of_each_erasure(tmp_path):
    from refold.edges.server.audit import entries_of

    async def work(it: Served):
        token, secret = it.server.tokens.create("acme", "write", name="ann")
        for path, what in (
            ("conversations/none/erase", {"seq": 1}),
            ("conversations/c/erase", {"seq": 9}),
        ):
            await it.call("POST", "conversations/c/events?expect=0", content=batch_of(events(1)))
            assert not (await it.call("POST", path, json=what, secret=secret)).is_success
        await it.call("DELETE", f"artifacts/{'0' * 64}?before_ms=0", secret=secret)
        await it.call("DELETE", "conversations/c", secret=secret)
        await it.call("DELETE", "memory/mem-0", secret=secret)
        it.server.tokens.revoke(token.id)
        found = [
            one for one in entries_of(it.server.orgs.own, "acme", limit=9) if one.name == "ann"
        ]
        results = [(one.action, one.result) for one in found]
        assert results[0] == ("create", "") and results[-1] == ("revoke", "")
        assert results[1:3] == [("erase", "not-found")] * 2 and results[4] == ("erase", "done")
        assert {one.token for one in found} == {token.id}

    served(tmp_path, work)


def test_every_event_counts_whichever_route_appends_it(tmp_path):
    async def work(it: Served):
        await it.call("POST", "conversations/c/events?expect=0", content=batch_of(events(3)))
        for number in range(4):
            body = {"message": {"role": "user", "content": "hello"}, "key": f"m{number}"}
            assert (await it.call("POST", "conversations/d/messages", json=body)).is_success
        await it.call("POST", "conversations/d/messages", json=body)
        await it.call("POST", "conversations", json={"id": "e", "title": "E"})
        await it.call("POST", "conversations/e/artifacts", json={"name": "a", "content": "x"})
        await it.call("POST", "memory", json={"content": "The port of the staging server is 8080"})
        heads = (await it.call("GET", "conversations")).json()["conversations"]
        written = sum(one["head"] for one in heads)
        text = (await it.call("GET", "metrics")).text
        assert written > 8 and f"refold_events_appended_total {written}\n" in text

    served(tmp_path, work)


def test_a_fault_of_the_program_tells_nothing(tmp_path, monkeypatch):
    async def work(it: Served):
        def broken(*_: object, **__: object) -> None:
            raise RuntimeError("the password is hunter2")

        monkeypatch.setattr(type(it.server.orgs.store("acme")), "conversations", broken)
        answer = await it.call("GET", "conversations")
        assert answer.status_code == 500
        assert "hunter2" not in answer.text

    served(tmp_path, work)


def test_a_context_can_be_opened_on_what_the_server_keeps(tmp_path):
    async def work(it: Served):
        body = {"message": {"role": "user", "content": "hello"}, "key": "m1"}
        await it.call("POST", "conversations/c/messages", json=body)

    served(tmp_path, work)
    with refold.open("c", store=f"sqlite:{tmp_path}/orgs/acme.db") as context:
        assert len(context.view.slots) == 1


@pytest.mark.parametrize("hidden", [0, 1, 2])
@pytest.mark.parametrize("is_late", [False, True])
@pytest.mark.parametrize("scope", ["read", "admin"])
def test_a_forged_bookmark_changes_nobody_elses_page(tmp_path, hidden, is_late, scope):
    said = ["Never delete the production database.", "Understood.", "Clean up staging."]

    async def work(it: Served):
        path = "conversations/c"
        for key, text in enumerate(said):
            body = {"key": str(key), "message": {"role": "user", "content": text}}
            await it.call("POST", f"{path}/messages", json=body)
        mark = bookmark.read(it.server.orgs.store("acme").bookmark("c") or (await kept(it)))
        mark.slots = [slot for at, slot in enumerate(mark.slots) if at != hidden]
        data = msgspec.msgpack.encode(mark)
        forged = bookmark.digest_of(b"", data) + data
        answer = await it.call("PUT", f"{path}/bookmark", content=forged, scope="write")
        assert answer.status_code == 204
        if is_late:
            body = {"key": "late", "message": {"role": "user", "content": "late"}}
            await it.call("POST", f"{path}/messages", json=body)
        else:
            assert (await it.call("GET", f"{path}/bookmark", scope="write")).content == forged
        seen = await it.call("GET", f"{path}/bookmark", scope=scope)
        assert seen.content != forged
        assert len(bookmark.read(seen.content).slots) == len(said) + is_late
        page = (await it.call("GET", f"{path}/messages", scope=scope)).json()["messages"]
        shown = json.dumps(page)
        assert all(text in shown for text in said)
        # Once the server has made one, the forger gets that, too.
        assert (await it.call("GET", f"{path}/bookmark", scope="write")).content != forged

    async def kept(it: Served) -> bytes:
        log = Log(it.server.orgs.store("acme"), "c")
        return bookmark.kept(log.state)

    served(tmp_path, work)


def test_a_bookmark_of_a_token_is_no_fault_of_the_log(tmp_path):
    async def work(it: Served):
        body = {"key": "k", "message": {"role": "user", "content": "hi"}}
        await it.call("POST", "conversations/c/messages", json=body)
        answer = await it.call("PUT", "conversations/c/bookmark", content=b"mark")
        assert answer.status_code == 204

    served(tmp_path, work)
    verified = run("verify", "c", "--store", f"sqlite:{tmp_path}/orgs/acme.db")
    assert verified.exit_code == 0 and "bookmark" not in verified.stdout
