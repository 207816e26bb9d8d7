"""Kinds of program runs: logs, stack traces, and test runs.

A log has lines with a time or a level: errors first, then warnings, then rare lines; of similar
lines the first, with the number of the others. Stack traces of Python, Java, JavaScript, Go, Rust,
C# and Ruby are shown by the raised error, then the program's own frames; frames of libraries come
last. Test runs (pytest, unittest, jest, go test, cargo test, TAP, …) by the summary, the failures,
and their reasons. Neighbours: `sample` has the lines, `registry` lists the kinds.
"""

from __future__ import annotations

from collections.abc import Iterator

from refold.artifacts.kinds.sample import Alike, Sample, Telling, any_of, distinct, ends, in_turn
from refold.patterns import regex

LINES_MIN, SHARE_MIN, RARE_MAX = 5, 0.5, 2
ENTRY = any_of(
    r"[\[(]?\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d",
    r"\[?\d\d:\d\d:\d\d\b",
    r"[A-Z][a-z]{2} +\d+ \d\d:\d\d:\d\d ",
    r"\[ *\d+\.\d+\] ",
    r"\[?(?:TRACE|DEBUG|INFO|NOTICE|WARN(?:ING)?|ERROR|FATAL|CRITICAL)\b",
    r"\S+ \S+ \S+ \[\d\d/\w{3}/\d{4}",
    r"[EWID]\d{4} \d\d:\d\d",
    r"(?:time|ts|level)=\S",
    r"\d{10,13}[ .]",
)
LEVEL = regex(r"\b(?:ERROR|FATAL|CRITICAL|SEVERE|EMERG|ALERT|level=(?:error|fatal))\b|\" 5\d\d ")


def log_fits(sample: Sample) -> bool:
    entries = sum(ENTRY.match(line) is not None for line in sample.lines)
    written = sum(bool(line.strip()) for line in sample.lines)
    return entries >= LINES_MIN and entries > SHARE_MIN * written


def log_telling(sample: Sample) -> Iterator[Telling]:
    alike = Alike(sample)
    grave = [at for at in sample.marked if LEVEL.search(sample.lines[at])]
    yield from alike.distinct(grave)
    yield from (one for at in grave[:5] for one in _continuation(sample, at))
    yield from alike.distinct(sample.troubled)
    yield from alike.distinct(sample.warned)
    yield from ends(sample, first=2, last=2)
    kinds = alike.distinct(range(len(sample.lines)))
    yield from sorted(kinds, key=lambda one: (one.alike > RARE_MAX, one.at))
    yield from ends(sample)


def _continuation(sample: Sample, at: int) -> Iterator[Telling]:
    """The lines below an entry that belong to it: the last line of a traceback names the error."""
    last = at
    while last + 1 < len(sample.lines) and not ENTRY.match(sample.lines[last + 1]):
        last += 1
    if last > at:
        yield Telling(last)
        yield Telling(at + 1)


FRAMES_MIN, STACK_TRACE_SHARE_MIN = 4, 0.3
FRAME = any_of(
    r"\s+at \S.*",
    r'\s+File "[^"]+", line \d+',
    r"\s+\S+\.go:\d+",
    r"\s+\d+: \S",
    r"\s+from \S+:\d+:in ",
    r"\s*\.\.\. \d+ (?:more|common frames)",
    r"\w[\w./]*\(.*\)$",
    r"goroutine \d+ ",
)
RAISED = any_of(
    r"(?:Uncaught )?(?:[\w.$]+\.)*[A-Z]\w*(?:Error|Exception|Warning|Interrupt|Exit|Failure)\b",
    r"Caused by: ",
    r"Exception in thread",
    r"Unhandled exception",
    r"panic: ",
    r"fatal error: ",
    r"thread '.*panicked",
    r"\S+:\d+:in .*\(\w+Error\)",
    r"Suppressed: ",
    r"\s*\[cause\]: ",
    r"\w+: .*\b(?:failed|not found)\b",
)
_FOREIGN = any_of(
    r"site-packages",
    r"node_modules",
    r"node:internal",
    r"lib/python\d",
    r"<frozen",
    r"/rustc/",
    r"/usr/(?:lib|local/go)",
    r"at (?:java|javax|sun|jdk|org\.(?:junit|springframework|apache))\.",
    r"std::",
    r"core::",
    r"runtime[./]",
)


def stack_trace_fits(sample: Sample) -> bool:
    frames = sum(map(_is_frame, sample.lines))
    has_source = sum(line.startswith(("    ", "\t")) for line in sample.lines)
    is_mostly = frames + has_source > STACK_TRACE_SHARE_MIN * len(sample.lines)
    return frames >= FRAMES_MIN and is_mostly and any(map(RAISED.match, sample.lines))


def stack_trace_telling(sample: Sample) -> Iterator[Telling]:
    raised = [at for at, line in enumerate(sample.lines) if RAISED.match(line)]
    frames = [at for at, line in enumerate(sample.lines) if _is_frame(line)]
    near = sorted(frames, key=lambda at: min((abs(at - one) for one in raised), default=0))
    own = [at for at in near if not _FOREIGN.search(sample.lines[at])]
    errors = [one for one in distinct(sample, raised) if one.at + 1 < len(sample.lines)]
    messages = [Telling(one.at + 1) for one in errors if "panicked" in sample.lines[one.at]]
    yield from distinct(sample, raised)
    yield from messages
    yield from in_turn(*(_with_source(sample, at) for at in own[:12]))
    yield from map(Telling, near[:12])
    yield from ends(sample)


def _is_frame(line: str) -> bool:
    return line[:1] in " \tg" and FRAME.match(line) is not None


def _with_source(sample: Sample, at: int) -> list[Telling]:
    """A frame, and the source line below it in some languages."""
    following = sample.lines[at + 1 : at + 2]
    has_source = bool(following) and following[0][:4].isspace() and not _is_frame(following[0])
    return [Telling(at), Telling(at + 1)] if has_source else [Telling(at)]


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


def test_run_fits(sample: Sample) -> bool:
    outcomes = sum(_OUTCOME.match(line) is not None for line in sample.lines)
    sums = sum(SUM.match(line) is not None for line in sample.lines)
    if not sums or outcomes >= OUTCOMES_MIN or outcomes + sums > 1:
        return sums > 0
    return any("test session starts" in line or "= FAILURES =" in line for line in sample.lines)


def test_run_telling(sample: Sample) -> Iterator[Telling]:
    places = range(len(sample.lines))
    sums = [at for at in places if SUM.match(sample.lines[at])]
    failed = [at for at in places if FAILED.match(sample.lines[at]) and at not in sums[-3:]]
    known = set(sums) | set(failed)
    why = [at for at in places if at not in known and WHY.match(sample.lines[at])]
    reasons = distinct(sample, why)
    yield from map(Telling, reversed(sums[-3:]))
    yield from in_turn(map(Telling, reversed(failed)), reasons)
    yield from ends(sample)
