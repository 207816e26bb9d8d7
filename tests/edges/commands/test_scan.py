"""`refold scan` says where secrets stand, tells kinds apart, and shows none."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path

import pytest

import refold
from refold.conversations.scanner import scan
from refold.errors import OUTCOMES
from refold.stores import open_store
from refold.stores.in_memory import MemoryStore
from tests.core.logs import sealed, user
from tests.edges.cli.rooms import HOSTILE, as_json, hostile, on_terminal, run
from tests.redaction.secret_kinds import PREFIXED, SURROUNDED, WORD, drawn

SECRETS_FOUND = OUTCOMES["secrets-found"][1]
pytestmark = pytest.mark.usefixtures("alone")
GITHUB, AWS, GROQ, NPM = (
    "".join(PREFIXED[kind][0]) for kind in ("GitHub token", "AWS key", "Groq key", "npm token")
)
PASSWORD = drawn("scan", WORD, 16)
ALL = (GITHUB, AWS, GROQ, NPM, PASSWORD)


def seed(url: str, id: str = "leaky") -> None:
    """Secrets in a text, in structured arguments, in what is true of the whole, and in a large
    output."""
    with refold.open(
        id, store=url, config={"offload_tokens": 200}, system=f"deploy with {NPM}"
    ) as context:
        context.append({"role": "user", "content": f"first line\nthe token is {GITHUB}"})
        call = {
            "type": "tool_use",
            "id": "t1",
            "name": "deploy",
            "input": {"db": {"password": PASSWORD}},
        }
        context.append({"role": "assistant", "content": [call]})
        context.append_result(
            "t1", "ordinary output\n" * 5_000 + f"AWS_ID={AWS}\n" + "ordinary output\n" * 5_000
        )
        context.append(
            {
                "role": "user",
                "content": f"fixtures: {'ghp_' + 'x' * 36}, postgres://user:password@host/app",
            }
        )


def scanned_json(*args: str) -> tuple[int, dict]:  # type: ignore[type-arg]
    result = run("scan", *args, "--json")
    assert not any(secret in result.output for secret in ALL)
    return result.exit_code, json.loads(result.stdout)


def test_a_store_without_secrets_is_said_to_have_none(url: str) -> None:
    result = run("scan")
    assert result.exit_code == 0 and "no secrets found" in result.stdout
    assert "1 conversation, " in result.stdout and "1 artifact scanned" in result.stdout
    status, report = scanned_json()
    assert (status, report["ok"], report["total"], report["findings"]) == (0, True, 0, [])


def test_an_empty_store_is_scanned_and_stays_empty(tmp_path: Path) -> None:
    assert run("scan").exit_code == 0
    assert list(tmp_path.iterdir()) == []


def test_a_scan_tells_kind_conversation_event_artifact_and_line(url: str) -> None:
    """X-51"""
    seed(url)
    status, report = scanned_json()
    assert status == SECRETS_FOUND and report["ok"] is False and report["truncated"] is False
    # The password stands in the call and in the origin of the output that the call gave.
    assert (
        report["kinds"] == {"secret": 2, "npm token": 1, "GitHub token": 1, "AWS key": 1}
        and report["total"] == 5
    )
    found = {one["kind"]: one for one in report["findings"]}
    with refold.open("leaky", store=url) as context:
        kinds = {event.kind: event.seq for event in reversed([*context.log.events()])}
        [artifact] = [one.artifact for one in context.artifacts.list()]
    assert (found["GitHub token"]["line"], found["GitHub token"]["seq"]) == (2, kinds["message"])
    assert found["npm token"]["seq"] == kinds["meta"]
    assert (found["AWS key"]["artifact"], found["AWS key"]["line"]) == (artifact.id, 5_001)
    assert all(one["conversation"] == "leaky" for one in report["findings"])
    assert (
        found["GitHub token"]["masked"] == f"{GITHUB[:4]}…{GITHUB[-2:]} ({len(GITHUB)} characters)"
    )
    assert found["secret"]["masked"] == "… (16 characters)"


def test_a_scan_in_words_shows_a_row_per_secret_and_the_counts(url: str) -> None:
    """X-51"""
    seed(url)
    result = run("scan")
    assert result.exit_code == SECRETS_FOUND
    assert not any(secret in result.output for secret in ALL)
    row = next(line for line in result.stdout.splitlines() if line.startswith("AWS key"))
    assert "leaky" in row and "art-" in row and "5,001" in row
    assert "5 secrets (" in result.stdout and "1 GitHub token" in result.stdout


def test_the_status_is_that_of_no_error() -> None:
    others = [status for code, (_, status) in OUTCOMES.items() if code != "secrets-found"]
    assert SECRETS_FOUND not in {*others, 130, 141}


def test_only_the_named_conversations_are_scanned(url: str) -> None:
    seed(url)
    assert scanned_json("fix-login")[0] == 0
    assert scanned_json("fix-login", "leaky")[1]["conversations"] == 2
    assert scanned_json("@1")[1]["findings"][0]["conversation"] == "leaky"
    missing = run("scan", "nowhere")
    assert missing.exit_code == OUTCOMES["not-found"][1] and "nowhere" in missing.output


def test_fixtures_are_shown_on_demand_and_marked(url: str) -> None:
    seed(url)
    status, report = scanned_json("--all")
    unsure = [one for one in report["findings"] if not one["sure"]]
    assert status == SECRETS_FOUND and {one["kind"] for one in unsure} == {
        "GitHub token",
        "password",
    }
    assert run("scan", "--all").stdout.count("(unsure)") == 2


def test_of_a_fork_its_own_events_are_scanned_unless_it_is_named(url: str) -> None:
    seed(url)
    with refold.open("leaky", store=url) as context:
        context.fork("branch", at=context.view.head).close()
    with refold.open("branch", store=url) as branch:
        branch.append({"role": "user", "content": f"and {GROQ}"})
    whole = scanned_json()[1]
    assert [one["kind"] for one in whole["findings"] if one["conversation"] == "branch"] == [
        "Groq key"
    ]
    assert scanned_json("branch")[1]["total"] == 6


def test_what_was_erased_is_gone_and_a_content_that_is_missing_is_named(url: str) -> None:
    seed(url)
    store = open_store(url)
    seq = next(one["seq"] for one in scanned_json()[1]["findings"] if one["kind"] == "GitHub token")
    store.erase("leaky", seq)
    with refold.open("leaky", store=store) as context:
        [artifact] = [one.artifact for one in context.artifacts.list()]
    place = store.location(artifact.digest)
    assert place is not None
    Path(place).unlink()
    _, report = scanned_json()
    assert set(report["kinds"]) == {"npm token", "secret"} and report["unread"] == [artifact.id]
    assert f"{artifact.id} has no content here" in run("scan").stdout


def test_an_event_that_cannot_be_read_is_said_with_its_place_and_does_not_end_the_scan() -> None:
    store = MemoryStore()
    after = ("future-kind", json.dumps({"note": GITHUB}).encode())
    store.append(
        "odd", sealed([user(), ("future-kind", b'{"note": "' + b"\xff" + b'"}'), after]), expect=0
    )
    report = scan(store)
    assert report.total == 1 and report.findings[0].seq == 3
    assert list(report.damaged) == ["odd"] and "event 2" in report.damaged["odd"]


def test_what_a_later_version_wrote_is_scanned_too() -> None:
    store = MemoryStore()
    body = json.dumps({"deep": [{"note": f"a\nb {GITHUB}"}]}).encode()
    store.append("new", sealed([user(), ("future-kind", body)]), expect=0)
    [finding] = scan(store).findings
    assert (finding.kind, finding.seq, finding.line) == ("GitHub token", 2, 2)


def test_a_scan_changes_nothing(url: str) -> None:
    seed(url)
    before = as_json("list"), as_json("verify")
    run("scan")
    assert (as_json("list"), as_json("verify")) == before


def test_hostile_texts_steer_no_terminal(url: str) -> None:
    hostile(url)
    with refold.open("hostile", store=url) as context:
        for text in HOSTILE:
            context.append(
                {
                    "role": "user",
                    "content": f"{text[:50]} password = '{drawn(text[:9], WORD, 12)}{text[:3]}'",
                }
            )
    assert "\x1b" not in run("scan", "--all").output


def test_on_a_terminal_a_bar_is_shown_and_goes(url: str, tmp_path: Path) -> None:
    """X-51: progress where somebody watches."""
    seed(url)
    status, shown = on_terminal("scan", cwd=tmp_path)
    assert status == SECRETS_FOUND and "━" in shown and "5 secrets (" in shown
    assert not any(secret in shown for secret in ALL)


def test_a_large_content_is_scanned_in_bounded_memory() -> None:
    """X-51: 40 MB, with a secret at both ends and a key that lies across two pieces."""
    store = MemoryStore()
    line, key = (
        b"a line of ordinary output, as long as many are\n" * 1_000,
        SURROUNDED["RSA key"][0].encode(),
    )
    chunks = [GITHUB.encode() + b"\n", *[line] * 425, key + b"\n", *[line] * 425, AWS.encode()]
    with refold.open("large", store=store) as context:
        context.append({"role": "user", "content": "go"})
        context.artifacts.put(b"".join(chunks), name="large")
    tracemalloc.start()
    try:
        report = scan(store)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert [(one.kind, one.line) for one in report.findings] == [
        ("GitHub token", 1),
        ("private key", 425_002),
        ("AWS key", 850_012),
    ]
    assert peak < 8_000_000


def test_more_findings_than_are_kept_are_counted(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setattr("refold.conversations.scanner.FINDINGS_MAX", 2)
    seed(url)
    status, report = scanned_json()
    assert (status, report["total"], len(report["findings"]), report["truncated"]) == (
        SECRETS_FOUND,
        5,
        2,
        True,
    )
    assert "Only the first 2 are shown." in run("scan").stdout


# --- the other channels ---


def test_the_command_redacts_an_export_for_reading_unless_secrets_are_asked_for(
    url: str, tmp_path: Path
) -> None:
    """X-51: exports."""
    seed(url)
    assert (
        run("export", "leaky", "a.md").exit_code
        == run("export", "leaky", "b.md", "--secrets").exit_code
        == 0
    )
    shown, whole = (tmp_path / "a.md").read_text(), (tmp_path / "b.md").read_text()
    assert not any(secret in shown for secret in ALL) and "[redacted GitHub token]" in shown
    assert all(secret in whole for secret in (GITHUB, AWS, PASSWORD))
    assert GITHUB not in run("export", "leaky", "-", "--format", "markdown").stdout
    (tmp_path / "refold.toml").write_text('redact = ["summaries", "logs"]\n')
    assert run("allow").exit_code == 0
    assert GITHUB in run("export", "leaky", "-", "--format", "markdown").stdout


def test_a_whole_export_is_written_with_a_warning_that_names_no_secret(
    url: str, tmp_path: Path
) -> None:
    """X-51: the export that can be imported again stays byte for byte."""
    seed(url)
    told = run("export", "leaky", "a.json")
    assert told.exit_code == 0 and "contains 5 secrets: see refold scan leaky" in told.stdout
    assert (
        not any(secret in told.output for secret in ALL)
        and GITHUB in (tmp_path / "a.json").read_text()
    )
    assert "holds" not in run("export", "leaky", "a.json", "--force", "--secrets").stdout
    assert "holds" not in run("export", "fix-login", "b.json").stdout
    assert as_json("export", "leaky", "c.json")["secrets"] == 5
    assert run("import", "a.json", "--id", "again").exit_code == 0


def test_a_redacted_copy_can_be_imported_and_has_nothing_to_find(url: str, tmp_path: Path) -> None:
    """X-51: exports, as JSON too."""
    seed(url)
    for name in ("copy.json", "copy.md"):
        told = run("export", "leaky", name, "--redacted")
        assert told.exit_code == 0 and "secret" not in told.stdout, told.output
        assert GITHUB not in (tmp_path / name).read_text()
    assert GITHUB not in run("export", "leaky", "-", "--redacted").stdout
    other = f"sqlite:{tmp_path}/other.db"
    assert run("import", "copy.json", "--store", other).exit_code == 0
    assert run("scan", "--store", other).exit_code == run("verify", "--store", other).exit_code == 0
    assert run("export", "leaky", "b.json", "--redacted", "--secrets").exit_code == 2


def test_a_context_exports_without_secrets_unless_they_are_asked_for(
    url: str, tmp_path: Path
) -> None:
    """X-51: exports."""
    seed(url)
    for redact, secrets, there in (
        (True, None, False),
        (True, True, True),
        (["logs"], None, True),
        (["logs"], False, False),
    ):
        with refold.open("leaky", store=url, config={"redact": redact}) as context:
            context.log.export("a.md", secrets=secrets)
        assert (GITHUB in (tmp_path / "a.md").read_text()) is there


def test_errors_and_notices_hold_no_secret(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """X-51: logs."""
    for args in (("show", GITHUB), ("list", "--store", f"nothing://me:{PASSWORD}@host")):
        result, printed = run(*args), run(*args, "--json")
        assert result.exit_code == printed.exit_code != 0
        assert not any(secret in result.output + printed.output for secret in ALL)
    monkeypatch.setenv("REFOLD_REDACT", '["summaries"]')
    assert GITHUB not in run("show", GITHUB).output, "an error knows no settings"
    for redact, there in ((True, False), (["exports"], True)):
        heard: list[str] = []
        with refold.open("leaky", store=url, config={"redact": redact}) as context:
            context.on("hook-failed", lambda notice, heard=heard: heard.append(notice.reason))
            context._open.notify("hook-failed", f"denied for {GITHUB}")
            context.append({"role": "user", "content": "go on"})
        assert heard and (GITHUB in heard[0]) is there
