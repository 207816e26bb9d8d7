"""The MCP server goes into the configuration of an agent and out again, and nothing else changes."""

from __future__ import annotations

import json
import os
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.edges.hooks import state
from refold.edges.host_config import JSON_SERVERS, NAME, TOML_SERVERS, changed, place_of
from refold.errors import Invalid
from tests.edges.cli.rooms import run

ENTRY = {"command": "/bin/refold", "args": ["mcp", "--store", 'sqlite:a "b"\\c.db']}
JSON, TOML = Path("mcp.json"), Path("config.toml")
HOSTS = ["claude-code", "codex", "cursor"]
CODEX = """# how I like it
model = "gpt-5"   # the large one

[mcp_servers.other]
command = "other"

[profiles.fast]
model = "gpt-5-mini"
"""

names = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=6)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | names,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=6,
)
servers = st.dictionaries(names.filter(lambda name: name != NAME), values, min_size=1, max_size=3)
settings = st.tuples(
    st.dictionaries(names.filter(lambda name: name != JSON_SERVERS), values, max_size=3),
    st.none() | servers,
).map(lambda two: {**two[0], **({JSON_SERVERS: two[1]} if two[1] else {})})


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")


FORMS = [
    {"indent": 2},
    {"indent": "\t"},
    {"separators": (",", ":")},
    {"separators": (", ", ": ")},
]


@given(settings.filter(bool), st.sampled_from(FORMS), st.sampled_from(["", "\n"]))
def test_json_comes_back_byte_for_byte_in_its_own_form(before, form, end):
    raw = (json.dumps(before, ensure_ascii=False, **form) + end).encode()
    made = changed(raw, JSON, ENTRY)
    again = changed(made.encode(), JSON, None).encode()
    if b": " in raw or b"\n" in raw.strip() or ":" not in raw.decode():
        assert again == raw
    assert json.loads(again) == before


@given(settings)
def test_json_comes_back_as_it_was_and_the_rest_stays(before):
    raw = json.dumps(before, indent=2).encode()
    made = changed(raw, JSON, ENTRY)
    after = json.loads(made)
    assert after[JSON_SERVERS].pop(NAME) == ENTRY
    assert {**after, JSON_SERVERS: after[JSON_SERVERS] or None} == {JSON_SERVERS: None, **before}
    assert changed(made.encode(), JSON, ENTRY) is None
    assert json.dumps(json.loads(changed(made.encode(), JSON, None))) == json.dumps(before)


keys = st.from_regex(r"[a-z][a-z0-9_-]{0,5}", fullmatch=True)
tables = st.lists(
    keys.filter(lambda key: key not in (TOML_SERVERS, "top")), unique=True, max_size=3
)


@given(tables, st.booleans(), st.sampled_from(["\n", "\n\n", ""]), names)
def test_toml_comes_back_as_it_was_with_its_comments(tables, has_others, end, text):
    parts = ["# mine\ntop = 1  # why"]
    parts += [f"[{name}]\nx = {json.dumps(text, ensure_ascii=False)} # {name}" for name in tables]
    parts += ["[mcp_servers.other]\ncommand = 'x'"] if has_others else []
    before = "\n\n".join(parts) + end
    made = changed(before.encode(), TOML, ENTRY)
    read = tomllib.loads(made)
    assert read[TOML_SERVERS].pop(NAME) == ENTRY
    assert made.startswith(before.rstrip())
    assert changed(made.encode(), TOML, ENTRY) is None
    again = changed(made.encode(), TOML, None)
    assert again.rstrip() == before.rstrip()


def test_another_entry_takes_the_place_of_the_first():
    other = {"command": "/other/refold", "args": ["mcp"]}
    made = changed(changed(CODEX.encode(), TOML, other).encode(), TOML, ENTRY)
    assert tomllib.loads(made)[TOML_SERVERS][NAME] == ENTRY
    assert made.count(f"[{TOML_SERVERS}.{NAME}]") == 1
    assert "# how I like it" in made and "[profiles.fast]" in made


def test_a_table_between_others_is_taken_out_alone():
    table = '[mcp_servers.refold]\ncommand = "refold"\nargs = ["mcp"]\n\n'
    text = CODEX.replace("[profiles.fast]", table + "[profiles.fast]")
    assert tomllib.loads(changed(text.encode(), TOML, None)) == tomllib.loads(CODEX)


@pytest.mark.parametrize(
    "text",
    [
        '[mcp_servers]\nrefold = {command = "x"}\n',
        'mcp_servers.refold.command = "x"\n',
        "mcp_servers = 3\n",
        "not toml",
        "[mcp_servers.refold.env]\nA = '1'\n",
    ],
)
def test_what_is_written_in_another_way_is_told_and_left(text, tmp_path):
    with pytest.raises(Invalid):
        changed(text.encode(), TOML, ENTRY)


