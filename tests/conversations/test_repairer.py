"""Every damage has a repair, and it says what it gave up."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import refold
from refold.conversations.repairer import Repaired, repair
from refold.conversations.verifier import verify
from refold.core.codec import from_line, to_line
from refold.errors import Conflict, Corrupt
from refold.stores import open_store

COUNT = 12


@pytest.fixture(params=["sqlite", "files"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    made = f"sqlite:{tmp_path}/refold.db" if request.param == "sqlite" else f"files:{tmp_path}/tree"
    with refold.open("talk", store=made) as context:
        for number in range(COUNT):
            role = "assistant" if number % 2 else "user"
            context.append({"role": role, "content": f"m{number} word"})
    return made


def spoil_body(url: str, seq: int) -> None:
    change(url, f"m{seq - 1} word".encode(), f"m{seq - 1} EVIL".encode())


def change(url: str, old: bytes, new: bytes) -> None:
    scheme, _, path = url.partition(":")
    if scheme == "files":
        log = Path(path) / "conversations/talk/messages.jsonl"
        log.write_bytes(log.read_bytes().replace(old, new, 1))
        return
    content = Path(path).read_bytes()
    assert old in content
    Path(path).write_bytes(content.replace(old, new, 1))


def repaired(url: str) -> Repaired:
    done = refold.conversations.repair(url, "talk")
    report = refold.conversations.verify(url)
    assert not report.problems, report.problems
    with refold.open("talk", store=url) as context:
        context.append({"role": "user", "content": "goes on"})
        context.request("anthropic")
    return done


@pytest.mark.parametrize("seqs", [(3,), (1, 7), (COUNT,)])
def test_a_changed_body_becomes_an_erased_event(url: str, seqs: tuple[int, ...]) -> None:
    for seq in seqs:
        spoil_body(url, seq)
    with pytest.raises(Corrupt):
        refold.open("talk", store=url)
    done = repaired(url)
    assert done.erased == seqs
    assert done.lost == tuple(f"the body of event {seq}" for seq in seqs)
    assert b"EVIL" not in b"".join(event.body for event in open_store(url).read("talk"))
    assert len(Path(done.copy).read_text().splitlines()) == COUNT
    assert os.stat(done.copy).st_mode & 0o777 == 0o600


@pytest.mark.parametrize("seq", [1, 2, 7, COUNT - 1])
def test_a_log_ends_at_a_broken_envelope(tmp_path: Path, seq: int) -> None:
    url = f"files:{tmp_path}"
    with refold.open("talk", store=url) as context:
        for number in range(COUNT):
            context.append({"role": "user", "content": f"m{number} word"})
    log = tmp_path / "conversations/talk/messages.jsonl"
    lines = log.read_bytes().splitlines(keepends=True)
    chain = from_line(lines[seq - 1]).chain.hex().encode()
    lines[seq - 1] = lines[seq - 1].replace(chain, chain[::-1])
    log.write_bytes(b"".join(lines))
    done = refold.conversations.repair(url, "talk")
    assert done.ends_at == seq - 1
    assert done.rest == "talk-rest"
    store = open_store(url)
    texts = [event.body for event in store.read("talk-rest")]
    assert any(b"m11 word" in text for text in texts)
    assert not verify(store).problems
    assert len(texts) == COUNT - seq + 1


def test_a_line_that_is_no_event_ends_the_log(tmp_path: Path) -> None:
    url = f"files:{tmp_path}"
    with refold.open("talk", store=url) as context:
        for number in range(COUNT):
            context.append({"role": "user", "content": f"m{number} word"})
    log = tmp_path / "conversations/talk/messages.jsonl"
    lines = log.read_bytes().splitlines(keepends=True)
    lines[4] = lines[4][:30] + b"#" * 20 + lines[4][50:]
    log.write_bytes(b"".join(lines))
    done = refold.conversations.repair(url, "talk")
    assert done.ends_at == 4 and done.rest == "talk-rest"
    assert not refold.conversations.verify(url).problems
    assert len(open_store(url).read("talk-rest")) == COUNT - 5


def test_a_sound_conversation_is_left_as_it_is(url: str) -> None:
    store = open_store(url)
    before = [to_line(event) for event in store.read("talk")]
    assert not repair(store, "talk").changed
    assert [to_line(event) for event in store.read("talk")] == before


def test_what_a_fork_reads_is_not_cut(tmp_path: Path) -> None:
    url = f"files:{tmp_path}"
    with refold.open("talk", store=url) as context:
        for number in range(4):
            context.append({"role": "user", "content": f"m{number} word"})
        context.fork("other", at=4).close()
    log = tmp_path / "conversations/talk/messages.jsonl"
    lines = log.read_bytes().splitlines(keepends=True)
    chain = from_line(lines[1]).chain.hex().encode()
    lines[1] = lines[1].replace(chain, chain[::-1])
    log.write_bytes(b"".join(lines))
    with pytest.raises(Conflict, match="other"):
        refold.conversations.repair(url, "talk")
    assert log.read_bytes() == b"".join(lines)
