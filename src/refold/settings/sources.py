"""Where settings come from: `refold.toml`, `[tool.refold]` in pyproject.toml, `REFOLD_*`,
arguments; later ones win.

Every value remembers its origin, so that `refold doctor` can say why it is what it is. A file is
ours, so a name in it that is no setting is refused. The environment is shared: there only a name
that is nearly a setting's is taken for a misspelt one, and any other is left to whom it belongs.
The table `writer` names the model that puts summaries in words; it is read apart, because what is
made of it lies at an edge (`edges.writer`).
"""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from refold.config import Config, check_names, config_from
from refold.errors import Invalid
from refold.settings import magenta

PREFIX = "REFOLD_"
WRITER = "writer"
NEARLY = 0.82  # how alike two names are of which one is the other misspelt
FOLDER = ".refold"


class WriterSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The table `[writer]`. The key itself stands in the environment, in the variable that
    `key_env` names."""

    url: str = ""
    model: str = ""
    kind: str = "openai"
    key_env: str = ""
    window: int | None = None
    timeout_s: float = 30.0
    tries: int = 3
    deadline_s: float = 120.0
    calls_per_hour: int = 0


def loaded(
    given: Config | Mapping[str, Any] | None = None,
    *,
    folder: Path | None = None,
    environ: Mapping[str, str] | None = None,
) -> tuple[Config, dict[str, str]]:
    """The effective configuration, and the origin of every value that is not a default."""
    if isinstance(given, Config):
        given = {
            n: v
            for n in given.__struct_fields__
            if (v := getattr(given, n)) != getattr(Config(), n)
        }
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for origin, found in (
        *((name, _without_writer(table)) for name, table in _from_files(folder or Path.cwd())),
        ("environment", _from_environment(os.environ if environ is None else environ)),
        ("arguments", dict(given or {})),
    ):
        found = _translated(found, origin)
        check_names(found, origin)
        values.update(found)
        origins.update(dict.fromkeys(found, origin))
    return config_from(values), origins


def writer_loaded(
    given: Mapping[str, Any] | None = None,
    *,
    folder: Path | None = None,
    environ: Mapping[str, str] | None = None,
) -> WriterSettings:
    """The writer's own settings: the table `writer` of the files, `REFOLD_WRITER_*`, arguments.
    No `url`: no writer."""
    environ, names = os.environ if environ is None else environ, WriterSettings.__struct_fields__
    values: dict[str, Any] = {}
    for name, table in _from_files(folder or Path.cwd()):
        values.update(_inner(table, (WRITER,), name))
    values.update(_named(environ, names, f"{PREFIX}{WRITER.upper()}_"))
    values.update(given or {})
    try:
        return msgspec.convert(values, WriterSettings, strict=False)
    except msgspec.ValidationError as error:
        hint = f"known: {', '.join(names)}; a key goes into the environment only"
        raise Invalid(f"the table {WRITER}: {error}", hint=hint) from error


def _translated(found: dict[str, Any], origin: str) -> dict[str, Any]:
    """The values with the Magenta block, if there is one, in words of ours; what stands beside
    it wins."""
    if magenta.NAME not in found:
        return found
    block = found[magenta.NAME]
    if not isinstance(block, Mapping):
        raise Invalid(
            f"{origin}: {magenta.NAME} is not a table", hint="see the block in docs/start.md"
        )
    rest = {name: value for name, value in found.items() if name != magenta.NAME}
    return {**magenta.settings_of(block, origin), **rest}


def remarks(
    given: Config | Mapping[str, Any] | None = None, *, folder: Path | None = None
) -> list[str]:
    """What the files and the arguments ask for and we do otherwise, in words."""
    arguments = [("arguments", given)] if isinstance(given, Mapping) else []
    tables = [
        (name, table.get(magenta.NAME))
        for name, table in [*_from_files(folder or Path.cwd()), *arguments]
    ]
    return [
        line
        for name, block in tables
        if isinstance(block, Mapping)
        for line in magenta.unused(block, name)
    ]


def _without_writer(table: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in table.items() if name != WRITER}


def _from_files(folder: Path) -> list[tuple[str, dict[str, Any]]]:
    found = []
    for name, table in (("refold.toml", ()), ("pyproject.toml", ("tool", "refold"))):
        path = folder / name
        if path.is_file():
            found.append((name, _inner(_read(path), table, name)))
    return found


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise Invalid(
            f"{path.name} cannot be read: {error}", hint="mend the file, or move it away"
        ) from error


def _inner(table: dict[str, Any], keys: tuple[str, ...], origin: str) -> dict[str, Any]:
    """The table inside a table; empty if it is not there."""
    for key in keys:
        value = table.get(key, {})
        if not isinstance(value, dict):
            raise Invalid(
                f"{origin}: [{'.'.join(keys)}] is not a table", hint="write it as a TOML table"
            )
        table = value
    return table


def _named(
    environ: Mapping[str, str], known: Iterable[str], prefix: str = PREFIX
) -> dict[str, str]:
    """The variables of the environment that are meant as one of these settings, by the setting's
    name."""
    names = list(known)
    found = {
        name[len(prefix) :].lower(): text
        for name, text in environ.items()
        if name.startswith(prefix)
    }
    return {
        name: text
        for name, text in found.items()
        if difflib.get_close_matches(name, names, n=1, cutoff=NEARLY)
    }


def _from_environment(environ: Mapping[str, str]) -> dict[str, Any]:
    """`REFOLD_WARN_RATIO=0.7`: the value is read as JSON where the setting is not a text."""
    return {
        name: value_of(text) for name, text in _named(environ, Config.__struct_fields__).items()
    }


def value_of(text: str) -> Any:
    """A value that came as text: as JSON says it, else the text itself."""
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        lowered = text.strip().lower()
        return {"true": True, "false": False}.get(lowered, text)


def default_store(folder: Path | None = None) -> str:
    """`REFOLD_STORE`, or the store of this project: the nearest `.refold` folder upwards, else
    one here."""
    if url := os.environ.get("REFOLD_STORE"):
        return url
    here = (folder or Path.cwd()).resolve()
    for place in (here, *here.parents):
        if (place / FOLDER).is_dir():
            return f"sqlite:{place / FOLDER / 'refold.db'}"
    return f"sqlite:{here / FOLDER / 'refold.db'}"
