"""No Python process of refold's own imports from a project; what the user asked for may."""

from __future__ import annotations

import ast
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tomllib
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import refold
from refold.edges.chat import tools
from refold.edges.chat.loop import Interrupts
from refold.edges.proxy.serve import ProxySettings
from refold.edges.proxy.supervisor import Supervisor
from refold.stores import open_store
from refold.system import own_python
from tests.edges.hooks.inputs import SESSION, Transcript, bash
from tests.poison import REFOLD, environment, loaded_first, names, poisoned
from tests.waiting import until

SOURCE = Path(refold.__file__).parent
# Modules that start processes, and what of others does.
STARTERS = ("subprocess", "multiprocessing", "pty", "runpy", "concurrent.futures.process")
CALLS = (
    "asyncio.create_subprocess_exec asyncio.create_subprocess_shell sys.executable os.system "
    "os.popen os.fork os.forkpty os.startfile concurrent.futures.ProcessPoolExecutor"
)
MENTION = re.compile(r"\b(subprocess|multiprocessing|pty|runpy|asyncio|executable|os|concurrent)\b")
HARMLESS = {
    *("subprocess.Popen[bytes]", "subprocess.DEVNULL", "subprocess.PIPE", "subprocess.STDOUT"),
    *("subprocess.TimeoutExpired", "subprocess.SubprocessError"),
    "multiprocessing.parent_process",
}
ALLOWED = {
    ("system/own_python.py", "subprocess.Popen"): "the one way to start Python",
    ("system/own_python.py", "sys.executable"): "the one way to start Python",
    ("edges/proxy/supervisor.py", "subprocess.Popen"): "the agent that the user asked for",
    ("edges/chat/tools.py", "subprocess.Popen"): "a command that the user allowed in a chat",
    (
        "edges/host_config.py",
        "sys.executable",
    ): "the folder of the program refold; nothing is started",
}


def starters_in(path: Path) -> Iterator[str]:
    """Every name in a file by which a process could be started, types and constants aside."""
    text = path.read_text(encoding="utf-8")
    if not MENTION.search(text):
        return
    tree = ast.parse(text)
    types = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Subscript)}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                if is_starter(name):
                    yield name
        elif isinstance(node, ast.Import):
            yield from (
                one.name for one in node.names if one.asname and is_starter(one.name + ".x")
            )
        elif isinstance(node, ast.Attribute):
            name = ast.unparse(node)
            shown = f"{name}[bytes]" if id(node) in types else name
            if is_starter(name) and shown not in HARMLESS:
                yield name


def is_starter(name: str) -> bool:
    return (
        name.rpartition(".")[0] in STARTERS
        or name in CALLS.split()
        or name.startswith(("os.exec", "os.spawn", "os.posix_spawn"))
    )


def test_only_one_function_starts_python_and_every_other_start_has_a_reason() -> None:
    found = {
        (str(path.relative_to(SOURCE)), name)
        for path in SOURCE.rglob("*.py")
        for name in starters_in(path)
    }
    assert found == set(ALLOWED)


