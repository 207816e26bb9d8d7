"""Each command does what its help says, in words and as JSON."""

from __future__ import annotations

import json
import os
from pathlib import Path

import click
import pytest

import refold
from refold.edges.cli.app import COMMANDS, commands
from refold.edges.cli.doctor import MASK, without_password, without_secrets
from refold.errors import OUTCOMES
from tests.edges.cli.rooms import as_json, run, seeded

ROOT = Path(__file__).parents[3]
pytestmark = pytest.mark.usefixtures("alone")


def test_refold_alone_prints_its_help() -> None:
    result = run()
    assert result.exit_code == 0 and all(f"\n  {name} " in result.stdout for name in COMMANDS)


def test_every_command_has_help_that_fits_its_line_and_is_ascii() -> None:
    listing = run("--help").stdout
    assert "..." not in listing.split("Commands:")[1] and listing.isascii()
    for name in COMMANDS:
        result = run(name, "--help")
        assert result.exit_code == 0 and result.stdout.isascii() and "--json" in result.stdout
        command = commands.get_command(click.Context(commands), name)
        assert command is not None and command.help
        assert all(option.help for option in command.params if isinstance(option, click.Option))


def test_every_command_stands_in_the_docs() -> None:
    pages = (ROOT / "README.md", ROOT / "docs/start.md")
    docs = [page.read_text(encoding="utf-8") for page in pages]
    missing = [name for name in COMMANDS if not any(f"refold {name}" in text for text in docs)]
    assert missing == []


# --- list, stats ---


def test_an_empty_store_lists_nothing_and_stays_empty(tmp_path: Path) -> None:
    assert "no conversations" in run("list").stdout
    assert as_json("list")["conversations"] == []
    assert os.listdir(tmp_path) == []


def test_list_shows_id_title_messages_tokens_time_and_parent(url: str) -> None:
    with refold.open("fix-login", store=url) as context:
        context.fork("branch", at=9)
        current = context.stats().current
    result = run("list", "--store", url)
    row = next(line for line in result.stdout.splitlines() if line.startswith("fix-login"))
    assert (
        "Fix the login test" in row and " 16 " in row and f" {current:,} " in row and "UTC" in row
    )
    assert "fix-login#9" in result.stdout
    listed = {one["id"]: one for one in as_json("list")["conversations"]}
    assert (listed["fix-login"]["messages"], listed["fix-login"]["tokens"]) == (16, current)
    assert (listed["branch"]["parent"], listed["branch"]["parent_seq"]) == ("fix-login", 9)


def test_list_counts_what_came_after_the_bookmark(url: str) -> None:
    store = refold.open_store(url)
    context = refold.Context(store, "fix-login")
    context.append({"role": "user", "content": "one more"})
    expected = context.stats()
    store.close()
    [row] = as_json("list", "--store", url)["conversations"]
    assert (row["messages"], row["tokens"]) == (17, expected.current)


def test_stats_says_the_numbers(url: str) -> None:
    text = run("stats", "fix-login").stdout
    assert (
        "Messages: 16 (5 user, 6 assistant, 5 tool)" in text
        and "Artifacts: 1 (1 command output)" in text
    )
    assert "/ 200,000 (" in text and "Cost: $0.00" in text
    stats = as_json("stats", "fix-login", "--window", "40000")
    assert stats["window"] == 40_000 and sum(stats["breakdown"].values()) == stats["current"]
    assert stats["billed"]["calls"] == 1


# --- show ---


def test_show_gives_the_page_slot_by_slot(url: str) -> None:
    text = run("show", "fix-login").stdout
    assert (
        "#4 user, " in text and "  question 0 about login.py\n" in text and "  Be brief\n" in text
    )
    page = as_json("show", "fix-login")
    assert [slot["role"] for slot in page["slots"]][:3] == ["user", "assistant", "tool"]
    assert page["slots"][0]["blocks"] == [{"type": "text", "text": "question 0 about login.py"}]


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


def test_show_unfolds_a_handle_and_its_lines(url: str) -> None:
    [artifact] = [one.artifact for one in refold.open("fix-login", store=url).artifacts.list()]
    assert (
        run("show", "fix-login", "--handle", artifact.id).stdout == "def login():\n" * 1_000 + "\n"
    )
    assert (
        run("show", "fix-login", "--handle", artifact.id, "--lines", "2-3").stdout
        == "def login():\n" * 2
    )
    assert run("show", "fix-login", "--seq", "4").stdout == "question 0 about login.py\n"
    assert as_json("show", "fix-login", "--handle", "#4")["text"] == "question 0 about login.py"
    assert '"system":"Be brief"' in run("show", "fix-login", "--seq", "2").stdout
    assert as_json("show", "fix-login", "--seq", "2")["event"]["kind"] == "meta"


# --- compact, undo ---


