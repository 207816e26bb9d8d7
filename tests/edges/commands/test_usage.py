"""`refold stats --cost --by`: what was billed, by day, week, project, model and agent, equal to what
the files say."""

from __future__ import annotations

import json
import random
from collections import Counter
from contextlib import closing
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import refold
from refold.edges.commands.usage import end_of
from refold.edges.ui import overview
from refold.stores import open_store
from tests.billed_sessions import claude_session, write_sessions
from tests.edges.cli.rooms import as_json, on_terminal, run

pytestmark = pytest.mark.usefixtures("alone")
BY = ("day", "week", "project", "model", "agent")
SIZES = (
    "input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens",
)  # fmt: skip
TOKENS = ("input", "cache_read", "cache_write", "output")


def in_files(paths: list[Path]) -> dict[tuple[str, str], Counter[str]]:
    """The tokens by day and model, each response of Claude Code once."""
    found: dict[tuple[str, str], Counter[str]] = {}
    seen: set[str] = set()
    for path in paths:
        model = ""
        for line in map(json.loads, path.read_text().splitlines()):
            day, said = line["timestamp"][:10], line.get("payload") or line["message"]
            model = said.get("model") or model
            tokens: dict[str, int] = {}
            if usage := (said.get("info") or {}).get("last_token_usage"):
                read, new = usage["cached_input_tokens"], usage["output_tokens"]
                tokens = {"input": usage["input_tokens"], "cache_read": read, "output": new}
            elif (usage := said.get("usage")) and said["id"] not in seen:
                seen.add(said["id"])
                read, write = (
                    usage["cache_read_input_tokens"], usage["cache_creation_input_tokens"],
                )  # fmt: skip
                tokens = {
                    "input": usage["input_tokens"] + read + write,
                    "cache_read": read, "cache_write": write, "output": usage["output_tokens"],
                }  # fmt: skip
            if tokens:
                found.setdefault((day, model), Counter()).update({**tokens, "calls": 1})
    return found


def sums(by: str, *options: str) -> dict[str, dict[str, Any]]:
    return {one["name"]: one for one in as_json("stats", "--cost", "--by", by, *options)["groups"]}


@pytest.mark.parametrize("seed", range(4))
def test_sums_equal_what_the_files_say_however_they_are_grouped(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "UTC")
    files = write_sessions(tmp_path, seed)
    assert run("import", *map(str, files), "--yes").exit_code == 0
    expected = in_files(files)
    for by, place in (("day", 0), ("model", 1)):
        wanted: dict[str, Counter[str]] = {}
        for key, tokens in expected.items():
            wanted.setdefault(key[place], Counter()).update(tokens)
        found = sums(by)
        assert found.keys() == wanted.keys()
        for name, tokens in wanted.items():
            assert {one: found[name][one] for one in (*TOKENS, "calls")} == {
                one: tokens[one] for one in (*TOKENS, "calls")
            }
    totals = [as_json("stats", "--cost", "--by", by)["total"] for by in BY]
    assert all({**total, "cost": pytest.approx(totals[0]["cost"])} == totals[0] for total in totals)
    assert all(date.fromisoformat(monday).weekday() == 0 for monday in sums("week"))
    assert sums("agent").keys() == {"claude-code", "codex"}
    assert sums("project").keys() <= {"/work/p0", "/work/p1", "/work/p2"}


def test_a_sum_is_of_a_project_an_agent_and_a_time(tmp_path: Path) -> None:
    files = write_sessions(tmp_path, 7)
    assert run("import", *map(str, files), "--yes").exit_code == 0
    projects, agents = sums("project"), sums("agent")
    assert sums("project", "--project", "/work/p0") == {"/work/p0": projects["/work/p0"]}
    assert sums("agent", "--agent", "codex") == {"codex": agents["codex"]}
    days = sums("day")
    later = sorted(days)[1:]
    assert sums("day", "--since", later[0]) == {day: days[day] for day in later}
    assert "No call was billed" in run("stats", "--cost", "--since", "2030-01-01").stdout


@pytest.mark.parametrize("seed", range(3))
def test_an_imported_session_is_as_full_as_its_provider_said(seed: int, tmp_path: Path) -> None:
    """The file lacks the agent's system prompt and tools; the provider's report has them."""
    for path in write_sessions(tmp_path, seed):
        imported = as_json("import", str(path), "--yes")["files"][0]["sessions"][0]["conversation"]
        usages = [
            (line.get("payload", {}).get("info") or {}).get("last_token_usage")
            or line.get("message", {}).get("usage")
            for line in map(json.loads, path.read_text().splitlines())
        ]
        last = [one for one in usages if one][-1]
        size = sum(count for name, count in last.items() if name in SIZES)
        figures = as_json("stats", imported)
        assert figures["recorded"] == size
        assert "as the agent sent it" in run("stats", imported).stdout
        assert "as the agent sent it" in run("show", "--summary", imported).stdout
        assert figures["window"] == 258_400 or imported.startswith("claude-code")


