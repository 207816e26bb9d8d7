"""What is removed for good is what was named: numbers keep the meaning that a list gave them, and
nothing goes unseen unless its whole id or name was typed."""

from __future__ import annotations

import io
import itertools
import json
import os
import pty
import shutil
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import refold
from refold.checked import beginning
from refold.conversations.listing import is_erased
from refold.edges.cli.app import outcome
from refold.edges.commands import COMMANDS, load
from refold.edges.commands.command import parameters_of
from refold.edges.commands.session import Session
from refold.errors import Invalid, NotFound
from refold.stores import open_store
from refold.stores.protocol import Store

pytestmark = pytest.mark.usefixtures("alone")
TIMES = "019f0000-0000-7"  # ids made at the same time begin alike
ONE, OTHER = f"{TIMES}abc-8def-0123456789ab", f"{TIMES}fed-9cba-ba9876543210"


def written(place: str | Store, id: str, at_ms: int, text: str = "some words") -> None:
    """A conversation with a message and an artifact, last written at this time."""
    store = open_store(place) if isinstance(place, str) else place
    context = refold.Context(store, id)
    context._open.log.clock = lambda: at_ms
    context.append({"role": "user", "content": f"{text} of {id}"})
    context.artifacts.put(f"an output of {id}", name=f"output-of-{id}")
    context.close()
    if store is not place:
        store.close()


class Terminal:
    """A terminal at which this process sits, and what is typed there."""

    def __init__(self) -> None:
        self.ours, theirs = pty.openpty()
        self.stream = os.fdopen(theirs, "r")

    def type(self, text: str) -> None:
        os.write(self.ours, text.encode())

    def close(self) -> None:
        self.stream.close()
        os.close(self.ours)


@pytest.fixture
def terminals(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Terminal]]:
    opened = [Terminal(), Terminal()]
    monkeypatch.setattr(sys, "stdin", opened[0].stream)
    yield opened
    for terminal in opened:
        terminal.close()


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("template")
    url = f"sqlite:{folder / 'x.db'}"
    for at, id in enumerate((ONE, OTHER), start=1):
        written(url, id, at * 1_000)
    with refold.open(ONE, store=url, config={"offload_tokens": 50}) as context:
        call = {"id": "c1", "type": "function", "function": {"name": "run", "arguments": "{}"}}
        context.append({"role": "assistant", "content": None, "tool_calls": [call]})
        context.append_result("c1", "a line of output\n" * 100)
        context.restore(2)
        context.update(names=("the first",))
    for file in (folder / "x.artifacts").iterdir():
        os.utime(file, (1, 1))  # what was stored just now is never cleaned up
    with refold.open_memory(store=url) as memory:
        memory.store("The port is 6432", tags=["infra"])
        memory.store("Ida likes tea")
        with refold.open_memory(store="memory:") as other:
            other.store("The fax is broken")
            lines = other.export()
        memory.import_lines(lines)  # it waits
    return folder


def held(url: str) -> tuple[object, ...]:
    """What a store has to lose."""
    store = open_store(url, read_only=True)
    erased = [(about.id, is_erased(store, about.id)) for about in store.conversations()]
    outputs = [
        one.id
        for about in store.conversations()
        if about.id in (ONE, OTHER)
        for one in refold.Context(store, about.id).artifacts.list()
        if not one.cleaned_ms
    ]
    store.close()
    with refold.open_memory(store=url) as memory:
        entries = tuple(one.id for one in (*memory.list(), *memory.inbox()))
    return tuple(erased), tuple(outputs), entries


# The ways to name it: the whole id, a name, how the random part begins, and its number.
NAMINGS = ("id", "name", "beginning", "random part", "number")
REMOVALS = {
    "erase": lambda name: ("erase", name, "--all"),
    "delete": lambda name: ("delete", name),
    "artifact remove": lambda name: ("artifact", "remove", name, "ART"),
    "artifact clean-up": lambda name: ("artifact", "remove", name, "--keep-count", "0"),
    "memory forget": lambda name: ("memory", "forget", name),
    "memory inbox": lambda name: ("memory", "inbox", "--reject", name),
}


def typed(way: str, naming: str, memory_id: str) -> str | None:
    """The words for the conversation or the entry; None if it cannot be named so."""
    if way.startswith("memory"):
        words = {"id": memory_id, "beginning": memory_id[:12], "random part": memory_id[4:12]}
        return words.get(naming)
    names = {"name": "the first", "beginning": ONE[:17], "random part": "8def-01", "number": "@1"}
    return {"id": ONE, **names}[naming]


