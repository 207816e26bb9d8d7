"""The agents that `refold run` knows, and how each is told where to call.

An agent is told by variables of its own process, and by arguments where a variable is not enough.
What the variable held before is where the proxy then calls: whoever has a gateway keeps it. A
program that is not known gets the variables of all providers. Neighbours: `supervisor` starts the
agent.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath

from msgspec import Struct

from refold.edges.proxy.route import Provider


class Variable(Struct, frozen=True):
    """How one provider's clients are told where to call: the variable, and the address that they
    call without it, as that variable would have it."""

    name: str
    provider: Provider
    usual: str


CLAUDE = Variable("ANTHROPIC_BASE_URL", "anthropic", "https://api.anthropic.com")
OPENAI = Variable("OPENAI_BASE_URL", "openai", "https://api.openai.com/v1")
GEMINI = Variable("GOOGLE_GEMINI_BASE_URL", "gemini", "https://generativelanguage.googleapis.com")


class Agent(Struct, frozen=True, kw_only=True):
    """A program: what tells it where to call. `setting` is the name of a setting that it takes as
    `-c NAME="URL"`; `besides` are variables that it needs to be as it is without a proxy."""

    variables: tuple[Variable, ...]
    setting: str = ""
    besides: Mapping[str, str] = {}


AGENTS = {
    # Behind another host, Claude Code leaves the search for tools off unless it is told.
    "claude": Agent(variables=(CLAUDE,), besides={"ENABLE_TOOL_SEARCH": "true"}),
    # Codex reads its address from its settings, and the variable in older versions.
    "codex": Agent(variables=(OPENAI,), setting="openai_base_url"),
    "gemini": Agent(variables=(GEMINI,)),
}
ANY = Agent(variables=(CLAUDE, OPENAI, GEMINI))


class Start(Struct, frozen=True, kw_only=True):
    """How an agent is started: its command line and environment."""

    command: tuple[str, ...]
    environ: dict[str, str]


def agent_of(program: str) -> Agent:
    return AGENTS.get(PurePath(program).stem, ANY)


def bases_of(program: str, environ: Mapping[str, str]) -> dict[str, str]:
    """Where the proxy calls for this agent: where the agent would have."""
    return {one.provider: environ.get(one.name) or one.usual for one in agent_of(program).variables}


def start_of(command: tuple[str, ...], environ: Mapping[str, str], url: str) -> Start:
    """How the agent is started with the proxy at this address; without one, as it would be."""
    if not url:
        return Start(command=command, environ=dict(environ))
    agent = agent_of(command[0])
    told = {one.name: f"{url}/{one.provider}" for one in agent.variables}
    program, *rest = command
    if agent.setting:
        address = next(iter(told.values()))
        rest = ["-c", f'{agent.setting}="{address}"', *rest]
    return Start(command=(program, *rest), environ={**agent.besides, **environ, **told})
