"""`refold doctor`: what refold runs on, where it keeps things, why each setting is what it is, and
what to fix.

Every finding is a name and a value; one that needs action carries advice. Secrets are never shown.
Neighbour: `checks` looks at the files and the disk.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import apsw
import msgspec

from refold import __version__
from refold.edges.commands.checks import Finding, disk_findings, file_findings
from refold.edges.commands.command import Arguments, Command, Result, Screen
from refold.edges.commands.model_check import model_findings
from refold.edges.commands.newer_check import newer_findings
from refold.edges.commands.session import Session
from refold.edges.commands.text import number
from refold.engine.config_check import check_config
from refold.errors import RefoldError
from refold.redaction import redacted
from refold.redaction.values import is_secret_name
from refold.settings.sources import default_store, loaded, remarks
from refold.tokens.models import table

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


def run(session: Session, arguments: Arguments) -> Diagnosis:
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


def show(diagnosis: Diagnosis, screen: Screen) -> None:
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


COMMAND = Command(
    name="doctor",
    details="Looks at versions, the files of the store, the disk, and the configuration with the "
    "origin of each value.",
    on="store",
    arguments=Arguments,
    run=run,
    show=show,
)
