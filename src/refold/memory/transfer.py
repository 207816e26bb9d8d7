"""A memory as a file: one JSON line with the format, then a line for each version.

Forgotten, rejected and reverted versions are not exported. An import checks every line before it
writes anything. Imported entries have the trust `import`: a person can find them, but no model sees
them until a person accepts them. Entries that already exist, or were forgotten here, are skipped.
Neighbours: `semantic` offers `export` and `import_lines`, `journal` writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal

import msgspec
from msgspec import Struct, field
from msgspec.structs import asdict

from refold import decoding
from refold.checked import quoted
from refold.core.codec import DEPTH_MAX, decode
from refold.core.model import Memory, Trust
from refold.errors import Invalid
from refold.log.draft import FORM_LEVELS, check_depth
from refold.memory.entry import content_checked, is_whole, tags_checked
from refold.memory.journal import Journal
from refold.memory.merging import REPLACED_MAX
from refold.system.disk import HAPPENED_MS_MAX

FORMAT = "refold-memory"
FORMAT_VERSION = 1
FILE_BYTES_MAX = 256 * 1024 * 1024
LINES_MAX, LINE_BYTES_MAX, VERSIONS_MAX = 200_000, 1_000_000, 1 << 31
NAME_CHARS_MAX = 200
AGAIN = "create one with refold export --memory FILE; nothing was imported"


class Head(Struct, frozen=True, kw_only=True):
    """The first line."""

    format: str
    version: int
    scope: str = "project"


TIMES = {"valid_from_ms": "from_ms", "valid_until_ms": "until_ms"}


class Line(
    Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True, rename=TIMES
):
    """One version of an entry, with the fields of `Memory`. Times are in milliseconds; an unknown
    end is 0."""

    entry: str
    version: int = 1
    content: str = ""
    tags: tuple[str, ...] = ()
    metadata: dict[str, Any] = field(default_factory=dict)
    trust: Trust = "user"
    source: tuple[str, int] | None = None
    valid_from_ms: int = 0
    valid_until_ms: int = 0
    closed: bool = False
    state: Literal["", "waiting"] = ""
    replaces: tuple[str, ...] = ()


class ImportedMemories(Struct, frozen=True, kw_only=True):
    """The result of an import: how many entries were new, already known, or forgotten here before.
    Of the new ones, `ended` are no longer true, because later entries replaced them."""

    entries: int = 0
    known: int = 0
    forgotten: int = 0
    ended: int = 0


# --- export ---


def exported(journal: Journal) -> Iterator[bytes]:
    """The lines of a memory, in the order of its log."""
    yield _encoded(Head(format=FORMAT, version=FORMAT_VERSION, scope=journal.scope))
    entries = journal.entries()
    for event in journal.events() if entries.head else ():
        body = None if event.erased or event.seq in journal.off else decode(event)
        if isinstance(body, Memory) and body.state in ("", "waiting") and entries.has(body.entry):
            fields = {name: getattr(body, name) for name in Line.__struct_fields__}
            fields["valid_from_ms"] = body.valid_from_ms or event.at_ms
            yield _encoded(Line(**fields))


def _encoded(value: Struct) -> bytes:
    return msgspec.json.encode(value) + b"\n"


# --- import ---


def read_lines(lines: Iterable[bytes], name: str) -> list[Line]:
    """The lines of a file, all checked; Invalid with the position of the first bad line."""
    numbered = enumerate(lines, 1)
    _check_head(next(numbered, (1, b""))[1], name)
    found = []
    for number, raw in numbered:
        if number > LINES_MAX:
            raise Invalid(f"{name} has more than {LINES_MAX:,} lines", hint="import it in parts")
        if raw.strip():
            found.append(_checked_line(raw, f"{name}:{number}"))
    return found


def _check_head(raw: bytes, name: str) -> None:
    try:
        head = decoding.decode(raw[:LINE_BYTES_MAX], Head)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise Invalid(f"{name} is not a memory export", hint=AGAIN) from error
    if head.format != FORMAT:
        raise Invalid(f"{name} has the format {quoted(head.format, 50)}, not {FORMAT}", hint=AGAIN)
    if head.version != FORMAT_VERSION:
        problem = f"{name} has version {head.version}; this refold reads version {FORMAT_VERSION}"
        raise Invalid(problem, hint="use the refold that wrote it, or a newer one")


def _checked_line(raw: bytes, place: str) -> Line:
    if len(raw) > LINE_BYTES_MAX:
        raise Invalid(f"{place} has more than {LINE_BYTES_MAX:,} bytes", hint=AGAIN)
    try:
        line = decoding.decode(raw, Line)
        if line.content or not line.closed:
            content_checked(line.content)
        tags_checked(line.tags)
        check_depth(line.metadata, DEPTH_MAX + FORM_LEVELS)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError, Invalid) as error:
        raise Invalid(f"{place} is not a valid entry: {error}", hint=AGAIN) from error
    if fault := _fault(line):
        raise Invalid(f"{place} is not a valid entry: {fault}", hint=AGAIN)
    return line


def _fault(line: Line) -> str:
    """The reason why a line is invalid; empty if it is valid."""
    names = (line.entry, line.source[0] if line.source else "-", *line.replaces)
    if not all(name and len(name) <= NAME_CHARS_MAX and name.isprintable() for name in names):
        return "a name is empty, too long, or not printable"
    if not 1 <= line.version < VERSIONS_MAX:
        return f"invalid version {line.version}"
    times = (line.valid_from_ms, line.valid_until_ms)
    if not all(0 <= moment <= HAPPENED_MS_MAX for moment in times):
        return f"a time out of range: {times[0]}, {times[1]}"
    if len(line.replaces) > REPLACED_MAX:
        return f"it replaces {len(line.replaces):,} entries, more than {REPLACED_MAX:,}"
    if line.source and not 1 <= line.source[1] < 1 << 53:
        return f"invalid source position {line.source[1]}"
    return ""


def import_lines(
    journal: Journal, lines: Iterable[Line], *, accepted: bool, new_id: Callable[[], str]
) -> ImportedMemories:
    """Writes the entries that are neither known nor forgotten, all at once. With `accepted`, they
    keep the trust of a user or a model; the others wait until a person accepts them."""
    entries = journal.entries()
    by_entry: dict[str, list[Line]] = {}
    for line in lines:
        by_entry.setdefault(line.entry, []).append(line)
    known = {
        id
        for id, of_one in by_entry.items()
        if all(one.closed or entries.knows(one.content) for one in of_one)
    }
    left = {id: of_one for id, of_one in by_entry.items() if id not in known}
    gone = {
        id
        for id, of_one in left.items()
        if any(entries.is_forgotten(one.content) for one in of_one)
    }
    ids = {id: new_id() if entries.has(id) or not is_whole(id) else id for id in left}
    # A successor in the file replaces a known entry here; ids that are not in the file are dropped.
    meant = ids | {id: entries.saying(by_entry[id][-1].content) for id in known}
    bodies = [
        _body(line, ids[line.entry], accepted=accepted, meant=meant)
        for line in lines
        if line.entry in left and line.entry not in gone
    ]
    if bodies:
        journal.append(bodies)
    return ImportedMemories(
        entries=len(left) - len(gone),
        known=len(known),
        forgotten=len(gone),
        ended=_ended(journal, {body.entry for body in bodies}),
    )


def _ended(journal: Journal, ids: set[str]) -> int:
    """The number of these entries that are no longer true."""
    if not ids:
        return 0
    entries, now_ms = journal.entries(), journal.now_ms()
    runs = (entries.run_of(id) for id in ids)
    return sum(run is not None and run.until_ms <= now_ms for run in runs)


def _body(line: Line, entry: str, *, accepted: bool, meant: Mapping[str, str]) -> Memory:
    is_trusted = accepted and line.trust in ("user", "model")
    return Memory(
        **asdict(line)
        | {
            "entry": entry,
            "trust": line.trust if is_trusted else "import",
            "replaces": tuple(meant[id] for id in line.replaces if meant.get(id)),
        }
    )
