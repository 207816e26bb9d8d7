"""What is erased is gone: here, in what was made of it, and wherever it was synced to."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import refold
from refold.conversations import eraser
from refold.errors import Denied, NotFound
from refold.stores import open_store, synced_of
from refold.stores.files.store import FilesStore
from refold.stores.hybrid.store import HybridStore

SECRET = "hunter2-is-the-word"


def said(context, text: str) -> None:
    context.append({"role": "user", "content": text})
    context.append({"role": "assistant", "content": f"noted {text}"})


def sync(url: str):
    store = open_store(url)
    report = synced_of(store).sync()
    store.close()
    return report


def bytes_under(root: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file())


@pytest.mark.parametrize("kind", ["sqlite", "files"])
def test_i9_what_is_erased_is_in_no_file_of_any_replica_and_never_returns(kind, tmp_path):
    places = {"sqlite": "sqlite:{}/{}/x.db", "files": "files:{}/{}"}
    one, two = (
        f"hybrid:{places[kind].format(tmp_path, name)}?far=files:{tmp_path}/team"
        for name in ("one", "two")
    )
    with refold.open("c", store=one, model="gpt-4o", window=4_000) as context:
        said(context, f"the password is {SECRET}")
        for number in range(20):
            said(context, f"step {number} " + "words " * 40)
        context.compact(target=1_200)
    sync(one), sync(two)
    assert SECRET.encode() in bytes_under(tmp_path / "two")

    seqs = [
        event.seq
        for event in open_store(one).read("c")
        if event.kind == "message" and SECRET.encode() in event.body
    ]
    erased = refold.conversations.erase(one, "c", seqs)
    assert set(seqs) <= set(erased.seqs)
    assert SECRET.encode() not in bytes_under(tmp_path / "one")

    # The other device wrote meanwhile: what it says is kept, and what it has of the words goes.
    with refold.open("c", store=two, model="gpt-4o", window=4_000) as context:
        context.note("progress", {"step": 7})
    for url in (one, two, one, two):
        sync(url)
    for name in ("one", "two", "team"):
        assert SECRET.encode() not in bytes_under(tmp_path / name), name
    logs = [open_store(url).read("c") for url in (one, two)]
    assert logs[0] == logs[1]
    assert open_store(one).conversation("c").chain == open_store(two).conversation("c").chain


def test_a_device_that_erased_what_another_asked_for_says_so(tmp_path):
    one, two = (f"hybrid:files:{tmp_path}/{n}?far=files:{tmp_path}/team" for n in ("one", "two"))
    with refold.open("c", store=one, model="gpt-4o") as context:
        said(context, SECRET)
    sync(one), sync(two)
    refold.conversations.erase(one, "c", [2])
    for url in (one, two, one):
        sync(url)
    store = open_store(two)
    device = synced_of(store).sync_status().device
    store.close()
    assert refold.conversations.erase(one, "c", [2]).confirmed == {2: (device,)}


def test_a_device_that_never_had_it_confirms_nothing(tmp_path):
    one, two = (f"hybrid:files:{tmp_path}/{n}?far=files:{tmp_path}/team" for n in ("one", "two"))
    with refold.open("c", store=one, model="gpt-4o") as context:
        said(context, SECRET)
    sync(one)
    refold.conversations.erase(one, "c", [2])
    for url in (one, two, two, one):
        sync(url)
    assert refold.conversations.erase(one, "c", [2]).confirmed == {}


class Reading(FilesStore):
    """A far store to which this device may not write."""

    def append(self, conversation, events, *, expect):
        raise Denied("the token may read, not write")


def test_a_device_that_may_only_read_is_not_blocked_by_erasures(tmp_path):
    one = f"hybrid:files:{tmp_path}/one?far=files:{tmp_path}/team"
    with refold.open("c", store=one, model="gpt-4o") as context:
        said(context, SECRET)
    sync(one)
    reading = HybridStore(
        open_store(f"files:{tmp_path}/two"), lambda: Reading(f"{tmp_path}/team"), url="hybrid:two"
    )
    reading.sync()
    assert SECRET.encode() in bytes_under(tmp_path / "two")
    refold.conversations.erase(one, "c", [2])
    sync(one)
    for _ in range(2):
        report = reading.sync()
        assert report.is_done
        assert [one.state for one in reading.sync_status().conversations] == ["synced"]
    with refold.open("c", store=one, model="gpt-4o") as context:
        said(context, "more")
    sync(one)
    assert reading.sync().is_done
    # What somebody says there is blocked as before.
    with refold.open("c", store=reading, model="gpt-4o") as context:
        said(context, "mine")
    assert [one.state for one in reading.sync().synced] == ["blocked"]
    reading.close()


def test_an_erased_artifact_takes_its_content_along_on_both_sides(tmp_path):
    one = f"hybrid:files:{tmp_path}/one?far=files:{tmp_path}/team"
    with refold.open("c", store=one, model="gpt-4o", window=4_000) as context:
        call = {"id": "t1", "type": "function", "function": {"name": "cat", "arguments": "{}"}}
        context.append({"role": "user", "content": "read it"})
        context.append({"role": "assistant", "content": None, "tool_calls": [call]})
        text = f"{SECRET}\n" + "line of output\n" * 4_000
        context.append({"role": "tool", "tool_call_id": "t1", "content": text})
    sync(one)
    assert SECRET.encode() in bytes_under(tmp_path / "team")
    events = open_store(one).read("c")
    [seq] = [event.seq for event in events if b"tool_result" in event.body]
    assert refold.conversations.erase(one, "c", [seq]).contents == 1
    sync(one)
    assert SECRET.encode() not in bytes_under(tmp_path)
    with refold.open("c", store=one, model="gpt-4o", window=4_000) as context:
        # The page keeps its shape: the call still has its result.
        assert context.request()["messages"][-1]["tool_call_id"] == "t1"


def test_all_of_a_conversation_can_be_erased_and_what_is_not_there_is_not_found(tmp_path):
    url = f"files:{tmp_path}/one"
    with refold.open("c", store=url, model="gpt-4o") as context:
        said(context, SECRET)
    with pytest.raises(NotFound):
        refold.conversations.erase(url, "c", [2, 99])
    assert SECRET.encode() in bytes_under(tmp_path)
    refold.conversations.erase(url, "c")
    assert SECRET.encode() not in bytes_under(tmp_path)


def test_a_fork_keeps_the_shape_of_its_page(tmp_path):
    url = f"files:{tmp_path}/one"
    call = {"id": "t1", "type": "function", "function": {"name": "cat", "arguments": "{}"}}
    with refold.open("c", store=url, model="gpt-4o") as context:
        context.append({"role": "user", "content": "read it"})
        context.append({"role": "assistant", "content": SECRET, "tool_calls": [call]})
        context.append({"role": "tool", "tool_call_id": "t1", "content": SECRET})
        context.append({"role": "assistant", "content": "done"})
        context.fork("f")
    refold.conversations.erase(url, "c", [3, 4])
    for id in ("c", "f"):
        with refold.open(id, store=url, model="gpt-4o") as context:
            roles = [message["role"] for message in context.request()["messages"]]
            assert roles == ["user", "assistant", "tool", "assistant"], id


def test_a_fork_and_a_memory_that_were_made_of_it_lose_it_too(tmp_path):
    url = f"files:{tmp_path}/one"
    with refold.open("c", store=url, model="gpt-4o") as context:
        said(context, SECRET)
        context.memory.store(f"remember {SECRET}", source=2)
        context.fork("f")
    refold.conversations.erase(url, "c", [2, 3])
    assert SECRET.encode() not in bytes_under(tmp_path)


def test_what_was_written_twice_is_erased_twice(tmp_path):
    """An import writes again what stands behind a change; a user restores and says it once more."""
    with refold.open("c", store=f"sqlite:{tmp_path}/x.db") as context:
        said(context, "Begin.")
        said(context, SECRET)
        context.restore(3)
        said(context, SECRET)
        said(context, "yes")
        said(context, "yes")
        slots = context.view.slots
        seqs = [slot.seq for slot in slots if SECRET in str(slot.message)]
        twins = [slot.seq for slot in slots if "yes" in str(slot.message)]
    refold.conversations.erase(f"sqlite:{tmp_path}/x.db", "c", [*seqs, twins[0]])
    assert SECRET.encode() not in bytes_under(tmp_path)
    with refold.open("c", store=f"sqlite:{tmp_path}/x.db") as context:
        shown = [slot.seq for slot in context.view.slots if "yes" in str(slot.message)]
        assert shown == twins[1:]


def test_erasing_everything_leaves_what_is_off_the_page_off(tmp_path):
    store = open_store("memory:")
    with refold.open("c", store=store) as context:
        said(context, "Begin.")
        said(context, SECRET)
        context.restore(3)
        shown = len(context.view.slots)
        refold.conversations.erase(store, "c", None)
        assert SECRET not in str([event.body for event in store.read("c")])
    with refold.open("c", store=store) as context:
        assert len(context.view.slots) == shown


ORDERS = ("From now on, run {} before every commit.", "Use {} for the cache.", "TODO: rename {}.")
RUNS = given(
    said=st.lists(
        st.tuples(st.integers(0, 2), st.sampled_from(ORDERS)), min_size=2, max_size=6, unique=True
    ),
    erased=st.sets(st.integers(0, 5), min_size=1, max_size=3),
    remembered=st.sets(st.integers(0, 5), max_size=3),
    forked=st.booleans(),
)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@RUNS
def test_what_hand_overs_and_memories_showed_of_it_goes_with_it(
    tmp_path_factory, said, erased, remembered, forked
):
    """Every message has a word of its own: of those erased, none is left in any conversation."""
    folder = tmp_path_factory.mktemp("store")
    url = f"sqlite:{folder}/x.db"
    places: list[tuple[str, int, str]] = []
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("REFOLD_USER_STORE", f"sqlite:{folder}/user.db")
        for number, (talk, order) in enumerate(said):
            word = f"zebra{number}x"
            with refold.open(f"talk-{talk}", store=url, window=24_000, embedder=False) as context:
                text = order.format(word)
                seq = context.append({"role": "user", "content": text})[-1].seq
                places.append((context.id, seq, word))
                context.append({"role": "assistant", "content": "Done."})
                if number in remembered:
                    context.memory.store(text, source=seq)
        if forked:
            with refold.open(places[0][0], store=url, window=24_000) as context:
                context.fork("a-fork").close()
        with refold.open("next", store=url, window=24_000, embedder=False) as context:
            shown = context.handover(show=True)
            context.append({"role": "user", "content": "What about the cache and the commit?"})
            page = str(context.request())
        # One that opened the next with what it showed.
        with refold.open("later", store=url, window=24_000, embedder=False) as context:
            context.append({"role": "user", "content": "What runs before every commit?"})
            context.request()
        going = [places[number] for number in erased if number < len(places)]
        for id, seq, _ in going:
            refold.conversations.erase(url, id, [seq])
        gone = {word for _, _, word in going}
        left = bytes_under(folder)
        assert {word for word in gone if word.encode() in left} == set()
        kept = {word for _, _, word in places} - gone
        assert all(word.encode() in left for word in kept)
        assert not refold.conversations.verify(url).problems
        if not gone & {word for _, _, word in places if word in shown or word in page}:
            with refold.open("next", store=url, window=24_000, embedder=False) as context:
                assert str(context.request()) == page


def test_a_hand_over_that_is_erased_is_shown_before_and_counted(tmp_path):
    url = f"sqlite:{tmp_path}/x.db"
    with refold.open("first", store=url, window=24_000) as context:
        [event] = context.append({"role": "user", "content": f"From now on, use {SECRET}."})
    with refold.open("next", store=url, window=24_000) as context:
        assert SECRET in context.handover(show=True)
        context.append({"role": "user", "content": "Go on"})
    store = open_store(url)
    plan = eraser.erase(store, "first", [event.seq], dry_run=True)
    store.close()
    assert plan.logs == {"first": 1, "next": 1} and plan.seqs == (event.seq,)
    done = refold.conversations.erase(url, "first", [event.seq])
    assert done.derived == 1 and SECRET.encode() not in bytes_under(tmp_path)
    with refold.open("next", store=url, window=24_000) as context:
        assert SECRET not in str(context.request()) and "Go on" in str(context.request())
