"""One damaged conversation hides no other: lists, scans and cleanups go on, say which one it is,
and end with 5."""

from __future__ import annotations

from pathlib import Path

import pytest

import refold
from refold.stores import open_store
from tests.damage import spoil
from tests.edges.cli.rooms import as_json, run
from tests.redaction.secret_kinds import WORD, drawn
from tests.toolruns import clean, forget_page, long, opened, ran

CORRUPT, SECRETS_FOUND = 5, 9
TOKEN = "ghp_" + drawn("damage", WORD, 36)


@pytest.fixture(params=["sqlite", "files"])
def store(request: pytest.FixtureRequest, alone: None, tmp_path: Path) -> str:
    """Three conversations; the second has a line that cannot be read."""
    url = f"sqlite:{tmp_path}/s/refold.db" if request.param == "sqlite" else f"files:{tmp_path}/s"
    for id in ("a", "b", "c"):
        with refold.open(id, store=url) as context:
            context.append({"role": "user", "content": f"the question of {id}"})
            context.append({"role": "assistant", "content": "an answer"})
            context.append({"role": "user", "content": f"{TOKEN if id == 'c' else 'thanks'}"})
    return url


@pytest.mark.parametrize("seq", [1, 2, 3])
def test_a_list_shows_all_and_marks_the_damaged_one(store: str, seq: int) -> None:
    """M-15: `list()` returns 3."""
    assert run("list", "--store", store).exit_code == 0
    spoil(store, "b", seq)
    told = run("list", "--store", store)
    assert (
        told.exit_code == CORRUPT
        and "b is damaged: " in told.stdout
        and "refold verify b" in told.stdout
    )
    rows = {row["id"]: row for row in as_json("list", "--store", store)["conversations"]}
    assert sorted(rows) == ["a", "b", "c"]
    assert rows["b"]["damaged"] and not rows["a"]["damaged"] and rows["c"]["messages"] == 3
    assert "[damaged]" in told.stdout and "the question of c" in told.stdout
    assert run("list", "--tag", "x", "--store", store).exit_code == 0


def test_a_scan_goes_on_and_says_what_it_could_not_read(store: str) -> None:
    spoil(store, "b", 2)
    found = as_json("scan", "--store", store)
    assert found["total"] == 1 and found["findings"][0]["conversation"] == "c"
    assert list(found["damaged"]) == ["b"] and not found["ok"]
    assert run("scan", "--store", store).exit_code == SECRETS_FOUND
    told = run("scan", "a", "--store", store)
    assert told.exit_code == 0 and "no secrets found" in told.stdout


def test_a_scan_without_secrets_ends_with_damage(store: str) -> None:
    spoil(store, "c", 3)
    told = run("scan", "--store", store)
    assert (
        told.exit_code == CORRUPT
        and "c is damaged: " in told.stdout
        and "3 conversations" in told.stdout
    )


def outputs(url: str) -> dict[str, str]:
    """Outputs off the page: one that only `d` has, one that `e` has too. `e` ends in a message
    without any."""
    there, ids = open_store(url), {}
    context = opened(there, "d")
    ids["own"], ids["shared"] = (
        ran(context, long("an output of d")),
        ran(context, long("of d and e")),
    )
    forget_page(context)
    context.close()
    other = opened(there, "e")
    ran(other, long("of d and e"))
    forget_page(other)
    other.append({"role": "user", "content": "the last words"})
    other.close()
    there.close()
    return ids


def test_a_cleanup_goes_on_and_spares_what_the_damaged_one_names(store: str) -> None:
    """M-15: what cannot be read may name anything; then nothing goes."""
    ids = outputs(store)
    there = open_store(store)
    spoil(store, "e", there.conversation("e").head)
    there.close()
    there = open_store(store)
    done = clean(there, keep_count=0)
    assert list(done.damaged) == ["e"]
    reasons = {item.artifact.id: item.why for item in done.kept}
    if store.startswith("sqlite:"):
        # There a body is damaged, and the kinds of events are known all the same.
        assert [item.artifact.id for item in done.removed] == [ids["own"]]
        assert reasons[ids["shared"]].endswith("e is damaged and names it")
    else:
        assert done.removed == () and reasons[ids["own"]].endswith("e is damaged and may name it")
    there.close()
    told = run("artifact", "remove", "--keep-count", "0", "--store", store)
    assert told.exit_code == CORRUPT and "e is damaged: " in told.stdout
    assert list(
        as_json("artifact", "remove", "--keep-count", "0", "--store", store)["damaged"]
    ) == ["e"]


def test_deleting_and_removing_mind_a_damaged_conversation(store: str) -> None:
    """X-54, M-20."""
    ids = outputs(store)
    there = open_store(store)
    spoil(store, "e", there.conversation("e").head)
    there.close()
    told = as_json("artifact", "remove", "d", ids["shared"], "--yes", "--store", store)
    assert "its bytes stay" in told["removed"]["why"]
    told = as_json("delete", "d", "--yes", "--store", store)
    if store.startswith("sqlite:"):
        assert told["removed"] == ["d"] and told["contents"] == 1 and not told["notes"]
    else:
        # What the damaged one names cannot be known, but that it is not a fork can.
        assert told["removed"] == ["d"] and told["contents"] == 0
