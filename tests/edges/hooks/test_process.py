"""A hook as Claude Code calls it: a process that never disturbs it, and does its slow work apart."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

import pytest

import refold
from tests.edges.cli.rooms import PROGRAM
from tests.edges.hooks.inputs import SESSION, Transcript, bash, lines

LARGE = lines(2_000)
WAIT_S = 120.0

pytestmark = pytest.mark.usefixtures("project")


def called(given: bytes, *more: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    command = [*PROGRAM, "hook", "claude-code", "event", *more]
    return subprocess.run(
        command, input=given, capture_output=True, timeout=WAIT_S, env={**os.environ, **environment}
    )


@pytest.mark.parametrize(
    "given", [b"", b"{", b"[]", b'{"session_id": 7}', b"\xff", b'"x"', b"[" * 100_000]
)
def test_it_says_nothing_and_ends_well_whatever_comes(given):
    done = called(given)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_what_went_wrong_stands_in_our_log(project, tmp_path):
    given = json.dumps(bash(LARGE, project)).encode()
    (tmp_path / "state" / "refold" / "hooks").mkdir(parents=True)
    (tmp_path / "state" / "refold" / "hooks" / SESSION).write_text("in the way")
    done = called(given)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    log = (tmp_path / "state" / "refold" / "hooks" / "errors.log").read_text()
    assert "event: " in log and len(log.splitlines()) == 1


def test_nothing_is_loaded_for_a_small_output(project):
    code = (
        "import sys, json; from refold.edges.hooks.events import answer;"
        "answer(sys.stdin.buffer.read(), 16_000, '');"
        "print(sorted({name.split('.')[0] for name in sys.modules} & {'msgspec', 'click', 'apsw'}),"
        "[name for name in sys.modules if name.startswith('refold.artifacts')])"
    )
    # Nothing is started for an event without a transcript.
    given = {key: one for key, one in bash("short", project).items() if key != "transcript_path"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=json.dumps(given).encode(),
        capture_output=True,
        timeout=WAIT_S,
    )
    assert done.stdout == b"[] []\n", done.stderr


def test_the_whole_way_from_an_event_to_the_log(project):
    transcript = Transcript(project)
    transcript.say("user", "Run the tests.")
    done = called(json.dumps(bash(LARGE, project)).encode())
    stub = json.loads(done.stdout)["hookSpecificOutput"]["updatedToolOutput"]["stdout"]
    handle = stub.split("artifact://")[1][:16]
    assert waited_for(project, handle) == LARGE


def waited_for(project, handle: str) -> str:
    """The artifact, once the process that was started has put it into the store."""
    place, id = f"sqlite:{project}/.refold/refold.db", f"claude-code-{SESSION}"
    until = time.monotonic() + WAIT_S
    while time.monotonic() < until:
        try:
            with refold.open(id, store=place, read_only=True) as context:
                return context.artifacts.value(handle)
        except refold.RefoldError:
            time.sleep(0.2)
    raise AssertionError("the session was never written")


def test_an_event_of_many_megabytes_is_read_whole(project):
    large = "é\n" * 3_000_000
    done = called(json.dumps(bash(large, project)).encode())
    assert b"Large output of Bash" in done.stdout
