"""Facts planted in a session, looked for after one, two and three compactions.

A fact is *visible* if the line that says it, or the 160 characters around its key, stands on the
page; *one unfold away* if it can be read through a span (`#a-b`) or artifact (`art-…`) that the
page names. Wrong: a finished to-do that the page shows as open only, a modified file that it does
not name. The newest messages in the same tokens are what a window would show.

    python -m bench.probes [--seeds 3] [--window 100000]
"""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Iterator

import refold
from bench.agents import newest
from bench.plants import KINDS, PER_KIND, Fact, Message, list_messages, messages_of, planted
from bench.sessions import text_of, tokens_of_all, tokens_of_text
from bench.tables import Table
from bench.workload import RESULT_CHARS, Workload
from refold.replay.needs import piece_of
from refold.replay.policies import plain

WINDOW, ROUNDS, SEEDS = 100_000, 3, 3
FILLED = 0.8  # of the window: how full it is with the facts in it
_HANDLE = re.compile(r"#\d+-#?\d+|art-[a-z2-7]{12}")
_OPEN = re.compile(r"\[ \]|pending|in_progress|Open to-do", re.IGNORECASE)
_DONE = re.compile(r"\[x\]|completed|\bdone\b", re.IGNORECASE)
TODOS = ("open to-do", "finished to-do")
AROUND = 70  # characters beside a to-do in which its state stands


# --- the session ---


class Session:
    """A context with facts in its first part, and as much ordinary work as its window needs to
    fill up."""

    def __init__(self, seed: int, window: int, per_kind: int = PER_KIND) -> None:
        config = {"reserve_tokens": 0, "auto": False}
        self.context = refold.open(
            "probe", store="memory:", window=window, counter=tokens_of_text, config=config
        )
        self.work, self.window = Workload(seed), window
        self.facts = planted(seed, per_kind)
        self.sent: list[Message] = []
        for message in self.work.opening()[1:]:
            self.append(message)
        # Spread evenly: as much other work after each fact as fills the window with the last of
        # them.
        between = int(4 * FILLED * window / len(self.facts))
        for messages in self._planting():
            for message in messages:
                self.append(message)
            if self.context.view.tokens < FILLED * window:
                self.work_on(between)

    def _planting(self) -> Iterator[list[Message]]:
        """The facts in order; the lists of to-dos early and, ticked off, late."""
        todos = [fact for fact in self.facts if fact.kind in TODOS]
        others = [fact for fact in self.facts if fact.kind not in TODOS]
        halves = (todos[::2], True), (todos[1::2], False)
        for at, (half, by_tool) in enumerate(halves):
            yield list_messages(half, f"list_{at}", first=True, by_tool=by_tool)
        for at, fact in enumerate(others):
            yield messages_of(fact, f"fact_{at}")
        for at, (half, by_tool) in enumerate(halves):
            yield list_messages(half, f"ticked_{at}", first=False, by_tool=by_tool)

    def append(self, message: Message) -> None:
        self.sent.append(message)
        self.context.append(message)

    def work_on(self, characters: int = RESULT_CHARS) -> None:
        call, id, _ = self.work.turn()
        self.append(call)
        self.append({"role": "tool", "tool_call_id": id, "content": self.work.text(characters)})

    def fill(self) -> None:
        while self.context.view.tokens < 0.9 * self.window:
            self.work_on()

    def page(self) -> list[Message]:
        return [
            plain(message) for message in self.context.request(dialect="openai_chat")["messages"]
        ]


# --- looking ---


def is_there(fact: Fact, text: str) -> bool:
    return piece_of(fact.line, fact.key) in text


def unfolded_text(context: refold.Context, page: str) -> str:
    """All that the page's handles lead to, in one step."""
    return "\n".join(context.unfold(handle).text for handle in sorted(set(_HANDLE.findall(page))))


def is_wrong(fact: Fact, page: str) -> bool:
    if fact.kind == "modified file":
        return fact.line not in page
    return fact.kind == "finished to-do" and states_of(fact.line, page) == {"open"}


def states_of(todo: str, page: str) -> set[str]:
    """Every state in which a page shows a to-do: by a mark beside it, or by the heading above
    it."""
    found, heading = set(), ""
    for line in page.splitlines():
        if line.endswith(":") and not line.startswith("-"):
            heading = line
        for at in (match.start() for match in re.finditer(re.escape(todo), line)):
            beside = (
                line[max(0, at - 8) : at + len(todo) + AROUND].replace(todo, "").split("content")[0]
            )
            if _DONE.search(beside) or heading.startswith("Finished to-dos"):
                found.add("done")
            elif _OPEN.search(beside) or heading.startswith("Open to-dos"):
                found.add("open")
    return found


Count = Counter[tuple[int, str, str]]  # by round, kind, and what was found


def probed(
    seed: int, window: int, counts: Count, per_kind: int = PER_KIND, rounds: int = ROUNDS
) -> None:
    session = Session(seed, window, per_kind)
    for round in range(1, rounds + 1):
        session.fill()
        session.context.compact()
        page = session.page()
        text = "\n".join(map(text_of, page))
        unfolded = unfolded_text(session.context, text)
        tail = "\n".join(map(text_of, newest(session.sent, tokens_of_all(page))))
        for fact in session.facts:
            counts[round, fact.kind, "planted"] += 1
            counts[round, fact.kind, "visible"] += is_there(fact, text)
            counts[round, fact.kind, "unfold"] += is_there(fact, unfolded) and not is_there(
                fact, text
            )
            counts[round, fact.kind, "wrong"] += is_wrong(fact, text)
            counts[round, fact.kind, "window"] += is_there(fact, tail)
        counts[round, "", "tokens"] += tokens_of_all(page)


# --- table ---


def run(seeds: int = SEEDS, window: int = WINDOW, per_kind: int = PER_KIND) -> list[Table]:
    counts: Count = Counter()
    for seed in range(seeds):
        probed(seed, window, counts, per_kind)
    head = ["fact", "planted", *(f"visible {n}" for n in range(1, ROUNDS + 1))]
    head += [
        *(f"unfold {n}" for n in range(1, ROUNDS + 1)),
        "lost",
        "wrong",
        *(f"window {n}" for n in (1, ROUNDS)),
    ]
    table = Table("Planted facts after 1, 2, 3 compactions", head)
    for kind in KINDS:
        table.add(kind, *_row(counts, kind))
    sizes = ", ".join(f"{counts[n, '', 'tokens'] / seeds:,.0f}" for n in range(1, ROUNDS + 1))
    table.note(
        f"Window {window:,}; the page has {sizes} tokens after each. lost, wrong: after the last compaction."
    )
    table.note("window: visible in the newest messages of the same size.")
    return [table]


def _row(counts: Count, kind: str) -> list[int]:
    rounds = range(1, ROUNDS + 1)
    planted = counts[1, kind, "planted"]
    visible, away = ([counts[n, kind, what] for n in rounds] for what in ("visible", "unfold"))
    lost = planted - visible[-1] - away[-1]
    window = [counts[n, kind, "window"] for n in (1, ROUNDS)]
    return [planted, *visible, *away, lost, counts[ROUNDS, kind, "wrong"], *window]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.probes")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--window", type=int, default=WINDOW)
    given = parser.parse_args()
    print("\n\n".join(map(str, run(given.seeds, given.window))))


if __name__ == "__main__":
    main()
