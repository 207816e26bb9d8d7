"""`refold doctor`: what refold runs on, where it keeps things, why each setting is what it is, and
what to fix.

Every finding is a name and a value; one that needs action carries advice. Secrets are never shown.
Neighbour: `checks` looks at the files and the disk.

What `doctor` finds out about files and disks: who may read them, how much room there is, and
whether SQLite's write-ahead log works.

What `doctor` finds out about the models in use: whether their providers have ended them, or
will soon.

What `doctor` finds that a newer version wrote: kinds of events, edits and blocks that this one
carries and passes over.
"""

from __future__ import annotations

import os
import platform
import shutil
import stat
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import UTC, date, datetime
from importlib.metadata import PackageNotFoundError, version
from itertools import islice
from typing import Any

import apsw
import msgspec
from msgspec import Struct

from refold import __version__
from refold.conversations.listing import meta_of, newest
from refold.core import codec
from refold.core.model import Event
from refold.edges.commands.command import Arguments, Command, Result, Screen, number
from refold.edges.commands.session import Session
from refold.engine.metadata_update import check_config
from refold.errors import Corrupt, RefoldError
from refold.log.trace import conversations, readable
from refold.redaction import redacted
from refold.redaction.values import is_secret_name
from refold.settings.sources import default_store, loaded, remarks, writer_loaded
from refold.stores.protocol import Store
from refold.tokens.models import model_info, retirement, table

FREE_BYTES_MIN = 200 * 1024 * 1024
FILE_MODE, FOLDER_MODE = 0o600, 0o700


class Finding(Struct, frozen=True, kw_only=True):
    """Something about this installation; `advice` says what to do if it is not as it should be."""

    name: str
    value: str
    advice: str = ""


def file_findings(path: str) -> Iterator[Finding]:
    """Who may read the files of a store. The folder is ours to judge only where we made it."""
    if not os.path.exists(path):
        yield Finding(name="file", value=f"{path} is made by the first append")
        return
    for name in (path, f"{path}-wal", f"{path}-shm"):
        yield from _mode_findings(name, FILE_MODE)
    folder = os.path.dirname(path)
    yield from _mode_findings(os.path.join(folder, "artifacts"), FOLDER_MODE)
    if os.path.basename(folder) == ".refold":
        yield from _mode_findings(folder, FOLDER_MODE)


def _mode_findings(path: str, wanted: int) -> Iterator[Finding]:
    """The mode of a file, if it exists."""
    if not os.path.exists(path):
        return
    mode = stat.S_IMODE(os.stat(path).st_mode)
    is_open = mode & ~wanted & 0o777
    advice = f"others can read it: chmod {wanted:o} '{path}'" if is_open else ""
    yield Finding(name=path, value=f"mode {mode:04o}", advice=advice)


def disk_findings(path: str) -> Iterator[Finding]:
    """Whether there is room where a store is, and whether it can be written to."""
    folder = _existing_folder(path)
    free_bytes = shutil.disk_usage(folder).free
    advice = "free some space" if free_bytes < FREE_BYTES_MIN else ""
    yield Finding(name="free space", value=f"{free_bytes / 1e9:.1f} GB", advice=advice)
    if not os.access(folder, os.W_OK | os.X_OK):
        advice = "only reading works: check the owner and the mode of the folder"
        yield Finding(name="writable", value=f"no: {folder}", advice=advice)
        return
    yield Finding(name="writable", value="yes")
    fault = wal_fault(folder)
    advice = "put the store on a local disk with --store" if fault else ""
    yield Finding(name="WAL", value=fault or "works here", advice=advice)


def _existing_folder(path: str) -> str:
    """The folder of a file, or the nearest one above it that exists."""
    folder = os.path.dirname(path)
    while not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    return folder


def wal_fault(folder: str) -> str:
    """Why SQLite's write-ahead log does not work in a folder; empty if it does. Tried, because
    nothing else tells."""
    try:
        with tempfile.TemporaryDirectory(dir=folder, prefix=".refold-doctor-") as scratch:
            mode = _journal_mode(os.path.join(scratch, "probe.db"))
    except (apsw.Error, OSError) as error:
        return str(error)
    return "" if mode == "wal" else f"SQLite uses {mode} instead"


