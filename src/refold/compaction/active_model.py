"""The model that reads the page: its window, budget, wire format and price.

The log names the model, so another writer may change it and a restore takes it back; `follow` runs
whenever the log has changed. A window given by hand is in the log too, with the model it was given
for, and overrides the model table. A limit learned from a refusal (`Lesson`, part of the edits that
answered it) bounds both while those edits are active. Neighbours: `core.budget` has the thresholds,
`overflow` creates lessons.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from refold import dialects
from refold.compaction.limits import factor, limits, with_room
from refold.compaction.trigger import Moment
from refold.core.budget import Budget, Load, current_tokens
from refold.core.fold import Fold, is_plausible, is_possible
from refold.core.model import Lesson, Message, Meta, Native, Slot, Usage, View
from refold.dialects import DIALECTS
from refold.dialects.input import plain_value
from refold.dialects.native import Takes, native_wire, takes_none
from refold.dialects.page import Page
from refold.dialects.protocol import ANSWER_MIN, CacheMarks, Dialect, Marker
from refold.dialects.wire import at
from refold.errors import Invalid
from refold.log.notices import Notice
from refold.log.open_log import OpenLog
from refold.tokens.counter import count_system, count_tools
from refold.tokens.models import cost, input_price, model_info

DIALECT_DEFAULT = "openai_chat"
# Above this, the Anthropic SDK insists on streaming.
OUTPUT_DEFAULT = 8_192
# Margin for a page larger than our count: without it, an answer of full length would be refused.
SLACK_TOKENS, SLACK_RATIO = 64, 0.02
ANSWER_LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens", "maxOutputTokens")
# Longest documented life of a page in a provider's cache.
CACHE_LIFE_S, CACHE_LIFE_DEFAULT_S = {"anthropic": 300.0}, 3_600.0


class ActiveModel:
    """`info` is its row in the model table; the `changed` functions are called when its limits
    change."""

    def __init__(self, log: OpenLog) -> None:
        self._log = log
        self.keywords: Mapping[str, Any] = {}  # the caller's options of the newest request
        # Tokens that these add to the page, the length that they ask of the answer, and the room
        # for thinking and an answer.
        self._added, self._answer, self._thinking = 0, 0, 0
        self._reported = (0, 0)  # the head of the newest reported request, and what it had added
        self._given: dict[str, int] = {}  # windows that are not in the log yet, by model
        self.changed: list[Callable[[], None]] = []
        self._name: str | None = None
        self.info = model_info(None)
        self._lesson: Lesson | None = None
        self._watched: tuple[int, Budget] | None = None
        self._window = self.window
        self._limits = self.budget_under(None)
        self._load: tuple[Fold, int, Budget, Load] | None = None
        # Of `_last_spoken`: the page looked at, its size, its newest slot, and what was found.
        self._spoken: tuple[tuple[str, int], int, Slot | None, str] = (("", 0), 0, None, "")

    def ask(self, keywords: Mapping[str, Any], dialect: str) -> None:
        """Takes the options of a new request: another system prompt, other tools and a limit of
        the answer count against the window."""
        self.keywords, self._load = keywords, None
        self._added, self._answer, self._thinking = 0, 0, 0
        if not keywords:
            return
        system, tools, self._answer = replaced(dialect, keywords)
        state, count = self._log.sums, self._log.counter
        budget = at(keywords, ("thinking", "budget_tokens"))
        if type(budget) is int and not self._answer:
            # Thinking counts toward the limit of the answer, for which the page must leave room.
            window = self._limits.window
            slack = max(SLACK_TOKENS, round(window * SLACK_RATIO))
            least = budget + ANSWER_MIN + slack
            self._thinking = least if least < window // 2 else 0  # else `finished` says so
        if isinstance(system, str | list | tuple | Mapping):
            self._added += count_system(system, count) - state.system_tokens
        if tools is not None:
            self._added += count_tools(plain_value(tools), count) - state.tools_tokens

    # --- which model ---

    def take(self, name: str | None, window: int | None = None) -> None:
        """Switches to this model, and to this window if one is given."""
        if name != self._name:
            self._log.count_for(name)
        if window is not None and window <= 0:
            hint = "pass a positive window, or a known model"
            raise Invalid(f"a window of {window} tokens", hint=hint)
        self._name = name
        self.info = model_info(name or None)
        if window is not None:
            self._given[self.info.name] = window
        self._resize()

    @property
    def window(self) -> int | None:
        """The window given by hand for this model, if any."""
        return self.window_of(None)

    def window_of(self, name: str | None) -> int | None:
        """The window given by hand for a model (None: this one), if any."""
        key = self.info.name if name is None else model_info(name).name
        logged = self._log.sums.meta.windows or {}
        return self._given.get(key, logged.get(key))

    def given_windows(self, window: int | None) -> dict[str, int] | None:
        """The log's entry for a window given for this model; an unnamed model has an empty
        name."""
        return {self.info.name: window} if window is not None else None

    def follow(self) -> None:
        """Switches to the model that the log names now, with the limits learned for it; warns if
        the page is getting full."""
        state = self._log.log.state
        name = state.meta.model
        drafts = (draft.body for draft in self._log.pending)
        if name != self._name and not any(isinstance(body, Meta) and body.model for body in drafts):
            self.take(name)
        elif state.lessons.get(self.info.name) != self._lesson:
            self._resize()
        if not self._log.pending:
            self._given.pop(self.info.name, None)
        if (self._given or state.meta.windows or self._window) and self.window != self._window:
            self._resize()
        self.watch()

    def warn_unknown(self, *, is_asked: bool = False) -> None:
        """Reports an assumed window, once per model. Only a request (`is_asked`) shows that no
        model is named at all."""
        if self.info.known or self.window or not (self._name or is_asked):
            return
        named = self._name or "no model is named"
        reason = f"{named}: a window of {self.info.window:,} is assumed"
        notice = Notice(name="unknown-model", reason=reason)
        self._log.notices.add_once(f"unknown-model {self._name}", notice)

    def dialect(self, asked: str | None = None, ahead: Sequence[Message] = ()) -> str:
        """The requested wire format, else the configured one, the model's, or the last reply's,
        where `ahead` are messages about to be appended to the page."""
        named = asked or self._log.config.dialect or self.info.dialect
        if named:
            return named
        for message in reversed(ahead):
            if message.role == "assistant" and message.dialect in DIALECTS:
                return message.dialect
        return self._last_spoken() or DIALECT_DEFAULT

    def _last_spoken(self) -> str:
        """The format of the last reply on the page; looks only at slots added since the last
        call."""
        state = self._log.sums
        slots, edition = state.slots, (self._log.id, state.changed_at())
        known, seen, newest, spoken = self._spoken
        if edition != known or len(slots) < seen or (seen and slots[seen - 1] is not newest):
            seen, spoken = 0, ""
        for index in range(len(slots) - 1, seen - 1, -1):
            message = slots[index].message
            if message.role == "assistant" and message.dialect in DIALECTS:
                spoken = message.dialect
                break
        self._spoken = edition, len(slots), slots[-1] if slots else None, spoken
        return spoken

    def call_fields(self, dialect: Dialect) -> dict[str, str | int]:
        """Fields of a call other than the page: the model as the caller named it, unless the format
        is another provider's, and the output limit if the format requires one. For a model outside
        the table, any format may be right."""
        fields: dict[str, str | int] = {}
        if self._name and self._may_speak(dialect):
            fields["model"] = self._name
        if dialect.output_limit:
            fields[dialect.output_limit] = self._output_tokens()
        return fields

    def _may_speak(self, dialect: Dialect) -> bool:
        own = self.info.dialect
        return not own or dialects.dialect(own).provider == dialect.provider

    def is_bound(self, dialect: str) -> bool:
        """Whether the model binds its thinking, or may do so: a caller that asks for thinking in
        another provider's format names a model that is unknown here."""
        is_foreign = not self._may_speak(dialects.dialect(dialect))
        return self.info.thinking_bound or (is_foreign and "thinking" in self.keywords)

    def page(self, dialect: str) -> Page:
        """The renderer of pages in this format for the current model."""
        cache = self._log.config.cache
        by: Marker = "caller" if cache == "caller" else "refold" if cache else "none"
        ttl = cache if cache in ("5m", "1h") else ""
        return Page(
            dialects.dialect(dialect),
            bound=self.is_bound(dialect),
            caching=CacheMarks(by=by, ttl=ttl),
            takes=self.takes(dialect),
            alternates=dialect == DIALECT_DEFAULT and self._alternates(),
        )

    def _alternates(self) -> bool:
        """Whether roles take turns: as configured, else for a named model that is not in the
        table."""
        configured = self._log.config.alternate_roles
        return bool(self._name) and not self.info.known if configured is None else configured

    def request(self, dialect: str, view: View) -> dict[str, Any]:
        """The complete call for a page, with the options of the newest request: they may change
        how messages are rendered."""
        page = self.page(dialect)
        call = {**self.call_fields(page.dialect), **page.render(view).request}
        return page.dialect.finished(page.dialect.with_keywords(call, self.keywords))

    def takes(self, dialect: str) -> Takes:
        """Whether this model accepts a native summary: in its original format, if the provider is
        the same and the model supports compaction."""
        wire = native_wire(dialect)
        if wire is None or not wire.compacts(self._name or ""):
            return takes_none
        own = self.info.provider

        def takes(native: Native) -> bool:
            return native.dialect == dialect and model_info(native.model).provider == own

        return takes

    def _output_tokens(self) -> int:
        configured, own = self._log.config.output_tokens, self.info.output
        if configured is not None:
            return min(configured, own or configured)
        most = min(OUTPUT_DEFAULT, own or OUTPUT_DEFAULT, self.budget.reserve)
        return max(1, most)

    @property
    def output_max(self) -> int:
        """The maximum length of an answer to the page: the model's output limit, or what its window
        has left. Some room is kept in case the page is larger than we count."""
        budget, current = self.load
        left = (
            budget.window
            - current
            - self._extra()
            - max(SLACK_TOKENS, round(current * SLACK_RATIO))
        )
        return min(self.info.output or left, left)

    # --- limits ---

    @property
    def load(self) -> Load:
        """The budget and the size of the page, computed once for each head of the log."""
        state = self._log.log.state
        kept = self._load
        if kept and kept[0] is state and kept[1] == state.head and kept[2] is self._limits:
            return kept[3]
        budget, lesson = self._limits, self._lesson
        if state.calibration or lesson:
            budget = replace(budget, factor=factor(state, self.info, lesson))
        if share := self._log.config.compact_share:
            budget = budget.paced(share, round(state.said_tokens * budget.factor))
        answer = self._answer or self._log.config.output_tokens or 0
        if answer:
            answer = min(answer, self.info.output or answer)
        budget = with_room(
            budget,
            extra=self._extra(),
            answer=answer,
            whole=self._whole_window(budget),
            reserve=self._thinking,
        )
        load = Load(budget, current_tokens(state, budget.factor))
        self._load = state, state.head, self._limits, load
        return load

    def _extra(self) -> int:
        """Tokens that the caller's options add to the page, besides those that the provider has
        already reported with it."""
        anchor = self._log.log.state.anchor
        is_reported = anchor is not None and anchor.upto == self._reported[0]
        return self._added - (self._reported[1] if is_reported else 0)

    def _whole_window(self, budget: Budget) -> int:
        """The window of the model itself, in which a smaller one given by hand is a wish, but not a
        limit learned from a refusal."""
        is_wish = self._lesson is None and self.info.known
        return max(budget.window, self.info.window if is_wish else 0)

    @property
    def budget(self) -> Budget:
        """Window, reserve and thresholds for the next request."""
        return self.load.budget

    @property
    def current(self) -> int:
        """Token count of the next request."""
        return self.load.tokens

    def fits(self) -> bool:
        """Whether the page may be sent, with room for the answer in the window."""
        budget, current = self.load
        return current <= budget.window - budget.reserve

    def may_be_sent(self) -> bool:
        """Whether a page that cannot be shortened may be sent: it may use an assumed reserve, and
        the room of a long answer, which is then cut or refused by its provider; but neither a
        configured reserve nor more than the model's own limit."""
        config, budget = self._log.config, self.budget
        if config.reserve_tokens is not None:
            return self.fits()
        own = None if self.window else self.info.input_max
        return self.current + max(0, self._extra()) <= min(budget.window, own or budget.window)

    def _resize(self) -> None:
        self._lesson = self._log.sums.lessons.get(self.info.name)
        self._window = self.window
        self._limits = self.budget_under(self._lesson)
        for call in self.changed:
            call()

    def budget_under(self, lesson: Lesson | None) -> Budget:
        """The budget of this model, bounded by a learned limit."""
        return limits(self._log.config, self.info, self.window, lesson)

    def watch(self) -> None:
        """Warns once when the page is getting full. Cheap if nothing has changed since the last
        check."""
        budget, current = self.load
        head = self._log.log.state.head
        is_quiet = current < budget.warn_at and not self._log.notices.added_once
        if not is_quiet and self._watched != (head, budget):
            self._watched = (head, budget)
            self._log.notices.watch(current, budget, can_help=self._log.config.auto)

    def watch_again(self) -> None:
        """Makes the next `watch` check again: a compaction may have left the page full."""
        self._watched = None

    # --- time ---

    def moment(self) -> Moment:
        """The current time, with the life of the provider's cache."""
        life = CACHE_LIFE_S.get(self.info.provider, CACHE_LIFE_DEFAULT_S)
        if self._log.config.cache == "1h":
            life = CACHE_LIFE_DEFAULT_S
        log = self._log.log
        return Moment(now_ms=log.clock(), cache_life_s=life, ages=log.ages)

    # --- usage and money ---

    def received(self, usage: Usage, *, upto: int, replied: bool) -> Usage:
        """A reported usage in the form written to the log: with its cost and our own count of the
        request, which showed the log up to `upto`. An implausible usage is kept and announced, but
        its size is not used, nor its cost if it is too large. An estimated one is not compared with
        our count, nor is one for a page that changed before its answer came: it can no longer be
        counted."""
        sums = self._log.sums
        if not usage.estimated:
            self._reported = upto, self._added
        is_other = usage.estimated or sums.changed_at() > upto
        counted = 0 if is_other else sums.shown_tokens(upto)
        cost = self.cost(usage) if is_possible(usage, counted) else None
        if not is_plausible(usage, counted):
            reason = f"{usage.input:,} input tokens were reported for a page of about {counted:,}"
            if usage.input > counted:
                reason += "; pass the system prompt and tools that you send to refold as well"
            notice = Notice(name="usage-ignored", tokens=usage.input, reason=reason)
            self._log.notices.add_once("usage-ignored", notice)
        return replace(usage, upto=upto, replied=replied, cost=cost, counted=counted)

    @property
    def price(self) -> float | None:
        """The price of one input token."""
        return input_price(self.info)

    def cost(self, usage: Usage) -> float | None:
        """The cost of a reply, at the price of the model it names, else of this one."""
        priced = model_info(usage.model or self.info.name)
        return cost(priced if priced.known else self.info, usage)


def replaced(dialect: str, keywords: Mapping[str, Any]) -> tuple[Any, list[Any] | None, int]:
    """What the caller's keywords send in place of the conversation's system prompt and tools (None:
    nothing), and the limit of the answer that they set; 0 without one."""
    config = keywords.get("config")
    options = config if dialect == "gemini" and isinstance(config, Mapping) else keywords
    names = ("system", "instructions", "system_instruction", "systemInstruction")
    system = next((options[name] for name in names if options.get(name) is not None), None)
    tools = options.get("tools")
    limits = (options.get(name) for name in ANSWER_LIMITS)
    answer = max((limit for limit in limits if type(limit) is int), default=0)
    return system, tools if isinstance(tools, list) else None, max(0, answer)
