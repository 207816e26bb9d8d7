"""A copy is the same conversation in another store: byte for byte, resumable, and never over
another log."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

import refold
from refold.artifacts.cleanup import Quota, clean
from refold.conversations.copier import CopyProgress, copy
from refold.conversations.verifier import verify
from refold.core import codec
from refold.core.model import Conversation, Event
from refold.errors import Conflict, Corrupt, Invalid, NotFound
from refold.stores import Store, open_store
from refold.stores.contract.kit import TEXT, grown, sealed, titled
from refold.stores.contract.logs import STRANGE_BODIES

KINDS = ("memory", "sqlite", "files")


def opened(kind: str, folder: Path) -> Store:
    return open_store(
        {"memory": "memory:", "sqlite": f"sqlite:{folder}/x.db", "files": f"files:{folder}/tree"}[
            kind
        ]
    )


def family(store: Store) -> None:
    """A trunk with a title, strange bodies and an erased event, a fork that went on, a fork of
    it, and a loner."""
    first = titled(None, "The trunk")
    trunk = [first, *sealed(first, [*STRANGE_BODIES, *[TEXT] * 450])]
    store.append("trunk", trunk, expect=0)
    store.erase("trunk", 12)
    store.fork("trunk", 300, "a-fork")
    own = grown(store, "a-fork", 3, before=trunk[299])
    store.fork("a-fork", 302, "0-twig")
    store.append("0-twig", [titled(own[1], "The twig")], expect=302)
    grown(store, "Loner", 2)


def working(store: Store) -> None:
    """What an agent leaves: artifacts, edits, usage."""
    context = refold.Context(store, "work", config=refold.Config(offload_tokens=100), window=20_000)
    context.update(title="Work", model="claude-sonnet-4-5", system="Be brief")
    for turn in range(6):
        context.append({"role": "user", "content": f"question {turn}"})
        call = {
            "type": "tool_use",
            "id": f"t{turn}",
            "name": "run",
            "input": {"command": f"cat {turn}"},
        }
        context.append({"role": "assistant", "content": [call]})
        context.append_result(f"t{turn}", f"line {turn}\n" * 400)
    context.artifacts.put(b"\xff\xfe binary", name="blob", mime="application/octet-stream")
    context.compact("hide", target=context.view.tokens // 2)
    context.close()


def everything(store: Store) -> dict[str, tuple[Conversation, list[Event], list[bytes]]]:
    """All that a store holds, except what can be derived."""
    held = {}
    for about in store.conversations(limit=1_000):
        events = store.read(about.id, limit=10_000)
        bodies = [codec.decode(event) for event in events if event.kind == "artifact"]
        held[about.id] = (about, events, [b"".join(store.get(body.digest)) for body in bodies])  # type: ignore[union-attr]
    return held


@pytest.mark.parametrize("kinds", [*itertools.permutations(KINDS, 2)], ids="-".join)
def test_everything_is_the_same_on_the_other_side(kinds: tuple[str, str], tmp_path: Path) -> None:
    """M-11, M-26: between any two stores."""
    source, target = opened(kinds[0], tmp_path / "a"), opened(kinds[1], tmp_path / "b")
    family(source)
    working(source)
    results = copy(source, target)
    assert {one.id: one.state for one in results} == dict.fromkeys(everything(source), "copied")
    assert everything(target) == everything(source)
    assert verify(target, "work").problems == ()
    before, after = (
        refold.Context(store, "work", window=20_000).request() for store in (source, target)
    )
    assert before == after
    source.close()
    target.close()


def test_the_same_copy_again_does_nothing(tmp_path: Path) -> None:
    source, target = opened("sqlite", tmp_path / "a"), opened("files", tmp_path / "b")
    family(source)
    working(source)
    copy(source, target)
    lines = {
        path: path.read_bytes()
        for path in tmp_path.rglob("*")
        if path.name != "x.db-shm" and path.is_file()
    }
    for one in copy(source, target):
        assert (one.state, one.events, one.artifacts, one.problems) == ("same", 0, 0, ())
    assert {path: path.read_bytes() for path in lines} == lines


def test_suffixes_and_places_of_artifacts_are_kept(tmp_path: Path) -> None:
    source, target = opened("sqlite", tmp_path / "a"), opened("files", tmp_path / "b")
    working(source)
    copy(source, target)
    names = [
        {path.name for path in (tmp_path / one).glob("**/art-*") if "meta" not in path.name}
        for one in "ab"
    ]
    assert names[0] == names[1] and {Path(name).suffix for name in names[0]} == {".txt", ".bin"}


class Cut(Exception):
    """The power of the test."""


@pytest.mark.parametrize("kind", ["sqlite", "files"])
def test_a_copy_that_was_interrupted_goes_on(kind: str, tmp_path: Path) -> None:
    """Cut at every step; the next one writes only what is missing, and nothing is there twice."""
    source = opened("memory", tmp_path)
    family(source)
    working(source)
    written = sum(one.events for one in copy(source, opened("memory", tmp_path)))
    states: set[str] = set()
    for step in range(1, 12):
        left = [step]

        def cut(_: CopyProgress, left: list[int] = left) -> None:
            left[0] -= 1
            if not left[0]:
                raise Cut

        target = opened(kind, tmp_path / str(step))
        with pytest.raises(Cut):
            copy(source, target, progress=cut)
        target.close()
        target = opened(kind, tmp_path / str(step))
        results = copy(source, target)
        states |= {one.state for one in results}
        assert sum(one.events for one in results) < written and everything(target) == everything(
            source
        )
        target.close()
    assert states == {"copied", "continued", "same"}


def test_a_log_that_went_on_here_is_continued_there_and_the_other_way_round_it_is_ahead(
    tmp_path: Path,
) -> None:
    source, target = opened("memory", tmp_path), opened("files", tmp_path)
    family(source)
    copy(source, target)
    trunk = grown(source, "trunk", 3, before=source.read("trunk", after=459)[0])
    [result] = copy(source, target, ["trunk"])
    assert (result.state, result.events) == ("continued", 3) and target.read(
        "trunk", after=460
    ) == trunk
    grown(target, "trunk", 1, before=trunk[-1])
    [result] = copy(source, target, ["trunk"])
    assert (result.state, result.events, target.conversation("trunk").head) == ("ahead", 0, 464)


def test_a_log_that_differs_is_a_conflict_and_nothing_at_all_is_written(tmp_path: Path) -> None:
    source, target = opened("sqlite", tmp_path), opened("files", tmp_path)
    family(source)
    events = grown(target, "trunk", 3)
    with pytest.raises(
        Conflict, match=r"'trunk' differs at or before event 3.*nothing was written"
    ):
        copy(source, target)
    assert [about.id for about in target.conversations()] == ["trunk"] and target.read(
        "trunk"
    ) == events
    longer = grown(target, "trunk", 500, before=events[-1])
    with pytest.raises(Conflict, match="event 460"):
        copy(source, target, ["trunk"])
    assert target.conversation("trunk").chain == longer[-1].chain


def test_a_fork_there_that_is_none_here_is_a_conflict(tmp_path: Path) -> None:
    source, target = opened("memory", tmp_path), opened("memory", tmp_path)
    trunk = grown(source, "trunk", 3)
    source.fork("trunk", 2, "fork")
    target.append("fork", trunk[:2], expect=0)
    with pytest.raises(Conflict, match=r"is not a fork there, and left 'trunk' at event 2 here"):
        copy(source, target)


def test_a_fork_brings_its_ancestors_and_only_them(tmp_path: Path) -> None:
    source, target = opened("memory", tmp_path), opened("files", tmp_path)
    family(source)
    assert [one.id for one in copy(source, target, ["0-twig"])] == ["trunk", "a-fork", "0-twig"]
    assert everything(target) == {
        id: one for id, one in everything(source).items() if id != "Loner"
    }
    assert target.conversation("0-twig").parent == "a-fork"


def test_what_was_erased_here_is_erased_there_and_never_comes_back(tmp_path: Path) -> None:
    source, target = opened("memory", tmp_path), opened("files", tmp_path)
    family(source)
    copy(source, target)
    source.erase("a-fork", 301)
    source.erase("trunk", 20)
    target.erase("trunk", 30)
    assert {one.state for one in copy(source, target)} == {"same"}
    assert target.read("0-twig", after=300, limit=1)[0].erased
    assert [target.read("trunk", after=seq - 1, limit=1)[0].erased for seq in (20, 30, 40)] == [
        True,
        True,
        False,
    ]
    assert [one.state for one in copy(target, source, ["trunk"])] == ["same"]
    assert source.read("trunk", after=29, limit=1)[0].erased


def test_content_that_is_lost_here_is_named_and_does_not_stop_the_rest(tmp_path: Path) -> None:
    source, target = opened("sqlite", tmp_path / "a"), opened("files", tmp_path / "b")
    working(source)
    lost, damaged, *_ = sorted((tmp_path / "a").rglob("art-*"))
    lost.unlink()
    damaged.write_bytes(b"other")
    [result] = copy(source, target)
    assert len(result.problems) == 2 and result.events == result.head
    assert {problem.partition(":")[0] for problem in result.problems} == {lost.stem, damaged.stem}
    assert target.read("work", limit=1_000) == source.read("work", limit=1_000)


def test_content_that_was_cleaned_away_is_not_missed(tmp_path: Path) -> None:
    source, target = opened("sqlite", tmp_path / "a"), opened("memory", tmp_path)
    working(source)
    gone = clean(source, Quota(keep_count=0), now_ms=1 << 42, conversation="work")
    assert gone.removed
    [result] = copy(source, target)
    assert result.problems == ()


def test_content_that_is_damaged_there_is_put_again(tmp_path: Path) -> None:
    source, target = opened("memory", tmp_path), opened("files", tmp_path)
    working(source)
    copy(source, target)
    content = next((tmp_path / "tree" / "artifacts").glob("art-*"))
    content.unlink()
    [result] = copy(source, target)
    assert (result.state, result.artifacts) == ("same", 1) and everything(target) == everything(
        source
    )


def test_progress_reaches_its_total_and_never_goes_back(tmp_path: Path) -> None:
    source, target = opened("memory", tmp_path), opened("memory", tmp_path)
    family(source)
    for _ in range(2):
        told: list[CopyProgress] = []
        copy(source, target, progress=told.append)
        done = [progress.done for progress in told]
        assert done == sorted(done) and done[-1] == told[-1].total == told[0].total


def test_what_cannot_be_copied_is_refused(tmp_path: Path) -> None:
    source, target = opened("sqlite", tmp_path / "a"), opened("files", tmp_path)
    assert copy(source, target) == [] and not (tmp_path / "tree").exists()
    with pytest.raises(NotFound):
        copy(source, target, ["nobody"])
    for same in (source, opened("sqlite", tmp_path / "a")):
        with pytest.raises(Invalid, match="itself"):
            copy(source, same)


def test_damage_here_is_not_carried_over(tmp_path: Path) -> None:
    source, target = opened("files", tmp_path), opened("memory", tmp_path)
    grown(source, "log", 5)
    path = tmp_path / "tree" / "conversations" / "log" / "messages.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b"hello", b"jello", 1))
    with pytest.raises(Corrupt, match="event 1"):
        copy(open_store(source.url), target)
