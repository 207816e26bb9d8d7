"""A run of tests (pytest, unittest, jest, go test, cargo test, TAP, …): the sum, what failed, and
why.

Neighbours: `stack_trace` for what a failing test raised.
"""

from __future__ import annotations

from collections.abc import Iterator

from refold.artifacts.kinds.sample import Sample, Telling, any_of, distinct, ends, in_turn

OUTCOMES_MIN = 5
SUM = any_of(
    r"=+ .*\b(?:passed|failed|errors?|no tests ran)\b.* in [\d.:]+s?",
    r"\d+ (?:passed|failed)\b.*",
    r"Ran \d+ tests? in",
    r"FAILED \(",
    r"OK\b(?: \(|$)",
    r"test result: ",
    r"Tests?:? +\d+",
    r"Test Suites?: ",
    r"(?:FAIL|ok)\s+\S+\s+(?:[\d.]+s|\(cached\))",
    r"# (?:pass|fail|tests) \d+",
    r"\s+\d+ (?:passing|failing)",
    r"Tests run: \d+",
    r"BUILD (?:FAILURE|SUCCESS)",
    r"(?:FAIL|PASS)$",
    r"\d+ examples?, \d+ failures?",
)
FAILED = any_of(
    r"(?:FAILED|ERROR|FAIL:?|ERROR:) \S",
    r"--- FAIL: ",
    r"\s*(?:✕|✗|✘|×|●|not ok) ?\S",
    r".*\b(?:FAILED|ERROR)\b",
    r"test .* \.\.\. FAILED",
    r"\s+\d+\) \S",
    r"_{3,} \S.* _{3,}$",
    r"\[ERROR\] ",
)
WHY = any_of(
    r"E   +\S",
    r">   +\S",
    r"\s*\S+:\d+: \w*(?:Error|Exception|Failed)",
    r"\s*(?:\w+\.)*\w*(?:Error|Exception)\b: ",
    r"AssertionError",
    r"\s*(?:Expected|Received|expected|actual|got|want|left|right|AssertionError)\b ?:?",
    r"thread '.*panicked",
    r"\s+\S+_test\.go:\d+: ",
    r"\s*[+-] \S.*",
    r"\s*(?:at .*)?\S+:\d+:\d+\)?$",
)
_OUTCOME = any_of(
    r"\S+::\S+ (?:PASSED|FAILED|SKIPPED|ERROR)",
    r"\s*(?:✓|✔|√|✕|✗|✘|×) ",
    r"\s*--- (?:PASS|FAIL|SKIP): ",
    r"=== RUN",
    r"(?:not )?ok \d+",
    r"test \S+ \.\.\. ",
    r"\S+ \(\S+\)(?: \.\.\.|$)",
    r"(?:PASS|FAIL) +\S+\.\w+",
    r"\S+\.\w+ [.FEsx]{3,}",
    r"\S+ (?:PASSED|FAILED)\b",
)


def fits(sample: Sample) -> bool:
    outcomes = sum(_OUTCOME.match(line) is not None for line in sample.lines)
    sums = sum(SUM.match(line) is not None for line in sample.lines)
    return sums > 0 and (outcomes >= OUTCOMES_MIN or outcomes + sums > 1 or _is_headed(sample))


def _is_headed(sample: Sample) -> bool:
    return any("test session starts" in line or "= FAILURES =" in line for line in sample.lines)


def telling(sample: Sample) -> Iterator[Telling]:
    places = range(len(sample.lines))
    sums = [at for at in places if SUM.match(sample.lines[at])]
    failed = [at for at in places if FAILED.match(sample.lines[at]) and at not in sums[-3:]]
    known = set(sums) | set(failed)
    why = [at for at in places if at not in known and WHY.match(sample.lines[at])]
    reasons = distinct(sample, why)
    yield from map(Telling, reversed(sums[-3:]))
    yield from in_turn(map(Telling, reversed(failed)), reasons)
    yield from ends(sample)
