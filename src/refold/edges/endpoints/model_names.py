"""Model names for `--model`: a provider and a model, or an address and a model.

Addresses and keys come from the user alone: the argument and the environment, never from a file of
the project or from a log. A key is sent only to its provider's host, or to a host that the
environment names for that provider (`OPENAI_BASE_URL`). Neighbours: `chat` sends requests there,
`settings.sources` has the domains of the keys.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from refold.checked import quoted
from refold.display import suggestion
from refold.edges.endpoints.client import check_address, host_of
from refold.edges.endpoints.writer import Kind
from refold.errors import Invalid
from refold.settings.sources import KEY_DOMAINS

SCRIPTED = "scripted"  # a chat's agent without a provider
FORMS = "provider:name, such as openai:gpt-5.4-mini, or URL#name"
NAME_CHARS_MAX = 200


class NamedModel(Struct, frozen=True, kw_only=True):
    """A model, its address, and the variable with the key; `spec` is the user's own text."""

    spec: str
    kind: Kind
    url: str
    name: str
    key_env: str = ""


class Provider(Struct, frozen=True, kw_only=True):
    """A provider's address, unless the environment names another, and the variables for its keys
    and the user's usual model."""

    kind: Kind
    url: str
    url_env: str = ""
    path: str = ""
    key_envs: tuple[str, ...] = ()
    model_env: str = ""


PROVIDERS = {
    "openai": Provider(
        kind="openai",
        url="https://api.openai.com/v1",
        url_env="OPENAI_BASE_URL",
        key_envs=("OPENAI_API_KEY",),
        model_env="OPENAI_MODEL",
    ),
    "anthropic": Provider(
        kind="anthropic",
        url="https://api.anthropic.com",
        url_env="ANTHROPIC_BASE_URL",
        key_envs=("ANTHROPIC_API_KEY",),
        model_env="ANTHROPIC_MODEL",
    ),
    "gemini": Provider(
        kind="gemini",
        url="https://generativelanguage.googleapis.com",
        url_env="GOOGLE_GEMINI_BASE_URL",
        key_envs=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        model_env="GEMINI_MODEL",
    ),
    "openrouter": Provider(
        kind="openai", url="https://openrouter.ai/api/v1", key_envs=("OPENROUTER_API_KEY",)
    ),
    "ollama": Provider(
        kind="openai", url="http://127.0.0.1:11434", url_env="OLLAMA_HOST", path="/v1"
    ),
    "llamacpp": Provider(
        kind="openai", url="http://127.0.0.1:8080", url_env="LLAMACPP_BASE_URL", path="/v1"
    ),
    "vllm": Provider(
        kind="openai", url="http://127.0.0.1:8000", url_env="VLLM_BASE_URL", path="/v1"
    ),
}


def model_named(spec: str, environ: Mapping[str, str]) -> NamedModel:
    """The model with this name or address. Raises Invalid if there is none."""
    if "://" in spec:
        return _at_address(spec, environ)
    provider_name, _, name = spec.partition(":")
    if provider_name not in PROVIDERS:
        hint = suggestion(provider_name, [*PROVIDERS, SCRIPTED])
        raise Invalid(f"--model {quoted(spec, 80)} names no provider; it is {FORMS}", hint=hint)
    provider = PROVIDERS[provider_name]
    name = name or environ.get(provider.model_env, "")
    if not name:
        raise Invalid(f"--model {quoted(spec, 80)} names no model", hint=f"write it as {FORMS}")
    url = environ.get(provider.url_env, "") if provider.url_env else ""
    if url and "://" not in url:  # a plain host
        url = f"http://{url.replace('0.0.0.0', '127.0.0.1')}"
    url = check_address(url or provider.url)
    url = url if url.endswith(provider.path) else url + provider.path
    # The provider's own address needs a key; another gets one only if it is set.
    is_own = host_of(url) == host_of(provider.url)
    key_env = provider.key_envs[0] if is_own and provider.key_envs else ""
    return NamedModel(
        spec=f"{provider_name}:{name}",
        kind=provider.kind,
        url=url,
        name=_checked_name(name),
        key_env=next((key for key in provider.key_envs if environ.get(key)), key_env),
    )


def _at_address(spec: str, environ: Mapping[str, str]) -> NamedModel:
    """A model at an address, in the format of the host's provider, or else of OpenAI."""
    url, _, name = spec.partition("#")
    url = check_address(url)
    if not name:
        raise Invalid(f"{quoted(spec, 80)} names no model", hint="write it as URL#name")
    host = host_of(url)
    kinds = {host_of(provider.url): provider.kind for provider in PROVIDERS.values()}
    keys = [
        key
        for key, domains in KEY_DOMAINS.items()
        if any(f".{host}".endswith(f".{domain}") for domain in domains)
    ]
    return NamedModel(
        spec=spec,
        kind=kinds.get(host, "openai"),
        url=url,
        name=_checked_name(name),
        key_env=next((key for key in keys if environ.get(key)), keys[0] if keys else ""),
    )


def _checked_name(name: str) -> str:
    if len(name) > NAME_CHARS_MAX or not name.isprintable():
        raise Invalid(f"{quoted(name, 80)} is not the name of a model", hint=f"write it as {FORMS}")
    return name
