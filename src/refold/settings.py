"""Where settings come from: `refold.toml`, `[tool.refold]` in pyproject.toml, `REFOLD_*`, arguments; later ones win.

Every value remembers its origin, so that `refold doctor` can say why it is what it is.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from refold.config import Config, check_names, config_from
from refold.errors import Invalid

PREFIX = "REFOLD_"
NOT_CONFIG = {"REFOLD_STORE"}
FOLDER = ".refold"


def loaded(
    given: Config | Mapping[str, Any] | None = None,
    *,
    folder: Path | None = None,
    environ: Mapping[str, str] | None = None,
) -> tuple[Config, dict[str, str]]:
    """The effective configuration, and the origin of every value that is not a default."""
    if isinstance(given, Config):
        given = {n: v for n in given.__struct_fields__ if (v := getattr(given, n)) != getattr(Config(), n)}
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for origin, found in (
        *_from_files(folder or Path.cwd()),
        ("environment", _from_environment(os.environ if environ is None else environ)),
        ("arguments", dict(given or {})),
    ):
        check_names(found, origin)
        values.update(found)
        origins.update(dict.fromkeys(found, origin))
    return config_from(values), origins


def _from_files(folder: Path) -> list[tuple[str, dict[str, Any]]]:
    found = []
    for name, table in (("refold.toml", ()), ("pyproject.toml", ("tool", "refold"))):
        path = folder / name
        if path.is_file():
            found.append((name, _table(path, table)))
    return found


def _table(path: Path, keys: tuple[str, ...]) -> dict[str, Any]:
    try:
        value: Any = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise Invalid(f"{path.name} cannot be read: {error}", hint="mend the file, or move it away") from error
    for key in keys:
        value = value.get(key, {})
    if not isinstance(value, dict):
        raise Invalid(f"{path.name}: [{'.'.join(keys)}] is not a table", hint="write it as a TOML table")
    return value


def _from_environment(environ: Mapping[str, str]) -> dict[str, Any]:
    """`REFOLD_WARN_RATIO=0.7`: the value is read as JSON where the setting is not a text."""
    found: dict[str, Any] = {}
    for name, text in environ.items():
        if name.startswith(PREFIX) and name not in NOT_CONFIG:
            found[name[len(PREFIX) :].lower()] = _value(text)
    return found


def _value(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        lowered = text.strip().lower()
        return {"true": True, "false": False}.get(lowered, text)


def default_store(folder: Path | None = None) -> str:
    """`REFOLD_STORE`, or the store of this project: the nearest `.refold` folder upwards, else one here."""
    if url := os.environ.get("REFOLD_STORE"):
        return url
    here = (folder or Path.cwd()).resolve()
    for place in (here, *here.parents):
        if (place / FOLDER).is_dir():
            return f"sqlite:{place / FOLDER / 'refold.db'}"
    return f"sqlite:{here / FOLDER / 'refold.db'}"
