"""Stack traces of Python, Java, JavaScript, Go, Rust, C# and Ruby: what was raised, then where in
the program's own code.

Python says the error last, the others first. Frames of libraries and of the language come last.
"""

from __future__ import annotations

from collections.abc import Iterator

from refold.artifacts.kinds.sample import Sample, Telling, any_of, distinct, ends, in_turn

FRAMES_MIN, SHARE_MIN = 4, 0.3
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


def fits(sample: Sample) -> bool:
    frames = sum(map(_is_frame, sample.lines))
    has_source = sum(line.startswith(("    ", "\t")) for line in sample.lines)
    is_mostly = frames + has_source > SHARE_MIN * len(sample.lines)
    return frames >= FRAMES_MIN and is_mostly and any(map(RAISED.match, sample.lines))


def telling(sample: Sample) -> Iterator[Telling]:
    raised = [at for at, line in enumerate(sample.lines) if RAISED.match(line)]
    frames = [at for at, line in enumerate(sample.lines) if _is_frame(line)]
    near = sorted(frames, key=lambda at: min((abs(at - one) for one in raised), default=0))
    own = [at for at in near if not _FOREIGN.search(sample.lines[at])]
    words = [one for one in distinct(sample, raised) if one.at + 1 < len(sample.lines)]
    said = [Telling(one.at + 1) for one in words if "panicked" in sample.lines[one.at]]
    yield from distinct(sample, raised)
    yield from said
    yield from in_turn(*(_with_source(sample, at) for at in own[:12]))
    yield from map(Telling, near[:12])
    yield from ends(sample)


def _is_frame(line: str) -> bool:
    return line[:1] in " \tg" and FRAME.match(line) is not None


def _with_source(sample: Sample, at: int) -> list[Telling]:
    """A frame, and the line of source that some languages show below it."""
    following = sample.lines[at + 1 : at + 2]
    has_source = bool(following) and following[0][:4].isspace() and not _is_frame(following[0])
    return [Telling(at), Telling(at + 1)] if has_source else [Telling(at)]
