"""`refold search` and its index: what they print, for people and programs, and what they
never print."""

from __future__ import annotations

import random
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

import refold
from refold.display import without_colors
from tests.edges.cli.rooms import HOSTILE, as_json, hostile, on_terminal, run


def test_a_search_names_where_it_found_something(url):
    done = run("search", "question", "3", "--full-text", "--in", "fix-login", "--limit", "1")
    assert done.exit_code == 0, done.output
    group, first, second, way, more = done.stdout.splitlines()
    assert way == "  open it: refold show fix-login"
    assert group.startswith("fix-login  Fix the login test  20")
    assert first.startswith("  #14  user  ") and second.strip() == "question 3 about login.py"
    assert "--limit" in more


def test_json_has_every_field_of_a_hit(url):
    found = as_json("search", "question 3", "--full-text", "--in", "fix-login", "--limit", "1")
    [hit] = found["hits"]
    assert (hit["conversation"], hit["seq"], hit["role"], hit["hidden"]) == (
        "fix-login",
        14,
        "user",
        False,
    )
    assert found["notices"] == [] and hit["marks"]


def test_filters_are_options(url):
    assert {hit["role"] for hit in as_json("search", "login", "--role", "user")["hits"]} == {"user"}
    assert {hit["tool"] for hit in as_json("search", "login", "--tool", "run")["hits"]} == {"run"}
    assert as_json("search", "question", "--since", "1h")["hits"]
    assert as_json("search", "question", "--until", "2020-01-01", "--full-text")["hits"] == []
    assert (
        as_json("search", "question", "--in", "fix-login", "--newest", "--limit", "2")["hits"][0][
            "seq"
        ]
        == 17
    )


def test_a_person_sees_the_best_hits_of_a_conversation_or_all(url):
    found = ("search", "question", "--full-text")
    few, all = run(*found).stdout, run(*found, "--all").stdout
    assert few.count("  user  ") == 2 and "3 more hits; --all shows them" in few
    assert all.count("  user  ") == 5 and "more hit" not in all
    assert len(as_json(*found)["hits"]) == 5


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("newest", [(), ("--newest",)])
def test_the_limit_is_of_conversations(seed: int, newest: tuple[str, ...], url: str) -> None:
    chance = random.Random(seed)
    counts = {f"c{number}": chance.choice([1, 2, 40, 120]) for number in range(7)}
    for id, count in counts.items():
        with refold.open(id, store=url) as context:
            for part in range(count):
                context.append({"role": "user", "content": f"marmalade {id} {part}"})
                context.append({"role": "assistant", "content": "Yes."})
    for limit in (1, 6, 7, 10):
        found = as_json("search", "marmalade", "--full-text", "--limit", str(limit), *newest)
        hits = Counter(hit["conversation"] for hit in found["hits"])
        assert len(hits) == min(limit, 7) and found["more"] == (limit < 7)
        assert all(count == min(10, counts[id]) for id, count in hits.items())


@pytest.mark.parametrize("place", [0, 300, 880])
def test_a_long_hit_is_shown_around_its_match(url, place):
    words = ["filler"] * 120
    words.insert(place // 8, "marmalade")
    with refold.open("long", store=url) as context:
        context.append({"role": "user", "content": " ".join(words)})
    done = run("search", "marmalade", "--full-text")
    [shown] = [line for line in done.stdout.splitlines() if line.startswith("    ")]
    assert "marmalade" in shown and len(shown) < 260
    assert "marmalade" in run("search", "marmalade", "--full-text", "--all").stdout


def test_nothing_found_is_said(url):
    assert run("search", "zzzzzz", "--full-text").stdout == "Nothing was found.\n"


def test_a_word_that_no_message_has_is_named(url):
    for query, missing in (("question 3", []), ("question zzzzzz", ["zzzzzz"])):
        found = as_json("search", query, "--full-text")
        assert found["hits"] and found["missing"] == missing
        said = run("search", query, "--full-text").stdout
        assert said.startswith("No message has 'zzzzzz'") == bool(missing)


def test_a_phrase_that_no_message_has_is_named(url):
    for phrase, missing in (("question 3", []), ("3 question", ["3 question"]), ("zz", ["zz"])):
        found = as_json("search", f'"{phrase}" login', "--full-text")
        assert found["hits"] and found["missing"] == missing


@pytest.mark.parametrize("columns", [60, 80, 120])
@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Tokyo"])
def test_on_a_terminal_a_heading_is_one_line_and_times_are_local(
    columns: int, zone: str, tmp_path: Path
) -> None:
    store = f"sqlite:{tmp_path / 'store.db'}"
    at = datetime(2026, 6, 18, 2, 30, tzinfo=UTC)  # still the day before in New York
    title = "the login test " * 9
    with refold.open("codex-019f1de1-ca1d-7261-9e32-4d51380144e6", store=store) as context:
        context.append({"role": "user", "content": f"{title} marmalade"}, at=at)
    found = ("search", "marmalade", "--full-text", "--store", store)
    status, shown = on_terminal(*found, TZ=zone, COLUMNS=str(columns), HOME=str(tmp_path))
    heading, hit, *_ = without_colors(shown).splitlines()
    local = at.astimezone(ZoneInfo(zone))
    assert status == 0 and len(heading) <= columns
    assert heading.startswith("@1 ") and "the login" in heading
    assert heading.endswith(f"  {local:%Y-%m-%d}") and ("codex-" in heading) == (columns == 120)
    assert hit.rstrip().endswith(f"{local:%Y-%m-%d %H:%M:%S}")


@pytest.mark.parametrize(
    ("args", "status"),
    [
        (("search",), 2),
        (("search", ""), 2),
        (("search", "x", "--in", "nowhere"), 3),
        (("search", "x", "--since", "99x"), 2),
        (("search", "x", "--limit", "0"), 2),
        (("search", "x", "--kind", "usage"), 2),
    ],
)
def test_bad_input_has_its_exit_status(url, args, status):
    assert run(*args).exit_code == status


def test_the_index_can_be_made_anew(url):
    found = as_json("search", "--reindex", "--rebuild", "--full-text")
    assert found["rebuilt"] and found["events"] > 10 and Path(found["index"]).exists()
    assert "0 events" in run("search", "--reindex", "--full-text").stdout


def test_a_damaged_index_is_said_on_standard_error(url):
    run("search", "--reindex", "--full-text")
    Path(".refold/index.db").write_bytes(b"rubbish " * 1_000)
    done = run("search", "question", "--full-text")
    assert done.exit_code == 0 and "question" in done.stdout
    assert "index-rebuilt" in done.stderr and "nothing is lost" in done.stderr


def test_a_terminal_sees_marks_and_a_bar_and_is_not_steered(url):
    hostile(url)
    status, shown = on_terminal(
        "search", "--full-text", "--limit", "50", "login link red long wide 漢字", LANG="C.UTF-8"
    )
    assert status == 0 and "\x1b[33m" in shown
    for text in HOSTILE:
        if "\x1b" in text[:-1]:
            assert text not in shown
    assert (
        "\x1b]" not in shown
        and "\x1bP" not in shown
        and "\u202e" not in shown
        and "\x9b" not in shown
    )
    status, shown = on_terminal("search", "--rebuild", "--full-text", LANG="C.UTF-8")
    assert status == 0 and "events taken into" in shown
