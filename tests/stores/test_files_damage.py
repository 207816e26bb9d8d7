"""A torn tail is moved aside and told; any other damage stops the read with its place, and never
shows as content."""

from __future__ import annotations

import os
import random
import tracemalloc
from contextlib import closing
from pathlib import Path

import pytest

import refold
from refold.conversations.repairer import repair
from refold.conversations.verifier import verify
from refold.core import codec
from refold.core.model import Event
from refold.errors import Corrupt, Invalid, RefoldError
from refold.stores import open_store
from refold.stores.contract.kit import TEXT, grown, sealed
from refold.stores.event_lines import batch_of
from refold.stores.files import FilesStore
from refold.stores.files.log import READ_BYTES_MAX


def filled(root: Path, count: int = 5) -> list[Event]:
    store = FilesStore(str(root))
    events = grown(store, "log", count)
    store.close()
    return events


def log_of(root: Path) -> Path:
    return root / "conversations" / "log" / "messages.jsonl"


def quarantine_of(root: Path) -> Path:
    return Path(f"{log_of(root)}.quarantine")


# --- torn tails ---


def test_a_torn_tail_is_moved_aside_told_and_written_over(tmp_path: Path) -> None:
    """M-12: three messages, the file is cut five bytes before its end; two are read, the rest is
    kept beside."""
    events = filled(tmp_path, 3)
    path = log_of(tmp_path)
    whole = path.read_bytes()
    os.truncate(path, len(whole) - 5)
    store = FilesStore(str(tmp_path))
    assert store.read("log") == events[:2]
    torn = whole.split(b"\n")[2][:-4]
    assert quarantine_of(tmp_path).read_bytes() == torn + b"\n"
    [told] = store.recovered
    assert (told.conversation, told.file, told.size_bytes) == (
        "log",
        str(quarantine_of(tmp_path)),
        len(torn),
    )
    again = grown(store, "log", 2, before=events[1])
    store.close()
    assert FilesStore(str(tmp_path)).read("log") == events[:2] + again


@pytest.mark.parametrize("reads_first", [True, False])
def test_a_batch_that_was_cut_anywhere_is_gone_whole(reads_first: bool, tmp_path: Path) -> None:
    """P2: whatever length of the last batch was written, the log before it is left and nothing
    else."""
    events = filled(tmp_path, 2)
    path = log_of(tmp_path)
    before = path.read_bytes()
    batch = batch_of(sealed(events[-1], [b'"a"', b"no json\n", b'{"b":1}']))
    ends = [at for at in range(len(batch)) if b"\n" in batch[at - 2 : at + 2]]
    for length in sorted({*range(1, len(batch), 7), *ends, len(batch) - 1} - {0}):
        path.write_bytes(before + batch[:length])
        store = FilesStore(str(tmp_path), durable=False)
        if reads_first:
            assert store.read("log") == events and store.conversation("log").head == 2, length
        [event] = sealed(events[-1], [TEXT])
        store.append("log", [event], expect=2)
        assert store.read("log") == [*events, event] and len(store.recovered) == 1
        assert quarantine_of(tmp_path).read_bytes() == batch[:length] + b"\n"
        quarantine_of(tmp_path).unlink()


def test_zeros_that_a_disk_left_in_place_of_the_tail_are_torn(tmp_path: Path) -> None:
    events = filled(tmp_path, 3)
    with open(log_of(tmp_path), "ab") as file:
        file.write(bytes(70_000))
    store = FilesStore(str(tmp_path))
    assert store.read("log") == events and store.recovered[0].size_bytes == 70_000


def test_a_log_whose_first_append_was_torn_is_no_conversation_yet(tmp_path: Path) -> None:
    events = filled(tmp_path, 1)
    for left in (b"", b'{"v":1,'):
        log_of(tmp_path).write_bytes(left)
        (log_of(tmp_path).parent / "metadata.json").write_bytes(b"")
        store = FilesStore(str(tmp_path))
        assert store.conversations() == []
        store.append("log", events, expect=0)
        about = store.conversation("log")
        assert store.read("log") == events and about.at_ms == events[0].at_ms
        store.close()


def test_a_fork_may_take_the_place_of_a_conversation_that_never_began(tmp_path: Path) -> None:
    events = filled(tmp_path, 3)
    store = FilesStore(str(tmp_path))
    grown(store, "fork", 1)
    (tmp_path / "conversations" / "fork" / "messages.jsonl").write_bytes(b"")
    store.fork("log", 2, "fork")
    assert store.read("fork") == events[:2]
    store.close()


def test_a_tail_that_somebody_is_writing_is_left_alone(tmp_path: Path) -> None:
    from refold.stores.files import tree
    from refold.stores.files.log import LogFile

    events = filled(tmp_path, 2)
    writer = LogFile(str(log_of(tmp_path)))
    tree.lock(writer.fd, writer.path)
    batch = batch_of(sealed(events[-1], [TEXT] * 2))
    os.write(writer.fd, batch[:300])
    store = FilesStore(str(tmp_path))
    assert (
        store.read("log") == events
        and store.recovered == []
        and not quarantine_of(tmp_path).exists()
    )
    os.write(writer.fd, batch[300:])
    writer.close()
    assert store.conversation("log").head == 4 and store.recovered == []


