"""What comes in is recorded: messages in any provider's shape, results of tool calls, replies with
their usage.

Neighbours: `dialects` parse, `artifacts.intake` makes drafts and moves large results out of the
way, `log.open_log` appends.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from refold import dialects
from refold.artifacts import offload
from refold.artifacts.intake import Intake
from refold.compaction.active_model import ActiveModel
from refold.core.laws import calls_of, results_of
from refold.core.model import Event, Message, Slot, Usage
from refold.display import suggestion
from refold.errors import Invalid
from refold.log.draft import Draft, message_checked
from refold.log.log import message_of
from refold.log.open_log import OpenLog
from refold.tokens.counter import count_message

OnError = Literal["raise", "degrade"]


class Recorder:
    """Appends to one open log."""

    def __init__(self, log: OpenLog, model: ActiveModel, intake: Intake) -> None:
        self._log, self._model, self._intake = log, model, intake

    def append(self, message: Any, by: str | None) -> list[Event]:
        parsed = self._parse(message)
        with self._log.guard:
            answers = [dialects.answering(one, self._log.log.calling) for one in parsed]
            drafts = [draft for one in answers for draft in self._intake.message(one, by)]
            return self._log.append(drafts)

    def append_result(
        self,
        call: str,
        output: Any,
        *,
        is_error: bool,
        name: str,
        task: str,
        query: str,
        on_error: OnError,
    ) -> list[Event]:
        with self._log.guard:
            self._log.check_open()
            self._check_call(call)
            content = offload.output_text(output, on_error=on_error)
            drafts = self._intake.result(
                call, content, is_error=is_error, name=name, task=task, query=query
            )
            return self._log.append(drafts)

    def record(self, response: Any, *, shown: int) -> list[Event]:
        """Appends a reply to the request that showed the log up to `shown`."""
        reply = dialects.reply(response, self._model.dialect())
        with self._log.reading():
            if reply.usage is not None and self._is_recorded(reply.usage):
                return []
            drafts = self._intake.message(reply.message, "model")
            if reply.usage is not None:
                usage = self._model.received(reply.usage, upto=shown, replied=True)
                drafts.append(Draft(body=usage, by="model"))
            events = self._log.append(drafts)
            self._log.sync("turn")
            return events

    def _check_call(self, call: str) -> None:
        """Refuses the result of a call that nobody made. One that the page no longer shows is
        looked for in the log."""
        if self._log.log.call(call) is not None or self._was_called(call):
            return
        waiting = unanswered(self._log.state.slots)
        raise Invalid(
            f"nobody made a call {call!r:.80}",
            hint=suggestion(call, waiting) if waiting else "no call is waiting for its result",
        )

    def _was_called(self, call: str) -> bool:
        if self._log.state.head == 0:
            return False
        quoted = msgspec.json.encode(call)[1:-1] if call.isascii() else b""
        for event in self._log.log.read():
            if event.kind == "message" and quoted in event.body:
                message = message_of(event, self._log.state)
                if message is not None and call in calls_of(message):
                    return True
        return False

    def count(self, message: Any) -> int:
        """The tokens of a message, in the provider's count."""
        tokens = sum(count_message(one, self._log.counter) for one in self._parse(message))
        return round(tokens * self._model.budget.factor)

    def _parse(self, message: Any) -> list[Message]:
        if isinstance(message, Message):
            return [message_checked(message)]
        return dialects.parse(message, self._model.dialect())

    def _is_recorded(self, usage: Usage) -> bool:
        return bool(usage.response) and usage.response in self._log.state.responses


def unanswered(slots: Sequence[Slot]) -> list[str]:
    """The calls on the page that wait for their results, oldest first."""
    answered = {id for slot in slots for id in results_of(slot.message)}
    called = [id for slot in slots for id in calls_of(slot.message)]
    return [id for id in called if id not in answered]
