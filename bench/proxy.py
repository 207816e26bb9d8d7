"""What the proxy costs and saves: recorded sessions of real agents, played call by call through a
proxy process against an upstream as strict as the providers (`tests/real/proxy/strict`), and a
hundred conversations at once.

CPU is what /proc says of the proxy's process, all of it: HTTP on both sides with a new connection
for each call, the log, compactions. The bound follows from msgspec's decoding of the very bodies
that came, measured here. Neighbours: `proxy_cpu` has the CPU by what is done to a call, without a
strict upstream; `proxy_pages` has what is not timed, on all sessions.
"""

from __future__ import annotations

import json
import os
import tempfile
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from tests.real.proxy.agent import Agent, ResponsesAgent, item_turns, tool_loop, turns, unsigned
from tests.real.proxy.process import Process, proxied
from tests.real.proxy.recorded import ABSENT, recorded
from tests.real.proxy.strict.server import serving

from bench import proxy_cpu, proxy_pages
from bench.proxy_cpu import ALL, CALL_MS, DECODINGS, answering, cpu_ms, decoding_ms
from bench.proxy_pages import BYTES_A_TOKEN, BYTES_MAX, FRONT_MIN, WINDOW, fronts
from bench.tables import Table, verdict

CONVERSATIONS, ROUNDS, GROWTH_MAX = 100, 12, 1.10
KINDS: dict[str, tuple[str, type[Agent]]] = {
    "anthropic": ("anthropic", Agent),
    "openai_responses": ("openai", ResponsesAgent),
}
HEAD = ["what", "Claude Code", "Codex", "goal", ""]
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass
class Played:
    """What came of the sessions of one agent."""

    sessions: int = 0
    requests: int = 0
    refused: int = 0
    changed: int = 0
    failed: int = 0
    client_bytes: int = 0
    sent_bytes: int = 0
    long_client_bytes: int = 0  # of requests whose list is over the window
    long_sent_bytes: int = 0
    folded: int = 0
    fronts: list[float] = field(default_factory=list)
    cpu_ms: float = 0.0
    bound_ms: float = 0.0
    saved: float = 0.0
    cost: float = 0.0


def run(data: Path | None, limit: int = ALL) -> list[Table] | str:
    if data is None or not (data / "raw").is_dir():
        return ABSENT
    claude, codex = (play(kind, limit, data) for kind in KINDS)
    table = Table(f"Recorded sessions through `refold proxy --fold --window {WINDOW}`", HEAD)
    for name, value in (("sessions", "sessions"), ("requests", "requests"), ("folded", "folded")):
        table.add(name, getattr(claude, value), getattr(codex, value), "", "")
    for name in ("refused", "changed", "failed"):
        worst = max(getattr(claude, name), getattr(codex, name))
        table.add(
            _NAMES[name], getattr(claude, name), getattr(codex, name), "0", verdict(not worst)
        )
    shares = [one.sent_bytes / max(1, one.client_bytes) for one in (claude, codex)]
    met = verdict(max(shares) <= BYTES_MAX)
    table.add("sent, as a share of the client's bytes", *shares, f"≤ {BYTES_MAX}", met)
    shares = [one.long_sent_bytes / max(1, one.long_client_bytes) for one in (claude, codex)]
    met = verdict(max(shares) <= BYTES_MAX)
    table.add("the same, of lists over the window", *shares, f"≤ {BYTES_MAX}", met)
    shares = [1 - one.long_client_bytes / max(1, one.client_bytes) for one in (claude, codex)]
    table.add("bytes of lists that fit into the window", *shares, "", "")
    fronts = [sum(one.fronts) / max(1, len(one.fronts)) for one in (claude, codex)]
    met = verdict(min(fronts) >= FRONT_MIN)
    table.add("of a request, repeats the front of the last", *fronts, f"≥ {FRONT_MIN}", met)
    cpu = [one.cpu_ms / max(1, one.requests) for one in (claude, codex)]
    bound = [one.bound_ms / max(1, one.requests) for one in (claude, codex)]
    met = verdict(all(one <= other for one, other in zip(cpu, bound, strict=True)))
    table.add("CPU of the proxy, ms a call", *cpu, " / ".join(f"{one:.1f}" for one in bound), met)
    money = [f"${one.cost:.2f}, ${one.saved:.2f} saved" for one in (claude, codex)]
    table.add("billed, by the upstream's usage", *money, "", "")
    table.note("Lists up to 45 % of the window go up as they came.")
    table.note(
        "The goal of the CPU is 5 ms and three decodings of the body, for either agent; what is "
        "loaded late was loaded before. Every call here has a connection of its own; over one that "
        "is kept, see below."
    )
    cpu_table = proxy_cpu.run(data, limit)
    assert isinstance(cpu_table, Table)
    return [table, *proxy_pages.run(data, quick=limit < ALL), cpu_table, at_once()]


