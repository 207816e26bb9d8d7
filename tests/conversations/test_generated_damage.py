"""Whatever happens to the bytes of a log: it reads as it was, or it stops with the place and the
way out, and a repair makes it open again and says what it gave up."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

import refold
from refold.conversations.repairer import Repaired, repair
from refold.conversations.verifier import verify
from refold.core import codec
from refold.core.model import Event
from refold.errors import Conflict, Corrupt, NotFound, RefoldError
from refold.log.log import Log
from refold.stores import Store, open_store
from tests.damage import spoil

SEEDS = range(20)
LINE = "conversations/talk/messages.jsonl"


@pytest.fixture(scope="module", params=["files", "sqlite"])
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a talk of calls, artifacts, a compaction, a checkpoint and a title."""
    place = tmp_path_factory.mktemp("made") / str(request.param)
    place.mkdir()
    config = {"ladder": ("hide",), "offload_tokens": 200}
    with refold.open("talk", store=url_of(place), window=100_000, config=config) as context:
        context.update(title="A talk", system="Be brief")
        for turn in range(6):
            context.append({"role": "user", "content": f"question {turn}"})
            call = {"type": "tool_use", "id": f"t{turn}", "name": "run", "input": {"a": turn}}
            context.append({"role": "assistant", "content": [call]})
            context.append_result(f"t{turn}", "output\n" * (2_000 if turn == 1 else 3))
        context.checkpoint("here")
        context.compact("hide", target=100)
        context.append({"role": "user", "content": "and now?"})
    return place


def url_of(place: Path) -> str:
    return f"files:{place}/tree" if place.name.startswith("files") else f"sqlite:{place}/refold.db"


def copied(made: Path, tmp_path: Path, name: str) -> Path:
    place = tmp_path / f"{made.name}-{name}"
    shutil.copytree(made, place)
    return place


def events_of(place: Path) -> list[Event]:
    store = open_store(url_of(place))
    try:
        return store.read("talk")
    finally:
        store.close()


def read(store: Store) -> list[Event]:
    """The whole log, held to its chain and its digests."""
    events = list(Log(store, "talk").read())
    for event in events:
        codec.decode(event)
    return events


# --- damage to files ---

Damage = Callable[[random.Random, bytes], bytes]


def flip(chance: random.Random, log: bytes) -> bytes:
    at = chance.randrange(len(log))
    return log[:at] + bytes([log[at] ^ (1 << chance.randrange(8))]) + log[at + 1 :]


def insert(chance: random.Random, log: bytes) -> bytes:
    at = chance.randrange(len(log))
    return log[:at] + chance.randbytes(chance.choice((1, 3, 40))) + log[at:]


def remove(chance: random.Random, log: bytes) -> bytes:
    at = chance.randrange(len(log))
    return log[:at] + log[at + chance.choice((1, 5, 300, 2_000)) :]


def truncate(chance: random.Random, log: bytes) -> bytes:
    return log[: chance.randrange(1, len(log))]


def blank_lines(chance: random.Random, log: bytes) -> bytes:
    lines = log.splitlines(keepends=True)
    for _ in range(chance.choice((1, 3))):
        lines.insert(chance.randrange(len(lines) + 1), chance.choice((b"\n", b" \n", b"\r\n")))
    return b"".join(lines)


def repeat_line(chance: random.Random, log: bytes) -> bytes:
    lines = log.splitlines(keepends=True)
    lines.insert(chance.randrange(len(lines) + 1), chance.choice(lines))
    return b"".join(lines)


def swap_lines(chance: random.Random, log: bytes) -> bytes:
    lines = log.splitlines(keepends=True)
    one, other = chance.sample(range(len(lines)), 2)
    lines[one], lines[other] = lines[other], lines[one]
    return b"".join(lines)


def drop_line(chance: random.Random, log: bytes) -> bytes:
    lines = log.splitlines(keepends=True)
    del lines[chance.randrange(len(lines))]
    return b"".join(lines)