def test_a_tail_that_was_cut_and_grew_to_the_same_length_is_seen(tmp_path: Path) -> None:
    events = filled(tmp_path, 2)
    path = log_of(tmp_path)
    batch = batch_of(sealed(events[-1], [TEXT]))
    before = path.read_bytes()
    path.write_bytes(before + b"x" * len(batch))
    path.chmod(0o400)
    reader = FilesStore(str(tmp_path), read_only=True)
    assert reader.read("log") == events
    with open(path, "r+b") as file:
        file.seek(len(before))
        file.write(batch)
    assert reader.conversation("log").head == 3


# --- damage ---


def outcome(root: Path, events: list[Event]) -> str:
    """How a damaged log answers: same, refused, moved aside, or found by the chain; anything
    else is a failure."""
    store = FilesStore(str(root))
    try:
        store.conversations()
        read = store.read("log")
    except RefoldError as error:
        assert isinstance(error, Corrupt | Invalid) and error.hint, error
        assert str(log_of(root)) in str(error) or "version" in str(error), error
        return "refused"
    if list(codec.check(read)):
        return "found"
    if len(read) < len(events):
        # The end of the last line was hit: that looks like a torn tail, and its bytes are kept.
        assert len(read) == len(events) - 1 and read == events[:-1] and store.recovered
        quarantine_of(root).unlink()
        return "aside"
    assert [event.chain for event in read] == [event.chain for event in events]
    return "same"


def test_a_flipped_byte_is_refused_found_or_harmless(tmp_path: Path) -> None:
    """P13: every byte of a log of three events, by two kinds of flip for some."""
    events = filled(tmp_path, 3)
    path = log_of(tmp_path)
    whole = path.read_bytes()
    seen: dict[str, int] = {}
    for place in range(len(whole)):
        for flip in (0xFF,) if place % 3 else (0xFF, 0x01):
            path.write_bytes(whole[:place] + bytes([whole[place] ^ flip]) + whole[place + 1 :])
            answer = outcome(tmp_path, events)
            seen[answer] = seen.get(answer, 0) + 1
    assert seen["refused"] > 100 and seen["found"] > 100 and seen["aside"], seen


def test_a_log_cut_anywhere_is_a_whole_beginning(tmp_path: Path) -> None:
    events = filled(tmp_path, 12)
    path = log_of(tmp_path)
    whole = path.read_bytes()
    for length in range(0, len(whole), 61):
        path.write_bytes(whole[:length])
        store = FilesStore(str(tmp_path))
        read = store.read("log") if store.conversations() else []
        assert read == events[: whole[:length].count(b"\n")]
        quarantine_of(tmp_path).unlink(missing_ok=True)


def test_lines_that_are_lost_moved_or_doubled_are_found_with_their_place(tmp_path: Path) -> None:
    events = filled(tmp_path, 6)
    path = log_of(tmp_path)
    lines = path.read_bytes().splitlines(keepends=True)
    for changed in (
        lines[:2] + lines[3:],
        [lines[1], lines[0], *lines[2:]],
        [*lines[:3], *lines[2:]],
        lines[1:],
        [*lines[:2], b"\n", *lines[2:]],
        [*lines, lines[-1]],
        [*lines, b"[]\n"],
    ):
        path.write_bytes(b"".join(changed))
        store = FilesStore(str(tmp_path))
        with pytest.raises(Corrupt, match=r"messages\.jsonl"):
            store.read("log")
        assert [found.id for found in store.conversations()] == ["log"]
    path.write_bytes(b"".join(lines))
    assert FilesStore(str(tmp_path)).read("log") == events


def test_damage_in_the_middle_does_not_hide_the_rest(tmp_path: Path) -> None:
    events = filled(tmp_path, 9)
    path = log_of(tmp_path)
    whole = path.read_bytes()
    at = whole.index(b'"seq":5,') + 20
    path.write_bytes(whole[:at] + b"\xff" + whole[at + 1 :])
    store = FilesStore(str(tmp_path))
    with pytest.raises(Corrupt, match="byte"):
        store.read("log")
    assert store.read("log", last=4) == events[:4] and store.read("log", after=5) == events[5:]
    assert store.conversation("log").head == 9
    more = grown(store, "log", 1, before=events[-1])
    assert store.read("log", after=5) == events[5:] + more


