"""What a compaction is to be drawn up from: the budget, settings and prices of this moment.

A job by hand is what its caller says, one that is due follows from why it is, and one that makes
room takes the oldest. Nothing is drawn up here. Neighbours: `compactor` carries jobs out, `trigger`
says why one is due, `planning` has what a job is.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from msgspec.structs import replace

from refold.compaction import planning, trigger
from refold.compaction.active_model import ActiveModel
from refold.compaction.planning import Job
from refold.compaction.wish import instructions_of
from refold.core.budget import Budget
from refold.core.model import MADE_ROOM, NATIVE, Message, Text
from refold.errors import Invalid
from refold.log.open_log import OpenLog
from refold.redaction import Redact
from refold.strategies.brief import KEEP_RECENT, check_needed
from refold.strategies.registry import check_ladder, check_settings
from refold.tokens.counter import count_message

TASK_CHARS_MAX = 4_000


class Jobs:
    """Makes the jobs of one open log."""

    def __init__(
        self, log: OpenLog, model: ActiveModel, redact: Redact, *, has_writer: Callable[[], bool]
    ) -> None:
        self._log, self._model, self._redact = log, model, redact
        self._has_writer = has_writer
        self._scratch: dict[str, Any] = {}

    def job(
        self,
        ladder: Sequence[str] = (),
        *,
        target: int | None = None,
        task: str = "",
        settings: dict[str, Any] | None = None,
        instructions: str = "",
    ) -> Job:
        """What a plan is to be drawn up from. Without names, the configured ladder."""
        config = self._log.config  # for the model that reads the page now
        check_ladder(ladder)
        given = settings or {}
        check_settings(given, ladder or config.ladder)
        task = task or self._latest_request()
        if settings is not None:
            for name in ladder:
                check_needed(name, {**config.strategy.get(name, {}), **given}, task)
        if KEEP_RECENT in given:
            config = replace(config, keep_recent=given[KEEP_RECENT])
        self._check_instructions(instructions)
        return Job(
            budget=self._model.budget,
            config=config,
            count=self._count,
            originals=self._log.log.originals,
            ages=self._log.log.ages,
            batch=secrets.token_hex(8),
            ladder=ladder or config.ladder,
            task=task,
            target=target,
            has_writer=self._has_writer(),
            settings=given,
            per_token=self._model.price,
            expired=self._model.moment().is_expired(self._log.state),
            scratch=self._scratch,
            instructions=instructions,
            redact=cache(self._redact),  # the same lines are looked at again and again
            purpose=NATIVE if tuple(ladder) == (NATIVE,) else "",
        )

    def _check_instructions(self, instructions: str) -> None:
        if instructions and not self._has_writer():
            hint = "give a writer where the conversation is opened, or with --writer"
            raise Invalid("instructions are for a writer, but there is none", hint=hint)

    def _latest_request(self) -> str:
        state = self._log.state
        slot = state.slot_at(state.request)
        blocks = slot.message.blocks if slot else ()
        texts = [block.text for block in blocks if isinstance(block, Text)]
        return "\n".join(texts)[:TASK_CHARS_MAX]

    def _count(self, message: Message) -> int:
        return count_message(message, self._log.counter)

    def due_job(self, budget: Budget) -> Job:
        """The ladder, unless only a strategy's own trigger was passed, or messages are too many."""
        state, config = self._log.state, self._log.config
        why = trigger.cause(state, budget, config, self._model.moment())
        if why == "asked" and self._has_writer():
            return self.job(instructions=instructions_of(state))
        if why == "early":
            return self.job(trigger.early_strategies(state, budget, config))
        if why != "crowded":
            return self.job()
        most = trigger.messages_left(config)
        job = self.job(target=trigger.crowd_target(state, budget, most))
        return replace(job, messages_max=most)

    def room_job(self, budget: Budget) -> Job:
        """Takes the oldest off a page that is too large."""
        target = planning.room_target(budget)
        ladder = (planning.MAKE_ROOM,)
        return replace(self.job(), ladder=ladder, purpose=MADE_ROOM, target=target)

    def move(self) -> None:
        """The log is another one now: what strategies found out was about the other."""
        self._scratch.clear()
