"""`refold replay` on a conversation, on a file, and on everything that was imported."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path

import pytest
from msgspec.structs import replace

import refold
from refold.display import number
from refold.replay.session import USAGE, said_in
from refold.replay.verdict import verdict_of, with_exceptions
from tests.billed_sessions import write_sessions
from tests.edges.cli.rooms import as_json, on_terminal, run
from tests.replay.test_replay import turns

pytestmark = pytest.mark.usefixtures("alone")


def session(tmp_path: Path) -> str:
    file = tmp_path / "session.json"
    file.write_text(json.dumps({"model": "claude-sonnet-4-5", "messages": turns(50)}))
    return str(file)


def test_a_file_is_played_and_nothing_is_written(url: str, tmp_path: Path) -> None:
    before = as_json("list")
    done = run("replay", session(tmp_path), "--window", "3000", "--details")
    assert done.exit_code == 0, done.stderr
    assert "Names kept" in done.stdout and "window, cut to half lost:" in done.stdout
    assert as_json("list") == before


def test_a_conversation_and_all_of_them(url: str, tmp_path: Path) -> None:
    assert run("replay", "--all").exit_code == 3
    id = as_json("import", session(tmp_path))["conversation"]
    played = as_json("replay", id, "--details")["sessions"][0]["replayed"]
    assert played["outcomes"][0]["faults"] == {} and played["model"] == "claude-sonnet-4-5"
    shown = run("replay", "--all", "--details").stdout
    assert "1 session, all turns together" in shown and "No prices are known" not in shown
    (tmp_path / "other.json").write_text(json.dumps(turns(20)))
    as_json("import", str(tmp_path / "other.json"))
    shown = run("replay", "--all", "--details").stdout
    rows, totals = shown.split("2 sessions, all turns together:")
    assert "n/a" in rows and "n/a" not in totals
    assert "No prices are known for 1 session" in shown


def test_the_agents_own_compactions_are_compared_on_the_same_sessions(
    url: str, tmp_path: Path
) -> None:
    for name, count in (("a", 50), ("b", 30)):
        said = {"model": "claude-sonnet-4-5", "messages": turns(count)}
        (tmp_path / f"{name}.json").write_text(json.dumps(said))
    id = as_json("import", "a.json")["conversation"]
    details = ("--details", "--window", "3000")
    before = sent_by_policy(run("replay", id, *details).stdout)
    refold.open(id, store=url).compact(
        span=(3, 61), summary="It reads files. " * 50, author="other"
    )
    rows = sent_by_policy(run("replay", "--all", *details).stdout)
    own = rows.pop("the agent's own")
    assert rows == before, "a summary is not part of what was said"
    rows["the agent's own"] = own
    assert len(rows["the agent's own"]) == len(rows["refold"]) == 1
    as_json("import", "b.json")
    shown = run("replay", "--all", *details).stdout
    assert "1 session of these, where the agent made compactions of its own:" in shown
    both = sent_by_policy(shown)
    assert both["the agent's own"] == rows["the agent's own"]
    assert all(len(both[policy]) == 2 for policy in both if policy != "the agent's own")
    assert all(both[policy][-1:] == rows[policy] for policy in both)


def sent_by_policy(shown: str) -> dict[str, list[str]]:
    """What each policy sent, in the order of the tables."""
    found: dict[str, list[str]] = {}
    for policy, sent in re.findall(r"^([a-z].*?) {2,}([\d,]+) ", shown, flags=re.MULTILINE):
        found.setdefault(policy, []).append(sent)
    return found


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
    [played] = as_json("replay", id, "--details")["sessions"]
    assert (played["messages"], played["tokens"]) == (listed["messages"], listed["tokens"])
    assert played["replayed"]["messages"] == played["messages"] - 2
    shown = " ".join(run("replay", id, "--details").stdout.split())
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
    shown = run("replay", "s.json", "--window", window, "--details", "--html", "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    for text in (" ".join(shown.stdout.split()), page):
        assert "Here there are none (-): " in text and why in text
    again = session(tmp_path)
    shown = run("replay", again, "--window", "3000", "--details")
    assert "Names kept: " in shown.stdout and "Here there are none" not in shown.stdout


def test_faults_that_are_not_counted_are_shown_as_such(url: str, tmp_path: Path) -> None:
    file = session(tmp_path)
    as_json("import", file)
    details = ("--window", "3000", "--details")
    one = run("replay", file, *details, "--html", "page.html").stdout
    for shown in (one, run("replay", "--all", *details).stdout):
        [row] = re.findall(r"^everything .*", shown, flags=re.MULTILINE)
        assert row.split()[-1] == "-"
        assert 'Faults are not counted (-) for "everything":' in shown
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "Faults are not counted (-) for &quot;everything&quot;:" in page
    outcomes = as_json("replay", file, *details)["sessions"][0]["replayed"]["outcomes"]
    assert {one["policy"] for one in outcomes if one["faulty"] is None} == {"everything"}


def test_a_cap_below_the_window_is_said_everywhere(url: str, tmp_path: Path) -> None:
    file, said = session(tmp_path), "refold compacts at 256,000 at the latest (tokens_cap)"
    as_json("import", file)
    for window, is_capped in (("256000", False), ("256001", True)):
        given = ("--window", window, "--details")
        shown = run("replay", file, *given, "--html", "page.html").stdout
        page = (tmp_path / "page.html").read_text(encoding="utf-8")
        total = run("replay", "--all", *given).stdout
        for text in (shown, page, total):
            assert (said in " ".join(text.split())) == is_capped


@pytest.mark.parametrize("name", ["sub", "sub/", ".", "named"])
def test_a_folder_is_told_from_a_conversation(name: str, url: str, tmp_path: Path) -> None:
    for folder in ("sub", "named"):
        (tmp_path / folder).mkdir()
    with refold.open("named", store=url) as context:
        context.append(turns(3))
    done = run("replay", name)
    if name == "named":
        assert done.exit_code == 0
    else:
        assert done.exit_code == 2 and "is a folder; name a file in it" in done.stderr


def test_a_model_that_no_table_knows_is_named(url: str, tmp_path: Path) -> None:
    file, said = (
        session(tmp_path),
        "o table knows the model nosuch: its prices and its window are not",
    )
    as_json("import", file)
    for window in ([], ["--window", "3000"]):
        given = ["--model", "nosuch", "--details", *window]
        shown = run("replay", file, *given, "--html", "page.html").stdout
        page = (tmp_path / "page.html").read_text(encoding="utf-8")
        for text in (shown, page, run("replay", "--all", *given).stdout):
            plain = " ".join(text.split())
            assert said in plain and "n/a" in plain
    assert "o table knows" not in run("replay", file, "--window", "3000", "--details").stdout


@pytest.mark.parametrize("arguments", [(), ("x", "--all"), ("x", "--window", "5")])
def test_what_cannot_be_played_is_said(arguments: tuple[str, ...], url: str) -> None:
    assert run("replay", *arguments).exit_code == 2


def test_content_of_a_session_cannot_steer_the_terminal(url: str, tmp_path: Path) -> None:
    said = turns(50)
    said[2]["content"] = "\x1b[2J src/file_1.py tells of the login form\n" + said[2]["content"]
    (tmp_path / "s.json").write_text(json.dumps(said))
    done = run("replay", str(tmp_path / "s.json"), "--window", "3000", "--details")
    assert "lost:" in done.stdout and "\x1b[2J" not in done.stdout


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
    for target in ("mine.html", "none.html", "page.html"):
        link = tmp_path / "link.html"
        link.symlink_to(target)
        before = sorted(tmp_path.iterdir())
        assert run("replay", "s.json", "--html", "link.html").exit_code == 4 and link.is_symlink()
        assert sorted(tmp_path.iterdir()) == before
        link.unlink()
    assert run("replay", "--all", "--html", "all.html").exit_code == 2


# --- what is played of a session that was changed since ---


def test_a_look_back_changes_nothing_about_the_session_that_is_played(
    url: str, tmp_path: Path
) -> None:
    """A restore after the last message is a person's, and no part of the session."""
    id = as_json("import", session(tmp_path))["conversation"]
    [before] = as_json("replay", id, "--details")["sessions"]
    run("restore", id, "1", "--yes")
    [played] = as_json("replay", id, "--details")["sessions"]
    assert played["replayed"] == before["replayed"]
    assert played["messages"] < before["messages"] == played["messages"] + played["off_page"]
    shown = run("replay", id, "--details", "--html", "page.html").stdout
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    for text in (" ".join(shown.split()), page):
        assert f"with the {played['off_page']} messages that are off the page since" in text
    run("undo", id)
    [again] = as_json("replay", id, "--details")["sessions"]
    assert again == before
    assert "off the page since" not in run("replay", id, "--details").stdout