def test_a_dry_run_changes_nothing_and_undo_takes_a_compaction_back(url: str) -> None:
    before = as_json("show", "fix-login")
    arguments = ("compact", "fix-login", "--strategy", "hide", "--target", "60")
    plan = as_json(*arguments, "--dry-run")
    assert plan["dry_run"] and plan["tokens_after"] < plan["tokens_before"] and plan["items"]
    assert "Nothing was changed" in run(*arguments, "--dry-run").stdout
    assert as_json("show", "fix-login") == before
    text = run(*arguments).stdout
    assert "Compacted by hide" in text and "refold undo fix-login" in text
    assert as_json("undo", "fix-login")["undone"] is True
    assert as_json("show", "fix-login")["slots"] == before["slots"]


def test_nothing_to_do_is_said(url: str) -> None:
    assert "nothing to undo" in run("undo", "fix-login").stdout
    assert as_json("undo", "fix-login")["undone"] is False
    assert "Nothing was done" in run("compact", "fix-login", "--target", "1000000").stdout
    assert (
        "Nothing would be done"
        in run("compact", "fix-login", "--target", "1000000", "--dry-run").stdout
    )
    assert as_json("compact", "fix-login", "--target", "1000000")["batch"] == ""


# --- export, import ---


def test_an_export_is_imported_into_another_store(url: str, tmp_path: Path) -> None:
    file = str(tmp_path / "a.json")
    assert as_json("export", "fix-login", file)["size_bytes"] == os.path.getsize(file)
    other = f"sqlite:{tmp_path / 'other' / 'refold.db'}"
    assert "is now fix-login" in run("import", file, "--store", other).stdout
    assert as_json("show", "fix-login", "--store", other) == as_json(
        "show", "fix-login", "--store", url
    )
    again = run("import", file, "--store", other)
    assert again.exit_code == 4 and "--id NEW" in again.stderr
    assert as_json("import", file, "--id", "copy", "--store", other)["conversation"] == "copy"
    assert run("verify", "--store", other).exit_code == 0


def test_an_export_goes_through_a_pipe(url: str, tmp_path: Path) -> None:
    exported = run("export", "fix-login", "-").stdout_bytes
    assert json.loads(exported)["format"] == "refold-export"
    assert run("export", "fix-login", "-", "--json").stdout_bytes == exported
    assert run("export", "fix-login", "-", "--format", "markdown").stdout.startswith(
        "# Fix the login test\n"
    )
    imported = run("import", "-", "--id", "copy", input=exported)
    assert imported.exit_code == 0 and "standard input is now copy" in imported.stdout