_NAMES = {
    "refused": "refused by the upstream",
    "changed": "answers changed",
    "failed": "faults in the proxy's log",
}


# --- sessions ---


def play(kind: str, limit: int, data: Path) -> Played:
    base, caller = KINDS[kind]
    played = Played()
    for _, messages in recorded(kind, limit, data):
        with (
            tempfile.TemporaryDirectory() as place,
            serving(window=1_000_000) as upstream,
            proxied(Path(place), upstream.url, "--fold", "--window", str(WINDOW)) as proxy,
        ):
            agent = caller(f"{proxy.url}/{base}", upstream)
            _warm_up(type(agent)(agent.url, upstream))
            before_ms = cpu_ms(proxy)
            played.changed += _talked(agent, messages, played)
            played.cpu_ms += cpu_ms(proxy) - before_ms
            report = proxy.refold("proxy", "--report")["total"]
            played.failed += proxy.log().count('"failed"')
        played.sessions += 1
        played.requests += len(upstream.requests)
        played.refused += len(upstream.refusals)
        played.client_bytes += agent.sent_bytes
        played.sent_bytes += sum(len(one.raw) for one in upstream.requests)
        for asked, sent in zip(agent.sizes, upstream.requests, strict=False):
            if asked > WINDOW * BYTES_A_TOKEN:
                played.long_client_bytes += asked
                played.long_sent_bytes += len(sent.raw)
        played.folded += report["folded"]
        played.cost += report["cost"] or 0.0
        played.saved += report["saved_cost"] or 0.0
        key = "messages" if kind == "anthropic" else "input"
        played.fronts += fronts([one.body[key] for one in upstream.requests])
    return played


def _warm_up(agent: Agent) -> None:
    """A few calls of another conversation: what is loaded late is there afterwards."""
    is_items = isinstance(agent, ResponsesAgent)
    for said, answer in item_turns(_ITEMS) if is_items else turns(tool_loop(3)):
        agent.turn(said, answer)
    agent.upstream.requests.clear()


_TEXT = (Path(__file__).parents[1] / "ARCHITECTURE.md").read_text(encoding="utf-8")
_ITEMS = [
    one
    for number in range(3)
    for one in (
        {"role": "user", "content": f"{number}: {_TEXT}"},
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": str(number)}],
        },
    )
]


def _talked(agent: Agent, messages: list[dict[str, Any]], played: Played) -> int:
    """Plays one session; gives how many answers were not as the upstream sent them."""
    changed = 0
    each = item_turns if isinstance(agent, ResponsesAgent) else turns
    for said, answer in each(messages):
        content = agent.turn(said, answer)
        changed += list(map(unsigned, content)) != answer
        body = json.dumps(agent.request()).encode()
        played.bound_ms += CALL_MS + DECODINGS * decoding_ms(body)
    return changed


def memory_mb(proxy: Process) -> float:
    text = Path(f"/proc/{proxy.process.pid}/statm").read_text()
    return int(text.split()[1]) * _PAGE / 1e6


# --- many at once ---


def at_once(conversations: int = CONVERSATIONS, rounds: int = ROUNDS) -> Table:
    """So many conversations that each repeat their list; memory after each round."""
    sizes = []
    with (
        tempfile.TemporaryDirectory() as place,
        answering() as server,
        proxied(Path(place), server.url) as proxy,
        httpx.Client(timeout=60) as client,
    ):
        for number in range(rounds):
            _round(client, proxy.url, conversations, number)
            sizes.append(memory_mb(proxy))
    table = Table(f"{conversations} conversations at once, memory of the proxy", HEAD_MEMORY)
    for number, size in enumerate(sizes):
        table.add(number + 1, size, "", "")
    growth = sizes[-1] / sizes[WARM_ROUNDS]
    table.add("last over sixth", growth, f"≤ {GROWTH_MAX}", verdict(growth <= GROWTH_MAX))
    return table


WARM_ROUNDS = 5  # until every thread has worked
HEAD_MEMORY = ["round", "MB", "goal", ""]


def _round(client: httpx.Client, url: str, conversations: int, number: int) -> None:
    """Every conversation sends its list once, in turns with and without its last two messages: what
    it holds does not grow, but something is written every time."""

    def call(name: int) -> None:
        messages: list[dict[str, str]] = [{"role": "user", "content": f"I am {name}."}]
        for turn in range(60 + number % 2):
            messages += [
                {"role": "assistant", "content": f"{name} {turn} " * 60},
                {"role": "user", "content": f"go on with {turn} " * 50},
            ]
        body = {"model": "claude-opus-5-5", "max_tokens": 9, "messages": messages}
        assert client.post(f"{url}/anthropic/v1/messages", json=body).status_code == 200

    threads = [threading.Thread(target=call, args=(name,)) for name in range(conversations)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
