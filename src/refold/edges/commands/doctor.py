"""`refold doctor`: versions, store, disk, settings and models of an installation, and what to fix.

Every finding is a name and a value; one that needs action carries advice. Secrets are masked. The
store is closed before its files are examined.
"""

from __future__ import annotations

import os
import platform
import shutil
import stat
import tempfile
from collections.abc import Iterator
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
from refold.edges.commands.command import Result, Screen, command, number
from refold.edges.commands.session import Session
from refold.engine.metadata_and_config import check_config
from refold.errors import Corrupt, RefoldError
from refold.log.stored_logs import conversations, readable
from refold.redaction import redacted
from refold.redaction.values import is_secret_name
from refold.settings.permissions import is_allowed, trust
from refold.settings.sources import default_store, foreign_writers, loaded, remarks, writer_loaded
from refold.stores.protocol import Store
from refold.system import posix, sqlite_file
from refold.tokens.models import model_info, retirement, table

PACKAGES = ("msgspec", "apsw", "click", "rich", "httpx")
SQLITE_MIN = (3, 51, 3)
FREE_BYTES_MIN = 200 * 1024 * 1024
FILE_MODE, FOLDER_MODE = 0o600, 0o700
CONVERSATIONS_MAX, EVENTS_MAX, NEWER_MAX = 100, 100_000, 20
MASK = "[redacted secret]"

Section = dict[str, str]


class Finding(Struct, frozen=True, kw_only=True):
    """A fact about this installation, with advice if something is wrong."""

    name: str
    value: str
    advice: str = ""


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

    def show(self, screen: Screen) -> None:
        marked = {(problem.name, problem.value) for problem in self.problems}
        for section in ("versions", "store", "configuration", "models", "terminal"):
            screen.line(("bold", section))
            for name, value in getattr(self, section).items():
                mark = ("red", "! ") if (name, value) in marked else "  "
                screen.line(mark, f"{name}: {value}")
        for problem in self.problems:
            screen.line(("yellow", f"{problem.name}: "), problem.advice)
        if self.ok:
            screen.line(("green", "No problems found."))
        else:
            screen.line(("yellow", f"{number(len(self.problems), 'problem')} found."))


@command(
    "doctor",
    details="Looks at versions, the files of the store, the disk, and the configuration with the "
    "origin of each value.",
    on="store",
)
def doctor(session: Session) -> Diagnosis:
    sections = {
        "versions": list(_version_findings()),
        "store": list(_store_findings(session)),
        "configuration": list(_setting_findings()),
        "models": list(_model_table_findings(session)),
        "terminal": list(_terminal_findings(session.screen)),
    }
    problems = [one for findings in sections.values() for one in findings if one.advice]
    values = {
        name: {one.name: one.value for one in findings} for name, findings in sections.items()
    }
    return Diagnosis(ok=not problems, **values, problems=tuple(problems))


def _version_findings() -> Iterator[Finding]:
    yield Finding(name="refold", value=__version__)
    system = f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    yield Finding(name="Python", value=system)
    yield Finding(name="made for", value=posix.SYSTEMS)
    sqlite = apsw.sqlite_lib_version()
    is_old = tuple(int(part) for part in sqlite.split(".")) < SQLITE_MIN
    advice = "it may damage a WAL file: install apsw 3.51.3 or newer" if is_old else ""
    yield Finding(name="SQLite", value=sqlite, advice=advice)
    for name in PACKAGES:
        try:
            yield Finding(name=name, value=version(name))
        except PackageNotFoundError:
            yield Finding(name=name, value="not installed", advice=f"pip install {name}")


def _terminal_findings(screen: Screen | None) -> Iterator[Finding]:
    if screen is None:
        return
    characters = "UTF-8" if screen.is_utf8 else "ASCII only, as the locale is not UTF-8"
    yield Finding(name="characters", value=characters)
    yield Finding(name="color", value="yes" if screen.has_color else "no")


# --- the store ---


def _store_findings(session: Session) -> Iterator[Finding]:
    value, advice = "only you can write here, as far as the system shows", ""
    top, writers = foreign_writers()
    if writers:
        trusts = [trust(top, writer) for writer in writers.values()]
        is_trusted = all(is_allowed(one, os.environ) for one in trusts)
        reasons = "; ".join(f"{writer} can write {path}" for path, writer in writers.items())
        value = f"{reasons} ({'trusted' if is_trusted else 'not used'})"
        advice = "" if is_trusted else f"make it yours, or run refold allow in {top}"
    yield Finding(name="owner", value=value, advice=advice)
    try:
        url = session.store_url or default_store()
    except RefoldError as error:
        yield Finding(name="opens", value=error.message, advice=error.hint)
        return
    by_variable = "REFOLD_STORE" if os.environ.get("REFOLD_STORE") else "this project"
    origin = "--store" if session.store_url else by_variable
    yield Finding(name="url", value=f"{redacted(url)} ({origin})")
    try:
        store = session.open_store(url, creates=True)
        store.conversations(limit=1)
        newer = list(newer_findings(store))
        # An open store may have other files.
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


