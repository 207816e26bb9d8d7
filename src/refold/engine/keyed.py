"""Messages that each have a key of their own, appended in few writes.

Drafts are made as if those before them were in the log already. A run is written whole, or not at
all if somebody else wrote one of its keys meanwhile: whoever appends looks at the log again then.
Neighbours: `recorder` parses and drafts, `mirror` hands over what is new in a list.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from refold.core.model import Message
from refold.engine.recorder import Parsed, Recorder
from refold.log.draft import RUN_BYTES_MAX, RUN_EVENTS_MAX, Draft
from refold.log.open_log import OpenLog


class Keyed(Struct, frozen=True):
    """What is to stand under a key: a message in any shape, or several; `parsed` if one was read
    already."""

    key: str
    messages: Sequence[Any]
    parsed: Parsed | None = None


class _Run:
    """What is written together, and the messages that are in it."""

    def __init__(self) -> None:
        self.keys: list[str] = []
        self.drafts: list[Draft] = []
        self.ahead: list[Message] = []
        self.size = 0

    def take(self, key: str, drafts: Sequence[Draft]) -> None:
        self.keys.append(key)
        self.drafts += drafts
        self.size += _size(drafts)


def append_keyed(log: OpenLog, recorder: Recorder, given: Iterable[Keyed]) -> None:
    """Appends in this order what the log does not have yet, as far as it was read."""
    # Where checkpoints are set every so many messages, each is to stand in its place.
    events_max = 1 if log.config.checkpoint_every else RUN_EVENTS_MAX
    with log.guard:
        run = _Run()
        for one in given:
            if recorder.keys.hold(one.key):
                continue
            known = len(run.ahead)
            drafts = _drafts(recorder, one, run.ahead)
            is_over = run.size + _size(drafts) > RUN_BYTES_MAX
            if run.keys and (is_over or len(run.drafts) + len(drafts) > events_max):
                said = run.ahead[known:]
                _write(log, recorder, run)
                run = _Run()
                run.ahead += said
            run.take(one.key, drafts)
        if run.keys:
            _write(log, recorder, run)


def _drafts(recorder: Recorder, one: Keyed, ahead: list[Message]) -> list[Draft]:
    drafts: list[Draft] = []
    for message in one.messages:
        parsed = recorder.parse_once(message, one.parsed, ahead).messages
        named = [replace(part, key=one.key) for part in parsed]
        drafts += recorder.drafts_after(ahead, named, None)
    return drafts


def _write(log: OpenLog, recorder: Recorder, run: _Run) -> None:
    keys = recorder.keys
    events = log.append(run.drafts, fresh=lambda _: not any(map(keys.hold, run.keys)))
    keys.take(run.keys, events)


def _size(drafts: Iterable[Draft]) -> int:
    return sum(len(draft.encoded) for draft in drafts)
