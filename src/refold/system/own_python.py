"""Python processes of refold itself: the proxy, the hooks' follower, grep, workers of a server.

They run in a user's project, whose files may be named like our modules or dependencies
(`secrets.py`, `httpx.py`) and may be hostile. So no such process imports from a project: Python
does not add the current folder to its module path (`-P`), and variables with folders for modules
lose every entry in the project. Installations in the user's site still work. Programs that the user
asked for, such as an agent, do not start here: they keep their environment. Only modules that
Python has loaded anyway are imported here, because the status line calls this first.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import subprocess

_VARIABLES = ("PYTHONPATH", "PYTHONPYCACHEPREFIX")
_MARKS = (".refold", ".git")  # in the top folder of a project
# The folder that refold was imported from. It is kept even in a project, where a checkout may be.
_HOME = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def start(
    *arguments: str,
    environ: Mapping[str, str] | None = None,
    cwd: str | None = None,
    **options: Any,
) -> subprocess.Popen[bytes]:
    """Starts Python with these arguments, in an environment that leads to no module of a project.
    The options are those of `subprocess.Popen`."""
    import subprocess

    env = environment(os.environ if environ is None else environ, cwd)
    return subprocess.Popen([sys.executable, "-P", *arguments], env=env, cwd=cwd, **options)


def environment(environ: Mapping[str, str], cwd: str | None = None) -> dict[str, str]:
    """The environment without module folders in the current project, or in the project of `cwd`."""
    result = dict(environ)
    for name in _VARIABLES:
        if name in result:
            entries = result.pop(name).split(os.pathsep)
            # Absolute, because the child may start in another folder.
            kept = [_absolute(entry) for entry in entries if not _is_in_project(entry, cwd)]
            if kept:
                result[name] = os.pathsep.join(kept)
    return result


@contextmanager
def safe_spawns() -> Iterator[None]:
    """Makes processes that a library spawns by `multiprocessing` as safe as those of `start`. It
    changes the environment of this process, so start no program of the user meanwhile."""
    changed = (*_VARIABLES, "PYTHONSAFEPATH")
    before = {name: os.environ.pop(name) for name in changed if name in os.environ}
    os.environ.update({**environment(before), "PYTHONSAFEPATH": "1"})
    try:
        yield
    finally:
        for name in changed:
            os.environ.pop(name, None)
        os.environ.update(before)


def leave_project() -> None:
    """Removes the current project from the module path of this process. For the first line of a
    program: modules that are loaded already stay, such as those that Python itself and the script
    `refold` import from a `PYTHONPATH` before they call us."""
    given = os.environ.get(_VARIABLES[0])
    entries = [] if given is None else given.split(os.pathsep)
    in_project = {_absolute(entry) for entry in entries if _is_in_project(entry, None)}
    # `python -m` and `python -c` put the current folder first.
    if not sys.flags.safe_path and sys.path and _absolute(sys.path[0]) == _absolute(""):
        in_project.add(_absolute(""))
    in_project.discard(_HOME)
    sys.path[:] = [entry for entry in sys.path if _absolute(entry) not in in_project]
    if sys.pycache_prefix and _is_in_project(sys.pycache_prefix, None):
        sys.pycache_prefix = None


def _is_in_project(entry: str, cwd: str | None) -> bool:
    """Whether a folder is relative, or lies in the project of the current folder or of `cwd`, by
    its path or where its links lead. The folder of refold itself does not count."""
    path = _absolute(entry)
    if path == _HOME:
        return False
    if not os.path.isabs(entry):
        return True
    for folder in (_absolute(""), cwd or ""):
        if not folder:
            continue
        top = _project(os.path.abspath(folder))
        for place, project in ((path, top), (os.path.realpath(path), os.path.realpath(top))):
            if os.path.join(place, "").startswith(os.path.join(project, "")):
                return True
    return False


def _project(folder: str) -> str:
    """The top of the project that a folder belongs to; the folder itself without a mark."""
    parent, at = "", folder
    while parent != at:
        if any(os.path.exists(os.path.join(at, mark)) for mark in _MARKS):
            return at
        parent, at = at, os.path.dirname(at)
    return folder


def _absolute(entry: str) -> str:
    """The absolute path of an entry; empty in a deleted current folder."""
    try:
        return os.path.abspath(entry)
    except FileNotFoundError:
        return ""
