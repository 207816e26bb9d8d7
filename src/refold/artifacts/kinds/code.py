"""A file of source: its signatures, outermost first, then what it imports.

Numbers that a tool put before the lines are looked through.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from refold.artifacts.kinds.sample import Sample, Telling, any_of, ends

SIGNATURES_MIN, SHARE_MIN = 4, 0.35
_NUMBER = re.compile(r"\s*\d+(?:\t|→|: ?| ?\| ?|  )")
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
_IMPORT = re.compile(r"(?:import|from|#include|use|using|require|package)\b")
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


def fits(sample: Sample) -> bool:
    lines = [_plain(line) for line in sample.lines[:600] if line.strip()]
    signatures = sum(SIGNATURE.match(line) is not None for line in lines)
    of_code = sum(_CODE.match(line) is not None for line in lines)
    return signatures >= SIGNATURES_MIN and of_code > SHARE_MIN * len(lines)


def telling(sample: Sample) -> Iterator[Telling]:
    lines = [_plain(line) for line in sample.lines]
    signatures = [at for at, line in enumerate(lines) if SIGNATURE.match(line)]
    outermost_first = sorted(signatures, key=lambda at: (_depth(lines[at]), at))
    imports = [at for at, line in enumerate(lines) if _IMPORT.match(line)]
    yield from map(Telling, outermost_first)
    yield from map(Telling, imports[:6])
    yield from ends(sample)


def _plain(line: str) -> str:
    """The line without a number before it."""
    number = _NUMBER.match(line)
    return line[number.end() :] if number else line


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip())
