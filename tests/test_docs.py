"""What the docs show is run: every Python block of the README and the docs, and the sample lines
of the format. The commands they name exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from refold.core.codec import check, from_line, to_line

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)


CASES = [
    pytest.param(code, id=f"{page.name}-{n}")
    for page in PAGES
    for n, code in enumerate(blocks(page, "python"), 1)
]


@pytest.mark.parametrize("code", CASES)
def test_python_in_the_docs_runs(code, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "docs", "exec"), {"__name__": "docs"})


def test_the_sample_lines_of_the_format_are_events_with_a_sound_chain():
    [sample] = blocks(ROOT / "docs" / "format.md", "jsonl")
    lines = sample.strip().encode().split(b"\n")
    events = [from_line(line) for line in lines]
    assert [to_line(event) for event in events] == lines
    assert list(check(events)) == []


def test_links_between_the_docs_lead_somewhere():
    for page in [*PAGES, ROOT / "ARCHITECTURE.md"]:
        for link in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / link).exists(), f"{page.name} links to {link}"


def test_every_path_that_the_architecture_names_exists():
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    for path in set(re.findall(r"`((?:[a-z_]+/)+[a-z_]+\.(?:py|json|md))`", text)):
        assert any((base / path).exists() for base in (ROOT, ROOT / "src" / "refold")), path


def test_the_architecture_names_every_module_of_the_engines_floor():
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    modules = {path.stem for path in (ROOT / "src" / "refold").glob("*.py")} - {"__init__"}
    assert not {name for name in modules if f"`{name}`" not in text and f"`{name}.py`" not in text}


def targets() -> set[str]:
    """The targets that somebody can ask `make` for, each with a line of help."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    [phony] = re.findall(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)
    return set(phony.split())


def test_every_target_has_its_line_of_help():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert set(re.findall(r'@echo "make (\S+) ', makefile)) == targets() - {"help"}


@pytest.mark.parametrize(
    "page", [*PAGES, ROOT / "ARCHITECTURE.md", ROOT / ".ci" / "run"], ids=lambda page: page.name
)
def test_every_make_command_is_a_target(page):
    text = page.read_text(encoding="utf-8")
    named = re.findall(r"^ *make ([\w-]+)", text, re.MULTILINE)
    named += re.findall(r"`make ([\w-]+)", text)
    assert set(named) <= targets()


def test_the_readme_begins_with_its_two_commands():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    indented = re.findall(r"^ {4}(\S.*?)(?: +#.*)?$", text, re.MULTILINE)
    assert indented == ["make demo", "make test"]
