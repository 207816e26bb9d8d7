"""What of a session survives context management, and what it costs: all policies on the same real
sessions, in one run.

A policy sees a session message by message and gives a prompt before each turn of the assistant. Its
budget is a share of the session. Once the session is longer than that, the turn's needs (`needs`)
are looked for in the prompt:

- rich: a telling line that held the name is there: the name and three other words within 160 characters. Needs for
  which no such line was ever seen do not count. `/sess.` is the mean over sessions with at least five such needs.
- line, ref: any line that held it is there; the bare name is there.
- around: such a line is there together with the line that stood beside it.
- fresh: of the names seen within the last ten messages, how many are there.
- cost: tokens billed when an unchanged prefix costs 0.1 and everything else 1.25, relative to sending everything.
- breaks: the share of prompts that changed something of the prompt before. faults: see `faults_of`.

Sessions whose opening alone takes over 60 % of the budget are left out.

    python -m bench.fidelity DATA [--share 0.3 0.15] [--step N] [--from N] [--only NAME…] [--agents]
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable
from pathlib import Path

from bench.agents import agents_table
from bench.contenders import contenders
from bench.replay import Score, Scores, measured, pooled
from bench.sessions import data_folder, session_paths
from bench.tables import Table, text_of_tables
from refold.replay.policies import BASELINES

SHARES = (0.3, 0.15)
TIGHT = 0.07  # where only faults are looked at
RIVALS = [name for name in BASELINES if name != "everything"]  # what can be sent at all
COLUMNS = [
    "rich",
    "/sess.",
    "line",
    "ref",
    "around",
    "fresh",
    "cost",
    "breaks",
    "faults",
    "ms/turn",
    "needed",
]
# Goals by share: rich pooled, rich per session, around, fresh, and cost relative to the cheapest
# baseline.
GOALS = {0.3: (0.965, 0.955, 0.85, 0.99, 1.0), 0.15: (0.90, 0.89, 0.70, 0.99, 1.0)}


# --- tables ---


def policy_table(scores: Scores, share: float) -> Table:
    table = Table(f"All sessions, budget {share:.0%}", ["policy", *COLUMNS])
    for name, families in scores.items():
        table.add(name, *pooled(families).row().values())
    return table


def family_table(scores: Scores, share: float) -> Table:
    """For each agent: refold's recall beside the best baseline's, its cost beside the cheapest
    one's."""
    head = [
        "agent",
        "rich",
        "best baseline",
        "",
        "cost",
        "cheapest baseline",
        "",
        "ratio",
        "its rich",
        "its fresh",
    ]
    table = Table(f"Per agent, budget {share:.0%}", [*head, "around", "fresh", "faults", "needed"])
    for family in sorted(scores["refold"]):
        ours = scores["refold"][family]
        rivals = {name: scores[name][family] for name in RIVALS if name in scores}
        if rivals:
            table.add(family, *_compared(ours, rivals))
    table.note(
        "its rich, its fresh: of the cheapest baseline, which may be cheap because it leaves out what is large."
    )
    table.note("needed: a family with a few dozen needs says little.")
    return table


def _compared(ours: Score, rivals: dict[str, Score]) -> list[object]:
    best = max(rivals, key=lambda name: rivals[name].rich)
    cheap = min(rivals, key=lambda name: rivals[name].cost)
    row, its = ours.row(), rivals[cheap].row()
    return [
        row["rich"],
        rivals[best].rich,
        best,
        row["cost"],
        its["cost"],
        cheap,
        row["cost"] / max(1e-9, its["cost"]),
        its["rich"],
        its["fresh"],
        row["around"],
        row["fresh"],
        row["faults"],
        row["needed"],
    ]


def goal_table(scores: Scores, share: float) -> Table:
    table = Table(f"Goals, budget {share:.0%}", ["what", "refold", "goal", "met"])
    row = pooled(scores["refold"]).row()
    rich, per_session, around, fresh, billed = GOALS[share]
    table.at_least("rich, pooled", row["rich"], rich)
    table.at_least("rich, per session", row["/sess."], per_session)
    table.at_least("around", row["around"], around)
    table.at_least("fresh", row["fresh"], fresh)
    costs = [pooled(scores[name]).cost for name in RIVALS if name in scores]
    if costs:
        table.at_most("cost, of the cheapest baseline's", row["cost"] / min(costs), billed)
    table.at_most("faults", row["faults"], 0)
    return table


def fault_table(all_scores: dict[float, Scores]) -> Table:
    table = Table("Faults", ["policy", *(f"{share:.0%}" for share in all_scores), "which"])
    for name in next(iter(all_scores.values())):
        bills = [pooled(scores[name]).bill for scores in all_scores.values()]
        kinds = sorted({kind for bill in bills for kind in bill.faults})
        table.add(name, *(sum(bill.faults.values()) for bill in bills), ", ".join(kinds))
    return table


def tables_of(all_scores: dict[float, Scores]) -> list[Table]:
    tables = []
    for share, scores in all_scores.items():
        tables.append(policy_table(scores, share))
        if "refold" in scores:
            tables += [family_table(scores, share)]
            tables += [goal_table(scores, share)] if share in GOALS else []
    return [*tables, fault_table(all_scores)]


# --- command ---


def run(
    folder: Path,
    *,
    shares: Iterable[float] = (*SHARES, TIGHT),
    step: int = 1,
    first: int = 0,
    only: Iterable[str] = (),
    agents: bool = True,
    jobs: int = 1,
) -> list[Table]:
    """All tables of the measure."""
    paths = session_paths(folder, step, first)
    tables = tables_of({share: measured(paths, share, only, jobs) for share in shares})
    missing = contenders()[1]
    if missing:
        tables[0].note(f"Not in this version: {', '.join(missing)}.")
    tables[0].note(f"{len(paths)} files; needed: how many needs were weighed.")
    return [*tables, agents_table(paths)] if agents else tables


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.fidelity")
    parser.add_argument(
        "data", nargs="?", help="folder of *.jsonl.gz files (default: REFOLD_BENCH_DATA)"
    )
    parser.add_argument("--share", type=float, nargs="+", default=list(SHARES))
    parser.add_argument("--step", type=int, default=1, help="every Nth file")
    parser.add_argument("--from", type=int, default=0, dest="first", help="beginning with this one")
    parser.add_argument("--only", nargs="+", default=[], help="parts of policy names")
    parser.add_argument("--agents", action="store_true", help="also at the agents' own compactions")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args(arguments)
    folder = data_folder(given.data)
    if folder is None:
        raise SystemExit("no data: name a folder, or set REFOLD_BENCH_DATA")
    tables = run(
        folder,
        shares=given.share,
        step=given.step,
        first=given.first,
        only=given.only,
        agents=given.agents,
        jobs=given.jobs,
    )
    print(text_of_tables(tables))


if __name__ == "__main__":
    main()
