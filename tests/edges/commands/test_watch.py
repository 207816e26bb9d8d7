"""`refold show --follow` follows what another process writes, and leaves it alone."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest

import refold
from refold.edges.commands.follow import follow
from refold.edges.commands.session import Session
from refold.edges.displays.wrap import width
from refold.stores import open_store, synced_of
from tests.edges.cli.rooms import PROGRAM, as_json, on_terminal, run
from tests.waiting import LONG_S

WRITER = """
import sys, refold
with refold.open("fix-login", store=sys.argv[1]) as context:
    context.append({"role": "user", "content": "written by another process"})
    context.compact("hide", target=60)
"""


def test_what_another_process_writes_comes_as_updates(url: str) -> None:
    with Session(store_url=url, conversation="fix-login", read_only=True) as session:
        updates = follow(session, last=2, seconds=LONG_S).updates
        first = next(updates)
        assert len(first.events) == 2 and first.compactions == 0
        subprocess.run([sys.executable, "-c", WRITER, url], check=True, timeout=LONG_S)
        seen: list[str] = []
        for update in updates:
            seen += [f"{one.who} {one.text}" for one in update.happened]
            if update.compactions:
                break
    assert any("written by another process" in text for text in seen)
    [compacted] = [text for text in seen if text.startswith("compacted ")]
    assert re.search(r"[\d,]+ -> [\d,]+ tokens, by hide \(\d+ edits?\)", compacted)
    assert update.current < first.current


def test_a_sync_is_shown_though_nothing_was_written(tmp_path) -> None:
    place = f"hybrid:files:{tmp_path}/near?far=files:{tmp_path}/far"
    with refold.open("talk", store=place) as context:
        context.append({"role": "user", "content": "hello"})
    command = [
        *PROGRAM,
        "show",
        "talk",
        "--follow",
        "--store",
        place,
        "--seconds",
        str(LONG_S),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as watching:
        assert watching.stdout is not None
        shown = iter(watching.stdout.readline, "")
        assert any("event to sync" in line for line in shown)
        store = open_store(place)
        synced_of(store).sync()
        store.close()
        assert next(shown).rstrip().endswith(", synced")
        watching.kill()


def test_in_a_pipe_every_event_is_a_line_and_json_one_object(url: str) -> None:
    lines = run(
        "show", "--follow", "fix-login", "--seconds", "0", "--limit", "3"
    ).stdout.splitlines()
    assert len(lines) == 4 and lines[-1].startswith("Context: ")
    [update] = as_json("show", "--follow", "fix-login", "--seconds", "0")["updates"]
    assert update["head"] == 21 and len(update["events"]) == 12
    assert all(event["body"] for event in update["events"]), "the events as they are written"


def test_a_person_reads_no_raw_event(url: str) -> None:
    with refold.open("fix-login", store=url) as context:
        context.pin(context.view.slots[0].seq)
        context.checkpoint("before")
        context.hide(context.view.slots[1].seq)
        context.compact("hide", target=60)
        context.undo()
        context.restore("before")
        context.update(title="Another", tags=["one", "two"], system="Be kind", model="gpt-4o")
        context.append({"role": "assistant", "content": "done"})
        context.note("progress", {"step": 3})
    text = run("show", "--follow", "fix-login", "--seconds", "0", "--limit", "100").stdout
    assert not re.search(r"[{}]|\bbatch\b:", text)
    for told in (
        "pinned",
        " before at #",
        " -> ",
        "undone",
        "restored   ",
        "title Another",
        "system prompt",
        "tags one, two",
        "note",
        "-> run ",
    ):
        assert told in text, told
    assert len(re.findall("^.* compacted ", text, re.MULTILINE)) == 2


@pytest.mark.parametrize("columns", ["30", "100"])
def test_on_a_terminal_no_line_is_wider_than_it(url: str, columns: str) -> None:
    status, text = on_terminal("show", "fix-login", "--follow", "--seconds", "0", COLUMNS=columns)
    assert status == 0 and "░" in text and "Ctrl-C" in text
    lines = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text).split("\r\n")
    assert max(map(width, lines)) < int(columns)


def test_an_interrupt_ends_it_without_a_word(url: str) -> None:
    process = subprocess.Popen(
        (*PROGRAM, "show", "fix-login", "--follow"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        # Tests that a shell runs in the background ignore the signal, and so would the program.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert process.stdout is not None
    process.stdout.readline()
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=LONG_S)
    assert process.returncode == 130 and errors == b""


def test_a_conversation_that_is_not_there_is_an_error(url: str) -> None:
    found = json.loads(run("show", "--follow", "nope", "--json").stdout)
    assert found["error"]["code"] == "not-found"
    assert refold.open("fix-login", store=url, read_only=True).view.head == 21
