"""Every artifact of a conversation with where it came from, known from the log without reading a content.

An artifact's event says what it is. The same event once more, written by the cleaner, says that its bytes were cleaned
up then; a later one by anybody else, that they are there again. Neighbours: `offload` keeps outputs, `outputs` shows
them.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from refold.core.codec import decode
from refold.core.model import Artifact
from refold.log import Log, runs
from refold.offload import CLEANER

CHARS_PER_TOKEN = 4
_QUERY_ID = re.compile(r"q_[0-9a-f]{16}")


class Output(Struct, frozen=True, kw_only=True):
    """One artifact as the log names it. `cleaned_ms` is when its bytes were cleaned up, 0 if they are there."""

    artifact: Artifact
    seq: int
    at_ms: int
    by: str
    cleaned_ms: int = 0

    @property
    def id(self) -> str:
        return self.artifact.id

    @property
    def tokens(self) -> int:
        """What the whole text would cost on a page, roughly; bytes that are no text have none to show."""
        return -(-self.artifact.size_chars // CHARS_PER_TOKEN)


def hash_query(text: str) -> str:
    """The id of a query: equal for texts that differ only in case, outer blanks or Unicode form (T-10)."""
    plain = unicodedata.normalize("NFC", text).strip().lower()
    return "q_" + hashlib.sha256(plain.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def query_id(query: str) -> str:
    """The id of a query that is given as its text or as its id already."""
    return query if _QUERY_ID.fullmatch(query) else hash_query(query)


def listed(log: Log) -> list[Output]:
    """All outputs, in the order in which they were kept. Reads their events and nothing else."""
    found: list[Output] = []
    cleaned: dict[str, int] = {}
    for output in _events(log):
        if output.by == CLEANER:
            cleaned[output.artifact.digest] = output.at_ms
        else:
            cleaned.pop(output.artifact.digest, None)
            found.append(output)
    return [replace(one, cleaned_ms=cleaned.get(one.artifact.digest, 0)) for one in found] if cleaned else found


def _events(log: Log) -> Iterator[Output]:
    for span in runs(log.state.artifacts):
        for event in log.read(span.first - 1, span.last):
            if isinstance(body := decode(event), Artifact):
                yield Output(artifact=body, seq=event.seq, at_ms=event.at_ms, by=event.by)