@pytest.mark.parametrize("naming", NAMINGS)
@pytest.mark.parametrize("way", REMOVALS)
def test_nothing_goes_that_was_not_shown_unless_it_is_named_whole(
    way: str,
    naming: str,
    template: Path,
    tmp_path: Path,
    terminals: list[Terminal],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = shutil.copytree(template, tmp_path / "case")
    url = f"sqlite:{folder / 'x.db'}"
    store = open_store(url)
    [_, output] = refold.Context(store, ONE).artifacts.list()
    art, later = output.id, output.at_ms + 3_600_000
    store.close()
    monkeypatch.setattr("refold.edges.commands.artifacts.now_ms", lambda: later)
    with refold.open_memory(store=url) as memory:
        entry = memory.inbox()[0] if way == "memory inbox" else memory.list()[0]
        memory_id, content = entry.id, entry.content
    words = typed(way, naming, memory_id)
    if words is None:
        return
    before = held(url)
    for sits, yes, dry, answer in itertools.product(*[(True, False)] * 3, ("y\n", "n\n")):
        if answer == "n\n" and (not sits or yes or dry):
            continue
        monkeypatch.setattr(sys, "stdin", terminals[0].stream if sits else io.StringIO())
        if sits:
            assert outcome(["list", "--store", url]) == 0
        capsys.readouterr()
        call = [art if word == "ART" else word for word in REMOVALS[way](words)]
        call += ["--yes"] * yes + ["--dry-run"] * dry + ["--store", url]
        is_asked = sits and not yes and not dry
        if is_asked:
            terminals[0].type(answer)
        status = outcome(call)
        shown = capsys.readouterr()
        is_whole = naming in ("id", "name")
        case = (sits, yes, dry, answer, status, shown)
        goes = not dry and ((yes and is_whole) or (is_asked and answer == "y\n"))
        assert (held(url) != before) == goes, case
        if goes:
            shutil.rmtree(folder)
            shutil.copytree(template, folder)
        assert (status == 0) == (dry or goes), case
        if status == 0 or is_asked:
            what = memory_id if way.startswith("memory") else art if "artifact" in way else ONE
            title = {memory_id: content, art: output.artifact.name, ONE: "some words of"}[what]
            assert what in shown.out and title in shown.out, case
        if status and not is_asked:
            whole = memory_id if way.startswith("memory") else ONE
            assert whole in shown.err or "--yes" in shown.err, case


@pytest.mark.parametrize(
    "call",
    [("erase", ONE, "--all"), ("delete", ONE), ("delete", ONE, OTHER), ("delete", "--keep", "1")],
)
@pytest.mark.parametrize("meanwhile", ["nothing", "grows", "goes", "is another"])
def test_a_conversation_that_took_the_id_of_the_one_shown_stays(
    call: tuple[str, ...],
    meanwhile: str,
    tmp_path: Path,
    terminals: list[Terminal],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    url = f"sqlite:{tmp_path}/x.db"
    for at, id in enumerate((ONE, OTHER), start=1):
        written(url, id, at * 1_000)
    confirm = Session.confirm

    def asked(session: Session, question: str, yes: bool) -> None:
        confirm(session, question, yes)
        if meanwhile in ("goes", "is another"):
            refold.conversations.delete(url, [ONE])
        if meanwhile in ("grows", "is another"):
            written(url, ONE, 1_000, text="new words")

    monkeypatch.setattr(Session, "confirm", asked)
    terminals[0].type("y\n")
    status = outcome([*call, "--store", url])
    with closing(open_store(url, read_only=True)) as store:
        there = {about.id: is_erased(store, about.id) for about in store.conversations()}
    if meanwhile == "is another" or (meanwhile == "grows" and call[0] == "delete"):
        assert status != 0 and there == {ONE: False, OTHER: False}
        assert "changed while you were asked" in capsys.readouterr().err
    elif meanwhile == "goes":
        assert ONE not in there and there[OTHER] is False
    else:
        assert status == 0
        assert there.get(ONE, True) == (meanwhile == "nothing")


CHANGES = {
    "nothing": lambda memory, id: None,
    "another entry": lambda memory, id: memory.store("Ida likes coffee"),
    "other words": lambda memory, id: memory.update(id, content="The port is 6433"),
    "the same words": lambda memory, id: memory.update(id, content="The port is 6432 "),
    "a tag": lambda memory, id: memory.update(id, tags=["net"]),
    "a merge": lambda memory, id: memory.store("The port is 6432", tags=["net"]),
    "it is gone": lambda memory, id: memory.forget(id),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("call", [("forget",), ("forget", "--tag", "infra"), ("inbox", "--reject")])
def test_an_entry_that_changed_while_it_was_asked_for_stays(
    call: tuple[str, ...],
    change: str,
    template: Path,
    tmp_path: Path,
    terminals: list[Terminal],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    url = f"sqlite:{shutil.copytree(template, tmp_path / 'case')}/x.db"
    is_inbox = call[0] == "inbox"
    if is_inbox and change in ("other words", "the same words", "a tag", "a merge"):
        return  # a pending entry changes only when it is decided
    with refold.open_memory(store=url) as memory:
        entry = memory.inbox()[0] if is_inbox else memory.list(tags=["infra"])[0]
    confirm = Session.confirm

    def asked(session: Session, question: str, yes: bool) -> None:
        confirm(session, question, yes)
        with refold.open_memory(store=url) as memory:
            CHANGES[change](memory, entry.id)

    monkeypatch.setattr(Session, "confirm", asked)
    terminals[0].type("y\n")
    before = held(url)
    status = outcome(["memory", *call, *([] if "--tag" in call else [entry.id]), "--store", url])
    if change in ("nothing", "another entry"):
        assert status == 0 and entry.id not in held(url)[2]
    elif change == "it is gone":
        assert held(url) != before
    else:
        assert status != 0 and entry.id in held(url)[2]
        assert "changed while you were asked" in capsys.readouterr().err


def test_every_command_that_removes_for_good_shows_it_first_on_request() -> None:
    asking = {
        name
        for name in COMMANDS
        if {"--yes", "--dry-run"} <= {one.option for one in parameters_of(load(name))}
    }
    assert asking >= {"erase", "delete", "artifact remove", "memory forget", "memory inbox"}


@settings(max_examples=25, deadline=None)
@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from(
                ["list", "list --limit 2", "search", "write", "erase", "delete", "new"]
            ),
            st.integers(0, 4),
        ),
        min_size=3,
        max_size=10,
    )
)
def test_a_number_is_the_conversation_that_was_printed_whatever_happens(steps, tmp_path_factory):
    store = open_store("memory:")
    for at, id in enumerate(("a", "b", "c", "d"), start=1):
        written(store, id, at * 1_000, f"word{id}")
    clock = itertools.count(10_000, 1_000)
    printed: dict[int, str] = {}
    with pytest.MonkeyPatch.context() as patch, closing(Terminal()) as terminal:
        patch.setattr(sys, "stdin", terminal.stream)
        patch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("data")))
        session = Session()
        session.store = session.target = store
        for step, which in steps:
            there = [about.id for about in refold.conversations.list(store)]
            id = there[which % len(there)] if there else ""
            if step.startswith("list"):
                limit = 2 if "limit" in step else None
                shown = load("list").run(session, load("list").arguments(limit=limit))
                printed = {row.position: row.id for row in shown.conversations}
            elif step == "search":
                for one, number in session.numbered(there[which:]).items():
                    assert printed.get(number, one) == one
                    printed[number] = one
            elif step == "delete" and id:
                refold.conversations.delete(store, [id])
            elif step == "erase" and id:
                refold.conversations.erase(store, id)
            elif step == "new" or id:
                written(store, f"n{next(clock)}" if step == "new" else id, next(clock))
            there = [about.id for about in refold.conversations.list(store)]
            newest = dict(enumerate(there, start=1))
            for number in range(1, 8):
                session._found.clear()
                meant = (printed or newest).get(number)
                if meant in there:
                    assert session.find(f"@{number}") == meant
                else:
                    with pytest.raises(NotFound):
                        session.find(f"@{number}")


