"""What another program did to the files of a store is noticed by whoever reads them next: the answer
is right, or refused, or comes with a notice."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import refold
from refold.errors import Corrupt, RefoldError
from refold.log.fingerprints import Fronts, reader
from refold.search.fingerprints import StoreFronts
from refold.stores import open_store

KINDS = ("sqlite", "files")
IDS = ("one", "two")
NOTICES = ("index-rebuilt", "index-in-memory", "index-behind", "storage-recovered")
CONFIG = {"offload_tokens": 200}
Reads = dict[str, Any]


def url_of(kind: str, folder: Path) -> str:
    return f"sqlite:{folder}/refold.db" if kind == "sqlite" else f"files:{folder}/store"


def opened(url: str, id: str) -> refold.Context:
    return refold.open(id, store=url, window=20_000, config=CONFIG, embedder=False)


def make(url: str) -> None:
    """Two conversations with artifacts and an edit, an index, and fronts."""
    for id in IDS:
        with opened(url, id) as context:
            for number in range(8):
                text = f"step {number} of {id}: look at the login form. {'x' * 200}"
                context.append({"role": ("user", "assistant")[number % 2], "content": text})
            call = {"type": "tool_use", "id": "t1", "name": "run", "input": {"command": "cat"}}
            context.append({"role": "assistant", "content": [call]})
            context.append_result("t1", f"large output of {id}\n" * 400)
            context.compact("hide", target=500)
            context.search("login")
    front(url)


def front(url: str) -> Any:
    store = open_store(url)
    fronts = StoreFronts(store)
    try:
        begun = Fronts()
        begun.follow(reader(store, IDS[0]), 3)
        return fronts.longest(begun.fronts)
    finally:
        fronts.close()
        store.close()


def reads(url: str, notices: list[str]) -> Reads:
    """What a reader gets of each thing, or the error."""
    found: Reads = {}

    def note(name: str, work: Callable[[], Any]) -> None:
        try:
            found[name] = work()
        except RefoldError as error:
            found[name] = error

    def page(id: str) -> Any:
        with opened(url, id) as context:
            for name in NOTICES:
                context.on(name, lambda notice: notices.append(notice.name))
            note(
                f"artifacts {id}", lambda: [one.artifact.digest for one in context.artifacts.list()]
            )
            note(f"unfolded {id}", lambda: context.unfold("#3").text)
            note(
                f"hits {id}",
                lambda: sorted((h.conversation, h.seq) for h in context.search("login")),
            )
            return context.request("anthropic")

    note("list", lambda: [(one.id, one.head) for one in open_store(url).conversations()])
    for id in IDS:
        note(f"page {id}", lambda id=id: page(id))
    note("front", lambda: front(url))
    return found


def damages(content: bytes, chance: random.Random) -> Iterator[bytes | None]:
    """No file, an empty one, half of it, a changed bit, and zeros somewhere."""
    yield None
    yield b""
    yield content[: len(content) // 2]
    at = chance.randrange(len(content)) if content else 0
    yield (
        content[:at] + bytes([content[at] ^ 1 << chance.randrange(8)]) + content[at + 1 :]
        if content
        else b"x"
    )
    yield content[:at] + bytes(len(content[at : at + 100])) + content[at + 100 :]


def is_told(right: Any, got: Any) -> bool:
    if isinstance(got, RefoldError) or right == got:
        return True
    # A list gives a damaged conversation the head 0.
    return (
        isinstance(got, list)
        and all(one in right or one[1] == 0 for one in got)
        and len(got) == len(right)
    )


@pytest.mark.parametrize("kind", KINDS)
def test_no_damage_is_shown_as_content(kind: str, tmp_path: Path) -> None:
    made = tmp_path / "made"
    made.mkdir()
    make(url_of(kind, made))
    right = reads(url_of(kind, made), [])
    assert not any(isinstance(one, RefoldError) for one in right.values())
    chance = random.Random(kind)
    files = [path for path in sorted(made.rglob("*")) if path.is_file() and path.name != ".lock"]
    files = [path for path in files if path.parent.name != "two" and not path.name.endswith(".txt")]
    files += sorted(made.rglob("art-*.txt"))[:1]
    for path in files:
        for number, content in enumerate(damages(path.read_bytes(), chance)):
            place = tmp_path / "damaged"
            shutil.copytree(made, place)
            damaged = place / path.relative_to(made)
            damaged.unlink() if content is None else damaged.write_bytes(content)
            notices: list[str] = []
            got = reads(url_of(kind, place), notices)
            lost = isinstance(got["page one"], RefoldError) or isinstance(
                got["page two"], RefoldError
            )
            for name, value in right.items():
                is_missing = name not in got and lost
                assert is_missing or notices or is_told(value, got[name]), (path.name, number, name)
            shutil.rmtree(place)


@pytest.mark.parametrize("damage", ["missing", "empty"])
@pytest.mark.parametrize("left", ["index.db", "artifacts", "refold.db-wal"])
def test_a_lost_database_is_never_replaced_by_an_empty_one(
    left: str, damage: str, tmp_path: Path
) -> None:
    made, lost = tmp_path / "made", tmp_path / "lost"
    make(url_of("sqlite", made))
    lost.mkdir()
    if left == "artifacts":
        shutil.copytree(made / left, lost / left)
    elif left == "index.db":
        shutil.copy2(made / left, lost / left)
    elif damage == "missing":
        (lost / left).write_bytes(b"some frames")
    else:
        pytest.skip("SQLite empties the log of an empty database")
    if damage == "empty":
        (lost / "refold.db").touch()
    before = sorted(os.listdir(lost))
    url = url_of("sqlite", lost)
    for read in (
        lambda: open_store(url).conversations(),
        lambda: open_store(url, read_only=True).conversations(),
        lambda: open_store(url).head("one"),
        lambda: open_store(url).put([b"x"]),
        lambda: opened(url, "one").append({"role": "user", "content": "go on"}),
    ):
        with pytest.raises(Corrupt, match=r"refold\.db is (missing|empty)") as raised:
            read()
        assert left in raised.value.hint
    assert sorted(os.listdir(lost)) == before


def test_a_new_store_begins_with_an_artifact_or_a_search(tmp_path: Path) -> None:
    url = url_of("sqlite", tmp_path)
    with opened(url, "one") as context:
        assert context.search("login") == []
    digest = open_store(url).put([b"an artifact"])
    assert b"".join(open_store(url).get(digest)) == b"an artifact"
    with opened(url, "one") as context:
        context.append({"role": "user", "content": "hello"})
    assert [one.id for one in open_store(url).conversations()] == ["one"]


@pytest.mark.parametrize("name", ["index.db", "fronts.db"])
def test_a_changed_index_is_built_again_wherever_the_change_is(name: str, tmp_path: Path) -> None:
    make(url_of("sqlite", tmp_path))
    url, path = url_of("sqlite", tmp_path), tmp_path / name
    right = reads(url, [])
    content, chance = path.read_bytes(), random.Random(name)
    for _ in range(12):
        at = chance.randrange(len(content))
        path.write_bytes(
            content[:at] + bytes([content[at] ^ 1 << chance.randrange(8)]) + content[at + 1 :]
        )
        notices: list[str] = []
        assert reads(url, notices) == right, at
        assert name != "index.db" or "index-rebuilt" in notices, at
        # What was closed in order is opened in silence.
        notices.clear()
        assert reads(url, notices) == right
        assert not notices
        content = path.read_bytes()
