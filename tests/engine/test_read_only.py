"""Opening for reading: whatever is asked, every byte, name and time in the store's folder stays;
whatever would write is refused, and the context goes on."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import refold
from refold.errors import Denied, Invalid, NotFound
from refold.stores import open_store
from tests.stores.places import url_in

KINDS = ("sqlite", "files")
LARGE = "\n".join(f"line {number}: the lighthouse stands on the rock" for number in range(3_000))


def listing(folder: Path, *, beside: bool = False) -> dict[str, tuple[int, int, str]]:
    """Every name in a folder, with its mode, its time and a hash of what it holds. What a writer
    `beside` us shares with this process in its -shm file is memory of SQLite, and not looked at."""
    found = {}
    for path in sorted(folder.rglob("*")):
        about = path.lstat()
        is_looked_at = path.is_file() and not (beside and path.name.endswith("-shm"))
        content = path.read_bytes() if is_looked_at else b""
        digest = hashlib.sha256(content).hexdigest()
        found[str(path.relative_to(folder))] = about.st_mode, about.st_mtime_ns, digest
    return found


def told(context: refold.Context) -> None:
    """A conversation with an artifact, a compaction, a checkpoint and a title."""
    context.update(title="The lighthouse", metadata={"case": 7}, tags=["sea"])
    context.append({"role": "user", "content": "Where does the lighthouse stand?"})
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    context.append({"role": "assistant", "content": None, "tool_calls": [call]})
    context.append_result("c1", LARGE, name="look")
    for number in range(30):
        context.append({"role": "assistant", "content": f"Answer {number}. " + "rock " * 50})
        context.append({"role": "user", "content": f"And what of ship {number}?"})
    context.checkpoint("before")
    context.compact(target=2_000)


def fill(url: str, *, searched: bool = False) -> None:
    with refold.open("sea", store=url, window=32_000) as context:
        told(context)
        if searched:
            assert context.search("lighthouse")


READINGS: dict[str, Callable[[refold.Context, Path], Any]] = {
    "view": lambda context, _: context.view,
    "request": lambda context, _: context.request("openai_chat"),
    "render": lambda context, _: context.request("anthropic", raw=True),
    "stats": lambda context, _: context.stats(),
    "events": lambda context, _: [*context.log.events()],
    "points": lambda context, _: context.log.points(),
    "batches": lambda context, _: context.log.batches(),
    "diff": lambda context, _: context.log.diff(2),
    "why": lambda context, _: context.log.why(3),
    "search": lambda context, _: context.search("lighthouse rock"),
    "everywhere": lambda context, _: context.search("ship", everywhere=True),
    "unfold": lambda context, _: context.unfold("#2-6"),
    "plan": lambda context, _: context.plan(target=500),
    "dry restore": lambda context, _: context.restore("before", dry_run=True),
    "artifacts": lambda context, _: context.artifacts.list(),
    "select": lambda context, _: context.artifacts.select("lighthouse"),
    "grep": lambda context, _: context.artifacts.grep("line 2999"),
    "count": lambda context, _: context.count({"role": "user", "content": "ship"}),
    "toolbox": lambda context, _: context.toolbox.tools("openai_chat"),
    "export": lambda context, out: context.log.export(out / "sea.json"),
    "markdown": lambda context, out: context.log.export(str(out / "sea.md")),
    "flush": lambda context, _: context.flush(),
}
WRITINGS: dict[str, Callable[[refold.Context], Any]] = {
    "append": lambda context: context.append({"role": "user", "content": "x"}),
    "result": lambda context: context.append_result("c1", "more", name="look"),
    "large result": lambda context: context.append_result("c1", LARGE, name="look"),
    "record": lambda context: context.record({"role": "assistant", "content": "x"}),
    "stream": lambda context: context.stream([]),
    "title": lambda context: context.update(title="Another"),
    "metadata": lambda context: context.update(metadata={"case": 8}),
    "system": lambda context: context.update(system="Be brief."),
    "tools": lambda context: context.update(tools=[]),
    "compact": lambda context: context.compact(target=100),
    "undo": lambda context: context.undo(),
    "checkpoint": lambda context: context.checkpoint("here"),
    "restore": lambda context: context.restore("before"),
    "clear": lambda context: context.clear(),
    "pin": lambda context: context.pin(3),
    "note": lambda context: context.note("state", 1),
    "usage": lambda context: context.record(usage={"input_tokens": 5}),
    "adopt": lambda context: context.compact(
        span=(context.view.slots[0].seq, context.view.slots[0].last), summary="text", author="x"
    ),
    "hide": lambda context: context.hide(context.view.slots[0].seq),
    "keyed": lambda context: context.append({"role": "user", "content": "x"}, key="k"),
    "fork": lambda context: context.fork("river"),
    "spawn": lambda context: context.spawn("river", task="look"),
    "put": lambda context: context.artifacts.put("text", name="a.txt"),
    "remove": lambda context: context.artifacts.remove(context.artifacts.list()[0].artifact.id),
    "recover": lambda context: context.recover(
        Exception("prompt is too long: 210000 tokens > 200000 maximum")
    ),
}


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that every user may look into, which those of pytest are not."""
    made = Path(tempfile.mkdtemp(prefix="refold-read-"))
    made.chmod(0o755)
    yield made / "store"
    shutil.rmtree(made)


