"""Kinds of program text: source files, diffs, and the output of compilers.

A source file is shown by its signatures, outermost first, then its imports; line numbers added by a
tool are ignored. A diff, alone or after commit messages, by its files, its hunks, and the first
changes of each. Compilers, linters and type checkers (gcc, clang, rustc, javac, tsc, eslint, mypy,
ruff, go vet, make) by errors, each kind once, with the source below them; then warnings, and the
summary at the end. Neighbours: `sample` has the lines, `registry` lists the kinds.
"""

from __future__ import annotations

from collections.abc import Iterator

from refold.artifacts.kinds.sample import Sample, Telling, any_of, distinct, ends, in_turn
from refold.patterns import regex

SIGNATURES_MIN, SHARE_MIN = 4, 0.35
_NUMBER = regex(r"\s*\d+(?:\t|→|: ?| ?\| ?|  )")
_MODIFIERS = (
    r"(?:(?:export|default|public|private|protected|internal|static|abstract|final|async|unsafe"
    r"|override|virtual|inline|extern|const|pub(?:\(\w+\))?) )*"
)
_WORDS = (
    "def class function func fn struct enum trait impl interface type module namespace record"
).replace(" ", "|")
SIGNATURE = any_of(
    rf"\s*{_MODIFIERS}(?:{_WORDS})\*? [\w(<]",
    r"\s*(?:export )?(?:const|let|var) \w+ ?= ?(?:async )?(?:\(|function)",
    r"CREATE (?:OR REPLACE )?(?:TABLE|VIEW|INDEX|FUNCTION) ",
    r"(?!\s*(?:else|if|for|while|switch|return)\b)\s*(?:[\w:*&<>\[\],]++\s++){1,4}[\w:~]+\([^;]*\{\s*$",
)
_IMPORT = regex(r"(?:import|from|#include|use|using|require|package)\b")
_KEYWORDS = (
    "return if for while else elif try except import from let const var with raise throw case use"
).replace(" ", "|")
_CODE = any_of(
    r".*[{};:,(\[]\s*$",
    rf"\s*(?:{_KEYWORDS})\b",
    r"\s*(?:#|//|\*|/\*|@)",
    r"[^()]*\w\([^()]*\)",
    r"\s*[\w.\[\]]+ ?[:+-]?= ?\S",
    r"\s*[})\]]",
)


def code_fits(sample: Sample) -> bool:
    lines = [_plain(line) for line in sample.lines[:600] if line.strip()]
    signatures = sum(SIGNATURE.match(line) is not None for line in lines)
    of_code = sum(_CODE.match(line) is not None for line in lines)
    return signatures >= SIGNATURES_MIN and of_code > SHARE_MIN * len(lines)


def code_telling(sample: Sample) -> Iterator[Telling]:
    lines = [_plain(line) for line in sample.lines]
    signatures = [at for at, line in enumerate(lines) if SIGNATURE.match(line)]
    depths = {at: len(lines[at]) - len(lines[at].lstrip()) for at in signatures}
    imports = [at for at, line in enumerate(lines) if _IMPORT.match(line)]
    yield from map(Telling, sorted(signatures, key=lambda at: (depths[at], at)))
    yield from map(Telling, imports[:6])
    yield from ends(sample)


def _plain(line: str) -> str:
    """The line without a number before it."""
    number = _NUMBER.match(line)
    return line[number.end() :] if number else line


DIFF_SHARE_MIN, FILES_MAX, HUNKS_MAX, COMMITS_MAX = 0.6, 12, 40, 4
HUNK = regex(r"@@+ -\d+(?:,\d+)? ")
_FILE = regex(
    r"diff --git |Index: |\*\*\* (?:Update|Add|Delete) File: |(?:rename|new file|deleted)"
)
_OLD_NEW = regex(r"(?:---|\+\+\+) \S")
_COMMIT = regex(r"commit [0-9a-f]{7,}|Author: |    \S")


def diff_fits(sample: Sample) -> bool:
    hunks = sum(HUNK.match(line) is not None for line in sample.lines)
    of_diff = sum(line[:1] in ("+", "-", " ", "@") or not line for line in sample.lines)
    return hunks > 0 and of_diff > DIFF_SHARE_MIN * len(sample.lines)


