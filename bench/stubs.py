"""What a stub tells: how many of the telling lines of an output are on it, at the same size as the
first and last lines that stood there before.

    python -m bench.stubs

The outputs are those of programs that run here (`bench.programs`); the kinds were written against
the first half of them, the second half was looked at afterwards.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from bench import programs
from bench.programs import Case
from refold.artifacts.kinds.registry import ClassifiedText
from refold.tokens.counter import ESTIMATE

CHARS = 1_700
LINE_CHARS = 160
Shown = Callable[[str, int], str]


def by_kind(text: str, chars: int) -> str:
    """The lines that tell most, by the kind of the text."""
    return "\n".join(ClassifiedText(text, print).excerpt(chars))


def by_ends(text: str, chars: int) -> str:
    """The first and the last lines, two thirds and one third."""
    lines = text.split("\n")
    first = list(_fitting(lines, chars * 2 // 3))
    last = list(_fitting(reversed(lines), chars // 3))[::-1]
    return "\n".join([*first, "…", *last])


def _fitting(lines: Iterator[str] | list[str], room: int) -> Iterator[str]:
    for line in lines:
        room -= min(len(line), LINE_CHARS) + 1
        if room < 0:
            return
        yield line[:LINE_CHARS]


def recall(case: Case, shown: str) -> float:
    return sum(one in shown for one in case.telling) / len(case.telling)


def measured(cases: list[Case], chars: int) -> list[dict[str, object]]:
    rows = []
    for case in cases:
        kind, ends = by_kind(case.text, chars), by_ends(case.text, chars)
        rows.append(
            {
                "output": case.name,
                "kind": ClassifiedText(case.text, print).name,
                "characters": len(case.text),
                "tokens": ESTIMATE(kind),
                "tokens, ends": ESTIMATE(ends),
                "told": recall(case, kind),
                "told, ends": recall(case, ends),
            }
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chars", type=int, default=CHARS)
    parser.add_argument("--show", default="", help="print the excerpt of the outputs of this name")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for half, makers in (
            ("written against", programs.SEEN),
            ("looked at afterwards", programs.UNSEEN),
        ):
            cases = list(programs.cases(makers, Path(folder)))
            if given.show:
                for case in cases:
                    if given.show in case.name:
                        print(
                            f"### {case.name}: {ClassifiedText(case.text, print).name}\n{by_kind(case.text, given.chars)}\n"
                        )
                continue
            rows = measured(cases, given.chars)
            print(f"\n{half}\n")
            for row in rows:
                print(
                    "  ".join(
                        f"{value:.2f}" if isinstance(value, float) else str(value)
                        for value in row.values()
                    )
                )
            for name in ("told", "told, ends"):
                print(f"{name}: {sum(float(str(row[name])) for row in rows) / len(rows):.3f}")


if __name__ == "__main__":
    main()