def break_last_line(chance: random.Random, log: bytes) -> bytes:
    lines = log.splitlines(keepends=True)
    lines[-1] = b"#" * chance.randrange(1, 400) + b"\n"
    return b"".join(lines)


def carriage_returns(chance: random.Random, log: bytes) -> bytes:
    return log.replace(b"\n", b"\r\n")


def zeros(chance: random.Random, log: bytes) -> bytes:
    """What a power cut leaves: a run of zeros, in the middle or in place of the tail."""
    at, size = chance.randrange(len(log)), chance.choice((1, 512, 4_096))
    return (log[:at] + bytes(size) + log[at + size :])[: len(log) + chance.choice((0, size))]


def strange_line(chance: random.Random, log: bytes) -> bytes:
    lines = log.splitlines(keepends=True)
    strange = chance.choice((b"hello\n", b"{}\n", b"[1]\n", b'{"v":1}\n', b"null\n", b"\xff\n"))
    lines.insert(chance.randrange(len(lines) + 1), strange)
    return b"".join(lines)


FILE_DAMAGE = (
    flip,
    insert,
    remove,
    truncate,
    blank_lines,
    repeat_line,
    swap_lines,
    drop_line,
    break_last_line,
    carriage_returns,
    zeros,
    strange_line,
)


# --- damage to rows ---

_COLUMNS = ("body", "chain", "digest", "salt", "at_ms", "tokens", "kind", '"by"', "id", "counter")
RowDamage = Callable[[random.Random, apsw.Connection], None]


def flip_column(chance: random.Random, connection: apsw.Connection) -> None:
    place, column = _place(chance, connection), chance.choice(_COLUMNS)
    value = connection.execute(f"SELECT {column} FROM events WHERE place = ?", (place,)).get
    connection.execute(
        f"UPDATE events SET {column} = {_changed(chance, value)} WHERE place = ?", (place,)
    )


def _changed(chance: random.Random, value: int | str | bytes) -> str:
    if isinstance(value, int):
        return str(value + chance.choice((-1, 1, 1_000, -(10**13))))
    content = bytearray(value.encode() if isinstance(value, str) else value) or bytearray(b"x")
    content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    literal = f"x'{content.hex()}'"
    return f"CAST({literal} AS TEXT)" if isinstance(value, str) else literal


def delete_row(chance: random.Random, connection: apsw.Connection) -> None:
    connection.execute("DELETE FROM events WHERE place = ?", (_place(chance, connection),))


def _place(chance: random.Random, connection: apsw.Connection) -> int:
    places = [place for (place,) in connection.execute("SELECT place FROM events")]
    return chance.choice(places)


# --- the law ---


@pytest.mark.parametrize("damage", FILE_DAMAGE, ids=lambda damage: damage.__name__)
@pytest.mark.parametrize("made", ["files"], indirect=True)
def test_a_damaged_file_reads_as_it_was_or_is_repaired(
    made: Path, damage: Damage, tmp_path: Path
) -> None:
    for seed in SEEDS:
        chance = random.Random(f"{damage.__name__} {seed}")
        place = copied(made, tmp_path, str(seed))
        log = place / "tree" / LINE
        spoilt = damage(chance, log.read_bytes())
        log.write_bytes(spoilt)
        done = check(made, place, f"{damage.__name__} {seed}", chance)
        if done is not None and done.changed:
            moved = Path(f"{log}.quarantine")
            torn = moved.read_bytes()[:-1] if moved.exists() else b""
            assert Path(done.copy).read_bytes() + torn == spoilt