def test_numbers_belong_to_a_terminal_and_a_store(
    tmp_path: Path, terminals: list[Terminal], monkeypatch: pytest.MonkeyPatch
) -> None:
    urls = [f"sqlite:{tmp_path / name}.db" for name in ("a", "b")]
    for url in urls:
        written(url, "old", 1_000)
        written(url, "new", 2_000)
    assert outcome(["list", "--store", urls[0]]) == 0
    for url in urls:
        written(url, "newest", 3_000)

    def meant(url: str) -> str:
        with Session(store_url=url) as session:
            return session.find("@1")

    assert [meant(url) for url in urls] == ["new", "newest"]
    monkeypatch.setattr(sys, "stdin", terminals[1].stream)
    assert [meant(url) for url in urls] == ["newest", "newest"]
    # Where no list was shown, a number removes nothing.
    assert outcome(["erase", "@1", "--all", "--store", urls[0]]) == 2
    monkeypatch.setattr(sys, "stdin", terminals[0].stream)
    assert meant(urls[0]) == "new"
    lists = [*(tmp_path / "data" / "refold" / "lists").iterdir()]
    assert [one.stat().st_mode & 0o777 for one in lists] == [0o600] and len(lists) == 1


def test_the_kept_lists_are_bounded(
    tmp_path: Path, terminals: list[Terminal], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("refold.edges.commands.session.LISTS_MAX", 3)
    for number in range(5):
        with Session(store_url=f"files:{tmp_path / str(number)}") as session:
            session.store = session.target
            session.remember({1: "one"})
    assert len([*(tmp_path / "data" / "refold" / "lists").iterdir()]) == 3


HEX = st.text("0123456789abcdef", min_size=2, max_size=2)


@given(
    ids=st.lists(HEX, unique=True, min_size=1, max_size=8),
    at=st.integers(0, 7),
    size=st.integers(1, 36),
)
def test_a_beginning_names_one_id_or_says_which(ids: list[str], at: int, size: int) -> None:
    uuids = [f"{TIMES}{id}0-8{id}0-{id}0000000000" for id in ids]
    meant = uuids[at % len(ids)]
    for start in (0, 14, 19, 24):
        text = meant[start : start + size]
        fits = [one for one in uuids if any(one.startswith(text, at) for at in (0, 9, 14, 19, 24))]
        if len(fits) == 1 or text == meant:
            assert beginning(text, uuids, "ids") == meant
        else:
            with pytest.raises(Invalid, match="several ids begin with") as raised:
                beginning(text, uuids, "ids", lambda id: f"<{id}>")
            assert all(f"<{one}>" in raised.value.message for one in fits)
    assert beginning("nothing", uuids, "ids") is None


def test_candidates_are_named_with_title_and_age(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path / 'x.db'}"
    for id in (ONE, OTHER):
        written(url, id, 1_000)
    with Session(store_url=url) as session, pytest.raises(Invalid) as raised:
        session.find(TIMES)
    for id in (ONE, OTHER):
        assert f"{id} (some words of {id}, " in raised.value.message
    assert raised.value.message.count("days ago") == 2


def test_an_erased_conversation_keeps_its_place_and_says_that_it_was_erased(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"sqlite:{tmp_path / 'x.db'}"
    for at, id in enumerate(("first", "second", "third"), start=1):
        written(url, id, at * 1_000, "hunter2")
    assert outcome(["erase", "first", "--all", "--yes", "--store", url]) == 0
    assert outcome(["erase", "second", "2", "--yes", "--store", url]) == 0
    capsys.readouterr()
    assert outcome(["list", "--json", "--store", url]) == 0
    rows = json.loads(capsys.readouterr().out)["conversations"]
    assert [row["id"] for row in rows] == ["third", "second", "first"]
    assert [row["erased"] for row in rows] == [False, False, True]
    assert rows[2]["title"] == "[erased]" and rows[2]["updated_ms"] == 1_000
    assert rows[2]["tokens"] < rows[0]["tokens"] and not rows[2]["preview"]
    assert outcome(["replay", "first", "--store", url]) == 2
    assert "first was erased" in capsys.readouterr().err
    # Something said since makes it an ordinary conversation again.
    written(url, "first", 9_000, "new words")
    store = open_store(url)
    assert not is_erased(store, "first")
    store.close()


def session_file(folder: Path, words: str, *, count: int = 2) -> Path:
    """A session of Claude Code."""
    file = folder / "s1.jsonl"
    lines = [
        {
            "type": "user",
            "sessionId": "s1",
            "uuid": f"u{number}",
            "parentUuid": f"u{number - 1}" if number else None,
            "cwd": "/w",
            "message": {"role": "user", "content": f"{words} {number}"},
        }
        for number in range(count)
    ]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return file


@pytest.mark.parametrize("first", [(), ("--id", "work")])
@pytest.mark.parametrize("then", [2, 3])
def test_an_import_brings_no_erased_conversation_back(
    first: tuple[str, ...], then: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"sqlite:{tmp_path / 'x.db'}"
    file = str(session_file(tmp_path, "hunter2"))
    assert outcome(["import", file, *first, "--store", url]) == 0
    [about] = refold.conversations.list(url)
    assert outcome(["erase", about.id, "--all", "--yes", "--store", url]) == 0
    session_file(tmp_path, "hunter2", count=then)
    for words in ((), ("--branches",), first):
        capsys.readouterr()
        assert outcome(["import", file, *words, "--store", url]) == 0
        assert f"{about.id} was erased" in capsys.readouterr().out
    [left] = refold.conversations.list(url)
    store = open_store(url)
    assert left.id == about.id and is_erased(store, left.id)
    store.close()
    # An explicit wish is another matter.
    assert outcome(["import", file, "--id", "again", "--store", url]) == 0
    assert len(refold.conversations.list(url)) == 2