@pytest.mark.parametrize(
    "line",
    [
        "subprocess.run(['python'])", "subprocess.check_output('x')", "from subprocess import Popen",
        "os.execvpe('python', [], {})", "os.posix_spawn('x', [], {})", "os.spawnlp(0, 'x')", "os.fork()",
        "import subprocess as sp", "multiprocessing.Process()", "from multiprocessing import Pool",
        "from concurrent.futures import ProcessPoolExecutor", "asyncio.create_subprocess_exec('x')",
        "pty.spawn('x')", "runpy.run_path('x')", "print(sys.executable)", "os.system('x')",
    ],
)  # fmt: skip
def test_every_way_to_start_a_process_would_be_found(line: str, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(line)
    assert list(starters_in(tmp_path / "a.py"))


# --- the children ---


class Project:
    """A project with such files in it, and a user who works there."""

    def __init__(self, root: Path, kind: str, module_path: str) -> None:
        self.folder, self.marks = root / "project", root / "marks"
        self.inner = self.folder / "lib"
        self.inner.mkdir(parents=True)
        (self.folder / ".git").mkdir()
        entries = {"": "", "in the project": f"{self.folder}:{self.inner}:.:lib::{root}/none"}
        self.module_path = entries[module_path]
        if kind == "hostile":
            # What is loaded before refold runs is in the hands of whoever set the variable.
            without = loaded_first() if module_path else frozenset()
            for folder in (self.folder, self.inner):
                poisoned(folder, self.marks, without=without)
        else:
            for name in ("secrets", "httpx", "msgspec"):
                (self.folder / f"{name}.py").write_text("API_KEY = 'of this project'\n")
        self.environ = environment(root / "home")
        if module_path:
            self.environ["PYTHONPATH"] = self.module_path

    def run(self, *command: str, given: bytes = b"", status: int = 0) -> str:
        done = subprocess.run(
            command, input=given, capture_output=True, cwd=self.folder, env=self.environ, timeout=60
        )
        assert (done.returncode, self.ran) == (status, []), (command, done.stderr.decode())
        return done.stdout.decode()

    @property
    def ran(self) -> list[str]:
        """The modules of the project that were imported."""
        return self.marks.read_text().split() if self.marks.exists() else []


FILES = (".mcp.json", ".cursor/mcp.json")
HOSTILE, ON_PATH, INNOCENT = (
    ("hostile", ""),
    ("hostile", "in the project"),
    ("innocent", "in the project"),
)


def of(*kinds: tuple[str, str]) -> pytest.MarkDecorator:
    ids = [" ".join(kind).strip() for kind in kinds]
    return pytest.mark.parametrize("project", kinds, ids=ids, indirect=True)


@pytest.fixture
def project(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Project:
    made = Project(tmp_path, *request.param)
    monkeypatch.chdir(made.folder)
    for name in ("XDG_DATA_HOME", "XDG_STATE_HOME", "CLAUDE_PROJECT_DIR", "CLAUDE_CONFIG_DIR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in made.environ.items():
        monkeypatch.setenv(name, value)
    return made


def test_the_names_are_those_of_all_dependencies_and_of_forty_standard_modules() -> None:
    standard = set(names()) & set(sys.stdlib_module_names)
    assert len(standard) > 40 and {"msgspec", "httpx", "uvicorn", "mcp", "secrets"} <= set(names())
    # Enough of them are left where a module path leads into the project.
    assert len(standard - loaded_first()) > 40


@of(HOSTILE, ON_PATH)
def test_a_command_imports_nothing_of_the_project(project: Project) -> None:
    talk = project.folder / "talk.json"
    talk.write_text('[{"role": "user", "content": "hello"}]')
    project.run(REFOLD, "import", "talk.json")
    listed = json.loads(project.run(sys.executable, "-P", "-m", "refold", "list", "--json"))
    assert "hello" in json.dumps(listed)


@of(HOSTILE, INNOCENT)
def test_an_agent_runs_behind_its_proxy_with_its_own_environment(project: Project) -> None:
    code = (
        "import os, sys, urllib.request as calls\n"
        "print('path', os.environ.get('PYTHONPATH', ''), 'PYTHONSAFEPATH' in os.environ)\n"
        "base = os.environ['OPENAI_BASE_URL']\n"
        "print('ready', calls.urlopen(base.rpartition('/')[0] + '/refold/ready').status)\n"
    )
    shown = project.run(REFOLD, "run", sys.executable, "-E", "-P", "-c", code)
    assert f"path {project.module_path} False" in shown
    assert "ready 200" in shown


@of(ON_PATH)
def test_python_can_be_told_to_load_nothing_first_from_a_module_path(project: Project) -> None:
    """With all names poisoned, also those that Python and pip's script load before refold runs."""
    for folder in (project.folder, project.inner):
        poisoned(folder, project.marks)
        (folder / "encodings").mkdir()
        (folder / "encodings" / "__init__.py").write_text("raise SystemExit(9)\n")
    code = "import os; print('path', os.environ['PYTHONPATH'])"
    own, agent = (sys.executable, "-E", "-P"), (sys.executable, "-E", "-P", "-c", code)
    shown = project.run(*own, "-m", "refold", "run", *agent)
    assert f"path {project.module_path}" in shown
    project.run(*own, "-m", "refold", "list")


@of(ON_PATH)
def test_a_restarted_proxy_imports_nothing_of_the_project(project: Project) -> None:
    supervisor = Supervisor(ProxySettings(store=f"sqlite:{project.folder}/x.db"))
    try:
        assert supervisor.is_ready()
        first = supervisor.process.pid
        supervisor.process.kill()
        until(lambda: supervisor.process.pid != first)
        assert supervisor.is_ready() and project.ran == []
    finally:
        supervisor.stop()


@of(ON_PATH, INNOCENT)
def test_the_command_lines_in_host_files_import_nothing_of_the_project(project: Project) -> None:
    for words in ("claude-code --hooks", "claude-code", "cursor", "codex --scope user"):
        project.run(REFOLD, "install", *words.split(), "--yes")
    settings = json.loads((project.folder / ".claude" / "settings.local.json").read_text())
    line = json.dumps({"session_id": SESSION, "cwd": str(project.folder), "model": {"id": "m"}})
    project.run("/bin/sh", "-c", settings["statusLine"]["command"], given=line.encode())
    Transcript(project.folder).say("user", "Run the tests.")
    [hook] = settings["hooks"]["PostToolUse"][0]["hooks"]
    event = json.dumps(bash("a line\n" * 9_000, project.folder)).encode()
    assert "artifact://" in project.run("/bin/sh", "-c", hook["command"], given=event)
    # The follower runs after its parent ended.
    database = project.folder / ".refold" / "refold.db"
    until(lambda: project.ran or (database.exists() and heads(database)))
    assert project.ran == []
    codex = Path(project.environ["HOME"]) / ".codex" / "config.toml"
    servers = [
        *(
            json.loads((project.folder / name).read_text())["mcpServers"]["refold"]
            for name in FILES
        ),
        tomllib.loads(codex.read_text())["mcp_servers"]["refold"],
    ]
    # Its package may be missing here; `tests/real/mcp` talks to it.
    status = 0 if find_spec("mcp") else 8
    for command, *words in {(one["command"], *one["args"]) for one in servers}:
        project.run(command, *words, "--check", status=status)


def heads(database: Path) -> list[int]:
    with closing(open_store(f"sqlite:{database}", read_only=True)) as store:
        return [one.head for one in store.conversations()]


@of(HOSTILE, ON_PATH, INNOCENT)
def test_a_search_process_imports_nothing_of_the_project(project: Project) -> None:
    with refold.open("x", store="memory:") as context:
        artifact = context.artifacts.put("one\ntwo\nthree\n", name="numbers")
        assert context.artifacts.grep("t[wh]", artifact.id, regex=True)
    assert project.ran == []


@of(HOSTILE)
def test_workers_of_a_server_import_nothing_of_the_project(project: Project) -> None:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    team = f"sqlite:{project.folder.parent}/team"
    project.run(REFOLD, "token", "create", "--org", "us", "--store", team)
    command = [REFOLD, "serve", "--workers", "2", "--port", str(port), "--store", team]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def answers() -> bool:
        assert server.poll() is None and project.ran == []
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=10) as reply:
                return bool(reply.status == 200)
        except OSError:
            return False

    try:
        until(answers)
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(60)
    assert project.ran == []


# --- environments ---


def test_a_command_allowed_in_a_chat_keeps_the_module_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", "src:.")
    ran = tools.run("echo $PYTHONPATH$PYTHONSAFEPATH", tmp_path, wait_s=60, interrupts=Interrupts())
    assert ran.output == "src:."


def test_installations_in_the_users_site_still_work(tmp_path: Path) -> None:
    """With the system's Python, to which all packages are known by a `.pth` file only."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    site = tmp_path / "home" / ".local" / "lib" / version / "site-packages"
    site.mkdir(parents=True)
    packages = [entry for entry in sys.path if entry.endswith("-packages")]
    (site / "all.pth").write_text("\n".join([str(SOURCE.parent), *packages]))
    (site / "only_here.py").write_text("")
    poisoned(tmp_path, tmp_path / "marks")
    child = "import refold.engine.context, msgspec, only_here"
    code = f"from refold.system.own_python import start; raise SystemExit(start('-c', {child!r}).wait())"
    python = os.path.realpath(sys.executable)
    done = subprocess.run(
        [python, "-P", "-c", code], cwd=tmp_path, env=environment(tmp_path / "home"), timeout=60
    )
    assert done.returncode == 0 and not (tmp_path / "marks").exists()


PLACES = ["", ".", "lib", "./lib", "..", "{top}", "{top}/sub", "{top}/sub/../lib", "{top}/link",
          "{linked}", "{linked}/lib", "{out}", "{out}/lib", "{top}-beside", "{home}"]  # fmt: skip


@given(
    entries=st.lists(st.sampled_from(PLACES), max_size=6),
    here=st.sampled_from(["{top}", "{top}/sub", "{linked}/sub"]),
    mark=st.sampled_from([".git", ".refold"]),
)
def test_no_module_path_leads_into_the_project_and_no_other_is_lost(
    entries: list[str], here: str, mark: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    root = Path(os.path.realpath(tmp_path_factory.mktemp("x")))
    top, out = root / "top", root / "out"
    for folder in (top / mark, top / "sub", top / "lib", out / "lib", root / "top-beside"):
        folder.mkdir(parents=True)
    (root / "linked").symlink_to(top)
    (out / "in").symlink_to(top / "lib")
    places = {"top": top, "out": out, "linked": root / "linked", "home": SOURCE.parent}
    filled = [one.format(**places) for one in [*entries, "{out}/in"]]
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(here.format(**places))
        result = own_python.environment({"PYTHONPATH": os.pathsep.join(filled), "X": "1"})
    kept = result.pop("PYTHONPATH", "").split(os.pathsep)
    outside = {f"{out}", f"{out}/lib", f"{top}-beside", f"{SOURCE.parent}"}
    assert [one for one in kept if one] == [one for one in filled if one in outside]
    assert result == {"X": "1"}


def test_a_relative_folder_of_refold_itself_is_kept_for_a_child_elsewhere(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(SOURCE.parent.parent)
    kept = own_python.environment({"PYTHONPATH": SOURCE.parent.name}, str(tmp_path))
    assert kept == {"PYTHONPATH": str(SOURCE.parent)}


@of(INNOCENT)
def test_compiled_files_of_the_project_are_not_read(project: Project) -> None:
    code = "import sys; from refold.system.own_python import leave_project as leave; leave(); print(sys.pycache_prefix)"
    for folder, kept in ((project.folder / "cache", None), (project.folder.parent / "cache",) * 2):
        project.environ["PYTHONPYCACHEPREFIX"] = str(folder)
        assert project.run(sys.executable, "-P", "-c", code).strip() == str(kept)