def test_a_file_that_exists_is_replaced_by_force_only(url: str, tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("mine")
    assert run("export", "fix-login", "a.md").exit_code == 4
    assert run("export", "fix-login", "a.md", "--force").exit_code == 0
    assert (tmp_path / "a.md").read_text().startswith("# Fix the login test")


# --- verify, doctor ---


def test_verify_says_what_is_wrong_and_where(url: str, tmp_path: Path) -> None:
    assert (
        "1 conversation, 21 events, 1 artifact walked: all is as it was written."
        in run("verify").stdout
    )
    assert as_json("verify", "fix-login")["ok"] is True
    [file] = (tmp_path / ".refold" / "artifacts").glob("art-*")
    file.write_bytes(b"changed")
    result = run("verify")
    assert result.exit_code == 5 and str(file) in result.stdout and "fix-login #" in result.stdout
    report = json.loads(run("verify", "--json").stdout)
    assert report["ok"] is False and report["problems"][0]["part"] == "artifact"


def test_doctor_is_content_with_a_sound_installation(url: str) -> None:
    result = run("doctor")
    assert result.exit_code == 0, result.stdout
    for part in (
        "SQLite: 3.",
        "All is well.",
        "tokens_cap: 256000 (default)",
        "as of 20",
        "WAL: works here",
    ):
        assert part in result.stdout
    assert as_json("doctor")["ok"] is True


def test_doctor_creates_nothing(tmp_path: Path) -> None:
    assert run("doctor").exit_code == 0
    assert os.listdir(tmp_path) == []


def test_doctor_says_where_a_setting_comes_from(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "refold.toml").write_text(
        'warn_ratio = 0.7\n[strategy.gist]\napi_key = "abc123"\nnote = "sk-abcdefghijklmnop1234"'
    )
    monkeypatch.setenv("REFOLD_TOKENS_CAP", "100000")
    text = run("doctor").stdout
    assert "warn_ratio: 0.7 (refold.toml)" in text and "tokens_cap: 100000 (environment)" in text
    assert "abc123" not in text and "sk-abc" not in text and MASK in text


def test_doctor_says_what_to_mend(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.chmod(tmp_path / ".refold" / "refold.db", 0o644)
    os.chmod(tmp_path / ".refold", 0o755)
    monkeypatch.setenv("REFOLD_WARN_RATO", "0.7")
    result = run("doctor")
    assert result.exit_code == 1 and "chmod 600" in result.stdout and "chmod 700" in result.stdout
    assert "did you mean warn_ratio?" in result.stdout and "3 things to mend." in result.stdout
    found = json.loads(run("doctor", "--json").stdout)
    assert found["ok"] is False and len(found["problems"]) == 3


def test_doctor_reports_a_store_that_does_not_open(tmp_path: Path) -> None:
    (tmp_path / "a.db").write_bytes(b"nonsense" * 1_000)
    result = run("doctor", "--store", "sqlite:a.db")
    assert result.exit_code == 1 and "opens: " in result.stdout


def test_secrets_are_masked() -> None:
    assert without_password("postgresql://me:secret@host/db") == f"postgresql://me:{MASK}@host/db"
    assert without_secrets({"a": [{"auth_token": "x", "size": 3}]}) == {
        "a": [{"auth_token": MASK, "size": 3}]
    }


# --- errors ---


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("show", "../../x"), "invalid"),
        (("stats", ".."), "invalid"),
        (("export", "a/b", "x.json"), "invalid"),
        (("undo", "-x"), "invalid"),
        (("verify", "../x"), "invalid"),
        (("compact", "a b"), "invalid"),
        (("show", "nobody"), "not-found"),
        (("stats", "nobody"), "not-found"),
        (("undo", "nobody"), "not-found"),
        (("compact", "nobody"), "not-found"),
        (("verify", "nobody"), "not-found"),
        (("export", "nobody", "x.json"), "not-found"),
        (("import", "nothing.json"), "not-found"),
        (("export", "fix-login", "x.pdf"), "invalid"),
        (("compact", "fix-login", "--strategy", "hid"), "invalid"),
        (("show", "fix-login", "--handle", "what"), "invalid"),
        (("show", "fix-login", "--seq", "999"), "not-found"),
        (("show", "fix-login", "--seq", "0"), "invalid"),
        (("show", "fix-login", "--lines", "1-2"), "invalid"),
        (("show", "fix-login", "--seq", "5", "--lines", "x"), "invalid"),
        (("list", "--nope"), "invalid"),
        (("show", "fix-login", "--seq", "5", "--all"), "invalid"),
        (("show",), "invalid"),
        (("lst",), "invalid"),
        (("list", "--store", "ftp://x"), "invalid"),
        (("compact", "fix-login", "--target", "x"), "invalid"),
        (("import", ".", "--id", "../x"), "invalid"),
    ],
)
def test_an_error_is_one_line_and_its_exit_status_is_that_of_the_table(
    url: str, arguments: tuple[str, ...], code: str
) -> None:
    result = run(*arguments)
    assert result.exit_code == OUTCOMES[code][1], result.stderr
    assert (
        result.stdout == ""
        and result.stderr.startswith("refold: ")
        and result.stderr.count("\n") == 1
    )
    answer = json.loads(run(*arguments, "--json").stdout)
    assert answer["error"]["code"] == code


def test_an_unknown_command_gets_the_nearest() -> None:
    assert "did you mean export?" in run("exprt").stderr
    assert "\x1b" not in run("\x1b[31m").stderr


def test_a_conversation_that_is_asked_for_is_not_created(tmp_path: Path) -> None:
    for name in ("show", "stats", "undo", "compact"):
        assert run(name, "new").exit_code == 3
    assert os.listdir(tmp_path) == []


def test_an_unexpected_error_is_one_line_unless_it_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("\x1b[31mboom")

    monkeypatch.setattr("refold.settings.sources.default_store", fail)
    result = run("list")
    assert result.exit_code == 1 and result.stderr.count("\n") == 1
    assert (
        "internal error" in result.stderr
        and "--debug" in result.stderr
        and "\x1b" not in result.stderr
    )
    assert "Traceback" in run("list", "--debug").stderr


def test_an_interrupt_ends_with_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("refold.settings.sources.default_store", interrupt)
    result = run("list")
    assert result.exit_code == 130 and result.stderr == ""


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


def test_reading_commands_write_nothing(url: str, tmp_path: Path) -> None:
    store = refold.open_store(url)
    refold.Context(store, "fix-login").append(
        {"role": "user", "content": "no bookmark of this yet"}
    )
    store.close()
    database = tmp_path / ".refold" / "refold.db"
    before = database.read_bytes()
    for arguments in (
        ("list",),
        ("show", "fix-login"),
        ("stats", "fix-login"),
        ("verify",),
        ("doctor",),
    ):
        assert run(*arguments).exit_code == 0
    assert run("compact", "fix-login", "--dry-run").exit_code == 0
    assert database.read_bytes() == before
