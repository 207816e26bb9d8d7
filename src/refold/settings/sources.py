"""Where settings come from: `refold.toml`, `[tool.refold]` in pyproject.toml, `REFOLD_*`,
arguments; later ones win.

Every value remembers its origin, so that `refold doctor` can say why it is what it is. A file is
ours, so a name in it that is not a setting is refused. The environment is shared: there only a name
that is nearly a setting's is taken for a misspelled one, and any other is left alone. The table
`writer` names the model that puts summaries in words; it is read apart (`writer`), because it says
where texts go. Neighbours: `config` checks the values, `magenta` and `anthropic_edits`
translate.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec

from refold.checked import shown
from refold.config import MODELS, Config, check_names, config_from, given_values
from refold.display import is_text, nearest
from refold.errors import Invalid
from refold.settings import anthropic_edits, magenta
from refold.settings.trust import data_folder

PREFIX = "REFOLD_"
STORE, USER_STORE = f"{PREFIX}STORE", f"{PREFIX}USER_STORE"
SERVER_STORE = f"{PREFIX}SERVER_STORE"
SERVER_DIRECT = f"{PREFIX}SERVER_DIRECT"
WRITER = "writer"
NEARLY = 0.82  # how alike two names are when one is the other misspelled
FOLDER = ".refold"
DATABASE = "refold.db"
FILES: dict[str, tuple[str, ...]] = {"refold.toml": (), "pyproject.toml": ("tool", "refold")}

Table = dict[str, Any]


def loaded(
    given: Config | Mapping[str, Any] | None = None,
    *,
    folder: Path | None = None,
    environ: Mapping[str, str] | None = None,
) -> tuple[Config, dict[str, str]]:
    """The effective configuration, and the origin of every value that is not a default."""
    if isinstance(given, Config):
        given = given_values(given)
    elif not isinstance(given, Mapping | None):
        raise Invalid(f"config is {shown(given)}", hint="give a Config, or a mapping of settings")
    values: Table = {}
    origins: dict[str, str] = {}
    for origin, table in _sources(given or {}, folder, _environment(environ)):
        ours = _translated(table, origin)
        check_names(ours, origin)
        values = {**values, **ours, MODELS: _model_tables(values, ours)}
        _check_tables(values[MODELS], origin)
        origins.update(dict.fromkeys(ours, origin))
    return config_from(values), origins


def _sources(
    given: Mapping[str, Any], folder: Path | None, environ: Mapping[str, str]
) -> Iterator[tuple[str, Table]]:
    """Every table of settings with its origin; a later one wins."""
    for name, table in from_files(folder):
        yield name, _without(table, WRITER)
    yield "environment", _from_environment(environ)
    yield "arguments", dict(given)


def _translated(table: Table, origin: str) -> Table:
    """The table with the block of another design, if there is one, in our own settings; what is
    beside it wins."""
    if magenta.NAME not in table:
        return table
    block = table[magenta.NAME]
    if not isinstance(block, Mapping):
        hint = "see the block in docs/start.md"
        raise Invalid(f"{origin}: {magenta.NAME} is not a table", hint=hint)
    return {**_reader_of(block).settings_of(block, origin), **_without(table, magenta.NAME)}


def _reader_of(block: Mapping[str, Any]) -> ModuleType:
    """Who translates a block of this name: Anthropic's is a list of edits."""
    return anthropic_edits if anthropic_edits.EDITS in block else magenta


def _model_tables(values: Table, ours: Table) -> Any:
    """The tables for models, of which those of a later source take the place. What that source says
    of all models wins over what an earlier one said of some."""
    if MODELS in ours:
        return ours[MODELS]
    return {
        pattern: {name: value for name, value in table.items() if name not in ours}
        for pattern, table in values.get(MODELS, {}).items()
    }


def _check_tables(tables: Any, origin: str) -> None:
    if not isinstance(tables, dict) or not all(isinstance(t, dict) for t in tables.values()):
        hint = 'write [models."claude-*"] above the settings for these models'
        raise Invalid(f"{origin}: {MODELS} is not a table of tables", hint=hint)


def _without(table: Table, name: str) -> Table:
    return {key: value for key, value in table.items() if key != name}


def remarks(
    given: Config | Mapping[str, Any] | None = None, *, folder: Path | None = None
) -> list[str]:
    """What the files and the arguments ask for and we do otherwise, in words."""
    lines: list[str] = []
    for origin, table in from_files(folder):
        lines += _unused(table, origin)
    if isinstance(given, Mapping):
        lines += _unused(given, "arguments")
    return lines