def diff_telling(sample: Sample) -> Iterator[Telling]:
    places = range(len(sample.lines))
    files = [at for at in places if _FILE.match(sample.lines[at])]
    if not files:
        files = [at for at in places if sample.lines[at].startswith("+++ ")]
    commits = [at for at in places[: files[0] if files else 0] if _COMMIT.match(sample.lines[at])]
    yield from map(Telling, files[:FILES_MAX])
    yield from map(Telling, commits[:COMMITS_MAX])
    yield from in_turn(*list(_hunks(sample))[:HUNKS_MAX])
    yield from map(Telling, files[FILES_MAX:])


def _hunks(sample: Sample) -> Iterator[list[Telling]]:
    """Each hunk: its heading, and its changes that no earlier hunk has."""
    hunk: list[Telling] = []
    known: set[str] = set()
    for at, line in enumerate(sample.lines):
        is_change = line[:1] in ("+", "-") and line[1:].strip() and not _OLD_NEW.match(line)
        if HUNK.match(line):
            if hunk:
                yield hunk
            hunk = [Telling(at)]
        elif hunk and line not in known and is_change:
            known.add(line)
            hunk.append(Telling(at))
    if hunk:
        yield hunk


FOUND_MIN = 3
ERROR = any_of(
    r"[^\s:][^:]{0,200}:\d+(?::\d+)?: (?:fatal )?error\b",
    r"\S+\(\d+,\d+\): error ",
    r"\s+\d+:\d+\s+error\s",
    r"error(?:\[\w+\])?: ",
    r"make(?:\[\d+\])?: \*\*\* ",
    r".*undefined reference to ",
    r"\S+: fatal error: ",
    r"[^\s:][^:]{0,200}:\d+:\d+ - error ",
    r"npm ERR! ",
    r"CMake Error",
    r"ld: ",
    r"collect2: error",
    r"ERROR: ",
)
# A finding without a severity: `a.py:1:2: E501 Line too long`, `a.go:3:2: …`.
NOTED = regex(r"\S+\.\w+:\d+:\d+: [A-Z]{1,4}\d{2,4} |[A-Z]{1,4}\d{2,4} (?:\[\*\] )?\S")
WARNED = any_of(
    r"[^\s:][^:]{0,200}:\d+(?::\d+)?: warning\b",
    r"\s+\d+:\d+\s+warning\s",
    r"warning(?:\[\w+\])?: ",
    r"npm WARN",
)
_SUM = regex(r".*\b(?:\d+ (?:errors?|warnings?|problems?)|Found \d+|generated|could not compile)")
_SOURCE = regex(r"\s+-->|\s*\d* ?\||\s+\^|\s{4,}\S")


def compiler_fits(sample: Sample) -> bool:
    errors = sum(ERROR.match(line) is not None for line in sample.lines)
    others = sum(_is_other(line) for line in sample.lines)
    return errors > 0 or others >= FOUND_MIN


def _is_other(line: str) -> bool:
    return (NOTED.match(line) or WARNED.match(line)) is not None


def compiler_telling(sample: Sample) -> Iterator[Telling]:
    places = range(len(sample.lines))
    errors = distinct(sample, (at for at in places if ERROR.match(sample.lines[at])))
    others = distinct(sample, (at for at in places if _is_other(sample.lines[at])))
    sums = [Telling(at) for at in places if _SUM.match(sample.lines[at])]
    yield from sums[-2:]
    yield from errors[:8]
    yield from in_turn(*(_below(sample, one.at) for one in errors[:8]))
    yield from errors[8:]
    yield from others
    yield from in_turn(*(_below(sample, one.at) for one in others[:4]))
    yield from ends(sample)


def _below(sample: Sample, at: int) -> list[Telling]:
    """The source lines below an error."""
    below = []
    for place in range(at + 1, min(at + 6, len(sample.lines))):
        if not _SOURCE.match(sample.lines[place]):
            break
        below.append(Telling(place))
    return below
