"""The runner of `tests/real`, as far as it can be tested without installing anything."""

from __future__ import annotations

import re

import pytest

from tests.real import run

ABSENT = "2026-11-16 no wheel for this Python"


@pytest.fixture
def root(tmp_path):
    """A repository with one part."""
    (tmp_path / "pyproject.toml").write_text("[project]\n")
    for name in run.COMMON:
        (tmp_path / name).write_text("pytest==9.2.0\n")
    part = tmp_path / "tests" / "real" / "part"
    part.mkdir(parents=True)
    (part / "requirements.txt").write_text("openai==3.49.0\n")
    return tmp_path


def cannot_install(part):
    raise run.CannotInstall("no such package")


def test_a_part_is_a_folder_that_lists_its_packages(root):
    (root / "tests" / "real" / "notes").mkdir()
    assert run.parts_in(root / "tests" / "real") == ["part"]
    assert {"local_model", "sdks"} <= set(run.parts_in(run.REAL))


@pytest.mark.parametrize("part", run.parts_in(run.REAL))
def test_the_packages_of_a_part_are_pinned_and_name_no_index(part):
    lines = run._lines((run.REAL / part / "requirements.txt").read_text())
    assert lines
    assert [line for line in lines if not re.fullmatch(r"[\w.-]+==[\w.]+", line)] == []


def test_the_absent_list_of_the_repository_can_be_read():
    assert (
        run.absent_parts((run.REAL / "absent.txt").read_text(), run.parts_in(run.REAL)) is not None
    )


def test_the_absent_list_says_why_and_since_when():
    text = f"# parts\n\nmodel {ABSENT}\n"
    assert run.absent_parts(text, ["model"]) == {"model": "no wheel for this Python (2026-11-16)"}


@pytest.mark.parametrize(
    "line", ["model", "model 2026-11-16", "model yesterday no wheel", f"ghost {ABSENT}"]
)
def test_an_absent_line_without_part_date_or_reason_is_an_error(line):
    with pytest.raises(ValueError, match=r"absent\.txt"):
        run.absent_parts(line, ["model"])


def test_an_absent_line_needs_a_day_that_exists():
    with pytest.raises(ValueError, match="month"):
        run.absent_parts("model 2026-13-01 no wheel", ["model"])


def test_a_part_that_cannot_be_installed_has_failed(monkeypatch, capsys):
    monkeypatch.setattr(run, "install", cannot_install)
    outcome = run.run("part", None)
    assert (outcome.passed, outcome.failed) == (0, 1)
    assert "no such package" in outcome.note


def test_a_part_that_is_listed_as_absent_has_not_failed(monkeypatch, capsys):
    monkeypatch.setattr(run, "install", cannot_install)
    assert run.run("part", "no wheel") == run.Outcome("part", note="absent: no wheel")


def test_a_part_that_is_listed_as_absent_and_installs_has_failed(monkeypatch, capsys):
    monkeypatch.setattr(run, "install", lambda part: None)
    outcome = run.run("part", "no wheel")
    assert outcome.failed == 1
    assert "absent.txt" in outcome.note


@pytest.mark.parametrize(
    "file", ["pyproject.toml", *run.COMMON, "tests/real/part/requirements.txt"]
)
def test_a_stamp_changes_with_every_file_an_environment_is_made_from(root, file):
    before = run.stamp_of("part", root)
    assert run.stamp_of("part", root) == before
    with (root / file).open("a") as out:
        out.write("# changed\n")
    assert run.stamp_of("part", root) != before


def test_an_environment_with_the_right_stamp_is_used_as_it_is(root, monkeypatch):
    made = []
    monkeypatch.setattr(run, "ENVIRONMENTS", root / ".venv-real")
    monkeypatch.setattr(run, "_call", made.append)
    monkeypatch.setattr(run, "stamp_of", lambda part: "stamp")
    monkeypatch.setattr(run, "REAL", root / "tests" / "real")
    folder = root / ".venv-real" / "part"
    folder.mkdir(parents=True)
    (folder / "refold-stamp").write_text("stamp")
    assert run.install("part") == folder / "bin" / "python"
    assert made == []
    monkeypatch.setattr(run, "stamp_of", lambda part: "another")
    with pytest.raises(FileNotFoundError):  # nothing made the folder again
        run.install("part")
    assert made[0][1:3] == ["-m", "venv"]
    assert all("--no-deps" in command for command in made[1:])


def test_system_packages_that_are_there_are_not_installed(monkeypatch):
    made = []
    monkeypatch.setattr(run, "_call", made.append)
    monkeypatch.setattr(run, "_is_installed", lambda package: True)
    run.install_system_packages(["postgresql"])
    assert made == []


def test_system_packages_need_root(monkeypatch):
    monkeypatch.setattr(run, "_is_installed", lambda package: False)
    monkeypatch.setattr(run.os, "geteuid", lambda: 1_000)
    with pytest.raises(run.CannotInstall, match="postgresql"):
        run.install_system_packages(["postgresql"])


def test_package_lists_are_updated_once(monkeypatch):
    made = []
    monkeypatch.setattr(run, "_call", made.append)
    monkeypatch.setattr(run, "_is_installed", lambda package: False)
    monkeypatch.setattr(run.os, "geteuid", lambda: 0)
    monkeypatch.setattr(run.shutil, "which", lambda program: f"/usr/bin/{program}")
    run._update_package_lists.cache_clear()
    try:
        run.install_system_packages(["postgresql"])
        run.install_system_packages(["chromium"])
    finally:
        run._update_package_lists.cache_clear()
    assert [command[1] for command in made] == ["update", "install", "install"]


def test_a_report_is_counted_without_expected_failures():
    report = '<testsuites><testsuite tests="9" failures="1" errors="2" skipped="3"/></testsuites>'
    assert run.counts_in(report) == (3, 3)
    assert run.counts_in("") == (0, 0)


def test_the_summary_ends_with_the_sum():
    outcomes = [run.Outcome("a", 3, 0, "2 s"), run.Outcome("b", 1, 2, "one line\nanother")]
    assert run.summary(outcomes).splitlines()[1:] == [
        "a: 3 passed, 0 failed  2 s",
        "b: 1 passed, 2 failed  one line",
        "4 passed, 2 failed",
    ]


def test_a_part_that_does_not_exist_is_refused(capsys):
    with pytest.raises(SystemExit):
        run.main(["ghost"])
    assert "no such part: ghost" in capsys.readouterr().err
