"""The sources of settings: `refold.toml`, `[tool.refold]` in pyproject.toml, `REFOLD_*`, arguments;
later ones win.

Every value keeps its origin for `refold doctor`. An unknown name in a file is refused; in the
environment, which is shared, only a likely misspelling is. The table `writer` names the model that
writes summaries. The author of a project's files may not be the user, so an address and a key from
there need the user's permission (`refold allow`), and a key counts only for its own address; so do
values that make something less safe (`config.PROJECT_MAY`).
Limits that a proxy noted in a conversation's metadata apply to other readers too, unless the user
has set limits. Neighbours: `config` checks values, `permissions` has the
user's answers, `magenta` and `anthropic_edits` translate.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from functools import lru_cache
from itertools import chain
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit

import msgspec

from refold import decoding
from refold.checked import quoted, shown
from refold.config import MODELS, Config, check_names, config_from, given_values, needing_permission
from refold.display import is_text, nearest
from refold.errors import Denied, Invalid
from refold.settings import anthropic_edits, magenta
from refold.settings.permissions import Request, WeakenedSettings, data_folder, is_allowed, trust
from refold.system import disk

PREFIX = "REFOLD_"
STORE, USER_STORE = f"{PREFIX}STORE", f"{PREFIX}USER_STORE"
SERVER_STORE = f"{PREFIX}SERVER_STORE"
SERVER_DIRECT = f"{PREFIX}SERVER_DIRECT"
WRITER = "writer"
WHOLE_CHARS_MAX = 2_000  # of a setting that is shown for permission
NEARLY = 0.82  # similarity of a misspelled name
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
    """The effective configuration, and the origin of every value that is not a default. Raises
    Denied if the project's files make something less safe and the user has not allowed it."""
    config, origins, weakened = _gathered(given, folder, environ)
    if weakened and not is_allowed(weakened, os.environ if environ is None else environ):
        reason = f"the files of {weakened.folder} set {'; '.join(weakened.lines())}"
        hint = "if you want it: refold allow; else take it out, or set it in REFOLD_… yourself"
        raise Denied(f"{reason}, and you did not allow it", hint=hint)
    return config, origins


def weakened_settings(folder: Path | None = None) -> WeakenedSettings | None:
    """What this project's files make less safe; None if nothing."""
    return _gathered(None, folder, None)[2]


def _gathered(
    given: Config | Mapping[str, Any] | None,
    folder: Path | None,
    environ: Mapping[str, str] | None,
) -> tuple[Config, dict[str, str], WeakenedSettings | None]:
    """The effective configuration, the origins of its values, and those that need permission.
    Denied if one of these cannot be shown whole: nobody can agree to what is not shown."""
    if isinstance(given, Config):
        given = given_values(given)
    elif not isinstance(given, Mapping | None):
        raise Invalid(f"config is {shown(given)}", hint="pass a Config, or a mapping of settings")
    values: Table = {}
    origins: dict[str, str] = {}
    # `REFOLD_WARN_RATIO=0.7`: a value is read as JSON unless the setting is a string.
    texts = named(os.environ if environ is None else environ, Config.__struct_fields__)
    sources = [
        *((name, _without(table, WRITER)) for name, table in from_files(folder)),
        ("environment", {name: value_of(text) for name, text in texts.items()}),
        ("arguments", dict(given or {})),
    ]
    for origin, table in sources:
        ours = _translated(table, origin)
        check_names(ours, origin)
        values = {**values, **ours, MODELS: _model_tables(values, ours)}
        tables = values[MODELS]
        if not isinstance(tables, dict) or not all(isinstance(t, dict) for t in tables.values()):
            hint = 'write [models."claude-*"] above the settings for these models'
            raise Invalid(f"{origin}: {MODELS} is not a table of tables", hint=hint)
        origins.update(dict.fromkeys(ours, origin))
    config = config_from(values)
    theirs = {name: values[name] for name, origin in origins.items() if origin in FILES}
    asked = needing_permission(theirs)
    settings = tuple((_path(place), value) for place, value in sorted(asked.items()))
    weakened = WeakenedSettings(folder=_name_of(folder), settings=settings) if settings else None
    for path, value in settings:
        is_whole = quoted(value, WHOLE_CHARS_MAX) == repr(value)
        if not is_whole or len(path) > WHOLE_CHARS_MAX:
            reason = f"the files of {_name_of(folder)} set {path[:WHOLE_CHARS_MAX]}, which"
            hint = f"take it out, or write it in {WHOLE_CHARS_MAX:,} characters without a secret"
            raise Denied(f"{reason} cannot be shown whole, nor allowed", hint=hint)
    return config, origins, weakened