@pytest.mark.parametrize("host", HOSTS)
def test_installing_twice_and_uninstalling(host):
    path = place_of(host, "user" if host == "codex" else "project")
    assert run("install", host, "--yes", "--store", "sqlite:a.db").exit_code == 0
    made = path.read_bytes()
    assert b"sqlite:a.db" in made
    is_shared = host != "codex"
    assert (b'"refold"' in made.replace(b'"refold":', b"")) == is_shared
    again = run("install", host, "--yes", "--store", "sqlite:a.db")
    assert "has the server already" in again.stdout
    assert path.read_bytes() == made
    assert run("install", host, "--remove", "--yes").exit_code == 0
    assert not path.exists()
    assert "has no server" in run("install", host, "--remove", "--yes").stdout
    assert not Path("a.db").exists()


@pytest.mark.parametrize("host", HOSTS)
def test_a_file_that_somebody_else_put_something_into_stays(host):
    path = place_of(host, "user" if host == "codex" else "project")
    run("install", host, "--yes")
    own = "model = 'o4'\n" if path.suffix == ".toml" else '{"theirs": 1,'
    text = path.read_text()
    path.write_text(own + (text if path.suffix == ".toml" else text[1:]))
    assert run("install", host, "--remove", "--yes").exit_code == 0
    left = path.read_text()
    assert "refold" not in left
    assert "o4" in left or json.loads(left) == {"theirs": 1}


@pytest.mark.parametrize("text", ["{}", '{"mcpServers": {}}'])
def test_an_empty_file_in_words_of_somebody_else_stays(text):
    path = place_of("claude-code", "project")
    path.write_text(text)
    run("install", "claude-code", "--yes")
    run("install", "claude-code", "--remove", "--yes")
    assert json.loads(path.read_text()) == {}


def test_a_link_to_a_file_of_ours_stays_a_link():
    path = place_of("claude-code", "project")
    real = Path("dotfile.json").absolute()
    path.symlink_to(real)
    run("install", "claude-code", "--yes")
    run("install", "claude-code", "--remove", "--yes")
    assert path.is_symlink()
    assert json.loads(real.read_text()) == {}


@pytest.mark.parametrize("words", [("claude-code",), ("cursor",), ("claude-code", "--hooks")])
@pytest.mark.parametrize("is_folder", [False, True])
def test_a_link_out_of_the_project_is_not_written_through_unseen(
    words: tuple[str, ...], is_folder: bool, tmp_path: Path
) -> None:
    path = state.place_of("local") if "--hooks" in words else place_of(words[0], "project")
    linked = path.parent if is_folder else path
    if linked == Path.cwd():
        pytest.skip("the project itself is no link")
    outside = tmp_path.parent / f"{tmp_path.name}-outside"
    outside.mkdir()
    real = outside / path.name
    linked.parent.mkdir(exist_ok=True)
    linked.symlink_to(outside if is_folder else real)
    done = run("install", *words, "--yes")
    assert done.exit_code == 7 and f"to '{real}'" in done.stderr
    assert not any(outside.iterdir())
    asked = run("install", *words)
    assert str(real) in asked.output and not any(outside.iterdir())


@pytest.mark.parametrize("words", [("claude-code",), ("cursor",), ("claude-code", "--hooks")])
def test_no_link_under_a_name_that_can_be_guessed_is_written_through(
    words: tuple[str, ...], tmp_path: Path
) -> None:
    """Every process id could be planted; this is the one that counts."""
    path = state.place_of("local") if "--hooks" in words else place_of(words[0], "project")
    outside = tmp_path.parent / f"{tmp_path.name}-bashrc"
    outside.write_text("the user's own")
    path.parent.mkdir(exist_ok=True)
    planted = [path.with_name(f"{path.name}{end}") for end in (f".{os.getpid()}.new", ".new", "~")]
    for link in planted:
        link.symlink_to(outside)
    assert run("install", *words, "--yes").exit_code == 0
    assert outside.read_text() == "the user's own"
    assert path.is_file() and not path.is_symlink()
    assert set(path.parent.glob(f"{path.name}*")) == {path, *planted}


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o644])
def test_a_file_keeps_its_mode(mode: int) -> None:
    path = place_of("claude-code", "project")
    path.write_text("{}")
    path.chmod(mode)
    run("install", "claude-code", "--yes")
    assert NAME in path.read_text() and path.stat().st_mode & 0o777 == mode


def test_without_anybody_to_ask_nothing_is_changed():
    done = run("install", "cursor")
    assert done.exit_code == 2
    assert "--yes" in done.stderr
    assert not place_of("cursor", "project").exists()


def test_codex_has_no_file_of_a_project():
    done = run("install", "codex", "--scope", "project", "--yes")
    assert done.exit_code == 2
    assert "--scope user" in done.stderr


@pytest.mark.parametrize("text", ["{", "[]", '{"mcpServers": 7}', "// comment\n{}"])
def test_a_file_that_cannot_be_read_is_left_as_it_is(text):
    path = place_of("claude-code", "project")
    path.write_text(text)
    assert run("install", "claude-code", "--yes").exit_code == 2
    assert path.read_text() == text