def _journal_mode(path: str) -> str:
    """The journal mode that SQLite really uses for a new file when asked for WAL."""
    connection = apsw.Connection(path)
    try:
        mode = connection.pragma("journal_mode", "wal")
        connection.execute("CREATE TABLE probe(x); INSERT INTO probe VALUES (1)")
    finally:
        connection.close()
    return str(mode)


PACKAGES = ("msgspec", "apsw", "click", "rich", "httpx")
SQLITE_MIN = (3, 51, 3)
MASK = "[redacted secret]"

Section = dict[str, str]


class Diagnosis(Result, frozen=True, kw_only=True):
    """Sections of names and values; `problems` are the findings that need action."""

    ok: bool
    versions: Section
    store: Section
    configuration: Section
    models: Section
    terminal: Section
    problems: tuple[Finding, ...]

    @property
    def outcome(self) -> str:
        return "ok" if self.ok else "error"


def run_doctor(session: Session, arguments: Arguments) -> Diagnosis:
    sections = {
        "versions": list(_versions()),
        "store": list(_store(session)),
        "configuration": list(_configuration()),
        "models": list(_models(session)),
        "terminal": list(_terminal(session.screen)),
    }
    problems = [one for findings in sections.values() for one in findings if one.advice]
    values = {name: _section(findings) for name, findings in sections.items()}
    return Diagnosis(ok=not problems, **values, problems=tuple(problems))


def _section(findings: Iterable[Finding]) -> Section:
    return {found.name: found.value for found in findings}


# --- what it runs on ---


def _versions() -> Iterator[Finding]:
    system = f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    yield Finding(name="refold", value=__version__)
    yield Finding(name="Python", value=system)
    yield _sqlite_version()
    for name in PACKAGES:
        yield _package_version(name)


def _sqlite_version() -> Finding:
    sqlite = apsw.sqlite_lib_version()
    is_old = tuple(int(part) for part in sqlite.split(".")) < SQLITE_MIN
    advice = "it may damage a WAL file: install apsw 3.51.3 or newer" if is_old else ""
    return Finding(name="SQLite", value=sqlite, advice=advice)


def _package_version(name: str) -> Finding:
    try:
        return Finding(name=name, value=version(name))
    except PackageNotFoundError:
        return Finding(name=name, value="not installed", advice=f"pip install {name}")


def _models(session: Session) -> Iterator[Finding]:
    known = table()
    yield Finding(name="table", value=f"{len(known.models):,} models, as of {known.as_of}")
    # A store that cannot be read is a finding of its own.
    with suppress(RefoldError):
        store = session.open_store(session.store_url or default_store(), creates=True)
        yield from model_findings(store, datetime.now(UTC).date())


def _terminal(screen: Screen | None) -> Iterator[Finding]:
    if screen is None:
        return
    characters = "UTF-8" if screen.is_utf8 else "ASCII only, as the locale is not UTF-8"
    yield Finding(name="characters", value=characters)
    yield Finding(name="color", value="yes" if screen.has_color else "no")


# --- the store ---


def _store(session: Session) -> Iterator[Finding]:
    asked = session.store_url
    yield Finding(name="url", value=f"{redacted(asked or default_store())} ({_origin(asked)})")
    try:
        store = session.open_store(asked or default_store(), creates=True)
        store.conversations(limit=1)
        newer = list(newer_findings(store))
        # The files are looked at as they lie when nobody has the store open.
        session.close()
    except RefoldError as error:
        advice = error.hint or "refold verify"
        yield Finding(name="opens", value=redacted(error.message), advice=advice)
        return
    yield Finding(name="opens", value="yes")
    yield from newer
    path = getattr(store, "path", "")
    if path:
        yield from file_findings(path)
        yield from disk_findings(path)


def _origin(asked: str | None) -> str:
    if asked:
        return "--store"
    return "REFOLD_STORE" if os.environ.get("REFOLD_STORE") else "this project"


# --- the configuration ---


