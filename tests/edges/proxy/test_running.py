"""Agents that `refold run` starts: how they are told, and what becomes of them without a proxy."""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from refold.edges.proxy import serve, supervisor
from refold.edges.proxy.savings import KEPT, Tally, teller
from refold.edges.proxy.serve import ProxySettings, checked, url_of
from refold.edges.proxy.supervisor import bases_of, start_of
from refold.errors import Denied, Invalid, NotFound, Unavailable
from tests.edges.cli.rooms import on_terminal
from tests.waiting import LONG_S, is_running, until

URL = "http://127.0.0.1:5000"
REFOLD = (sys.executable, "-c", "from refold.edges.cli import main; main()")


@pytest.mark.parametrize(
    ("program", "told"),
    [
        ("claude", {"ANTHROPIC_BASE_URL": f"{URL}/anthropic", "ENABLE_TOOL_SEARCH": "true"}),
        ("/usr/bin/codex", {"OPENAI_BASE_URL": f"{URL}/openai"}),
        ("gemini", {"GOOGLE_GEMINI_BASE_URL": f"{URL}/gemini"}),
        (
            "my-agent",
            {
                "ANTHROPIC_BASE_URL": f"{URL}/anthropic",
                "OPENAI_BASE_URL": f"{URL}/openai",
                "GOOGLE_GEMINI_BASE_URL": f"{URL}/gemini",
            },
        ),
    ],
)
def test_an_agent_is_told_by_variables_of_its_own_process(
    program: str, told: dict[str, str]
) -> None:
    start = start_of((program, "--resume"), {"PATH": "/bin"}, URL)
    assert start.environ == {"PATH": "/bin", **told}
    assert start.command[0] == program and start.command[-1] == "--resume"


def test_codex_is_told_by_its_setting_as_well() -> None:
    start = start_of(("codex", "exec", "hi"), {}, URL)
    assert start.command == ("codex", "-c", f'openai_base_url="{URL}/openai"', "exec", "hi")


def test_without_a_proxy_an_agent_is_started_as_it_would_be() -> None:
    environ = {"PATH": "/bin", "ANTHROPIC_BASE_URL": "https://gateway.example"}
    start = start_of(("claude", "-c"), environ, "")
    assert (start.command, start.environ) == (("claude", "-c"), environ)


def test_a_gateway_that_was_set_is_where_the_proxy_calls() -> None:
    assert bases_of("claude", {"ANTHROPIC_BASE_URL": "https://gateway.example/x"}) == {
        "anthropic": "https://gateway.example/x"
    }
    assert bases_of("codex", {}) == {"openai": "https://api.openai.com/v1"}


def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, code: str) -> tuple[int, list[str]]:
    """Runs an agent that may run without a proxy; its status, and the reasons for it."""
    told: list[str] = []
    given = ProxySettings(store=f"sqlite:{tmp_path}/x.db")
    command = (sys.executable, "-c", code)
    ended = supervisor.run_agent(
        command, given, {"OUT": str(tmp_path / "out")}, log=subprocess.DEVNULL, unkept=told.append
    )
    return ended.status, told


WRITE = "import os; open(os.environ['OUT'], 'w').write(os.environ.get('ANTHROPIC_BASE_URL', ''))"


