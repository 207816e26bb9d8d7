"""Files by which other programs are set up: read, shown with a change, and written.

Only what is ours is ever changed, and only once it was shown and agreed to. A file is written whole
or not at all, and not if somebody changed it meanwhile; what is not understood is left as it is. A
file that we made goes once nothing is left in it.
Neighbours: `servers` and `hooks.settings_file` say what changes, their commands ask.
"""

from __future__ import annotations

import contextlib
import difflib
import json
import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any

from refold.errors import Conflict, Invalid
from refold.system.disk import os_failure

FILE_BYTES_MAX = 4_000_000
MEND = "mend the file first"
_NOTHING = ("", "{}")

Settings = dict[str, Any]


def program(*, is_shared: bool = False) -> str:
    """How refold is called from anywhere: by its whole path, because others have another PATH; by
    its name in a file that others use too, who have it elsewhere."""
    if is_shared:
        return "refold"
    here = Path(sys.argv[0])
    beside = Path(sys.executable).parent / "refold"
    named = [here] if here.name == "refold" else []
    for path in (*named, beside, Path(shutil.which("refold") or "")):
        if path.is_file() and os.access(path, os.X_OK):
            return os.path.abspath(path)
    raise Invalid("the program refold is not found", hint="install refold, or put it on the PATH")


def read(path: Path) -> bytes:
    """The bytes of a file; none if there is no file."""
    try:
        with path.open("rb") as file:
            raw = file.read(FILE_BYTES_MAX + 1)
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise os_failure(error, f"read {path}") from error
    if len(raw) > FILE_BYTES_MAX:
        raise Invalid(f"{path} has more than {FILE_BYTES_MAX:,} bytes", hint="change it by hand")
    return raw


def json_in(raw: bytes, path: Path) -> Settings:
    """The object that a file holds; an empty one for an empty file."""
    try:
        settings = json.loads(raw) if raw.strip() else {}
    except (ValueError, RecursionError) as error:
        raise Invalid(f"{path} is not JSON: {error}", hint=MEND) from error
    if not isinstance(settings, dict):
        raise Invalid(f"{path} holds no object", hint=MEND)
    return settings


def json_text(settings: Settings, raw: bytes) -> str:
    """The settings as they are written: indented as they were, or on one line if they were."""
    end = "" if raw and not raw.endswith(b"\n") else "\n"
    if raw.strip() not in (b"", b"{}") and b"\n" not in raw.strip():
        separators = (", ", ": ") if b'": ' in raw else (",", ":")
        return json.dumps(settings, separators=separators, ensure_ascii=False) + end
    found = re.search(rb"^([ \t]+)\S", raw, re.MULTILINE)
    indent = found[1].decode() if found else "  "
    return json.dumps(settings, indent=indent, ensure_ascii=False) + end


def difference(before: bytes, after: str, name: str) -> list[str]:
    """The lines that change, as a patch shows them."""
    old = before.decode("utf-8", "replace").splitlines()
    new = after.splitlines()
    return list(difflib.unified_diff(old, new, name, name, lineterm="", n=2))


def write(path: Path, before: bytes, after: str) -> None:
    """Writes the file, unless it is no longer what it was; deletes it if it was made by us and
    nothing is left in it. A link stays one."""
    target = Path(os.path.realpath(path))
    if read(target) != before:
        raise Conflict(f"{path} was changed in the meantime", hint="do it again")
    if after.strip() in _NOTHING and _is_our_work(before, path):
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise os_failure(error, f"delete {path}") from error
        return
    made = target.with_name(f"{target.name}.{os.getpid()}.new")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        mode = target.stat().st_mode & 0o777 if target.exists() else 0o644
        with open(os.open(made, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "w") as file:
            file.write(after)
        os.replace(made, target)
    except OSError as error:
        with contextlib.suppress(OSError):
            made.unlink()
        raise os_failure(error, f"write {path}") from error


def _is_our_work(before: bytes, path: Path) -> bool:
    """Whether the file is to the byte what we write where there was none. A file of somebody who
    had nothing in it either is like it, and says as much as no file."""
    if path.is_symlink():
        return False
    is_json = path.suffix == ".json"
    return not is_json or json_text(json_in(before, path), b"").encode() == before