def _unused(table: Mapping[str, Any], origin: str) -> list[str]:
    block = table.get(magenta.NAME)
    if not isinstance(block, Mapping):
        return []
    lines: list[str] = _reader_of(block).unused(block, origin)
    return lines


# --- files ---


def from_files(folder: Path | None) -> list[tuple[str, Table]]:
    """The table of settings in each file that there is, by the name of the file."""
    here = folder or Path.cwd()
    there = {name: keys for name, keys in FILES.items() if (here / name).is_file()}
    return [(name, inner(_read(here / name), keys, name)) for name, keys in there.items()]


def _read(path: Path) -> Table:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError, RecursionError) as error:
        hint = "fix the file, or move it away"
        raise Invalid(f"{path.name} cannot be read: {error}", hint=hint) from error


def inner(table: Table, keys: tuple[str, ...], origin: str) -> Table:
    """The table inside a table; empty if it is not there."""
    for key in keys:
        table = table.get(key, {})
        if not isinstance(table, dict):
            wrong = f"{origin}: [{'.'.join(keys)}] is not a table"
            raise Invalid(wrong, hint="write it as a TOML table")
    return table


# --- the environment ---


def _environment(environ: Mapping[str, str] | None) -> Mapping[str, str]:
    return os.environ if environ is None else environ


def _from_environment(environ: Mapping[str, str]) -> Table:
    """`REFOLD_WARN_RATIO=0.7`: the value is read as JSON where the setting is not a text."""
    texts = named(environ, Config.__struct_fields__)
    return {name: value_of(text) for name, text in texts.items()}


def named(environ: Mapping[str, str], known: Sequence[str], prefix: str = PREFIX) -> dict[str, str]:
    """The variables of the environment that are meant as one of these settings, by the setting's
    name."""
    ours = [variable for variable in environ if variable.startswith(prefix)]
    names = {variable.removeprefix(prefix).lower(): variable for variable in ours}
    meant = [name for name in names if nearest(name, known, alike_min=NEARLY)]
    return {name: text_of(environ, names[name]) for name in meant}


def text_of(environ: Mapping[str, str], variable: str) -> str:
    """The value of a variable; Invalid if it is not text."""
    text = environ[variable]
    if not is_text(text):
        raise Invalid(
            f"{variable} holds bytes that are not UTF-8", hint="set it again, or unset it"
        )
    return text


def value_of(text: str) -> Any:
    """A value that came as text: as JSON says it, else the text itself."""
    try:
        return msgspec.json.decode(text)
    except (ValueError, RecursionError):
        lowered = text.strip().lower()
        return {"true": True, "false": False}.get(lowered, text)


def user_store(environ: Mapping[str, str] | None = None) -> str:
    """`REFOLD_USER_STORE`, or the store of this user, in the folder for a user's own data."""
    known = os.environ if environ is None else environ
    if known.get(USER_STORE):
        return text_of(known, USER_STORE)
    return f"sqlite:{data_folder(known) / 'refold' / DATABASE}"


def server_store(environ: Mapping[str, str] | None = None) -> str:
    """`REFOLD_SERVER_STORE`, or a folder in the user's own data folder: where a team server on
    this machine keeps its organizations."""
    known = _environment(environ)
    if known.get(SERVER_STORE):
        return text_of(known, SERVER_STORE)
    return f"sqlite:{data_folder(known) / 'refold' / 'server'}"


def server_direct(environ: Mapping[str, str] | None = None) -> str:
    """`REFOLD_SERVER_DIRECT`: an address of a team server's database without a pooler; empty if
    there is none."""
    known = _environment(environ)
    return text_of(known, SERVER_DIRECT) if known.get(SERVER_DIRECT) else ""


def default_store(folder: Path | None = None) -> str:
    """`REFOLD_STORE`, or the store of this project: the nearest `.refold` folder upwards, else
    one here."""
    if os.environ.get(STORE):
        return text_of(os.environ, STORE)
    return f"sqlite:{project_folder(folder) / DATABASE}"


def project_store(folder: Path) -> str:
    """The store of the project in this very folder."""
    return f"sqlite:{folder.resolve() / FOLDER / DATABASE}"


def project_folder(folder: Path | None = None) -> Path:
    """Where refold keeps what belongs to this project: the nearest `.refold` upwards, else one
    here."""
    here = (folder or Path.cwd()).resolve()
    for place in (here, *here.parents):
        if (place / FOLDER).is_dir():
            return place / FOLDER
    return here / FOLDER