def test_what_was_taken_back_before_the_session_went_on_is_not_played(
    url: str, tmp_path: Path
) -> None:
    id = as_json("import", session(tmp_path))["conversation"]
    [before] = as_json("replay", id, "--details")["sessions"]
    assert "Everything ever said counts here" in run("replay", id, "--details").stdout
    run("restore", id, "31", "--yes")
    with refold.open(id, store=url) as context:
        context.append(turns(8))
    [played] = as_json("replay", id, "--details")["sessions"]
    assert played["taken_back"] > 0
    assert played["messages"] + played["taken_back"] == before["messages"] + len(turns(8))
    shown = " ".join(run("replay", id, "--details").stdout.split())
    assert "Everything ever said" not in shown
    said = f"{played['taken_back']} messages were taken back before the session went on"
    assert f"{said}, and are not played" in shown


# --- all sessions, a row each ---


def imported(tmp_path: Path, count: int) -> list[str]:
    """So many sessions, the newest first."""
    ids = []
    for at in range(count):
        said = {"model": "claude-sonnet-4-5", "messages": turns(12 + 3 * at), "id": f"s{at}"}
        (tmp_path / f"s{at}.json").write_text(json.dumps(said))
        ids.append(as_json("import", f"s{at}.json")["conversation"])
    return ids[::-1]


