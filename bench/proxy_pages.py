"""What the proxy's pages save and keep, on all recorded sessions: bytes beside the client's, and
cost and recall beside the library's, by the measure of `fidelity`.

Nothing here is timed. From which size on the proxy acts was chosen on every fourth session from the
first on; cost and recall are those of every fourth from the third on.
Neighbours: `proxied` is the proxy without HTTP, `proxy` measures processes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec

from bench.proxied import Passage, Proxied
from bench.replay import OVERFLOW, Score, budget_of, replay
from bench.sessions import Message, session_of, session_paths, tokens_of_all
from bench.tables import Table, verdict
from bench.talks import ItemsTalk, MessagesTalk, Talk
from refold.replay.policies import Policy, Refold

WINDOW = 60_000
BYTES_A_TOKEN = 4
FRONT_MIN, BYTES_MAX = 0.95, 0.35
SHARES = (0.3, 0.15)
APART_MAX = 0.02
STEP, FIRST, QUICK_STEP = 4, 2, 10
AGENTS: dict[str, tuple[str, type[Talk]]] = {
    "Claude Code": ("claude-code--", MessagesTalk),
    "Codex": ("codex-cli--", ItemsTalk),
}
POLICIES: dict[str, Callable[[], Policy]] = {"library": Refold, "proxy": Proxied}


def run(folder: Path, *, quick: bool = False) -> list[Table]:
    """Both tables; of some sessions only, if it must be quick."""
    paths = session_paths(folder / "trajectories")
    return [
        byte_table(paths, QUICK_STEP if quick else 1),
        fidelity_table(paths[FIRST :: STEP * QUICK_STEP if quick else STEP]),
    ]


# --- bytes ---


@dataclass
class Sent:
    """What came of the calls of some sessions."""

    sessions: int = 0
    calls: int = 0
    client_bytes: int = 0
    sent_bytes: int = 0
    fronts: list[float] = field(default_factory=list)

    def add(self, other: Sent) -> None:
        self.sessions += other.sessions
        self.calls += other.calls
        self.client_bytes += other.client_bytes
        self.sent_bytes += other.sent_bytes
        self.fronts += other.fronts

    @property
    def share(self) -> float:
        return self.sent_bytes / max(1, self.client_bytes)


def byte_table(paths: list[Path], step: int = 1) -> Table:
    head = ["sessions", "number", "calls", "MB", "KB a call", "sent", "", "same front", ""]
    table = Table(f"All recorded sessions, folded into {WINDOW:,} tokens", head)
    for agent, (prefix, talk) in AGENTS.items():
        its_own = [path for path in paths if path.name.startswith(prefix)]
        found = [sent_of(path, talk) for path in its_own[::step]]
        _add_row(table, agent, found, is_judged=True)
        over = [one for one in found if _is_over(one)]
        _add_row(table, f"{agent}, lists that outgrow the window", over, is_judged=False)
    table.note(
        f"sent: the share of the client's bytes that goes up, at most {BYTES_MAX}; same front: how "
        f"much of a request repeats the one before, at least {FRONT_MIN}."
    )
    table.note(
        "The proof that the goal comes from had 31 sessions of Claude Code with 373 KB a call and "
        "14 of Codex with 495, and sent 0.297 and 0.291 of them: 111 and 144 KB a call."
    )
    return table


def _add_row(table: Table, name: str, found: list[tuple[Sent, int]], *, is_judged: bool) -> None:
    all_sent = Sent()
    for one, _ in found:
        all_sent.add(one)
    fronts = sum(all_sent.fronts) / max(1, len(all_sent.fronts))
    table.add(
        name,
        all_sent.sessions,
        all_sent.calls,
        all_sent.client_bytes / 1e6,
        all_sent.client_bytes / 1e3 / max(1, all_sent.calls),
        all_sent.share,
        verdict(all_sent.share <= BYTES_MAX) if is_judged else "",
        fronts,
        verdict(fronts >= FRONT_MIN) if is_judged else "",
    )


def _is_over(found: tuple[Sent, int]) -> bool:
    return found[1] > WINDOW * BYTES_A_TOKEN


def sent_of(path: Path, make: type[Talk]) -> tuple[Sent, int]:
    """What is sent for a session, and the size of its longest list in bytes."""
    talk = make(thinks=True)
    passage = Passage(talk.path, WINDOW)
    sent, lists, longest = Sent(sessions=1), list[list[Any]](), 0
    for asked in calls_of(session_of(path), talk):
        body = passage.sent(asked)
        passage.answered(len(body) // BYTES_A_TOKEN)
        sent.calls += 1
        sent.client_bytes += len(asked)
        sent.sent_bytes += len(body)
        longest = max(longest, len(asked))
        lists.append(msgspec.json.decode(body)[talk.key])
        sent.fronts += fronts(lists[-2:])
        del lists[:-1]
    passage.close()
    return sent, longest


def calls_of(messages: list[Message], talk: Talk) -> Iterator[bytes]:
    """The calls of a session: one before each answer."""
    is_answered = True
    for message in messages:
        is_answer = message["role"] == "assistant"
        if is_answer and not is_answered and talk.wires:
            yield talk.body()
        is_answered = is_answer
        talk.take(message)


def fronts(lists: list[list[Any]]) -> list[float]:
    """For each request but the first, how much of it repeats the front of the one before; of what
    it could repeat."""
    shares = []
    for before, now in pairwise(lists):
        earlier, later = list(map(_plain, before)), list(map(_plain, now))
        pairs = zip(earlier, later, strict=False)
        same = next((at for at, (one, other) in enumerate(pairs) if one != other), len(earlier))
        could = sum(map(len, earlier))
        shares.append(min(1.0, sum(map(len, later[:same])) / could) if could else 1.0)
    return shares


def _plain(message: Any) -> bytes:
    """A message without cache marks, its text always in a list: providers read both alike."""
    content = message.get("content")
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    if isinstance(content, list):
        blocks = [
            {key: value for key, value in one.items() if key != "cache_control"} for one in content
        ]
        message = {**message, "content": blocks}
    return msgspec.json.encode(message)


# --- cost and recall ---


def fidelity_table(paths: list[Path]) -> Table:
    """What is kept and billed, at the budgets of `fidelity` and at a fixed window."""
    compared = ["proxy", "ratio", ""]
    head = ["budget", "sessions", "rich", *compared, "cost", *compared, "faults"]
    table = Table("Cost and recall of the proxy beside the library", head)
    for share in SHARES:
        scores = _scores(paths, lambda messages, share=share: budget_of(messages, share))
        _add_compared(table, f"{share:.0%}", *scores)
    _add_compared(table, f"{WINDOW:,} tokens", *_scores(paths, _fixed))
    table.note(
        "rich and cost as in `fidelity`, of every fourth session from the third on: the library's, "
        "the proxy's, and their ratio, which is to be at least 0.98 and at most 1.02."
    )
    return table


def _fixed(messages: list[Message]) -> int | None:
    return WINDOW if tokens_of_all(messages) > OVERFLOW * WINDOW else None


def _scores(
    paths: list[Path], budget_for: Callable[[list[Message]], int | None]
) -> tuple[dict[str, Score], int]:
    scores, sessions = {name: Score() for name in POLICIES}, 0
    for path in paths:
        messages = session_of(path)
        budget = budget_for(messages)
        if budget is None:
            continue
        sessions += 1
        for name, score in replay(messages, budget, POLICIES).items():
            scores[name].add(score)
    return scores, sessions


def _add_compared(table: Table, name: str, scores: dict[str, Score], sessions: int) -> None:
    library, proxy = scores["library"], scores["proxy"]
    rich, cost = proxy.rich / max(1e-9, library.rich), proxy.cost / max(1e-9, library.cost)
    table.add(
        name,
        sessions,
        library.rich,
        proxy.rich,
        rich,
        verdict(rich >= 1 - APART_MAX),
        library.cost,
        proxy.cost,
        cost,
        verdict(cost <= 1 + APART_MAX),
        sum(proxy.bill.faults.values()),
    )
