"""`refold replay` on a conversation, on a file, and on everything that was imported."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.edges.cli.rooms import as_json, run
from tests.replay.test_replay import turns

pytestmark = pytest.mark.usefixtures("alone")


def session(tmp_path: Path) -> str:
    file = tmp_path / "session.json"
    file.write_text(json.dumps({"model": "claude-sonnet-4-5", "messages": turns(50)}))
    return str(file)


def test_a_file_is_played_and_nothing_is_written(url: str, tmp_path: Path) -> None:
    before = as_json("list")
    done = run("replay", session(tmp_path), "--window", "3000")
    assert done.exit_code == 0, done.stderr
    assert "names kept" in done.stdout and "window, cut to half lost:" in done.stdout
    assert as_json("list") == before


def test_a_conversation_and_all_of_them(url: str, tmp_path: Path) -> None:
    assert run("replay", "--all").exit_code == 3
    id = as_json("import", session(tmp_path))["conversation"]
    played = as_json("replay", id)["sessions"][0]["replayed"]
    assert played["outcomes"][0]["faults"] == {} and played["model"] == "claude-sonnet-4-5"
    shown = run("replay", "--all").stdout
    assert "1 session, all turns together" in shown and "No prices are known" not in shown
    (tmp_path / "other.json").write_text(json.dumps(turns(20)))
    as_json("import", str(tmp_path / "other.json"))
    shown = run("replay", "--all").stdout
    assert "2 sessions, all turns together" in shown and "n/a" not in shown
    assert "No prices are known for 1 session" in shown


def test_of_a_file_with_several_sessions_the_longest_is_played(url: str, tmp_path: Path) -> None:
    lists = [{"id": name, "messages": turns(count)} for name, count in (("a", 5), ("b", 20))]
    (tmp_path / "s.json").write_text(json.dumps(lists))
    [played] = as_json("replay", str(tmp_path / "s.json"))["sessions"]
    assert played["session"].endswith("-b")
    assert played["remark"].startswith("the file has 1 session more: this is the longest. ")


def test_sizes_that_differ_from_the_list_are_explained(url: str, tmp_path: Path) -> None:
    said = turns(20)
    said += [{"role": "assistant", "content": f"Done {part}."} for part in range(3)]
    (tmp_path / "s.json").write_text(json.dumps(said))
    id = as_json("import", str(tmp_path / "s.json"))["conversation"]
    [listed] = [one for one in as_json("list")["conversations"] if one["id"] == id]
    [played] = as_json("replay", id)["sessions"]
    assert (played["messages"], played["tokens"]) == (listed["messages"], listed["tokens"])
    assert played["replayed"]["messages"] == played["messages"] - 2
    shown = " ".join(run("replay", id).stdout.split())
    assert f"the page as it is now, for its model: {listed['tokens']:,}." in shown
    assert f"The log has {listed['messages']} messages: here" in shown


@pytest.mark.parametrize(
    ("window", "why"),
    [("1000", "no turn used a name from more than 10"), ("90000", "was never larger than")],
)
def test_a_measure_that_is_not_there_says_why(
    window: str, why: str, url: str, tmp_path: Path
) -> None:
    said = []
    for turn in range(40):
        said.append({"role": "user", "content": f"Tell me more, please: part {turn}. " * 20})
        said.append({"role": "assistant", "content": "Well, as it was said before. " * 20})
    (tmp_path / "s.json").write_text(json.dumps(said))
    shown = run("replay", "s.json", "--window", window, "--html", "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    for text in (" ".join(shown.stdout.split()), page):
        assert "Here there is none (-): " in text and why in text
    again = session(tmp_path)
    assert "Here there is none" not in run("replay", again, "--window", "3000").stdout


@pytest.mark.parametrize("arguments", [(), ("x", "--all"), ("x", "--window", "5")])
def test_what_cannot_be_played_is_said(arguments: tuple[str, ...], url: str) -> None:
    assert run("replay", *arguments).exit_code == 2


def test_content_of_a_session_cannot_steer_the_terminal(url: str, tmp_path: Path) -> None:
    said = turns(50)
    said[2]["content"] = "\x1b[2J src/file_1.py tells of the login form\n" + said[2]["content"]
    (tmp_path / "s.json").write_text(json.dumps(said))
    assert "\x1b[2J" not in run("replay", str(tmp_path / "s.json"), "--window", "3000").stdout


def test_a_page_is_written_without_secrets_and_replaces_only_its_like(
    url: str, tmp_path: Path
) -> None:
    said = turns(30)
    secret = "sk-ant-api03-" + "a1B2c3D4" * 11
    said[2]["content"] = f"ANTHROPIC_API_KEY={secret}\n" + said[2]["content"]
    (tmp_path / "s.json").write_text(json.dumps(said))
    for _ in range(2):
        done = run("replay", "s.json", "--window", "3000", "--html", "page.html")
        assert done.exit_code == 0 and "page.html shows every turn" in done.stdout
    assert secret not in (tmp_path / "page.html").read_text(encoding="utf-8")
    (tmp_path / "mine.html").write_text("mine")
    assert run("replay", "s.json", "--html", "mine.html").exit_code == 4
    assert (tmp_path / "mine.html").read_text() == "mine"
    assert run("replay", "--all", "--html", "all.html").exit_code == 2
