"""Where settings come from: `refold.toml`, `[tool.refold]` in pyproject.toml, `REFOLD_*`,
arguments; later ones win.

Every value remembers its origin, so that `refold doctor` can say why it is what it is. A file is
ours, so a name in it that is not a setting is refused. The environment is shared: there only a name
that is nearly a setting's is taken for a misspelled one, and any other is left alone. The table
`writer` names the model that puts summaries in words; it is read apart (`writer`), because it says
where texts go. Neighbours: `config` checks the values, `magenta` and `anthropic_edits`
translate.

What a user allowed the files of a project to name: an address, and the variable of a key.

Whoever wrote a project's files is not the user. So what they say about where a conversation goes,
and with which key, is asked for once and remembered by content: in the user's own data folder, one
file for each answer, named by a digest of the folder and of what was allowed there. A changed
setting has another digest, and is asked for again. Neighbour: `writer` says what is asked for.

The settings of the writer: the table `writer` of the files, `REFOLD_WRITER_*`, arguments; later
ones win.

The environment and the arguments are the user's own. What the files of a project say about the
address and the key counts only after the user allowed it (`trust`), and a key belongs to the
address that it was named with. Neighbours: `sources` reads files and environment,
`edges.endpoints.writer` makes a writer of these settings.

The limits by which a proxy keeps a conversation, as it noted them in the metadata.

A proxy has its own rule for a window that is a wish, and settings of its own. Whoever opens the
conversation beside it (a shell, a status line) counts with the same limits, or would speak of
another trigger and make room where there is enough. What the user says here in files and variables
stands alone, as it does for the proxy. Neighbours: `edges/proxy` notes, `sources` loads.
"""

from __future__ import annotations

import hashlib
import os
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit

import msgspec

from refold import decoding
from refold.checked import shown
from refold.config import MODELS, Config, check_names, config_from, given_values
from refold.display import is_text, nearest
from refold.errors import Denied, Invalid, Unavailable
from refold.settings import anthropic_edits, magenta

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


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What the files of a folder ask for: to send texts to `url`, with the key in the variable
    `key_env`."""

    folder: str
    url: str = ""
    key_env: str = ""


def is_allowed(request: Request, environ: Mapping[str, str]) -> bool:
    """Whether the user allowed just this."""
    try:
        return _place(request, environ).read_bytes() == _content(request)
    except OSError:
        return False


def allow(request: Request, environ: Mapping[str, str]) -> None:
    """Remembers that the user allowed this."""
    place = _place(request, environ)
    try:
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        place.unlink(missing_ok=True)
        _write(place, _content(request))
    except OSError as error:
        raise _unkept(place, error) from error


def _write(place: Path, content: bytes) -> None:
    """Makes a file that only its owner can read."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    with open(os.open(place, flags, 0o600), "wb") as file:
        file.write(content)


def revoke(request: Request, environ: Mapping[str, str]) -> None:
    """Forgets that it was allowed."""
    place = _place(request, environ)
    try:
        place.unlink(missing_ok=True)
    except OSError as error:
        raise _unkept(place, error) from error


def _unkept(place: Path, error: OSError) -> Unavailable:
    hint = "XDG_DATA_HOME names another folder for such answers"
    return Unavailable(f"{place.parent} cannot be written: {error.strerror}", hint=hint)


def _content(request: Request) -> bytes:
    return msgspec.json.encode(request) + b"\n"


def _place(request: Request, environ: Mapping[str, str]) -> Path:
    """The file that remembers this request."""
    digest = hashlib.sha256(_content(request)).hexdigest()
    return data_folder(environ) / "refold" / "allowed" / digest


def data_folder(environ: Mapping[str, str]) -> Path:
    """The user's own data folder. A relative one would lie in the project, and does not count."""
    named = environ.get("XDG_DATA_HOME", "")
    if os.path.isabs(named):
        return Path(named)
    home = environ.get("HOME", "")
    return (Path(home) if os.path.isabs(home) else _home_of_user()) / ".local" / "share"


def _home_of_user() -> Path:
    """The home folder that the system knows for this user, whatever HOME says."""
    import pwd

    try:
        return Path(pwd.getpwuid(os.getuid()).pw_dir)
    except KeyError as error:
        hint = "XDG_DATA_HOME names a folder for it"
        raise Unavailable("this user has no home folder", hint=hint) from error


