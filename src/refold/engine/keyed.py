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

from refold.core.model import UPTO, Message, Thinking
from refold.engine.recorder import Parsed, Recorder
from refold.log.draft import Draft, Run
from refold.log.open_log import OpenLog


class Keyed(Struct, frozen=True):
    """What is to stand under a key: a message in any shape, or several; `parsed` if one was read
    already, and `upto` is the head that replies among them were made under, where that is known."""

    key: str
    messages: Sequence[Any]
    parsed: Parsed | None = None
    upto: int | None = None


def append_keyed(log: OpenLog, recorder: Recorder, given: Iterable[Keyed]) -> None:
    """Appends in this order what the log does not have yet, as far as it was read."""
    is_single = bool(log.config.checkpoint_every)
    with log.guard:
        run, keys, ahead = Run(is_single=is_single), list[str](), list[Message]()
        for one in given:
            if recorder.keys.hold(one.key):
                continue
            known = len(ahead)
            drafts = _drafts(recorder, one, ahead)
            if run.is_full or not run.take(drafts):
                _write(log, recorder, run, keys)
                run, keys = Run(is_single=is_single), []
                run.take(drafts)
                del ahead[:known]
            keys.append(one.key)
        _write(log, recorder, run, keys)


def _drafts(recorder: Recorder, one: Keyed, ahead: list[Message]) -> list[Draft]:
    drafts: list[Draft] = []
    for message in one.messages:
        parsed = recorder.parse_once(message, one.parsed, ahead).messages
        named = [_named(part, one) for part in parsed]
        drafts += recorder.drafts_after(ahead, named, None)
    return drafts


def _named(part: Message, one: Keyed) -> Message:
    """A message under its key; thinking with the head that it was thought under."""
    thinks = any(isinstance(block, Thinking) for block in part.blocks)
    late = {UPTO: one.upto} if thinks and one.upto is not None else {}
    return replace(part, key=one.key, metadata={**part.metadata, **late})


def _write(log: OpenLog, recorder: Recorder, run: Run, keys: Sequence[str]) -> None:
    if not run.drafts:
        return
    known = recorder.keys
    events = log.append(run.drafts, fresh=lambda _: not any(map(known.hold, keys)))
    known.take(keys, events)