@pytest.mark.parametrize("damage", [flip_column, delete_row], ids=lambda damage: damage.__name__)
@pytest.mark.parametrize("made", ["sqlite"], indirect=True)
def test_a_damaged_row_reads_as_it_was_or_is_repaired(
    made: Path, damage: RowDamage, tmp_path: Path
) -> None:
    for seed in range(60):
        chance = random.Random(f"{damage.__name__} {seed}")
        place = copied(made, tmp_path, str(seed))
        connection = apsw.Connection(str(place / "refold.db"))
        damage(chance, connection)
        if seed % 2:
            connection.execute("DELETE FROM bookmarks")
        rows = connection.execute("SELECT count(*) FROM events").get
        connection.close()
        done = check(made, place, f"{damage.__name__} {seed}", chance)
        if done is not None and done.changed:
            assert len(Path(done.copy).read_bytes().splitlines()) == rows


@pytest.mark.parametrize("damage", [blank_lines, repeat_line, swap_lines, carriage_returns])
@pytest.mark.parametrize("made", ["files"], indirect=True)
def test_what_only_lies_in_disorder_is_mended_without_a_loss(
    made: Path, damage: Damage, tmp_path: Path
) -> None:
    for seed in SEEDS:
        place = copied(made, tmp_path, str(seed))
        log = place / "tree" / LINE
        # A batch whose last line is no longer the last is half written, and not what is meant.
        whole = log.read_bytes().replace(b" \n", b"\n")
        log.write_bytes(damage(random.Random(seed), whole))
        done = refold.conversations.repair(url_of(place), "talk")
        assert events_of(place) == events_of(made), seed
        assert (done.erased, done.ends_at, done.rest, done.lost) == ((), None, "", ())


@pytest.mark.parametrize("at", [3, 12, 20])
def test_a_family_is_repaired_from_its_youngest_up(made: Path, at: int, tmp_path: Path) -> None:
    place = copied(made, tmp_path, "family")
    before = events_of(place)
    store = open_store(url_of(place))
    store.fork("talk", 15, "child")
    with refold.open("child", store=store) as context:
        context.append({"role": "user", "content": "the child goes on"})
        context.fork("grandchild", at=10).close()
    child = store.read("child")
    store.close()
    lose(place, at)
    store = open_store(url_of(place))
    if at <= 15:
        with pytest.raises(Conflict, match="child"):
            repair(store, "talk")
        if at <= 10:
            with pytest.raises(Conflict, match="grandchild"):
                repair(store, "child")
            assert repair(store, "grandchild").ends_at == at - 1
        assert repair(store, "child").ends_at == at - 1
    assert repair(store, "talk").ends_at == at - 1
    assert store.read("talk") == before[: at - 1]
    assert store.read("child") == child[: at - 1]
    assert not [problem for problem in verify(store).problems if problem.part == "log"]
    store.close()


def test_a_changed_body_is_repaired_in_the_parent_that_holds_it(made: Path, tmp_path: Path) -> None:
    place = copied(made, tmp_path, "parent")
    store = open_store(url_of(place))
    store.fork("talk", 15, "child")
    store.close()
    spoil_body(place, b"question 2", b"question X")
    store = open_store(url_of(place))
    with pytest.raises(Conflict, match="the parent"):
        repair(store, "child")
    assert repair(store, "talk").erased
    assert not repair(store, "child").changed
    store.close()


@pytest.mark.parametrize("removes", ["erase", "delete"])
def test_what_a_repair_kept_goes_with_what_is_removed(
    made: Path, removes: str, tmp_path: Path
) -> None:
    place = copied(made, tmp_path, removes)
    spoil_body(place, b"question 2", b"question X")
    store = open_store(url_of(place))
    copy = Path(repair(store, "talk").copy)
    assert b"question 5" in copy.read_bytes() or b"cXVlc3Rpb24gNS" in copy.read_bytes()
    if removes == "erase":
        store.erase("talk", 17)
    else:
        store.delete("talk")
    assert not copy.exists()
    store.close()


def lose(place: Path, seq: int) -> None:
    """Takes one event out of the talk, and its bookmark."""
    if place.name.startswith("files"):
        spoil(url_of(place), "talk", seq)
        return
    connection = apsw.Connection(str(place / "refold.db"))
    connection.execute(
        "DELETE FROM events WHERE place & 0xFFFFFFFF = ? AND place >> 40 = 1", (seq,)
    )
    connection.execute("DELETE FROM bookmarks")
    connection.close()


