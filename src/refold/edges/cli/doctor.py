"""`refold doctor`: what refold runs on, where it keeps things, why each setting is what it is, and
what to mend.

Every finding is a name and a value; one that needs doing something carries the advice. Secrets are
never shown.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import click

from refold.edges.cli.options import command, store_option
from refold.edges.cli.screen import Screen, number

PACKAGES = ("msgspec", "apsw", "click", "rich", "httpx")
SQLITE_MIN = (3, 51, 3)
FREE_BYTES_MIN = 200 * 1024 * 1024
MASK = "***"
_SECRET_NAME = re.compile(r"key|secret|token|passw|credential|auth", re.IGNORECASE)
_URL_PASSWORD = re.compile(r"(?<=//)([^/@\s]*):[^/@\s]*@")


class Finding(NamedTuple):
    """Something about this installation; `advice` says what to do if it is not as it should be."""

    name: str
    value: str
    advice: str = ""


@command("doctor", store_option)
def doctor_(screen: Screen, store: str | None) -> None:
    """Says what to mend in this installation.

    Looks at versions, the files of the store, the disk and the configuration with the origin of
    each value.
    """
    sections = {
        "versions": list(versions()),
        "store": list(store_findings(store)),
        "configuration": list(configuration()),
        "models": list(models()),
        "terminal": list(terminal(screen)),
    }
    problems = [finding for findings in sections.values() for finding in findings if finding.advice]
    if screen.json_output:
        shown = {
            name: {found.name: found.value for found in findings}
            for name, findings in sections.items()
        }
        screen.emit(
            {"ok": not problems, **shown, "problems": [problem._asdict() for problem in problems]}
        )
    else:
        _print(screen, sections, problems)
    if problems:
        raise click.exceptions.Exit(1)


def _print(screen: Screen, sections: Mapping[str, list[Finding]], problems: list[Finding]) -> None:
    for name, findings in sections.items():
        screen.line(("bold", name))
        for found in findings:
            screen.line(("red", "! ") if found.advice else "  ", f"{found.name}: {found.value}")
    for problem in problems:
        screen.line(("yellow", f"{problem.name}: "), problem.advice)
    screen.line(
        ("yellow", f"{number(len(problems), 'thing')} to mend.")
        if problems
        else ("green", "All is well.")
    )


# --- what it runs on ---


def versions() -> Iterator[Finding]:
    import platform
    from importlib.metadata import PackageNotFoundError, version

    import apsw

    from refold import __version__

    yield Finding("refold", __version__)
    yield Finding(
        "Python", f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    )
    sqlite = apsw.sqlite_lib_version()
    is_old = tuple(int(part) for part in sqlite.split(".")) < SQLITE_MIN
    yield Finding(
        "SQLite", sqlite, "it may damage a WAL file: install apsw 3.51.3 or newer" if is_old else ""
    )
    for name in PACKAGES:
        try:
            yield Finding(name, version(name))
        except PackageNotFoundError:
            yield Finding(name, "not installed", f"pip install {name}")


def models() -> Iterator[Finding]:
    from refold.tokens.models import table

    yield Finding("table", f"{len(table().models):,} models, as of {table().as_of}")


def terminal(screen: Screen) -> Iterator[Finding]:
    yield Finding("signs", "UTF-8" if screen.is_utf8 else "ASCII only, as the locale is not UTF-8")
    yield Finding("colour", "yes" if screen.has_colour else "no")


# --- the store ---


def store_findings(url: str | None) -> Iterator[Finding]:
    from refold.errors import RefoldError
    from refold.settings.sources import default_store
    from refold.stores import open_store

    place = url or default_store()
    origin = (
        "--store" if url else "REFOLD_STORE" if os.environ.get("REFOLD_STORE") else "this project"
    )
    yield Finding("url", f"{without_password(place)} ({origin})")
    try:
        store = open_store(place)
        store.conversations(limit=1)
        store.close()
    except RefoldError as error:
        yield Finding("opens", without_password(str(error)), error.hint or "refold verify")
        return
    yield Finding("opens", "yes")
    path = getattr(store, "path", "")
    if path:
        yield from _file_findings(path)
        yield from _disk_findings(path)


def _file_findings(path: str) -> Iterator[Finding]:
    """Who may read the files. The folder is ours to judge only where we made it."""
    folder = os.path.dirname(path)
    if not os.path.exists(path):
        yield Finding("file", f"{path} is made by the first append")
        return
    folders = [os.path.join(folder, "artifacts")] + (
        [folder] if os.path.basename(folder) == ".refold" else []
    )
    places = [(name, 0o600) for name in (path, f"{path}-wal", f"{path}-shm")] + [
        (name, 0o700) for name in folders
    ]
    for name, wanted in places:
        if not os.path.exists(name):
            continue
        mode = stat.S_IMODE(os.stat(name).st_mode)
        is_open = mode & ~wanted & 0o777
        yield Finding(
            name,
            f"mode {mode:04o}",
            f"others can read it: chmod {wanted:o} '{name}'" if is_open else "",
        )


def _disk_findings(path: str) -> Iterator[Finding]:
    import shutil

    folder = os.path.dirname(path)
    while not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    free = shutil.disk_usage(folder).free
    yield Finding(
        "free space", f"{free / 1e9:.1f} GB", "free some space" if free < FREE_BYTES_MIN else ""
    )
    if not os.access(folder, os.W_OK | os.X_OK):
        yield Finding(
            "writable",
            f"no: {folder}",
            "only reading works: check the owner and the mode of the folder",
        )
        return
    yield Finding("writable", "yes")
    fault = wal_fault(folder)
    yield Finding(
        "WAL", fault or "works here", "put the store on a local disk with --store" if fault else ""
    )


def wal_fault(folder: str) -> str:
    """Why SQLite's write-ahead log does not work in a folder; empty if it does. Tried, because
    only that tells."""
    import tempfile

    import apsw

    try:
        with tempfile.TemporaryDirectory(dir=folder, prefix=".refold-doctor-") as scratch:
            connection = apsw.Connection(os.path.join(scratch, "probe.db"))
            try:
                mode = connection.pragma("journal_mode", "wal")
                connection.execute("CREATE TABLE probe(x); INSERT INTO probe VALUES (1)")
            finally:
                connection.close()
    except (apsw.Error, OSError) as error:
        return str(error)
    return "" if mode == "wal" else f"SQLite uses {mode} instead"


# --- the configuration ---


def configuration() -> Iterator[Finding]:
    from refold.errors import RefoldError
    from refold.settings.sources import loaded, remarks

    try:
        config, origins = loaded()
    except RefoldError as error:
        yield Finding(
            "settings", str(error), error.hint or "mend the file or the variable that it names"
        )
        return
    for name in config.__struct_fields__:
        yield Finding(name, f"{_shown(getattr(config, name))} ({origins.get(name, 'default')})")
    for remark in remarks():
        yield Finding("not followed", remark)


def _shown(value: Any) -> str:
    import msgspec

    return msgspec.json.encode(without_secrets(value)).decode()


def without_secrets(value: Any) -> Any:
    """The value with everything masked that is called or looks like a secret."""
    match value:
        case dict():
            return {
                name: MASK
                if isinstance(item, str) and _SECRET_NAME.search(str(name))
                else without_secrets(item)
                for name, item in value.items()
            }
        case list() | tuple():
            return [without_secrets(item) for item in value]
        case str():
            from refold.redaction import redacted

            return redacted(without_password(value))
        case _:
            return value


def without_password(url: str) -> str:
    return _URL_PASSWORD.sub(rf"\1:{MASK}@", url)
