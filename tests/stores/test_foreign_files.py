"""Files in the place of an artifact that are not ours are refused and said, and the others are
read all the same."""

from __future__ import annotations

import os

import pytest

from refold.errors import Corrupt
from refold.stores import open_store
from refold.stores.contents import CHUNK_BYTES
from tests.toolruns import long, opened, ran

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