def spoil_body(place: Path, old: bytes, new: bytes) -> None:
    file = place / ("refold.db" if place.name.startswith("sqlite") else f"tree/{LINE}")
    content = file.read_bytes()
    assert old in content
    file.write_bytes(content.replace(old, new, 1))


def check(made: Path, place: Path, case: str, chance: random.Random) -> Repaired | None:
    """Holds a damaged store to the law. None if the damage left no conversation at all."""
    if chance.random() < 0.5:
        for bookmark in place.rglob("bookmark"):
            bookmark.unlink()
    before = events_of(made)
    store = open_store(url_of(place))
    is_shortened = bool(store.recovered)
    try:
        now = read(store)
        is_shortened = bool(store.recovered) or now != before
        assert now == before[: len(now)], case
    except NotFound:
        is_shortened = True
    except RefoldError as error:
        assert "--repair" in error.hint or "upgrade" in error.hint, (
            f"{case}: {error} ({error.hint})"
        )
        assert "event" in str(error) or "byte" in str(error), f"{case}: {error}"
        if "format version" in str(error):
            store.close()
            return None  # a newer refold may have written it: that is not repaired
    try:
        done = repair(store, "talk")
    except NotFound:
        assert is_shortened, case
        store.close()
        return None
    check_repaired(store, before, done, case)
    store.close()
    return done


def check_repaired(store: Store, before: list[Event], done: Repaired, case: str) -> None:
    if done.ends_at == 0:
        with pytest.raises(NotFound):
            store.conversation("talk")
        now = []
    else:
        now = read(store)
        assert not repair(store, "talk").changed, case
        told = [problem for problem in verify(store, "talk").problems if problem.part == "log"]
        assert not told, f"{case}: {told}"
        context = refold.open("talk", store=store)
        context.append({"role": "user", "content": "goes on"})
        context.request("anthropic")
    for event in now:
        was = before[event.seq - 1]
        if event.seq in done.erased:
            assert event.erased and event.chain == was.chain, case
        else:
            assert event == was, case
    check_told(store, before, now, done, case)


def check_told(
    store: Store, before: list[Event], now: list[Event], done: Repaired, case: str
) -> None:
    """Every event that is gone is named, unless it is in the rest or nothing was left of it."""
    told = "\n".join(done.lost)
    for seq in done.erased:
        assert f"the body of event {seq}" in told, case
    if done.ends_at is None:
        return
    rest = {event.body for event in store.read(done.rest)} if done.rest else set()
    assert rest <= {event.body for event in before}, case
    told_of = [event for event in before if event.body in rest or _names(told, event)]
    last = max((event.seq for event in told_of), default=0)
    # A line put together from two has the number of one and the words of the other: by count.
    assert len(told_of) >= last - len(now), f"{case}: {told}"


def _names(told: str, event: Event) -> bool:
    lines = told.splitlines()
    return any(line == f"event {event.seq}" or f"event {event.seq}:" in line for line in lines)


@pytest.mark.parametrize("made", ["files"], indirect=True)
def test_a_fork_that_forgot_its_parent_keeps_its_own_words(made: Path, tmp_path: Path) -> None:
    place = copied(made, tmp_path, "forgot")
    store = open_store(url_of(place))
    store.fork("talk", 15, "child")
    with refold.open("child", store=store) as context:
        context.append({"role": "user", "content": "my own request"})
        context.append({"role": "assistant", "content": "my own words"})
    store.close()
    (place / "tree/conversations/child/metadata.json").write_bytes(b"{broken")
    store = open_store(url_of(place))
    with pytest.raises(Corrupt, match="metadata"):
        store.conversation("child")
    done = repair(store, "child")
    assert done.ends_at == 0 and len(done.lost) == 15
    assert b"my own words" in store.read(done.rest)[-1].body
    store.close()
