"""A far store with a key sees no word of what is synced through it, whatever is written."""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import refold
from refold.conversations.eraser import erase
from refold.conversations.verifier import verify
from refold.core import ids
from refold.core.codec import to_line
from refold.core.model import Artifact, Memory, Message, Meta, Note, Text
from refold.log.draft import Draft
from refold.log.log import Log
from refold.log.stored_logs import conversations as conversations_in
from refold.stores import open_store, synced_of
from refold.stores.encrypted import keys
from refold.stores.encrypted.keys import Key, Keys
from refold.stores.encrypted.store import EncryptedStore
from refold.stores.hybrid.store import HybridStore
from refold.stores.in_memory import MemoryStore

KEYS = Keys(path="acme.key", keys=(Key(b"k" * 32),))
CHARS = 8  # so long a piece of a text is a leak
WORDS = st.text(st.characters(exclude_categories=["Cs"]), min_size=CHARS, max_size=200)


class Listener(MemoryStore):
    """A far store that writes down every byte it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.heard = bytearray()

    def append(self, conversation: str, events: Any, *, expect: int) -> None:
        for event in events:
            self.heard += to_line(event) + b"\n" + event.body
        super().append(conversation, events, expect=expect)

    def put(self, chunks: Any, *, suffix: str = ".bin") -> str:
        content = b"".join(chunks)
        self.heard += content + suffix.encode()
        return super().put([content], suffix=suffix)

    def get(self, digest: str) -> Any:
        self.heard += digest.encode()
        return super().get(digest)

    def drop(self, digest: str, *, before_ms: int) -> bool:
        self.heard += digest.encode()
        return super().drop(digest, before_ms=before_ms)

    def keep_bookmark(self, conversation: str, data: bytes, *, at: int | None = None) -> None:
        self.heard += data
        super().keep_bookmark(conversation, data, at=at)


def device(far: MemoryStore, held: Keys = KEYS) -> HybridStore:
    near = MemoryStore()
    opened = EncryptedStore(far, lambda: held, near=near)
    return HybridStore(near, lambda: opened, url="hybrid:test", far_url="far")


def pieces(text: str) -> set[bytes]:
    """Every run of eight characters, as it is, escaped for JSON, and in base64 at each offset."""
    found = set()
    for at in range(len(text) - CHARS + 1):
        piece = text[at : at + CHARS]
        found |= {piece.encode("utf-8", "surrogatepass"), msgspec.json.encode(piece)[1:-1]}
    raw = text.encode()
    for offset in range(3):
        hidden = base64.b64encode(raw[offset : len(raw) - (len(raw) - offset) % 3])
        found |= {hidden[at : at + 12] for at in range(0, len(hidden) - 11, 4)}
    return {piece for piece in found if len(piece) >= CHARS}


def written(store: Any, texts: list[str]) -> list[str]:
    """A log with each text in another kind of event, and in an artifact; gives the digests too."""
    title, words, note, tag, output = texts
    digest = store.put([output.encode()])
    artifact = Artifact(id=ids.artifact_id(digest), digest=digest, size_bytes=9, name=tag)
    Log(store, "c").append(
        [
            Draft(body=Meta(title=title, tags=(tag,)), by="user"),
            Draft(
                body=Message(role="user", blocks=(Text(words),)), by="somebody-whose-name-is-long"
            ),
            Draft(body=Note(kind="progress-of-mine", data={note: note}), by="user"),
            Draft(body=Memory(entry="e-1", content=words), by="user"),
            Draft(body=artifact, by="user"),
        ]
    )
    return [*texts, digest, artifact.id, "somebody-whose-name-is-long", "progress-of-mine"]


@settings(max_examples=60, deadline=None)
@given(st.lists(WORDS, min_size=5, max_size=5))
def test_x08_a_far_store_sees_no_eight_characters_of_a_text(texts: list[str]) -> None:
    far = Listener()
    here = device(far)
    hidden = written(here, texts)
    assert here.sync().is_done
    there = device(far)
    assert there.sync().is_done
    assert there.near.read("c") == here.near.read("c")
    digest = hidden[5]
    assert b"".join(there.get(digest)) == texts[4].encode()
    erase(there, "c", [2, 5])
    assert there.sync().is_done and here.sync().is_done
    leaked = [piece for text in hidden for piece in pieces(text) if piece in far.heard]
    assert not leaked


@settings(max_examples=40, deadline=None)
@given(st.binary(max_size=200_000).map(lambda data: data * 2), st.integers(1, 70_000))
def test_an_artifact_of_any_size_comes_back_and_is_kept_once(content: bytes, step: int) -> None:
    far = Listener()
    one = EncryptedStore(far, lambda: KEYS, near=MemoryStore())
    two = EncryptedStore(far, lambda: KEYS, near=MemoryStore())
    cut = [content[at : at + step] for at in range(0, len(content), step)]
    digest = one.put(cut)
    assert two.put([content]) == digest
    assert len(far.contents) == 1
    assert b"".join(one.get(digest)) == b"".join(two.get(digest)) == content
    assert len(content) < 32 or content[:32] not in far.heard


def test_erased_words_leave_both_sides_and_logs_still_agree() -> None:
    far = MemoryStore()
    one, two = device(far), device(far)
    written(
        one, ["a title of it", "words to erase", "a note of it", "a tag of it", "an output of it"]
    )
    assert one.sync().is_done and two.sync().is_done
    erase(one, "c", [2, 5])
    assert one.sync().is_done and two.sync().is_done and one.sync().is_done
    assert one.near.read("c") == two.near.read("c")
    for store in (two.near, far):
        assert [event.seq for event in store.read("c") if event.erased] == [2, 5]
    assert not far.contents and not two.near.contents
    # Whoever comes later has the same log, though the far bodies are gone.
    late = device(far)
    assert late.sync().is_done
    assert late.near.read("c") == one.near.read("c")


@pytest.mark.parametrize("is_shared", [True, False], ids=["named twice", "named once"])
def test_erasing_drops_a_content_nobody_names_also_where_its_place_is_forgotten(
    is_shared: bool,
) -> None:
    far = MemoryStore()
    one, two = device(far), device(far)
    digest = one.put([b"an output"])
    named = Artifact(id=ids.artifact_id(digest), digest=digest, size_bytes=9)
    for id in ("c", "d") if is_shared else ("c",):
        Log(one, id).append([Draft(body=named, by="user")])
    assert one.sync().is_done and two.sync().is_done
    two.far.known.contents.clear()  # as after a kill
    erase(one, "c", [1])
    assert one.sync().is_done and two.sync().is_done
    for store in (one.near, two.near, far):
        assert bool(store.contents) is is_shared


def test_forks_are_shared_there_and_here() -> None:
    far = MemoryStore()
    one = device(far)
    written(one, ["title of it"] * 5)
    one.fork("c", 3, "f")
    Log(one, "f").append([Draft(body=Note(kind="own"), by="user")])
    one.fork("f", 4, "g")
    assert one.sync().is_done
    two = device(far)
    assert two.sync().is_done
    assert {(a.id, a.parent, a.parent_seq) for a in two.near.conversations()} == {
        ("c", "", 0), ("f", "c", 3), ("g", "f", 4)
    }  # fmt: skip
    for id in ("c", "f", "g"):
        assert two.near.read(id) == one.near.read(id)


# --- with a real server, and keys in files ---


pytestmark = pytest.mark.usefixtures("home")


def sync(url: str):
    store = open_store(url)
    report = synced_of(store).sync()
    store.close()
    return report


def test_two_devices_with_a_key_talk_by_a_server_whose_disk_has_no_word(running, tmp_path: Path):
    place = running.place(dict(os.environ))
    file = tmp_path / "acme.key"
    keys.create(str(file), keys.random_key())
    urls = [f"hybrid:sqlite:{tmp_path}/{n}/refold.db?far={place}&key={file}" for n in (1, 2)]
    said = "the quick brown fox keeps a secret"
    for url in urls:
        with refold.open("c", store=url, model="gpt-4o", window=8_000) as context:
            context.append({"role": "user", "content": said})
            context.artifacts.put(f"{said}\n" * 5_000, name="an output of foxes")
            context.update(title="a talk of foxes")
    for url in (*urls, *urls):
        assert sync(url).is_done
    first, second = (
        {one.id: open_store(url).read(one.id) for one in open_store(url).conversations()}
        for url in urls
    )
    assert first == second and len(first) == 2
    server = open_store(place)
    assert {event.by for id in first for event in server.read(id)} == {"refold.encrypted"}
    assert [one.title for one in conversations_in(server)] == ["", ""]
    server.close()
    kept = b"".join(
        path.read_bytes()
        for path in Path(running.orgs.place.partition(":")[2]).rglob("*")
        if path.is_file()
    )
    leaked = [
        piece
        for text in (said, "an output of foxes", "a talk of foxes")
        for piece in pieces(text)
        if piece in kept
    ]
    assert not leaked


@pytest.mark.parametrize("is_encrypted", [True, False], ids=["with a key", "without"])
@pytest.mark.parametrize("size", [1, 70_000, 600_000])
@pytest.mark.parametrize("at", [0.0, 0.5, 1.0])
def test_an_artifact_that_is_damaged_on_a_server_is_named_and_the_rest_is_there(
    running, tmp_path: Path, is_encrypted: bool, size: int, at: float
):
    place = running.place(dict(os.environ))
    file = tmp_path / "acme.key"
    keys.create(str(file), keys.random_key())
    end = f"?far={place}" + (f"&key={file}" if is_encrypted else "")
    one, two = (open_store(f"hybrid:sqlite:{tmp_path}/{n}/refold.db{end}") for n in (1, 2))
    for id in ("a", "b", "c"):
        digest = one.put([id.encode() * size])
        named = Artifact(id=ids.artifact_id(digest), digest=digest, size_bytes=size)
        Log(one, id).append([Draft(body=named, by="user")])
    damaged = ids.artifact_id(one.put([b"b" * size]))
    assert synced_of(one).sync().is_done
    folder = Path(running.orgs.place.partition(":")[2]) / f"{place.rpartition('/')[2]}.artifacts"
    digest = one.put([b"b" * size])
    there = synced_of(one).far.known.contents[digest] if is_encrypted else digest
    [kept] = folder.glob(f"{ids.artifact_id(there)}*")
    data = bytearray(kept.read_bytes())
    data[int((len(data) - 1) * at)] ^= 1
    kept.write_bytes(data)
    report = synced_of(two).sync()
    states = {done.conversation: done.state for done in report.synced}
    assert states == {"a": "synced", "b": "blocked", "c": "synced"}
    [stuck] = [done for done in report.synced if done.state == "blocked"]
    assert damaged in stuck.reason
    problems = verify(synced_of(one).far).problems
    assert [problem.conversation for problem in problems] == ["b"]
    assert damaged in problems[0].what and "damaged" in problems[0].what
    for store in (one, two):
        store.close()