def test_all_sessions_have_a_row_each_that_fits_80_columns(url: str, tmp_path: Path) -> None:
    ids = imported(tmp_path, 3)
    played = as_json("replay", "--all", "--window", "2000", "--details")["sessions"]
    assert [one["session"] for one in played] == ids
    listed = {one["id"]: one["position"] for one in as_json("list")["conversations"]}
    assert [one["position"] for one in played] == [listed[id] for id in ids]
    shown = run("replay", "--all", "--window", "2000", "--details").stdout
    rows = re.findall(r"^@\d+ .*", shown, flags=re.MULTILINE)
    assert len(rows) == 3 and all(len(row) <= 80 for row in rows)
    for one, row in zip(played, rows):
        ours = one["replayed"]["outcomes"][0]
        assert row.split()[0] == f"@{one['position']}"
        assert f"{len(ours['turns'])} " in row and f" ${ours['dollars']:.2f} " in row
    assert "not shown" not in shown and shown.index(rows[-1]) < shown.index("all turns together")
    _, on_screen = on_terminal(
        "replay", "--all", "--details", cwd=tmp_path, COLUMNS="80", NO_COLOR="1"
    )
    assert [line.split()[0] for line in on_screen.splitlines() if line.startswith("@")] == [
        f"@{one['position']}" for one in played
    ]


def test_rows_that_are_not_shown_are_counted_and_the_sums_are_over_all(
    url: str, tmp_path: Path
) -> None:
    imported(tmp_path, 3)
    shown = run("replay", "--all", "--details", "--limit", "1").stdout
    assert len(re.findall(r"^@", shown, flags=re.MULTILINE)) == 1
    assert (
        "2 older sessions not shown; all of them: refold replay --all --details --limit 3" in shown
    )
    assert "3 sessions, all turns together" in shown
    assert len(as_json("replay", "--all", "--limit", "1")["sessions"]) == 3


def test_a_fork_of_a_session_is_not_played_beside_it(url: str, tmp_path: Path) -> None:
    [newest, *_] = ids = imported(tmp_path, 2)
    as_json("fork", newest, "copy")
    assert {one["session"] for one in as_json("replay", "--all")["sessions"]} == {*ids}


