"""`refold show`: the page, the log, the originals of a handle."""

from __future__ import annotations

import json

import pytest

import refold
from tests.edges.cli.rooms import as_json, on_terminal, run, seeded

pytestmark = pytest.mark.usefixtures("alone")


def test_show_gives_the_page_slot_by_slot(url: str) -> None:
    text = run("show", "fix-login").stdout
    assert (
        "#4 user, " in text and "  question 0 about login.py\n" in text and "  Be brief\n" in text
    )
    page = as_json("show", "fix-login")
    assert [slot["role"] for slot in page["slots"]][:3] == ["user", "assistant", "tool"]
    assert page["slots"][0]["blocks"] == [{"type": "text", "text": "question 0 about login.py"}]


@pytest.mark.parametrize(
    "system",
    [
        {"parts": [{"text": "Be brief."}, {"text": "Be kind."}], "role": "user"},
        [{"type": "text", "text": "Be brief."}, {"type": "text", "text": "Be kind."}],
        [{"role": "system", "content": "Be brief."}, {"role": "developer", "content": "Be kind."}],
    ],
)
def test_a_system_prompt_of_any_provider_is_shown_as_text_and_verified(
    url: str, system: object
) -> None:
    with refold.open("told", store=url, system=system) as context:
        context.append({"role": "user", "content": "hi"})
    for words in (("show",), ("show", "--page")):
        text = run(*words, "told").stdout
        assert "Be brief." in text and "Be kind." in text
        assert "parts" not in text and "{" not in text
    assert run("verify", "told").exit_code == 0


def test_show_tells_what_was_edited_and_why_and_all_still_has_it(url: str) -> None:
    run("compact", "fix-login", "--strategy", "hide", "--target", "60")
    text = run("show", "fix-login").stdout
    assert "stand-in" in text and "edited by #" in text and "hides #" in text
    assert "question 1 about" not in text
    whole = run("show", "fix-login", "--all").stdout
    assert "question 1 about" in whole and "hidden" in whole
    events = as_json("show", "fix-login", "--all")["events"]
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert {event["shown"] for event in events} == {"", "hidden", "whole"}


def test_show_brief_is_one_line_for_each_slot(url: str) -> None:
    slots = len(as_json("show", "fix-login")["slots"])
    assert len(run("show", "fix-login", "--brief").stdout.splitlines()) == 1 + 2 * (slots + 1)


def test_show_gives_the_slots_of_one_role(url: str) -> None:
    lines = run("show", "fix-login", "--brief", "--role", "user").stdout.splitlines()
    assert lines[0] == "fix-login: Fix the login test (5 slots, head #21)"
    assert len(lines) == 1 + 2 * 5 and all(" user, " in line for line in lines[1::2])
    refused = run("show", "fix-login", "--role", "users")
    assert refused.exit_code == 2 and "'assistant', 'system', 'tool', 'user'" in refused.stderr
    assert run("show", "fix-login", "--role", "user", "--all").exit_code == 2


def test_show_unfolds_a_handle_and_its_lines(url: str) -> None:
    [artifact] = [one.artifact for one in refold.open("fix-login", store=url).artifacts.list()]
    assert run("show", "fix-login", artifact.id).stdout == "def login():\n" * 1_000 + "\n"
    assert run("show", "fix-login", artifact.id, "--lines", "2-3").stdout == "def login():\n" * 2
    assert run("show", "fix-login", "4").stdout == "question 0 about login.py\n"
    assert as_json("show", "fix-login", "#4")["text"] == "question 0 about login.py"
    assert '"system":"Be brief"' in run("show", "fix-login", "2").stdout
    assert as_json("show", "fix-login", "2")["event"]["kind"] == "meta"


def test_a_log_that_breaks_in_the_middle_is_still_one_object(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import apsw

    for number in range(12):
        seeded(url, f"talk-{number}")
    connection = apsw.Connection(url.removeprefix("sqlite:"))
    connection.execute("UPDATE events SET body = x'7b' WHERE place & 0xffffffff = 4")
    connection.close()
    result = run("show", "fix-login", "--all", "--json")
    assert json.loads(result.stdout)["error"]["code"] == "corrupt" and result.exit_code == 5
    assert run("list").exit_code == 0


def test_a_page_stops_at_every_full_screen_unless_it_is_to_be_plain(url: str) -> None:
    with refold.open("long", store=url) as context:
        context.append({"role": "user", "content": "\n".join(f"line {n}" for n in range(60))})
    screen = {"LINES": "20", "COLUMNS": "60"}
    status, text = on_terminal("show", "--page", "long", typed="\nq\n", when="q quits:", **screen)
    assert status == 0 and "line 30" in text and "line 50" not in text
    assert text.count("q quits:") == 2
    status, text = on_terminal("show", "--page", "long", typed="\n\n\n", when="q quits:", **screen)
    assert status == 0 and all(f"line {n}\r" in text for n in range(60)), "nothing is left out"
    status, text = on_terminal("show", "--page", "long", "--format", "plain", **screen)
    assert status == 0 and "line 59" in text and "q quits:" not in text
    assert "q quits:" not in run("show", "--page", "long").stdout
    assert "all" not in as_json("show", "--page", "long") and "whole" not in as_json(
        "show", "--page", "long"
    )


def test_hide_says_what_went_where_a_summary_stood_for_it(url: str) -> None:
    run("compact", "fix-login", "--strategy", "hide", "--target", "60")
    [standin] = [slot for slot in as_json("show", "fix-login")["slots"] if slot["edits"]]
    text = run("hide", "fix-login", str(standin["seq"])).stdout
    assert "Hidden: what stood for messages, " in text and "0 messages" not in text
    run("undo", "fix-login", "--yes")
    hidden = as_json("hide", "fix-login", str(standin["seq"] + 1))
    assert (hidden["hidden"], hidden["summaries"]) == (0, 1)


def test_hide_counts_the_messages_that_went(url: str) -> None:
    text = run("hide", "fix-login", "4").stdout
    assert "Hidden: 1 message, " in text
    run("undo", "fix-login", "--yes")
    hidden = as_json("hide", "fix-login", "4")
    assert (hidden["hidden"], hidden["summaries"]) == (1, 0)


def test_hide_names_both_where_messages_went_beside_a_summary(url: str) -> None:
    run("compact", "fix-login", "--strategy", "hide", "--target", "200")
    slots = as_json("show", "fix-login")["slots"]
    [at] = [at for at, slot in enumerate(slots) if slot["edits"]]
    text = run("hide", "fix-login", str(slots[at]["seq"]), str(slots[at + 1]["last"])).stdout
    assert " and what stood for other messages, " in text


def test_the_page_at_an_earlier_place_is_the_page_of_that_time(url: str) -> None:
    with refold.open("earlier", store=url) as context:
        before = []
        for part in range(5):
            context.append({"role": "user", "content": f"part {part}"})
            before.append((context.view.head, as_json("show", "earlier", "--page")["parts"]))
        context.hide(context.view.slots[0].seq)
    for head, parts in before:
        assert as_json("show", "earlier", "--page", "--at", str(head))["parts"] == parts