def newer_findings(store: Store) -> Iterator[Finding]:
    """The first kinds of events, edits and blocks that a newer version wrote."""
    advice = "a newer version of refold wrote it and this one passes over it: upgrade refold"
    unknown = (
        (f"{id} #{event.seq}", name)
        for id, event in islice(_events(store), EVENTS_MAX)
        if not _is_known(event)
        for name in codec.unknown_in(event)
    )
    for where, what in islice(unknown, NEWER_MAX):
        yield Finding(name=where, value=f"unknown {what}", advice=advice)


def _events(store: Store) -> Iterator[tuple[str, Event]]:
    """The readable events of all conversations; damage is reported by `verify`."""
    try:
        for about in conversations(store):
            for event in readable(store, about):
                if not isinstance(event, Corrupt):
                    yield about.id, event
    except RefoldError:
        return


def _is_known(event: Event) -> bool:
    """Whether this version knows the body, or the body is not JSON at all."""
    if event.erased:
        return event.kind in codec.KINDS
    try:
        codec.body_of(event.kind, event.body)
    except (KeyError, msgspec.ValidationError):
        return False
    except (msgspec.DecodeError, ValueError, RecursionError):
        return True
    return True


def file_findings(path: str) -> Iterator[Finding]:
    """The modes of a store's files. The folder is judged only if refold made it."""
    if not os.path.exists(path):
        yield Finding(name="file", value=f"{path} is made by the first append")
        return
    folder = os.path.dirname(path)
    modes = {name: FILE_MODE for name in (path, f"{path}-wal", f"{path}-shm")}
    modes[os.path.join(folder, "artifacts")] = FOLDER_MODE
    if os.path.basename(folder) == ".refold":
        modes[folder] = FOLDER_MODE
    for name, wanted in modes.items():
        if os.path.exists(name):
            mode = stat.S_IMODE(os.stat(name).st_mode)
            is_open = mode & ~wanted & 0o777
            advice = f"others can read it: chmod {wanted:o} '{name}'" if is_open else ""
            yield Finding(name=name, value=f"mode {mode:04o}", advice=advice)


def disk_findings(path: str) -> Iterator[Finding]:
    """Free space, write access and the write-ahead log, in the nearest existing folder."""
    folder = os.path.dirname(path)
    while not os.path.isdir(folder):
        folder = os.path.dirname(folder)
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


def wal_fault(folder: str) -> str:
    """The reason why SQLite's write-ahead log fails in a folder; empty if a trial succeeds."""
    try:
        with tempfile.TemporaryDirectory(dir=folder, prefix=".refold-doctor-") as scratch:
            probe = os.path.join(scratch, "probe.db")
            connection = sqlite_file.connect(probe, sqlite_file.CREATE)
            try:
                mode = connection.pragma("journal_mode", "wal")
                connection.execute("CREATE TABLE probe(x); INSERT INTO probe VALUES (1)")
            finally:
                connection.close()
    except (apsw.Error, OSError) as error:
        return str(error)
    return "" if mode == "wal" else f"SQLite uses {mode} instead"


# --- settings and models ---


def _setting_findings() -> Iterator[Finding]:
    try:
        config, origins = loaded()
    except RefoldError as error:
        yield _settings_fault(error)
        return
    for name in config.__struct_fields__:
        value = msgspec.json.encode(without_secrets(getattr(config, name))).decode()
        yield Finding(name=name, value=f"{value} ({origins.get(name, 'default')})")
    for remark in remarks():
        yield Finding(name="not followed", value=remark)
    try:
        check_config(config)
    except RefoldError as error:
        yield _settings_fault(error)


def _settings_fault(error: RefoldError) -> Finding:
    advice = error.hint or "fix the file or the variable that it names"
    return Finding(name="settings", value=error.message, advice=advice)


def without_secrets(value: Any, name: str = "") -> Any:
    """The value with secrets masked, including every text with a secret's name."""
    match value:
        case dict():
            return {key: without_secrets(item, str(key)) for key, item in value.items()}
        case list() | tuple():
            return [without_secrets(item, name) for item in value]
        case str():
            return MASK if is_secret_name(name) else redacted(value)
        case _:
            return value


def _model_table_findings(session: Session) -> Iterator[Finding]:
    models = table()
    yield Finding(name="table", value=f"{len(models.models):,} models, as of {models.as_of}")
    # An unreadable store is a finding of its own.
    with suppress(RefoldError):
        store = session.open_store(session.store_url or default_store(), creates=True)
        yield from model_findings(store, datetime.now(UTC).date())


def model_findings(store: Store, today: date) -> Iterator[Finding]:
    """The retiring models of the newest conversations and of the writer."""
    names = {meta_of(store, about).model or "" for about in newest(store)[:CONVERSATIONS_MAX]}
    # A forbidden or invalid writer is reported by the commands that use it.
    with suppress(RefoldError):
        names.add(writer_loaded().model)
    for name in sorted(names - {""}):
        model = model_info(name)
        if state := retirement(model, today):
            verb = "retired on" if state == "retired" else "retires on"
            advice = "choose another model for the conversation, or for the writer"
            yield Finding(name=name, value=f"{verb} {model.retires}; {advice}")
