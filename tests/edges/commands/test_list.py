"""`refold list`: which conversations there are, and how large."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import refold
from tests.edges.cli.rooms import as_json, run

pytestmark = pytest.mark.usefixtures("alone")


def test_an_empty_store_lists_nothing_and_stays_empty(tmp_path: Path) -> None:
    assert "no conversations" in run("list").stdout
    assert as_json("list")["conversations"] == []
    assert os.listdir(tmp_path) == []


def test_a_tag_that_none_has_is_named(url: str) -> None:
    assert (
        "no conversations with the tag nosuch in"
        in run("list", "--store", url, "--tag", "nosuch").stdout
    )


def test_list_shows_id_title_messages_tokens_time_and_parent(url: str) -> None:
    with refold.open("fix-login", store=url) as context:
        context.fork("branch", at=9)
        current = context.stats().current
    result = run("list", "--store", url)
    row = next(line for line in result.stdout.splitlines() if line.startswith("fix-login"))
    assert "Fix the login test" in row and " 16 " in row
    listed = {one["id"]: one for one in as_json("list")["conversations"]}
    assert (listed["fix-login"]["messages"], listed["fix-login"]["tokens"]) == (16, current)
    assert (listed["branch"]["parent"], listed["branch"]["parent_seq"]) == ("fix-login", 9)


def test_list_counts_what_came_after_the_bookmark(url: str) -> None:
    store = refold.open_store(url)
    context = refold.Context(store, "fix-login")
    context.append({"role": "user", "content": "one more"})
    expected = context.stats()
    store.close()
    [row] = as_json("list", "--store", url)["conversations"]
    assert (row["messages"], row["tokens"]) == (17, expected.current)


@pytest.mark.parametrize("turns", [3, 130, 300])
@pytest.mark.parametrize("last", ["note", "compact", "undo", "restore", "pin"])
def test_list_counts_a_conversation_that_somebody_holds_open(
    url: str, turns: int, last: str
) -> None:
    with refold.open("held", store=url, window=8_000) as context:
        for number in range(turns):
            context.append({"role": "user", "content": f"question {number} " + "about it " * 20})
            context.append({"role": "assistant", "content": "yes"})
            context.note("proxy-call", {"number": number})
        doing = {
            "note": lambda: context.note("proxy-call", {"number": turns}),
            "compact": lambda: context.compact(target=1_000),
            "undo": lambda: (context.compact(target=1_000), context.undo()),
            "restore": lambda: context.restore(2),
            "pin": lambda: context.pin(2),
        }
        doing[last]()
        listed = {row["id"]: row for row in as_json("list", "--store", url)["conversations"]}
        current, counts = context.stats().current, context.view.counts
    row = listed["held"]
    assert (row["messages"], row["tokens"]) == (sum(counts.values()), current)


def test_a_conversation_without_a_title_is_called_the_same_everywhere() -> None:
    with refold.open("talk") as context:
        context.append({"role": "user", "content": "Explore the package"})
    assert "Explore the package" in run("list").stdout
    assert run("show", "talk").stdout.startswith("talk: Explore the package (1 slot,")
    assert "Title: Explore the package\n" in run("stats", "talk").stdout


def test_a_list_shows_the_place_by_which_each_is_named(url: str) -> None:
    for name in ("one", "two"):
        with refold.open(name, store=url) as context:
            context.update(tags=("some",) if name == "one" else ())
            context.append({"role": "user", "content": f"about {name}"})
    rows = as_json("list")["conversations"]
    assert [row["position"] for row in rows] == [1, 2, 3]
    # Also where others are left out.
    [tagged] = as_json("list", "--tag", "some")["conversations"]
    assert as_json("show", f"@{tagged['position']}")["conversation"] == "one"
    assert "@2" in run("list", "--tag", "some").stdout


@pytest.mark.parametrize("place", ["1", "2", "17"])
@pytest.mark.parametrize("words", [("show",), ("chat", "--model", "scripted", "--resume")])
def test_a_place_without_its_mark_is_told_with_it(
    url: str, place: str, words: tuple[str, ...]
) -> None:
    missing = run(*words, place, input="")
    assert f"for position {place} in the list, use @{place}" in missing.stderr
    assert "refold list shows" in missing.stderr