def test_an_agent_runs_without_the_variable_if_the_proxy_does_not_answer(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(supervisor, "MAIN", "import time; time.sleep(60)")
    monkeypatch.setattr(supervisor.Supervisor.is_ready, "__defaults__", (0.3,))
    assert run(monkeypatch, tmp_path, WRITE) == (
        0,
        ["the proxy does not answer"],
    )
    assert (tmp_path / "out").read_text() == ""


def test_an_agent_runs_without_the_variable_if_nothing_can_listen(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refuse(*_: Any) -> Any:
        raise Unavailable("cannot listen")

    monkeypatch.setattr(supervisor, "listen", refuse)
    status, [told] = run(monkeypatch, tmp_path, WRITE)
    assert status == 0 and "cannot listen" in told and (tmp_path / "out").read_text() == ""


@pytest.mark.parametrize(
    ("code", "status"),
    [("raise SystemExit(7)", 7), ("import os; os.kill(os.getpid(), 15)", 143)],
)
def test_the_status_of_the_agent_is_given_back(
    code: str, status: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(supervisor, "MAIN", "")
    monkeypatch.setattr(supervisor.Supervisor.is_ready, "__defaults__", (0.1,))
    assert run(monkeypatch, tmp_path, code)[0] == status


def test_a_program_that_is_not_there_is_not_found() -> None:
    with pytest.raises(NotFound, match="no-such-agent"):
        supervisor._run(start_of(("no-such-agent",), {}, ""), supervisor._Signals())


@pytest.mark.parametrize(("mode", "why"), [(0o600, "Permission denied"), (0o700, "Exec format")])
def test_a_program_that_cannot_be_run_is_said_to_be_so(mode: int, why: str, tmp_path: Path) -> None:
    program = tmp_path / "agent"
    program.write_bytes(b"\x7fELF")
    program.chmod(mode)
    with pytest.raises(Denied, match=f"agent' cannot be started: {why}"):
        supervisor._run(start_of((str(program),), {}, ""), supervisor._Signals())


def test_without_a_proxy_to_start_an_agent_is_started_at_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def never(*_: Any, **__: Any) -> Any:
        raise AssertionError("nothing is to be started, nor waited for")

    monkeypatch.setattr(supervisor, "Supervisor", never)
    command = (sys.executable, "-c", "raise SystemExit(7)")
    ended = supervisor.run_agent(command, None, dict(os.environ), unkept=never)
    assert ended.status == 7 and ended.tally is None


def test_without_a_proxy_no_agent_is_started_unless_somebody_said_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refuse(reason: str) -> None:
        raise Unavailable(reason)

    monkeypatch.setattr(supervisor, "MAIN", "import time; time.sleep(60)")
    monkeypatch.setattr(supervisor.Supervisor.is_ready, "__defaults__", (0.3,))
    given = ProxySettings(store=f"sqlite:{tmp_path}/x.db")
    environ = {"OUT": str(tmp_path / "out")}
    with pytest.raises(Unavailable, match="the proxy does not answer"):
        supervisor.run_agent((sys.executable, "-c", WRITE), given, environ, unkept=refuse)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("answer", ["yes", "no", ""])
def test_a_gateway_that_is_no_address_stops_the_start_until_somebody_agrees(
    answer: str, tmp_path: Path
) -> None:
    code = "import os; print('started with', os.environ['ANTHROPIC_BASE_URL'])"
    command = ("run", sys.executable, "-c", code)
    if answer:
        asked = tmp_path / "asked"
        asked.mkdir()
        status, shown = on_terminal(
            *command, cwd=asked, typed=f"{answer}\n", when="anything?", ANTHROPIC_BASE_URL="ftp://x"
        )
        assert "all the same, without keeping anything?" in " ".join(shown.split())
        assert ("started with ftp://x" in shown) == (answer == "yes") == (status == 0)
        return
    environ = {**os.environ, "ANTHROPIC_BASE_URL": "ftp://x"}
    done = subprocess.run(
        [*REFOLD, *command],
        cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=LONG_S,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (8, "")
    assert "no proxy: 'ftp://x' is not an address" in done.stderr
    assert "without refold: " in done.stderr


@pytest.mark.parametrize("command", ["run", "proxy"])
def test_options_that_contradict_each_other_stop_before_anything_is_started(
    command: str, tmp_path: Path
) -> None:
    program = [sys.executable, "-c", "print('started')"] if command == "run" else []
    done = subprocess.run(
        [*REFOLD, command, "--native", *program],
        cwd=tmp_path, capture_output=True, text=True, timeout=LONG_S,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    assert "--native needs --fold" in done.stderr and "--fold --native" in done.stderr


# --- what a proxy is told ---


def test_a_proxy_that_others_can_reach_needs_a_name_and_has_a_token() -> None:
    assert checked(ProxySettings(store="memory:")).token == ""
    with pytest.raises(Invalid, match="but has no host name"):
        checked(ProxySettings(store="memory:", host="0.0.0.0"))
    open_to_all = checked(ProxySettings(store="memory:", host="0.0.0.0", names=("proxy.example",)))
    assert len(open_to_all.token) >= 24
    assert url_of(open_to_all) == "http://proxy.example:8743"


@pytest.mark.parametrize("bases", [{"mistral": "https://x"}, {"openai": "nonsense"}])
def test_an_address_of_nobody_is_refused(bases: dict[str, str]) -> None:
    with pytest.raises(Invalid):
        checked(ProxySettings(store="memory:", bases=bases))


def test_a_port_that_is_taken_is_said() -> None:
    taken = serve.listen("127.0.0.1", 0)
    try:
        with pytest.raises(Unavailable, match="cannot listen"):
            serve.listen("127.0.0.1", taken.getsockname()[1])
    finally:
        taken.close()


AGENT = (
    "import signal, sys, time; signal.signal(signal.SIGTERM, lambda *_: sys.exit(9));"
    "open('ready', 'w').close(); time.sleep(600)"
)


def started(tmp_path: Path, *words: str) -> subprocess.Popen[str]:
    """`refold run`, as a person starts it."""
    command = [*REFOLD, "run", *words]
    return subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)


def test_a_signal_that_only_refold_is_sent_is_handed_on_and_ends_the_proxy(tmp_path: Path) -> None:
    process = started(tmp_path, sys.executable, "-c", AGENT)
    until((tmp_path / "ready").exists)
    below = children_of(process.pid)
    process.terminate()
    _, told = process.communicate(timeout=LONG_S)
    assert process.returncode == 9 and "nothing was kept" in told
    assert len(below) == 2 and not any(map(is_running, below))


@pytest.mark.parametrize("name", ["SIGINT", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGHUP"])
def test_without_a_terminal_every_signal_goes_to_the_agent_and_nothing_is_left(
    name: str, tmp_path: Path
) -> None:
    code = AGENT.replace("SIGTERM", name)
    command = [*REFOLD, "run", sys.executable, "-c", code]
    process = subprocess.Popen(
        command, cwd=tmp_path, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    until((tmp_path / "ready").exists)
    below = children_of(process.pid)
    process.send_signal(getattr(signal, name))
    process.communicate(timeout=LONG_S)
    assert process.returncode == 9 and not any(map(is_running, below))


def test_a_signal_before_the_agent_is_there_ends_the_proxy(tmp_path: Path) -> None:
    process = started(tmp_path, sys.executable, "-c", AGENT)
    until(lambda: bool(children_of(process.pid)))
    below = children_of(process.pid)
    process.terminate()
    process.communicate(timeout=LONG_S)
    assert process.returncode in (9, 143) and not any(map(is_running, below))


def children_of(pid: int) -> list[int]:
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        # A thread may have ended since it was listed.
        with suppress(OSError):
            found += map(int, task.read_text().split())
    return found


# --- what is kept, and what is said of it ---

CALL = """
import json, os, urllib.request
body = json.dumps({"model": "m", "messages": [
    {"role": "user", "content": "a"}, {"role": "assistant", "content": "b"},
    {"role": "user", "content": "c"}]}).encode()
url = os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages"
try:
    urllib.request.urlopen(urllib.request.Request(url, body), timeout=100)
except urllib.error.HTTPError:
    pass
"""


def told_by(tmp_path: Path, *options: str, code: str = CALL) -> str:
    """What `refold run` says of an agent whose provider cannot be reached."""
    environ = {**os.environ, "ANTHROPIC_BASE_URL": "http://127.0.0.1:9"}
    command = [*REFOLD, "run", *options, sys.executable, "-c", code]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env=environ,
        capture_output=True,
        text=True,
        timeout=2 * LONG_S,
        check=True,
    )
    return done.stderr


def test_a_store_that_cannot_be_written_is_said_and_not_called_kept(tmp_path: Path) -> None:
    (tmp_path / "noise.db").write_bytes(bytes(range(1, 256)) * 40)
    for store in ("sqlite:/proc/nope/y.db", "sqlite:noise.db"):
        told = told_by(tmp_path, "--store", store)
        assert "NOT kept, because" in told and "kept in" not in told, store


def test_what_is_kept_lies_in_a_folder_for_the_owner_that_git_leaves_alone(tmp_path: Path) -> None:
    assert "refold: kept in" in told_by(tmp_path)
    folder = tmp_path / ".refold"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (folder / "proxy.log").stat().st_mode & 0o777 == 0o600
    assert (folder / ".gitignore").read_text() == "*\n"


def test_an_agent_that_calls_nobody_has_nothing_kept(tmp_path: Path) -> None:
    assert "nothing was kept" in told_by(tmp_path, code="")


def test_a_tally_counts_what_a_killed_proxy_said(tmp_path: Path) -> None:
    read, write = os.pipe()
    tally, tell = Tally(read), teller(write)
    for reason in (KEPT, "the disk is full\nreally", KEPT):
        tell(reason)
    os.close(write)
    tally.finish(LONG_S)
    assert (tally.kept, tally.unkept, tally.why) == (2, 1, "the disk is full really")


def test_a_package_that_is_not_there_is_looked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "refold_absent_package"
    monkeypatch.delitem(sys.modules, name, raising=False)
    serve._search_once(name)
    with pytest.raises(ImportError):
        importlib.import_module(name)
    assert sys.modules.pop(name) is None
    serve._search_once("json")
    assert importlib.import_module("json") is not None


def test_a_proxy_that_takes_long_to_start_or_answers_now_and_then_is_not_frozen(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Only silence counts, and only once it could have answered."""
    answers, now = [False], [100.0]
    monkeypatch.setattr(supervisor, "_answers", lambda _: answers[0])
    monkeypatch.setattr(supervisor, "time", SimpleNamespace(monotonic=lambda: now[0]))
    kept = object.__new__(supervisor.Supervisor)
    kept._given, kept._asked_s = ProxySettings(store="memory:"), 0.0
    kept._heard_s = now[0] + supervisor.READY_S

    def frozen_after(wait_s: float) -> bool:
        now[0] += wait_s
        return kept._is_frozen()

    assert not frozen_after(supervisor.READY_S)
    assert not frozen_after(supervisor.SILENT_S)
    assert frozen_after(supervisor.PROBE_S)
    answers[0] = True
    assert not frozen_after(supervisor.PROBE_S)
    answers[0] = False
    assert not frozen_after(supervisor.SILENT_S)
    assert frozen_after(supervisor.PROBE_S)


@pytest.mark.parametrize("program", ["claude", "codex", "gemini", "any-other"])
def test_what_is_changed_for_an_agent_is_said(program: str) -> None:
    environ = {"HOME": "/home/me", "OPENAI_BASE_URL": "http://127.0.0.1:1/v1"}
    command = (program, "-p", "count")
    start = supervisor.start_of(command, environ, URL)
    said = supervisor.changes_of(start, command, environ).split()
    variables = [word for word in said if word in map("=".join, start.environ.items())]
    options = said[len(variables) :]
    assert start.command == (program, *options, "-p", "count")
    assert {**environ, **dict(word.split("=", 1) for word in variables)} == start.environ
