"""Artifacts are plain files: private, complete, kept once, checked when they are read."""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path

import pytest

from refold.core import ids
from refold.errors import Corrupt, Denied, Invalid, Unavailable
from refold.stores import artifact_files as module
from refold.stores import open_store
from refold.stores.artifact_files import CHUNK_BYTES, STALE_S, Artifacts
from tests.stores.disks import tmpfs
from tests.toolruns import long, opened, ran


def kept(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def test_a_file_is_named_by_the_artifact_id_and_its_suffix(tmp_path: Path) -> None:
    digest = Artifacts(str(tmp_path / "a")).put([b"hello"], suffix=".txt")
    assert kept(tmp_path / "a") == [ids.artifact_id(digest) + ".txt"]


@pytest.mark.parametrize(
    "suffix", ["", "txt", ".", ".TXT", ".a/b", "../x", ".tar.gz", ".abcdefghijk", ".\n", ". x"]
)
def test_a_suffix_that_is_not_plain_becomes_bin(suffix: str, tmp_path: Path) -> None:
    digest = Artifacts(str(tmp_path / "a")).put([b"hello"], suffix=suffix)
    assert kept(tmp_path / "a") == [ids.artifact_id(digest) + ".bin"]


def test_the_same_content_is_kept_once_whatever_its_suffix(tmp_path: Path) -> None:
    artifacts, others = Artifacts(str(tmp_path)), Artifacts(str(tmp_path))
    digest = artifacts.put([b"hello"], suffix=".txt")
    assert artifacts.put([b"hel", b"lo"], suffix=".md") == digest
    assert others.put([b"hello"]) == digest
    assert kept(tmp_path) == [ids.artifact_id(digest) + ".txt"]


def test_a_name_that_holds_other_content_gives_way_to_a_longer_one(tmp_path: Path) -> None:
    digest = hashlib.sha256(b"mine").hexdigest()
    squatter = tmp_path / (ids.artifact_id(digest) + ".txt")
    squatter.write_bytes(b"other")
    artifacts = Artifacts(str(tmp_path))
    assert artifacts.put([b"mine"], suffix=".txt") == digest
    for reader in (artifacts, Artifacts(str(tmp_path))):
        assert b"".join(reader.get(digest)) == b"mine"
    assert squatter.read_bytes() == b"other" and len(kept(tmp_path)) == 2
    assert artifacts.put([b"mine"], suffix=".md") == digest and len(kept(tmp_path)) == 2


def test_a_file_that_came_within_the_same_tick_of_the_clock_is_found(tmp_path: Path) -> None:
    here, there = Artifacts(str(tmp_path)), Artifacts(str(tmp_path))
    here.put([b"first"])
    seen_ns = os.stat(tmp_path).st_mtime_ns
    digest = there.put([b"second"])
    os.utime(tmp_path, ns=(seen_ns, seen_ns))
    assert b"".join(here.get(digest)) == b"second"


def test_changed_bytes_are_found_at_the_end(tmp_path: Path) -> None:
    artifacts = Artifacts(str(tmp_path))
    digest = artifacts.put([b"x" * 300_000])
    path = artifacts.location(digest)
    assert path is not None
    for content in (b"x" * 299_999 + b"y", b"x" * 10, b""):
        Path(path).write_bytes(content)
        with pytest.raises(Corrupt, match="art-"):
            list(artifacts.get(digest))


def test_putting_the_content_again_heals_a_changed_file(tmp_path: Path) -> None:
    artifacts = Artifacts(str(tmp_path))
    digest = artifacts.put([b"precious"])
    Path(str(artifacts.location(digest))).write_bytes(b"ruined")
    assert artifacts.put([b"precious"]) == digest
    assert b"".join(artifacts.get(digest)) == b"precious"


def test_dropping_never_removes_other_content_of_the_same_short_name(tmp_path: Path) -> None:
    """T-19: only 60 bits of the digest are in the name, and a tool can make two contents that
    share them."""
    digest = hashlib.sha256(b"mine").hexdigest()
    squatter = tmp_path / (ids.artifact_id(digest) + ".txt")
    squatter.write_bytes(b"other")
    artifacts = Artifacts(str(tmp_path))
    artifacts.put([b"mine"])
    for _ in range(2):
        assert artifacts.drop(digest, before_ms=1 << 42)
    assert kept(tmp_path) == [squatter.name]


def test_content_is_put_anew_if_it_was_dropped_while_being_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T-19: a writer that found the content there must not rely on it once a cleaner has removed
    it."""
    artifacts, cleaner = Artifacts(str(tmp_path)), Artifacts(str(tmp_path))
    digest = artifacts.put([b"hello"])
    looked_at = module._digest_of

    def dropped_behind_the_back(path: str) -> str:
        found = looked_at(path)
        monkeypatch.setattr(module, "_digest_of", looked_at)
        assert cleaner.drop(digest, before_ms=1 << 42)
        return found

    monkeypatch.setattr(module, "_digest_of", dropped_behind_the_back)
    assert artifacts.put([b"hello"]) == digest
    assert b"".join(artifacts.get(digest)) == b"hello"


def test_a_failed_put_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(Invalid):
        Artifacts(str(tmp_path)).put([b"x", "text"])  # type: ignore[list-item]
    assert kept(tmp_path) == []


def test_what_a_killed_writer_left_is_swept_when_it_is_old(tmp_path: Path) -> None:
    old, new = tmp_path / ".pending-old", tmp_path / ".pending-new"
    for path in (old, new):
        path.write_bytes(b"half")
    os.utime(old, (1, os.stat(new).st_mtime - STALE_S - 60))
    Artifacts(str(tmp_path)).put([b"hello"])
    assert not old.exists() and new.exists()


def test_files_are_private_whatever_the_umask(tmp_path: Path) -> None:
    for umask in (0, 0o777):
        before = os.umask(umask)
        try:
            artifacts = Artifacts(str(tmp_path / f"u{umask}" / "a"))
            path = artifacts.location(artifacts.put([b"hello"]))
        finally:
            os.umask(before)
        assert stat.S_IMODE(os.stat(str(path)).st_mode) == 0o600
        for folder in (tmp_path / f"u{umask}", tmp_path / f"u{umask}" / "a"):
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_full_disk_is_unavailable_and_leaves_nothing_behind(tmp_path: Path) -> None:
    with tmpfs(tmp_path / "small", 256 * 1024) as small:
        artifacts = Artifacts(str(small / "a"))
        digest = artifacts.put([b"fits"])
        with pytest.raises(Unavailable, match="space"):
            artifacts.put([b"x" * 65_536] * 10)
        assert len(kept(small / "a")) == 1 and b"".join(artifacts.get(digest)) == b"fits"
        artifacts.put([b"x" * 65_536])


def test_a_folder_of_another_user_is_denied(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("acting as another user needs root")
    tmp_path.chmod(0o755)
    os.seteuid(65_534)
    try:
        with pytest.raises(Denied):
            Artifacts(str(tmp_path)).put([b"hello"])
    finally:
        os.seteuid(0)


FOREIGN = "root:x:0:0 the foreign words\n"


@pytest.fixture(params=["sqlite", "files"])
def store(request, tmp_path):
    place = f"sqlite:{tmp_path}/s/refold.db" if request.param == "sqlite" else f"files:{tmp_path}/s"
    store = open_store(place)
    yield store
    store.close()


@pytest.fixture
def spoilt(store, tmp_path):
    """A conversation with two outputs; the file of the first is a link to a large foreign one,
    or was overwritten."""

    def spoil(how: str):
        context = opened(store)
        bad, good = ran(context, long("alpha words")), ran(context, long("beta words"))
        path = store.location(context.artifacts.list()[0].artifact.digest)
        os.unlink(path)
        if how == "link":
            (tmp_path / "passwd").write_text(FOREIGN * (2 * CHUNK_BYTES // len(FOREIGN)))
            os.symlink(tmp_path / "passwd", path)
        elif how == "folder":
            os.mkdir(path)
        elif how == "pipe":
            os.mkfifo(path)
        else:
            with open(path, "w") as file:
                file.write(FOREIGN * (2 * CHUNK_BYTES // len(FOREIGN)))
        return context, bad, good

    return spoil


@pytest.mark.parametrize("how", ["link", "folder", "pipe", "overwritten"])
def test_nothing_of_a_foreign_file_is_shown(spoilt, how):
    """T-08: refused, reported, not read, also where a part is asked for that ends before the
    digest could tell."""
    context, bad, _ = spoilt(how)
    for ask in (
        lambda: context.unfold(bad),
        lambda: context.unfold(bad, lines=(1, 2)),
        lambda: context.artifacts.grep("words", bad, limit=1),
        lambda: context.artifacts.lines(bad, 1, 2),
    ):
        with pytest.raises(Corrupt, match=bad):
            ask()
    for name, given in (
        ("refold_unfold", {"handle": bad, "last_line": 2}),
        ("refold_grep", {"pattern": "foreign"}),
    ):
        answer = context.toolbox.call(name, given)
        assert "foreign words" not in answer and bad in answer
    selected = context.artifacts.select("foreign root beta")
    assert [one.matched for one in selected] == [("beta",)]


@pytest.mark.parametrize("how", ["link", "overwritten"])
@pytest.mark.parametrize("regex", [False, True])
def test_one_bad_output_does_not_hide_the_others(spoilt, how, regex):
    """T-08: one good and one malformed give one record, and which one was left out is said."""
    context, bad, good = spoilt(how)
    found = {one.handle: one.grepped for one in context.artifacts.grep("words", regex=regex)}
    assert [line.text for line in found[good].lines] == ["beta words"]
    assert not found[bad].lines and found[bad].ended.startswith(f"{bad} was left out: ")
    answer = context.toolbox.call("refold_grep", {"pattern": "words", "regex": regex})
    assert "beta words" in answer and f"{bad} was left out" in answer


def test_a_link_is_no_place_to_grep_and_gives_way_when_the_content_comes_again(
    spoilt, store, tmp_path
):
    context, bad, _ = spoilt("link")
    digest = context.artifacts.list()[0].artifact.digest
    assert store.location(digest) is None
    ran(context, long("alpha words"))
    assert context.unfold(bad).text == long("alpha words")
    assert (tmp_path / "passwd").read_text().startswith(FOREIGN)
