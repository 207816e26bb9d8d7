"""The settings of the writer: the table `writer` of the files, `REFOLD_WRITER_*`, arguments; later
ones win.

The environment and the arguments are the user's own. What the files of a project say about the
address and the key counts only after the user allowed it (`trust`), and a key belongs to the
address that it was named with. Neighbours: `sources` reads files and environment,
`edges.endpoints.writer` makes a writer of these settings.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from refold import decoding
from refold.errors import Denied, Invalid
from refold.settings import trust
from refold.settings.sources import PREFIX, WRITER, Table, from_files, inner, named

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
    own = {**_from_environment(environ), **arguments}
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
) -> trust.Request | None:
    """What the files of this project ask the user to allow; None if they name no address."""
    environ = os.environ if environ is None else environ
    own, theirs = _from_environment(environ), _from_files(folder)
    if "url" in own or not theirs.get("url"):
        return None
    settings = _checked({**theirs, **own})
    here = os.fsencode((folder or Path.cwd()).resolve()).decode("utf-8", "backslashreplace")
    return trust.Request(folder=here, url=settings.url, key_env=settings.key_env)


def _check_allowed(folder: Path | None, environ: Mapping[str, str]) -> None:
    request = requested(folder, environ)
    if request is None or trust.is_allowed(request, environ):
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


def _from_environment(environ: Mapping[str, str]) -> dict[str, str]:
    return named(environ, WRITER_FIELDS, WRITER_PREFIX)


def _checked(values: Table) -> WriterSettings:
    try:
        return decoding.convert(values, WriterSettings, strict=False)
    except msgspec.ValidationError as error:
        raise Invalid(f"the table {WRITER}: {error}", hint=WRITER_HINT) from error