def _path(place: Sequence[str]) -> str:
    """The place of a setting as TOML writes it, so that no name can pass for another place."""
    return ".".join(
        name if name.replace("_", "").isalnum() and name.isascii() else repr(name) for name in place
    )


def _translated(table: Table, origin: str) -> Table:
    """The table with the block of another design, if there is one, in our own settings; the table's
    own settings win."""
    if magenta.NAME not in table:
        return table
    block = table[magenta.NAME]
    if not isinstance(block, Mapping):
        hint = "see the block in docs/start.md"
        raise Invalid(f"{origin}: {magenta.NAME} is not a table", hint=hint)
    return {**_reader_of(block).settings_of(block, origin), **_without(table, magenta.NAME)}


def _reader_of(block: Mapping[str, Any]) -> ModuleType:
    """The module that translates a block of this name: Anthropic's is a list of edits."""
    return anthropic_edits if anthropic_edits.EDITS in block else magenta


def _model_tables(values: Table, ours: Table) -> Any:
    """The tables for models: a later source replaces those of an earlier one, and its settings for
    all models override earlier ones for some."""
    if MODELS in ours:
        return ours[MODELS]
    return {
        pattern: {name: value for name, value in table.items() if name not in ours}
        for pattern, table in values.get(MODELS, {}).items()
    }


def _without(table: Table, name: str) -> Table:
    return {key: value for key, value in table.items() if key != name}


def remarks(
    given: Config | Mapping[str, Any] | None = None, *, folder: Path | None = None
) -> list[str]:
    """A line for every setting in files and arguments that refold handles differently."""
    tables: list[tuple[str, Mapping[str, Any]]] = [*from_files(folder)]
    if isinstance(given, Mapping):
        tables.append(("arguments", given))
    lines: list[str] = []
    for origin, table in tables:
        block = table.get(magenta.NAME)
        if isinstance(block, Mapping):
            lines += _reader_of(block).unused(block, origin)
    return lines


# --- files ---


def from_files(folder: Path | None) -> list[tuple[str, Table]]:
    """The table of settings in each existing file, by the name of the file."""
    tables: list[tuple[str, Table]] = []
    for name, keys in FILES.items():
        path = (folder or Path.cwd()) / name
        if not path.is_file():
            continue
        try:
            table = _parsed(path.read_text(encoding="utf-8"))
        except (ValueError, OSError, RecursionError) as error:
            hint = "fix the file, or move it away"
            raise Invalid(f"{name} cannot be read: {error}", hint=hint) from error
        ours = inner(table, keys, name)
        if ours:
            top = path.parent.resolve()
            check_owner(top / name, above=(top,))
        tables.append((name, deepcopy(ours)))
    return tables


# A program that opens many conversations reads the same files for each of them.
@lru_cache(maxsize=len(FILES))
def _parsed(text: str) -> Table:
    return tomllib.loads(text)


def inner(table: Table, keys: tuple[str, ...], origin: str) -> Table:
    """The table inside a table; empty if there is none."""
    for key in keys:
        table = table.get(key, {})
        if not isinstance(table, dict):
            wrong = f"{origin}: [{'.'.join(keys)}] is not a table"
            raise Invalid(wrong, hint="write it as a TOML table")
    return table