def test_the_best_other_policy_keeps_to_the_window_and_kept_most(url: str, tmp_path: Path) -> None:
    given = ("--window", "3000", "--details")
    [played] = as_json("replay", session(tmp_path), *given)["sessions"]
    others = [one for one in played["replayed"]["outcomes"] if one["policy"] != "refold"]
    limited = [one for one in others if one["faulty"] is not None]
    [best] = [one for one in limited if one["policy"] == played["best_other"]]
    assert best["kept"] == max(one["kept"] for one in limited)


def test_a_session_that_cannot_be_read_does_not_keep_the_others_from_being_played(
    alone: None, tmp_path: Path
) -> None:
    store = f"files:{tmp_path / 'store'}"
    ids = []
    for name in ("a", "b"):
        (tmp_path / f"{name}.json").write_text(json.dumps(turns(20)))
        ids.append(as_json("import", f"{name}.json", "--store", store)["conversation"])
    [log] = [path for path in (tmp_path / "store").rglob("*") if ids[0] in path.name]
    lines = [path for path in ([log] if log.is_file() else log.rglob("*.jsonl")) if path.is_file()]
    raw = lines[0].read_bytes()
    lines[0].write_bytes(raw.replace(b"handler_5", b"handler_X", 1))
    done = run("replay", "--all", "--store", store)
    assert done.exit_code == 5, done.stderr
    assert f"{ids[0]} is damaged" in done.stdout and "19 calls" in done.stdout


# --- the verdict ---


def rollout(path: Path, calls: int, window: int = 0) -> str:
    """A Codex rollout: every call reads a file, and its usage and window are in the file."""

    def line(kind: str, **payload: object) -> str:
        return json.dumps({"timestamp": "2026-06-25T13:03:57Z", "type": kind, "payload": payload})

    said = [{"type": "input_text", "text": "Look at src/file_0.py, and keep handler_1."}]
    lines = [
        line("session_meta", id="019efedf-a8dc-7b20-ba1d-f1c6ff7ea96e", cwd="/home/me/shop"),
        line("turn_context", model="gpt-5.5"),
        line("response_item", type="message", role="user", content=said),
    ]
    for at in range(calls):
        size = 6_000 + 1_500 * at
        counts = {"input_tokens": size, "cached_input_tokens": max(0, size - 1_500)}
        info = {"last_token_usage": {**counts, "output_tokens": 50}}
        if window:
            info["model_context_window"] = window
        call = {"call_id": f"c{at}", "name": "read", "arguments": f'{{"path": "src/file_{at}.py"}}'}
        output = f"def handler_{at}():  # the login form calls this\n" + "    pass\n" * 500
        lines += [
            line("response_item", type="function_call", **call),
            line("event_msg", type="token_count", info=info),
            line("response_item", type="function_call_output", call_id=f"c{at}", output=output),
        ]
    path.write_text("\n".join(lines))
    return str(path)


def test_the_verdict_comes_first_and_equals_the_bill(url: str, tmp_path: Path) -> None:
    id = as_json("import", rollout(tmp_path / "rollout-1.jsonl", 60, 258_400))["conversation"]
    cost = as_json("stats", "--cost", id)["cost"]
    found = as_json("replay", id, "--window", "30000", "--window", "50000")
    verdict = found["verdict"]
    assert verdict["bill"]["cost"] == pytest.approx(cost) and verdict["own"]["window"] == 258_400
    assert [one["window"] for one in verdict["options"]] == [30_000, 50_000]
    assert len(verdict["sentences"]) <= 4 and "replayed" not in json.dumps(verdict)
    shown = run("replay", id, "--window", "30000", "--window", "50000").stdout.splitlines()
    assert shown[1].startswith(f"You paid ${cost:,.2f} for 60 calls: ")
    assert shown[2].startswith("At the fullest, 36% of your window of 258,400 was used: ")
    assert "estimated" not in "".join(shown) and "lost:" not in "".join(shown)
    assert "--details" in shown[-1] and all(len(one) <= 80 for one in (shown[0], *shown[5:]))
    total = run("replay", "--all").stdout
    assert f"You paid ${cost:,.2f} for 60 calls: " in total
    everything = as_json("replay", id, "--details")["sessions"][0]["replayed"]["outcomes"][1]
    assert everything["dollars"] == pytest.approx(cost)