def test_what_refold_sent_itself_is_not_as_recorded(tmp_path: Path) -> None:
    [path, *_] = write_sessions(tmp_path, 0)
    assert run("import", str(path), "--yes", "--id", "old").exit_code == 0
    with refold.open("old", store="sqlite:.refold/refold.db") as context:
        assert context.stats().recorded
        context.append({"role": "user", "content": "Go on."})
        context.request()
        answer = {"role": "assistant", "content": [{"type": "text", "text": "yes"}]}
        context.record(answer, usage=refold.Usage(input=context.stats().current, output=9))
        assert context.stats().recorded == 0
    assert "as the agent sent it" not in run("stats", "old").stdout


def test_a_fork_counts_only_its_own_calls(url: str) -> None:
    before = as_json("stats", "--cost")["total"]
    assert run("fork", "fix-login", "other").exit_code == 0
    assert as_json("stats", "--cost")["total"] == before
    with refold.open("other", store=url) as context:
        context.record({"role": "assistant", "content": "yes"}, usage=refold.Usage(input=9))
    assert as_json("stats", "--cost")["total"]["calls"] == before["calls"] + 1


@pytest.mark.parametrize("seed", range(5))
def test_a_call_is_paid_once_however_many_conversations_have_it(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    files = write_sessions(tmp_path, seed)
    ids = [
        as_json("import", str(path), "--yes")["files"][0]["sessions"][0]["conversation"]
        for path in files
    ]
    store = "sqlite:.refold/refold.db"
    total, listed = as_json("stats", "--cost")["total"], as_json("list")["cost"]
    assert listed == pytest.approx(total["cost"])
    for step in range(6):
        one = chance.choice(ids)
        match chance.choice(["fork", "pin", "copy", "moved"]):
            case "fork":
                assert run("fork", one, f"fork-{step}").exit_code == 0
                ids.append(f"fork-{step}")
            case "copy":
                path = str(chance.choice(files))
                assert run("import", path, "--yes", "--id", f"copy-{step}").exit_code == 0
            case "moved":
                assert run("export", one, f"{step}.json").exit_code == 0
                assert (
                    run("import", f"{step}.json", "--yes", "--id", f"moved-{step}").exit_code == 0
                )
            case _:
                with refold.open(one, store=store) as context:
                    context.pin(context.view.slots[-1].last)
        now = as_json("stats", "--cost")["total"]
        assert now == {**total, "cost": pytest.approx(total["cost"])}
        assert as_json("list")["cost"] == pytest.approx(total["cost"])
        with closing(open_store(store)) as opened:
            days = overview.Usage().days(opened)
        assert sum(day["cost"] for day in days) == pytest.approx(total["cost"])
    assert f"${total['cost']:,.2f}" in run("list").stdout.splitlines()[-1]


def test_one_conversation_has_a_bill_or_the_sums_of_its_calls(url: str) -> None:
    assert "models" in as_json("stats", "fix-login", "--cost")
    assert as_json("stats", "fix-login", "--cost", "--by", "model")["total"]["calls"] == 1
    done = run("stats", "fix-login", "--by", "day")
    assert done.exit_code == 2 and "--cost --by day" in done.stderr


@given(st.lists(st.text("ab/", min_size=1, max_size=60), min_size=1), st.integers(12, 40))
def test_a_path_is_cut_at_its_start(paths: list[str], length: int) -> None:
    for path in paths:
        cut = end_of(path, length)
        assert len(cut) == min(len(path), length) and path.endswith(cut.removeprefix("…"))


def test_projects_are_told_apart_in_a_narrow_terminal(url: str, tmp_path: Path) -> None:
    home = "/home/somebody/with/a/long/path/to"
    for seed, name in enumerate(("alpha", "omega")):
        _, lines = claude_session(random.Random(seed), f"{home}/{name}")
        (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, lines)))
        assert run("import", str(tmp_path / f"{name}.jsonl"), "--yes").exit_code == 0
    _, shown = on_terminal("stats", "--cost", "--by", "project", cwd=tmp_path, COLUMNS="80")
    assert "/alpha" in shown and "/omega" in shown


def test_a_list_of_no_agent_names_the_agent(url: str) -> None:
    shown = run("list", "--agent", "foo").stdout
    assert shown.startswith("There are no conversations of the agent foo in ")