# --- the environment ---


def named(environ: Mapping[str, str], known: Sequence[str], prefix: str = PREFIX) -> dict[str, str]:
    """The variables of the environment for one of these settings, likely misspellings included, by
    the setting's name."""
    ours = [variable for variable in environ if variable.startswith(prefix)]
    names = {variable.removeprefix(prefix).lower(): variable for variable in ours}
    similar = [name for name in names if nearest(name, known, alike_min=NEARLY)]
    return {name: text_of(environ, names[name]) for name in similar}


def text_of(environ: Mapping[str, str], variable: str) -> str:
    """The value of a variable; Invalid if it is not text."""
    text = environ[variable]
    if not is_text(text):
        raise Invalid(
            f"{variable} holds bytes that are not UTF-8", hint="set it again, or unset it"
        )
    return text


def value_of(text: str) -> Any:
    """The JSON value in the text, or the text itself if it is not JSON."""
    try:
        return msgspec.json.decode(text)
    except (ValueError, RecursionError):
        lowered = text.strip().lower()
        return {"true": True, "false": False}.get(lowered, text)


def user_store(environ: Mapping[str, str] | None = None) -> str:
    """`REFOLD_USER_STORE`, or this user's store in the user's own data folder."""
    environ = os.environ if environ is None else environ
    if environ.get(USER_STORE):
        return text_of(environ, USER_STORE)
    return f"sqlite:{data_folder(environ) / 'refold' / DATABASE}"


def server_store(environ: Mapping[str, str] | None = None) -> str:
    """`REFOLD_SERVER_STORE`, or a folder in the user's own data folder: the organizations of a team
    server on this machine."""
    environ = os.environ if environ is None else environ
    if environ.get(SERVER_STORE):
        return text_of(environ, SERVER_STORE)
    return f"sqlite:{data_folder(environ) / 'refold' / 'server'}"


def server_direct(environ: Mapping[str, str] | None = None) -> str:
    """`REFOLD_SERVER_DIRECT`: the address of a team server's database without a pooler; empty if
    not set."""
    environ = os.environ if environ is None else environ
    return text_of(environ, SERVER_DIRECT) if environ.get(SERVER_DIRECT) else ""


def default_store(folder: Path | None = None) -> str:
    """`REFOLD_STORE`, or this project's store: in the nearest `.refold` folder upwards, else one
    here."""
    if os.environ.get(STORE):
        return text_of(os.environ, STORE)
    return f"sqlite:{project_folder(folder) / DATABASE}"


def project_store(folder: Path) -> str:
    """The store of the project in this folder. Raises Denied if it may be another user's."""
    top = folder.resolve()
    check_owner(top / FOLDER, top / FOLDER / DATABASE, above=(top,))
    return f"sqlite:{top / FOLDER / DATABASE}"


def project_folder(folder: Path | None = None) -> Path:
    """The folder of this project's data: the nearest `.refold` upwards, else one here. Raises
    Denied if another user may have put it there."""
    searched = _searched(folder)
    data = searched[-1] / FOLDER
    check_owner(data, data / DATABASE, above=searched)
    return data


def _searched(folder: Path | None) -> tuple[Path, ...]:
    """The folders from here up to the nearest with a `.refold`; only this one if none has it."""
    here = (folder or Path.cwd()).resolve()
    folders = (here, *here.parents)
    for count, parent in enumerate(folders, 1):
        if os.path.isdir(parent / FOLDER):
            return folders[:count]
    return folders[:1]


# --- the user's permissions ---

# What refold uses in a project, besides the folder itself.
OWNED = (
    *(FOLDER, f"{FOLDER}/{DATABASE}", f"{FOLDER}/memory", *FILES, ".mcp.json", ".claude"),
    *(".claude/settings.json", ".claude/settings.local.json", ".cursor", ".cursor/mcp.json"),
    *(".claude.json", ".codex", ".codex/config.toml"),
)