@pytest.mark.parametrize(("suited", "all"), [(0, 4), (1, 4), (3, 4), (5, 9)])
def test_sessions_that_a_window_suits_are_named_where_none_suits_all(suited: int, all: int) -> None:
    verdict = replace(verdict_of([], ""), sentences=("You paid $1.", "Not worth it: too short."))
    played = [
        (at + 1, replace(verdict, recommended=40_000 + at if at < suited else None))
        for at in range(all)
    ]
    first, advice = with_exceptions(verdict, played).sentences
    assert first == "You paid $1." and ("alone" in advice) == bool(suited)
    assert (f"; alone, {suited} of {all} sessions would be worth it: " in advice) == bool(suited)
    shown = [f"@{at + 1} (--window {40_000 + at})" in advice for at in range(suited)]
    assert shown == [at < 3 for at in range(suited)] and ("and 2 more" in advice) == (suited == 5)


def test_a_session_without_usage_is_estimated_and_says_so_once(url: str, tmp_path: Path) -> None:
    shown = run("replay", session(tmp_path), "--window", "3000").stdout
    assert shown.count("so all figures are estimated") == 1 and "You paid" not in shown


def test_the_window_is_the_one_that_the_agent_had(url: str, tmp_path: Path) -> None:
    for window in (0, 258_400):
        file = rollout(tmp_path / f"rollout-{window}.jsonl", 5 + window % 7, window)
        assert as_json("replay", file)["verdict"]["own"]["window"] == (window or 1_050_000)


@pytest.mark.parametrize("seed", range(6))
def test_no_act_on_an_imported_session_changes_its_bill(
    seed: int, url: str, tmp_path: Path
) -> None:
    chance = random.Random(seed)
    path = chance.choice(write_sessions(tmp_path, seed))
    id = as_json("import", str(path), "--yes")["files"][0]["sessions"][0]["conversation"]
    before = as_json("replay", id)["verdict"]
    assert not before["bill"]["estimated"]
    for _ in range(4):
        with refold.open(id, store=url) as context:
            act = chance.choice(["hide", "compact", "undo"])
            answers = [one.seq for one in context.view.slots if one.message.role == "assistant"]
            if act == "hide" and answers:
                context.hide(answers[-1])
            elif act == "compact":
                context.compact(target=1_000)
            elif act == "undo" and context.log.batches():
                context.undo()
        assert as_json("replay", id)["verdict"]["bill"] == before["bill"]


def test_a_call_that_refold_sent_folded_is_not_a_call_of_the_full_history(url: str) -> None:
    answer = {"role": "assistant", "content": [{"type": "text", "text": "Done."}]}
    with refold.open("own", store=url, model="claude-sonnet-4-5") as context:
        for turn in range(6):
            context.append({"role": "user", "content": f"Please do part {turn}. " * 20})
            context.request()
            context.record(answer, usage=refold.Usage(input=5_000 + 1_000 * turn, output=9))
            if turn == 2:
                context.hide(context.view.slots[0].seq)
            if turn == 4:
                context.undo()
        said = said_in(context).messages
    calls = [one[USAGE].input for one in said if one["role"] == "assistant" and USAGE in one]
    assert calls == [5_000, 6_000, 7_000, 10_000]


def test_details_of_all_name_the_window_and_what_is_not_played(url: str, tmp_path: Path) -> None:
    [path, *_] = write_sessions(tmp_path, 1)
    assert run("import", str(path), "--yes").exit_code == 0
    shown = run("replay", "--all", "--details", "--window", "40000").stdout
    assert "Window: 40,000; --window TOKENS takes another one." in shown
    calls = as_json("replay", "--all")["verdict"]["bill"]["calls"]
    assert f"The {number(calls, 'call')} of the bill are " in shown