def read_all(url: str, out: Path) -> None:
    with refold.open("sea", store=url, read_only=True) as context:
        for read in READINGS.values():
            read(context, out)


@pytest.mark.parametrize("searched", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_reading_changes_nothing(folder, tmp_path, kind, searched):
    url = url_in(folder, kind)
    fill(url, searched=searched)
    before = listing(folder)
    read_all(url, tmp_path)
    assert listing(folder) == before


@pytest.mark.parametrize("name", READINGS)
@pytest.mark.parametrize("kind", [*KINDS, "memory"])
def test_each_reading_answers_as_it_does_for_a_writer(folder, tmp_path, kind, name):
    if kind == "memory":
        store: Any = open_store("memory:")
    else:
        store = url_in(folder, kind)
    fill(store)
    with refold.open("sea", store=store, read_only=True) as reader:
        read = READINGS[name](reader, tmp_path)
    with refold.open("sea", store=store) as writer:
        if name not in ("plan", "stats"):  # these name a batch and an age anew
            assert repr(read) == repr(READINGS[name](writer, tmp_path))


@pytest.mark.parametrize("kind", KINDS)
def test_reading_beside_a_writer_that_is_at_work_changes_nothing(folder, tmp_path, kind):
    url = url_in(folder, kind)
    with refold.open("sea", store=url, window=32_000) as writer:
        told(writer)
        before = listing(folder, beside=True)
        read_all(url, tmp_path)
        assert listing(folder, beside=True) == before
        before = listing(folder)
        child = multiprocessing.get_context("spawn").Process(target=read_all, args=(url, tmp_path))
        child.start()
        child.join(60)
        assert child.exitcode == 0
        assert listing(folder) == before
        with refold.open("sea", store=url, read_only=True) as reader:
            writer.append({"role": "user", "content": "the newest"})
            assert reader.view.head == writer.view.head
    assert not [name for name in listing(folder) if name.endswith(("-wal", "-shm"))]


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_killed_writer_left_is_read_and_stays(folder, tmp_path, kind):
    url = url_in(folder, kind)
    left = folder.parent / "left"
    with refold.open("sea", store=url, window=32_000) as writer:
        told(writer)
        head = writer.view.head
        shutil.copytree(folder, left)
    if kind == "files":
        with (left / "tree/conversations/sea/messages.jsonl").open("ab") as log:
            log.write(b'{"v":1,"seq":')
    before = listing(left)
    read_all(url_in(left, kind), tmp_path)
    assert listing(left) == before
    with refold.open("sea", store=url_in(left, kind), read_only=True) as reader:
        assert reader.view.head == head


@pytest.mark.parametrize("kind", KINDS)
def test_functions_that_read_stored_conversations_change_nothing(folder, tmp_path, kind):
    url = url_in(folder, kind)
    left = folder.parent / "left"
    with refold.open("sea", store=url, window=32_000) as writer:
        told(writer)
        shutil.copytree(folder, left)
    url = url_in(left, kind)
    before = listing(left)
    assert refold.conversations.list(url)[0].metadata == {"case": 7}
    assert refold.conversations.find(url, "sea").title == "The lighthouse"
    assert refold.conversations.export(url, "sea", tmp_path / "sea.json")
    assert refold.conversations.verify(url).problems == ()
    assert refold.conversations.scan(url)
    assert refold.conversations.copy(url, tmp_path / "copy.db")
    assert listing(left) == before


@pytest.mark.parametrize("kind", KINDS)
def test_a_user_who_may_only_read_reads(folder, tmp_path, kind):
    url = url_in(folder, kind)
    fill(url, searched=True)
    for path in [folder, *folder.rglob("*")]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    before = listing(folder)
    out = folder.parent / "out"
    out.mkdir()
    out.chmod(0o777)
    child = multiprocessing.get_context("fork").Process(target=_read_as_nobody, args=(url, out))
    child.start()
    child.join(60)
    for path in [folder, *folder.rglob("*")]:
        path.chmod(0o755)
    assert child.exitcode == 0
    after = listing(folder)
    assert {name: after[name][1:] for name in after} == {n: before[n][1:] for n in before}


def _read_as_nobody(url: str, out: Path) -> None:
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(65_534)
        os.setuid(65_534)
    read_all(url, out)


@pytest.mark.parametrize("kind", [*KINDS, "memory"])
def test_every_writing_is_refused_and_the_context_goes_on(folder, kind):
    store: Any = open_store("memory:") if kind == "memory" else url_in(folder, kind)
    fill(store)
    before = listing(folder)
    with refold.open("sea", store=store, read_only=True) as context:
        page = context.request("openai_chat")
        for name, write in WRITINGS.items():
            with pytest.raises(Denied) as refused:
                write(context)
            assert "reading only" in str(refused.value), name
            assert "read_only" in refused.value.hint
            assert context.request("openai_chat") == page, name
    assert listing(folder) == before


@settings(max_examples=25, deadline=None)
@given(
    names=st.lists(st.sampled_from(sorted({*READINGS, *WRITINGS})), min_size=1, max_size=12),
    kind=st.sampled_from(KINDS),
)
def test_any_story_of_readings_and_refused_writings_changes_nothing(names, kind):
    with tempfile.TemporaryDirectory() as made:
        folder, out = Path(made) / "store", Path(made)
        url = url_in(folder, kind)
        with refold.open("sea", store=url) as writer:
            writer.append({"role": "user", "content": "Where?"})
            writer.append({"role": "assistant", "content": "There."})
            writer.checkpoint("before")
            writer.artifacts.put("words", name="a.txt")
        before = listing(folder)
        with refold.open("sea", store=url, read_only=True) as context:
            for name in names:
                try:
                    if name in READINGS:
                        READINGS[name](context, out)
                    else:
                        WRITINGS[name](context)
                except (Denied, Invalid, NotFound):
                    assert context.view.head
        assert listing(folder) == before


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_not_there_is_not_found_and_not_made(folder, kind):
    url = url_in(folder, kind)
    with pytest.raises(NotFound):
        refold.open("sea", store=url, read_only=True)
    assert not folder.exists()
    fill(url)
    before = listing(folder)
    with pytest.raises(NotFound) as missing:
        refold.open("river", store=url, read_only=True)
    assert "river" in str(missing.value)
    assert url in str(missing.value)
    assert listing(folder) == before


def test_a_reader_sees_whole_batches_while_another_process_writes(folder):
    for kind in KINDS:
        url = url_in(folder, kind)
        fill(url)
        fork = multiprocessing.get_context("fork")
        ready = fork.Event()
        child = fork.Process(target=_write_much, args=(url, ready))
        child.start()
        ready.wait(30)
        heads = []
        while child.is_alive():
            with refold.open("sea", store=url, read_only=True) as reader:
                heads.append(reader.view.head)
                assert len([*reader.log.events()]) >= heads[-1]
        child.join()
        assert child.exitcode == 0
        assert heads == sorted(heads)
        with refold.open("sea", store=url, read_only=True) as reader:
            assert reader.view.slots[-1].message.blocks[0].text == "the end"


def _write_much(url: str, ready: Any) -> None:
    for _ in range(15):
        with refold.open("sea", store=url) as context:
            ready.set()
            for number in range(10):
                context.append({"role": "user", "content": f"{number} " * 200})
    with refold.open("sea", store=url) as context:
        context.append({"role": "user", "content": "the end"})


def test_a_store_that_is_held_open_can_be_read_beside(folder):
    store = open_store(url_in(folder, "sqlite"))
    fill(store)
    before = listing(folder, beside=True)
    with refold.open("sea", store=store, read_only=True) as reader, pytest.raises(Denied):
        reader.append({"role": "user", "content": "x"})
    assert listing(folder, beside=True) == before
    with refold.open("sea", store=store) as writer:
        assert writer.append({"role": "user", "content": "x"})
    store.close()