def check_owner(*paths: Path, above: Iterable[Path] = ()) -> None:
    """Raises Denied if another user can write one of these paths, or can replace one of the folders
    above them, unless this user trusts that one there."""
    for path, is_above in (*((one, True) for one in above), *((one, False) for one in paths)):
        writer = _writer(path, is_above=is_above)
        if writer and not _is_trusted(writer, path):
            folder = quoted(str(path if is_above else path.parent), 200)
            hint = f"make it yours (chown, chmod), or run refold allow in {folder}"
            raise Denied(
                f"{writer} can write {quoted(str(path), 200)}, so it is not used", hint=hint
            )


def _writer(path: Path, *, is_above: bool = False) -> str:
    """The other user who decides what is written at a path; empty if there is none. A link with the
    name of one of refold's own files may have come with a clone, so its owner proves nothing."""
    writer = disk.foreign_writer(str(path), is_above=is_above)
    is_own = not is_above and FOLDER in (path.name, path.parent.name)
    if not writer and is_own and path.is_symlink():
        return f"the author of the link to {os.path.realpath(path)}"
    return writer


def foreign_writers(folder: Path | None = None) -> tuple[Path, dict[Path, str]]:
    """The project folder here, and which other users can write what in it."""
    searched = _searched(folder)
    top = searched[-1]
    owned = [
        path
        for at in dict.fromkeys((searched[0], top))
        for path in (*(at / name for name in OWNED), *(at / FOLDER / "memory").glob("*"))
    ]
    writers = {
        **{path: _writer(path, is_above=True) for path in searched},
        **{path: _writer(path) for path in owned},
    }
    return top, {path: writer for path, writer in writers.items() if writer}


def _is_trusted(writer: str, path: Path) -> bool:
    folders = (path, *path.parents)
    return any(is_allowed(trust(folder, writer), os.environ) for folder in folders)


def _name_of(folder: Path | None) -> str:
    return os.fsencode((folder or Path.cwd()).resolve()).decode("utf-8", "backslashreplace")


# Usual variables of keys, with the domains of their providers.
KEY_DOMAINS = {
    "OPENAI_API_KEY": ("openai.com",),
    "AZURE_OPENAI_API_KEY": ("openai.azure.com",),
    "ANTHROPIC_API_KEY": ("anthropic.com",),
    "ANTHROPIC_AUTH_TOKEN": ("anthropic.com",),
    "GEMINI_API_KEY": ("googleapis.com",),
    "GOOGLE_API_KEY": ("googleapis.com",),
    "MISTRAL_API_KEY": ("mistral.ai",),
    "GROQ_API_KEY": ("groq.com",),
    "DEEPSEEK_API_KEY": ("deepseek.com",),
    "OPENROUTER_API_KEY": ("openrouter.ai",),
    "TOGETHER_API_KEY": ("together.ai", "together.xyz"),
    "XAI_API_KEY": ("x.ai",),
    "HF_TOKEN": ("huggingface.co",),
}


class WriterSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The table `[writer]`. The key itself is in the environment variable `key_env`."""

    url: str = ""
    model: str = ""
    kind: str = "openai"
    key_env: str = ""
    window: int | None = None
    timeout_s: float = 30.0
    tries: int = 3
    deadline_s: float = 120.0
    calls_per_hour: int = 0


WRITER_PREFIX = f"{PREFIX}{WRITER.upper()}_"
WRITER_FIELDS = WriterSettings.__struct_fields__
WRITER_HINT = f"known: {', '.join(WRITER_FIELDS)}; a key belongs in the environment only"
# Settings in a project's files that need the user's permission.
ASKED_FOR = ("url", "key_env")


def writer_loaded(
    given: Mapping[str, Any] | None = None,
    *,
    folder: Path | None = None,
    environ: Mapping[str, str] | None = None,
) -> WriterSettings:
    """The writer's settings; without a `url` there is no writer. Raises Denied if the files name an
    address or a key that the user has not allowed."""
    environ = os.environ if environ is None else environ
    arguments = dict(given or {})
    own = {**named(environ, WRITER_FIELDS, WRITER_PREFIX), **arguments}
    theirs = _writer_from_files(folder)
    if "url" in own:
        # A key belongs to the address it came with.
        theirs.pop("key_env", None)
    elif theirs.get("url"):
        request = requested(folder, environ)
        if request is not None and not is_allowed(request, environ):
            key = f" with the key in {request.key_env}" if request.key_env else ""
            reason = f"the files of {request.folder} name the writer {_host(request.url)}{key}"
            raise Denied(f"{reason}, and you did not allow it", hint="if you want it: refold allow")
        _check_key_domain(theirs["url"], arguments.get("key_env", ""))
    return _checked({**theirs, **own})


def requested(
    folder: Path | None = None, environ: Mapping[str, str] | None = None
) -> Request | None:
    """The request of this project's files for the user's permission; None if they name no
    address."""
    environ = os.environ if environ is None else environ
    own, theirs = named(environ, WRITER_FIELDS, WRITER_PREFIX), _writer_from_files(folder)
    if "url" in own or not theirs.get("url"):
        return None
    settings = _checked({**theirs, **own})
    return Request(folder=_name_of(folder), url=settings.url, key_env=settings.key_env)


def _check_key_domain(url: str, key_env: str) -> None:
    """Raises Denied if a provider's key would go to another provider's address."""
    domains = KEY_DOMAINS.get(key_env)
    host = _host(url)
    if domains is None or any(f".{host}".endswith(f".{domain}") for domain in domains):
        return
    reason = f"the key in {key_env} belongs to {domains[0]}, not to {host}"
    raise Denied(reason, hint="set the address together with the key, if you mean it")


def _host(url: str) -> str:
    """The host of an address, which may be invalid."""
    try:
        return urlsplit(url).hostname or "at no address"
    except ValueError:
        return "at no address"


def _writer_from_files(folder: Path | None) -> Table:
    values: Table = {}
    for name, table in from_files(folder):
        values.update(inner(table, (WRITER,), name))
    return values


def _checked(values: Table) -> WriterSettings:
    try:
        return decoding.convert(values, WriterSettings, strict=False)
    except msgspec.ValidationError as error:
        raise Invalid(f"the table {WRITER}: {error}", hint=WRITER_HINT) from error


KEEPER = "proxy"  # metadata key of a proxy's notes on a conversation
LIMITS = "limits"
# Settings that decide when a compaction is due, and its target.
NAMES = frozenset(
    {
        "reserve_tokens",
        "warn_ratio",
        "compact_ratio",
        "critical_ratio",
        "tokens_cap",
        "target_ratio",
        "compact_every",
        "compact_share",
    }
)


def has_user_limits(config: Config, origins: Iterable[str]) -> bool:
    """Whether limits are set by the user, for all models or for some."""
    return any(name in NAMES for name in chain(origins, *config.models.values()))


def limits_of(config: Config) -> dict[str, Any]:
    """The limits of a configuration that differ from the defaults."""
    default = Config()
    values = {name: getattr(config, name) for name in sorted(NAMES)}
    return {name: value for name, value in values.items() if value != getattr(default, name)}


def noted_limits(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The limits that a proxy noted in a conversation's metadata; empty if there are none."""
    notes = metadata.get(KEEPER)
    limits = notes.get(LIMITS) if isinstance(notes, Mapping) else None
    limits = limits if isinstance(limits, Mapping) else {}
    return {name: value for name, value in limits.items() if name in NAMES}


def loaded_for(metadata: Mapping[str, Any]) -> Config:
    """The settings of this project for a conversation with this metadata."""
    config, origins = loaded()
    limits = noted_limits(metadata)
    if not limits or has_user_limits(config, origins):
        return config
    try:
        return loaded(limits)[0]
    except Invalid:
        return config  # foreign metadata must not lock a user out of a conversation