def _configuration() -> Iterator[Finding]:
    try:
        config, origins = loaded()
    except RefoldError as error:
        yield _fault(error)
        return
    for name in config.__struct_fields__:
        shown = msgspec.json.encode(without_secrets(getattr(config, name))).decode()
        yield Finding(name=name, value=f"{shown} ({origins.get(name, 'default')})")
    for remark in remarks():
        yield Finding(name="not followed", value=remark)
    try:
        check_config(config)
    except RefoldError as error:
        yield _fault(error)


def _fault(error: RefoldError) -> Finding:
    """What is wrong with the settings."""
    advice = error.hint or "fix the file or the variable that it names"
    return Finding(name="settings", value=error.message, advice=advice)


def without_secrets(value: Any, name: str = "") -> Any:
    """The value with every secret in it masked, and every text whose name says that it is one."""
    match value:
        case dict():
            return {key: without_secrets(item, str(key)) for key, item in value.items()}
        case list() | tuple():
            return [without_secrets(item, name) for item in value]
        case str():
            return MASK if is_secret_name(name) else redacted(value)
        case _:
            return value


# --- shown ---


def show_doctor(diagnosis: Diagnosis, screen: Screen) -> None:
    marked = {(problem.name, problem.value) for problem in diagnosis.problems}
    for name in ("versions", "store", "configuration", "models", "terminal"):
        screen.line(("bold", name))
        for found in getattr(diagnosis, name).items():
            mark = ("red", "! ") if found in marked else "  "
            screen.line(mark, f"{found[0]}: {found[1]}")
    for problem in diagnosis.problems:
        screen.line(("yellow", f"{problem.name}: "), problem.advice)
    if diagnosis.ok:
        screen.line(("green", "No problems found."))
    else:
        screen.line(("yellow", f"{number(len(diagnosis.problems), 'problem')} found."))


DOCTOR = Command(
    name="doctor",
    details="Looks at versions, the files of the store, the disk, and the configuration with the "
    "origin of each value.",
    on="store",
    arguments=Arguments,
    run=run_doctor,
    show=show_doctor,
)


CONVERSATIONS_MAX = 100
ADVICE = "choose another model for the conversation, or for the writer"


def model_findings(store: Store, today: date) -> Iterator[Finding]:
    """Every model of the newest conversations, and of the writer, that retires."""
    for name in sorted(_models_in_use(store)):
        model = model_info(name)
        if state := retirement(model, today):
            verb = "retired on" if state == "retired" else "retires on"
            yield Finding(name=name, value=f"{verb} {model.retires}; {ADVICE}")


def _models_in_use(store: Store) -> set[str]:
    names = {meta_of(store, about).model or "" for about in newest(store)[:CONVERSATIONS_MAX]}
    with suppress(RefoldError):
        # A writer that is not allowed or not valid is told about elsewhere.
        names.add(writer_loaded().model)
    return names - {""}


EVENTS_MAX = 100_000
NAMED_MAX = 20
NEWER_CHECK_ADVICE = (
    "a newer version of refold wrote it and this one passes over it: upgrade refold"
)


def newer_findings(store: Store) -> Iterator[Finding]:
    """The first places where a newer version wrote what this one does not know."""
    for where, what in islice(_unknown(store), NAMED_MAX):
        yield Finding(name=where, value=f"unknown {what}", advice=NEWER_CHECK_ADVICE)


def _unknown(store: Store) -> Iterator[tuple[str, str]]:
    for id, event in islice(_events(store), EVENTS_MAX):
        if _is_known(event):
            continue
        for name in codec.unknown_in(event):
            yield f"{id} #{event.seq}", name


def _events(store: Store) -> Iterator[tuple[str, Event]]:
    try:
        for about in conversations(store):
            for event in readable(store, about):
                # What is damaged is for `verify` to say.
                if not isinstance(event, Corrupt):
                    yield about.id, event
    except RefoldError:
        return


def _is_known(event: Event) -> bool:
    """Whether the body is one of ours, or no JSON at all."""
    if event.erased:
        return event.kind in codec.KINDS
    try:
        codec.body_of(event.kind, event.body)
    except (KeyError, msgspec.ValidationError):
        return False
    except (msgspec.DecodeError, ValueError, RecursionError):
        return True
    return True