# The usual variables of keys, with the domains of those who gave the keys.
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
    """The table `[writer]`. The key itself is in the environment, in the variable that `key_env`
    names."""

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
WRITER_HINT = f"known: {', '.join(WRITER_FIELDS)}; a key goes into the environment only"
# What the files of a project may not say alone: where texts go, and with which key.
ASKED_FOR = ("url", "key_env")


def writer_loaded(
    given: Mapping[str, Any] | None = None,
    *,
    folder: Path | None = None,
    environ: Mapping[str, str] | None = None,
) -> WriterSettings:
    """The writer's settings. No `url`: no writer. Denied if the files name an address or a key
    that the user did not allow."""
    environ = os.environ if environ is None else environ
    arguments = dict(given or {})
    own = {**_writer_from_environment(environ), **arguments}
    theirs = _from_files(folder)
    if "url" in own:
        # A key belongs to the address that it was named with.
        theirs.pop("key_env", None)
    elif theirs.get("url"):
        _check_allowed(folder, environ)
        _check_key_domain(theirs["url"], arguments.get("key_env", ""))
    return _checked({**theirs, **own})


def requested(
    folder: Path | None = None, environ: Mapping[str, str] | None = None
) -> Request | None:
    """What the files of this project ask the user to allow; None if they name no address."""
    environ = os.environ if environ is None else environ
    own, theirs = _writer_from_environment(environ), _from_files(folder)
    if "url" in own or not theirs.get("url"):
        return None
    settings = _checked({**theirs, **own})
    here = os.fsencode((folder or Path.cwd()).resolve()).decode("utf-8", "backslashreplace")
    return Request(folder=here, url=settings.url, key_env=settings.key_env)


def _check_allowed(folder: Path | None, environ: Mapping[str, str]) -> None:
    request = requested(folder, environ)
    if request is None or is_allowed(request, environ):
        return
    key = f" with the key in {request.key_env}" if request.key_env else ""
    reason = f"the files of {request.folder} name the writer {_host(request.url)}{key}"
    raise Denied(f"{reason}, and you did not allow it", hint="if you want it: refold allow")


def _check_key_domain(url: str, key_env: str) -> None:
    """Refuses to send a provider's key, named apart from the address, to somebody else."""
    domains = KEY_DOMAINS.get(key_env)
    host = _host(url)
    if domains is None or any(f".{host}".endswith(f".{domain}") for domain in domains):
        return
    reason = f"the key in {key_env} belongs to {domains[0]}, not to {host}"
    raise Denied(reason, hint="give the address together with the key, if you mean it")


def _host(url: str) -> str:
    """The host of an address, which may be no address at all."""
    try:
        return urlsplit(url).hostname or "at no address"
    except ValueError:
        return "at no address"


def _from_files(folder: Path | None) -> Table:
    values: Table = {}
    for name, table in from_files(folder):
        values.update(inner(table, (WRITER,), name))
    return values


def _writer_from_environment(environ: Mapping[str, str]) -> dict[str, str]:
    return named(environ, WRITER_FIELDS, WRITER_PREFIX)


def _checked(values: Table) -> WriterSettings:
    try:
        return decoding.convert(values, WriterSettings, strict=False)
    except msgspec.ValidationError as error:
        raise Invalid(f"the table {WRITER}: {error}", hint=WRITER_HINT) from error


KEEPER = "proxy"  # in the metadata: what a proxy says of a conversation
LIMITS = "limits"
# What says when a compaction comes, and how far it goes.
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


def are_said(config: Config, origins: Iterable[str]) -> bool:
    """Whether somebody says when a compaction comes, for all models or for some."""
    return any(name in NAMES for name in chain(origins, *config.models.values()))


def limits_of(config: Config) -> dict[str, Any]:
    """The limits of a configuration that are not the default ones."""
    plain, names = Config(), sorted(NAMES)
    values = {name: getattr(config, name) for name in names}
    return {name: value for name, value in values.items() if value != getattr(plain, name)}


def noted(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The limits that were noted; none where nothing was, or nothing that is known."""
    about = metadata.get(KEEPER)
    limits = about.get(LIMITS) if isinstance(about, Mapping) else None
    given = limits if isinstance(limits, Mapping) else {}
    return {name: value for name, value in given.items() if name in NAMES}


def loaded_for(metadata: Mapping[str, Any]) -> Config:
    """The settings of this project for a conversation that says this of itself."""
    config, origins = loaded()
    limits = noted(metadata)
    if not limits or are_said(config, origins):
        return config
    try:
        return loaded(limits)[0]
    except Invalid:
        return config  # anybody can write metadata, and no conversation must be shut by it
