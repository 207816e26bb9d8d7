"""`refold chat` in a pipe: models, conversations, what is printed where."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import apsw
import pytest
from click.testing import Result
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from refold.edges.chat.input import joined
from refold.edges.chat.terminal import remember, spec_of
from tests.edges.cli.rooms import PROGRAM, run
from tests.edges.endpoints.test_chat import CHUNKS, events
from tests.servers import Play, serving

WAIT_S = 120


def chat(*args: str, text: str = "", status: int = 0) -> Result:
    """A chat in this process, whose streams are no terminal."""
    done = run("chat", *args, input=text)
    assert done.exit_code == status, done.stderr
    return done


def test_replies_go_to_the_output_and_the_rest_beside_it(tmp_path: Path) -> None:
    done = subprocess.run(
        [*PROGRAM, "chat", "--model", "scripted"],
        input="count to 3\nlist\n",
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=True,
    )
    assert done.stdout.splitlines()[0] == "1 2 3"
    assert "list_files" not in done.stdout and "* list_files" in done.stderr
    assert "\x1b" not in done.stdout + done.stderr
    assert "go on with: refold chat --resume chat-" in done.stderr


def test_the_way_that_the_readme_shows(tmp_path: Path) -> None:
    """From nothing to a compacted, undone and exported conversation."""
    for n in range(8):
        Path(f"part_{n}.py").write_text(f"def part_{n}(port=8443):\n    return {n}\n" * 40)
    lines = ("read all", "/context", "/compact", "/undo", "/export talk.md", "/exit")
    done = chat("--model", "scripted", text="\n".join(lines) + "\n")
    assert "I have read 8 files." in done.stdout
    assert "Undone: the compaction" in done.stdout
    assert "part_3" in Path("talk.md").read_text()


@pytest.mark.parametrize("broken", ["not a database", "a foreign table", "another trigger"])
@pytest.mark.parametrize("model", ["scripted", ""])
def test_a_refused_database_ends_the_chat_with_its_reason(
    broken: str, model: str, tmp_path: Path
) -> None:
    """Whatever reads the database first, and however many ids are tried."""
    path = tmp_path / ".refold" / "refold.db"
    if broken == "not a database":
        path.parent.mkdir(mode=0o700)
        path.write_bytes(b"no database at all" * 500)
    else:
        assert run("import", str(talk_in(tmp_path))).exit_code == 0
        with closing(apsw.Connection(str(path))) as connection:
            foreign = {
                "a foreign table": "DROP TABLE events; CREATE TABLE events(a)",
                "another trigger": "CREATE TRIGGER t AFTER INSERT ON events BEGIN SELECT 1; END",
            }
            connection.execute(foreign[broken])
    args = ["--model", model] if model else []
    done = run("chat", *args, input="hi\n")
    assert done.exit_code not in (0, 1) and done.stderr.startswith("refold: ")
    assert "Assertion" not in done.stderr and "one second" not in done.stderr
    if model:
        assert "refold.db" in done.stderr


def talk_in(folder: Path) -> Path:
    path = folder / "talk.json"
    path.write_text('[{"role": "user", "content": "hello"}]')
    return path


def test_json_is_one_object(tmp_path: Path) -> None:
    done = chat("--model", "scripted", "--json", text="count to 3\n")
    ended = json.loads(done.stdout)
    assert ended["replies"] == ["1 2 3"] and ended["model"] == "scripted" and ended["messages"] == 2


def test_without_a_model_three_lines_say_what_to_set(tmp_path: Path) -> None:
    done = chat(text="hi\n", status=2)
    assert done.stderr.count("\n") == 4 and "--model scripted" in done.stderr
    assert "OPENAI_API_KEY" in done.stderr and done.stdout == ""


def test_a_conversation_is_continued_with_its_model_and_its_numbers(tmp_path: Path) -> None:
    given = ("--model", "scripted", "--window", "9000", "--json")
    first = json.loads(chat(*given, text="count to 3\n").stdout)
    assert first["window"] == 9_000
    again = json.loads(chat("--resume", "--json", text="").stdout)
    assert {**again, "replies": first["replies"]} == first
    named = json.loads(chat("--resume", "@1", "--json", text="count to 2\n").stdout)
    assert named["conversation"] == first["conversation"] and named["messages"] == 4


@pytest.mark.parametrize("line", ["/new", "/new foo", "/fork", "/fork foo3"])
@pytest.mark.parametrize("is_named", [False, True])
def test_every_conversation_of_a_chat_goes_on_with_its_model(line: str, is_named: bool) -> None:
    lines = f"count to 2\n{line}\ncount to 3\n"
    ended = json.loads(chat("--model", "scripted", "--json", text=lines).stdout)
    named = (ended["conversation"],) if is_named else ()
    again = json.loads(chat("--resume", *named, "--json", text="count to 4\n").stdout)
    assert again["conversation"] == ended["conversation"] and again["replies"] == ["1 2 3 4"]


def test_a_fork_made_in_a_shell_goes_on_with_the_model_it_came_from() -> None:
    chat("--model", "scripted", text="count to 2\n")
    for old, new in (("@1", "one"), ("one", "two")):
        assert run("fork", old, new).exit_code == 0
    assert chat("--resume", "two", text="count to 3\n").stdout.startswith("1 2 3\n")
    assert chat("--resume", text="count to 2\n").stdout == "1 2\n", "nothing but replies"


@pytest.mark.parametrize(
    ("line", "status"), [("/undoo", 2), ("/show 999 --why", 3), ("/export no/where.md", 8)]
)
def test_a_script_is_told_of_a_command_that_failed(line: str, status: int) -> None:
    chat("--model", "scripted", text=f"count to 2\n{line}\n/stats\n", status=status)


def test_what_cannot_be_gone_on_with_is_said(tmp_path: Path) -> None:
    assert "no conversation to continue" in chat("--resume", status=3).stderr
    assert "nowhere" in chat("--resume", "nowhere", "-m", "scripted", status=3).stderr


def test_a_file_of_the_project_chooses_no_endpoint(tmp_path: Path) -> None:
    Path("refold.toml").write_text('[writer]\nurl = "http://evil.invalid"\nmodel = "m"\n')
    assert "No model is set" in chat(text="hi\n", status=2).stderr


def test_the_model_of_a_conversation_is_the_users_to_remember(tmp_path: Path) -> None:
    remember("sqlite:x", "talk", "openai:m", os.environ)
    assert spec_of("sqlite:x", "talk", os.environ) == "openai:m"
    assert spec_of("sqlite:y", "talk", os.environ) == ""
    [kept] = (Path(os.environ["XDG_DATA_HOME"]) / "refold/chat").iterdir()
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600


def test_the_usual_variables_name_a_model(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(Play(events(*CHUNKS["openai"][:2], CHUNKS["openai"][3]))) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-not-a-real-key")
        monkeypatch.setenv("OPENAI_MODEL", "m")
        done = chat(text="hi\n")
    assert "hello" in done.stdout
    path, headers, body = server.seen[0]
    assert (path, headers["authorization"]) == ("/chat/completions", "Bearer sk-not-a-real-key")
    assert body["model"] == "m" and body["stream"] is True and body["tools"]


def test_a_url_and_a_name_are_a_model_without_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-a-real-key")
    with serving(Play(events(*CHUNKS["openai"][:2], CHUNKS["openai"][3]))) as server:
        done = chat("--model", f"{server.url}/v1#local", text="hi\n")
    assert "hello" in done.stdout and "authorization" not in server.seen[0][1]


def test_a_wrong_key_is_said_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(Play({"error": "bad"}, 401)) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-not-a-real-key-0123456789")
        done = chat("--model", "openai:m", text="hi\n", status=7)
        quiet = chat("--model", "openai:m", "--json", text="hi\n/stats\n", status=7)
    assert json.loads(quiet.stdout)["failure"] == "denied" and "401" in quiet.stderr
    assert "401" in done.stderr and "check the key in OPENAI_API_KEY" in done.stderr
    assert "0123456789" not in done.stderr + done.stdout


HELLO = events(*CHUNKS["openai"][:2], CHUNKS["openai"][3])
# What an endpoint may answer: the status of a chat in a pipe that got it.
ENDINGS = {
    "a reply": (Play(HELLO), 0),
    "nothing": (Play(b""), 8),
    "an error in the stream": (Play(events({"error": {"message": "boom"}})), 8),
    "a page to log in": (Play(b"<html>Log in</html>"), 8),
    "an error as a success": (Play({"error": {"message": "boom"}}), 8),
    "half a reply": (Play(events(*CHUNKS["openai"][:2])), 8),
    "a refusal": (Play({"error": "no such model"}, 400), 2),
    "a wrong key": (Play({"error": "bad"}, 401), 7),
}


@settings(
    deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(names=st.lists(st.sampled_from(sorted(ENDINGS)), min_size=1, max_size=3))
def test_a_script_learns_the_first_error_from_the_exit_status(names: list[str]) -> None:
    plays = [ENDINGS[name] for name in names]
    expected = next((status for _, status in plays if status), 0)
    with serving(*(play for play, _ in plays)) as server:
        lines = "".join(f"hi {number}\n" for number in range(len(names)))
        chat("--model", f"{server.url}/v1#local", text=lines, status=expected)
    assert len(server.seen) == len(names)


def test_a_request_may_have_several_lines() -> None:
    def read(*lines: str) -> list[str | None]:
        rest = list(lines)
        found = []
        while rest:
            found.append(joined(lambda _: rest.pop(0) if rest else None))
        return found

    assert read("one\\", "two", "three") == ["one\ntwo", "three"]
    assert read('"""', "one", "", "two", '"""', "three") == ["one\n\ntwo", "three"]
    assert read('"""', "one") == ["one"]
    assert joined(lambda _: None) is None


def test_the_first_prompt_does_not_wait_for_the_engine() -> None:
    code = (
        "import sys, refold.edges.chat.terminal, refold.edges.chat.prompt;"
        "assert not [name for name in sys.modules if name.startswith('refold.engine')]"
    )
    subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60, check=True)


def test_a_chat_begins_with_a_handover_only_if_it_is_asked_for(tmp_path: Path) -> None:
    given = ("--model", "scripted")
    first = chat(*given, "--handover", text="From now on, use metres.\n")
    assert "nothing to hand over yet" in first.stderr
    for option, is_shown in ((), False), (("--handover",), True):
        ended = json.loads(chat(*given, *option, "--json", text="count to 3\n").stdout)
        page = run("show", ended["conversation"]).stdout
        assert ("use metres" in page) == is_shown