def test_random_bytes_never_crash(tmp_path: Path) -> None:
    events = filled(tmp_path, 4)
    path = log_of(tmp_path)
    whole = path.read_bytes()
    chance = random.Random(4)
    for _ in range(300):
        damaged = bytearray(whole)
        for _ in range(chance.randint(1, 8)):
            at = chance.randrange(len(damaged))
            damaged[at : at + chance.randint(0, 4)] = chance.choice(
                [b"", b"\n", b" \n", b"}\n", chance.randbytes(3)]
            )
        path.write_bytes(damaged)
        store = FilesStore(str(tmp_path))
        try:
            read = store.read("log") if store.conversations() else []
        except RefoldError as error:
            assert error.hint
        else:
            faults = list(codec.check(read))
            assert (
                faults
                or [event.chain for event in read] == [event.chain for event in events][: len(read)]
            )
        quarantine_of(tmp_path).unlink(missing_ok=True)


def test_a_folder_that_lost_its_log_is_damage_and_an_empty_one_is_free(tmp_path: Path) -> None:
    filled(tmp_path)
    log_of(tmp_path).unlink()
    (tmp_path / "conversations" / "free").mkdir()
    store = FilesStore(str(tmp_path))
    for ask in (
        lambda: store.read("log"),
        lambda: store.append("log", sealed(None, [TEXT]), expect=0),
    ):
        with pytest.raises(Corrupt, match=r"has no messages\.jsonl"):
            ask()
    events = grown(store, "free", 1)
    assert store.read("free") == events


def test_a_newer_version_is_refused_and_both_versions_are_named(tmp_path: Path) -> None:
    filled(tmp_path)
    path = log_of(tmp_path).parent / "metadata.json"
    path.write_bytes(path.read_bytes().replace(b'"v": 1', b'"v": 7'))
    with pytest.raises(Invalid, match=r"version 7.*up to 1"):
        FilesStore(str(tmp_path)).read("log")


# --- long lines ---


def test_a_line_longer_than_any_event_is_damage_and_never_read_whole(tmp_path: Path) -> None:
    """X-52: 100 MB in one line, at the end or in the middle, cost some pieces of memory and an
    error with its place."""
    events = filled(tmp_path, 3)
    whole = log_of(tmp_path).read_bytes()
    for kept in (whole, whole[: whole.index(b"\n") + 1]):
        rest = whole[len(kept) :]
        with open(log_of(tmp_path), "wb") as file:
            file.write(kept)
            file.seek(100_000_000, os.SEEK_CUR)  # zeros that take no room on the disk
            file.write(b"\n" + rest)
        tracemalloc.start()
        store = FilesStore(str(tmp_path))
        with pytest.raises(Corrupt, match=f"byte {len(kept):,}: a line of more than"):
            store.read("log")
        store.conversations()
        store.close()
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 8 * READ_BYTES_MAX
    assert len(events) == 3


def test_long_events_are_read_back_and_longer_ones_refused(tmp_path: Path) -> None:
    """X-52: bodies up to the limit of an event, also those that are carried in base64."""
    store = FilesStore(str(tmp_path))
    bodies = [b'"a"', b'"' + b"x" * 3_000_000 + b'"', b'"b"', b"\n" * codec.EVENT_BYTES_MAX, b'"c"']
    events = sealed(None, bodies)
    store.append("log", events, expect=0)
    assert (
        store.read("log") == events and FilesStore(str(tmp_path)).read("log", after=3) == events[3:]
    )
    with pytest.raises(Invalid, match="over the limit"):
        store.append(
            "log", sealed(events[-1], [b"\n" * (codec.EVENT_BYTES_MAX + 100_000)]), expect=5
        )
    assert store.conversation("log").head == 5
    store.close()


@pytest.mark.parametrize("kept", [0, 2])
def test_a_log_that_lost_its_end_does_not_open_in_silence(tmp_path: Path, kept: int) -> None:
    """Found by a newcomer: an emptied log opened as a new conversation, and verify said nothing."""
    url = f"files:{tmp_path}/w"
    with refold.open("e", store=url) as context:
        for n in range(5):
            context.append({"role": "user", "content": f"hi {n}"})
    log = tmp_path / "w/conversations/e/messages.jsonl"
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:kept]))
    with closing(open_store(url)) as store:
        assert verify(store).problems
    if kept:
        _opens_with_a_notice(url)
    else:
        with pytest.raises(Corrupt, match="--repair"):
            refold.open("e", store=url)
        with closing(open_store(url)) as store:
            assert repair(store, "e").lost
            assert verify(store).problems == ()
        refold.open("e", store=url).close()


def _opens_with_a_notice(url: str) -> None:
    told: list[refold.Notice] = []
    with refold.open("e", store=url) as context:
        context.on("storage-recovered", told.append)
        context.append({"role": "user", "content": "x"})
    assert [notice.reason for notice in told] == [
        "the log ends at event 2, but it had 5: later events are lost"
    ]


def test_a_fork_that_wrote_nothing_yet_is_not_emptied(tmp_path: Path) -> None:
    url = f"files:{tmp_path}/w"
    with refold.open("a", store=url) as context:
        context.append({"role": "user", "content": "hi"})
        context.fork("b").close()
    with refold.open("b", store=url) as twin:
        assert [slot.seq for slot in twin.view.slots] == [1]
