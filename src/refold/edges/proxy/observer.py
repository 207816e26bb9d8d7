"""Follows the conversations that pass through the proxy: mirrors each message list into its log,
and folds it if asked to.

A list without an answer is not kept yet: title requests and probes just pass through, and an
agent's first words are kept once they are answered. An answer with tool calls comes back in the
client's next list. An answer without may be the last one, so it is kept under the key it will have
if the client repeats it: at once, or, where requests are folded, when the conversation is closed,
because a reworded repetition would change the page that its thinking is bound to. An answer that
did not come through the proxy belongs to another front; then all thinking so far is left out. First
words that are too long are shortened in a registry without a store, and written once they are
answered.

Everything runs in worker threads, one call per conversation at a time. Neighbours:
`conversation_registry` finds the conversation, `page` encodes, `savings` counts; `app` sends the
client's own bytes if anything here raises.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from refold.core.model import Message, ToolCall, Usage
from refold.dialects.usage import read_usage
from refold.edges.local_access import Header
from refold.edges.proxy.body import (
    LISTS,
    Copy,
    ParsedCall,
    Wire,
    answered_upto,
    asked_of,
    begins,
    has_one_answer,
    is_answer,
    reply_of,
)
from refold.edges.proxy.conversation_registry import ConversationRegistry, OpenConversation, common
from refold.edges.proxy.deferred_tools import deferrable, with_deferred
from refold.edges.proxy.deferred_tools import note as note_deferred
from refold.edges.proxy.folding import Send, headers_for
from refold.edges.proxy.own_tools import tools as kept
from refold.edges.proxy.own_tools.events import Inside
from refold.edges.proxy.page import as_the_client_has_them, is_own, is_refused, with_loops_taken
from refold.edges.proxy.savings import NOTE, CallLine, line_text
from refold.edges.proxy.upstream import Target, is_retry, session_of
from refold.engine.log_reader import end_thinking
from refold.engine.mirror import Unchanging

Refusal = dict[str, int | str]  # the status and body of a refusal


def mirror(held: OpenConversation, parsed: ParsedCall) -> None:
    """Mirrors the list, and the system prompt and tools only if they changed."""
    messages = Unchanging(parsed.messages)
    if parsed.beside == held.beside:
        mirrored = held.mirror(messages)
    else:
        mirrored = held.mirror(messages, parsed)
        held.beside = parsed.beside
    held.places = mirrored.seqs
    if mirrored.kind == "amended" and mirrored.first_new < len(messages):
        # The client rewords answers, so each one we kept would be written twice.
        held.takes_replies = False


def take_refused(
    registry: ConversationRegistry, held: OpenConversation, parsed: ParsedCall, refusal: Refusal
) -> bool:
    """Writes first words that were refused, and shortens them. False if the refusal is not about
    their size."""
    mirror(held, parsed)
    held.context.close()
    # What a conversation contains when it is opened counts as sent, and here as refused.
    held.context = registry.open(parsed, held.context.id, held.native)
    held.is_swapped = held.context.recover(refusal)
    return held.is_swapped


class ObservedCall(Struct, frozen=True, kw_only=True):
    """A call of a conversation. `body` is what is sent, None for the client's own bytes; `head` is
    the head of the log that it shows. If it has our tools, `sent` holds its messages."""

    parsed: ParsedCall
    held: OpenConversation | None = None  # None for first words, which are kept with their answer
    conversation: str = ""
    head: int = 0
    body: bytes | None = None
    sent: list[bytes] | None = None
    headers: dict[str, str] = {}  # needed by the body, in addition to the client's own
    at: float = 0.0  # when the first words arrived, in seconds
    refusal: Refusal | None = None  # of first words that were too long and are shortened
    opening: Message | None = None  # of first words, sent after them
    deferred: tuple[str, ...] = ()  # with first words: tools left to the provider's search,
    undeferred: ParsedCall | None = None  # and the call with all of its tools

    @property
    def share(self) -> float:
        """The size sent, as a share of the client's bytes."""
        return 1.0 if self.body is None else len(self.body) / max(1, self.parsed.size_bytes)

    def answered(self) -> None:
        """Notes that the provider accepted the call: later thinking belongs to what was sent."""
        if self.held is not None and self.held.context.id == self.conversation:
            self.held.answered = max(self.held.answered, self.head)


class Finished(Struct, frozen=True, kw_only=True):
    """An answered call, with a line for each round whose usage is known."""

    conversation: str
    lines: tuple[CallLine, ...] = ()


class Observer:
    """Follows the conversations that pass through the proxy."""

    def __init__(self, registry: ConversationRegistry) -> None:
        self._registry = registry
        self._opened: dict[str, list[Wire]] = {}  # the first words of each session

    def close(self) -> None:
        """Closes all conversations and the store."""
        self._registry.close()

    def read(
        self, body: bytes, target: Target, headers: Sequence[Header] = ()
    ) -> ParsedCall | None:
        """Parses a call of a known kind; None if it does not carry a whole conversation."""
        known = self._registry.begun()
        return asked_of(body, target, session_of(headers), known, retries=is_retry(headers))

    def take(self, parsed: ParsedCall, send: Send | None = None) -> ObservedCall | None:
        """Keeps a call; None if it does not belong to a conversation. `send` asks the provider for
        a compaction, with the headers of this call."""
        if not answered_upto(parsed.messages):
            return self._first_words(parsed) if begins(parsed) else None
        held = self._registry.find(parsed)
        parsed = with_deferred(kept.with_tools(parsed, held.tools), held.deferred)
        with held.guard:
            try:
                self._follow(held, parsed)
                held.native.begin(held, parsed, send)
                return self._shown(held, parsed)
            except BaseException:
                # Its state is uncertain, so the next call has to reopen it.
                self._registry.drop(held)
                raise
            finally:
                held.native.end()

    def _first_words(self, parsed: ParsedCall) -> ObservedCall:
        """Takes the beginning of a conversation, the only moment at which our tools and an opening
        can be added."""
        observed = ObservedCall(parsed=parsed, at=time.monotonic(), opening=self._opening(parsed))
        if self._registry.folding.tools and kept.can_be_added(parsed):
            parsed = kept.with_tools(parsed, kept.definitions(parsed.dialect))
            sent = kept.own_list(parsed)
            body = parsed.with_list(sent)
            observed = msgspec.structs.replace(observed, parsed=parsed, body=body, sent=sent)
        if names := deferrable(parsed, self._registry.folding.called):
            deferring = with_deferred(parsed, names)
            body = deferring.with_list(kept.own_list(deferring))
            added = {"parsed": deferring, "deferred": names, "undeferred": parsed}
            observed, parsed = msgspec.structs.replace(observed, **added, body=body), deferring
        if observed.opening is None:
            return observed
        with self._registry.aside() as aside:
            held = _begun_aside(aside, observed)
            shown = self._shown(held, parsed)
        return msgspec.structs.replace(observed, body=shown.body, sent=shown.sent)

    def _opening(self, parsed: ParsedCall) -> Message | None:
        """The opening for these first words. A session shows it once: later first words of the same
        session are those of its sub-agents."""
        opening = self._registry.folding.opening
        if opening is None or not parsed.session:
            return opening
        first = self._opened.setdefault(parsed.session, parsed.messages)
        return opening if first == parsed.messages else None

    def beside(self, parsed: ParsedCall) -> tuple[bytes | None, dict[str, str]]:
        """The body and headers for a call about a conversation, such as a token count: with the
        page in place of its list. A body of None means the client's own bytes."""
        held = self._registry.beside(parsed)
        if held is None:
            return None, {}
        with held.guard:
            if not held.is_swapped or common(held.seen, parsed.messages) != len(held.seen):
                return None, {}
            inner = held.inside.inner(parsed.messages)
            places = range(len(held.seen), len(parsed.messages))
            rest = [one for at in places for one in inner.get(at, [parsed.messages[at]])]
            parsed = with_deferred(kept.with_tools(parsed, held.tools), held.deferred)
            sent = [*held.encoded.sent, *map(msgspec.json.encode, rest)]
            return parsed.with_list(sent), held.headers

    def is_beside(self, parsed: ParsedCall) -> bool:
        """Whether a call carries a conversation without being one of its turns: it lacks the
        conversation's tools."""
        if parsed.has_tools or not answered_upto(parsed.messages):
            return False
        held = self._registry.beside(parsed)
        return held is not None and held.has_tools

    # --- mirroring ---

    def _follow(self, held: OpenConversation, parsed: ParsedCall) -> None:
        """Brings the log up to date with the client's list."""
        if parsed.model and parsed.model != held.model:
            held.context.update(model=parsed.model, window=self._registry.folding.window)
            held.model = parsed.model
        is_foreign = self._folds(held) and not self._is_ours(held, parsed)
        if is_foreign:
            self._take_sent(held, parsed)
        has_parted = held.inside.part(parsed.messages)
        mirror(held, parsed)
        is_foreign = is_foreign or has_parted
        if is_foreign and not self._is_own(held):
            end_thinking(held.context)
        held.take(parsed)

    def _folds(self, held: OpenConversation) -> bool:
        return self._registry.folding.folds or held.is_swapped

    def _is_ours(self, held: OpenConversation, parsed: ParsedCall) -> bool:
        """Whether the list has grown only by the client's messages and at most one answer, the
        latest that came through the proxy."""
        known = common(held.seen, parsed.messages) if held.seen else held.known
        new = parsed.messages[known:]
        if not any(map(is_answer, new)):
            return True
        slots = held.context.view.slots
        return has_one_answer(new) and held.answered >= (slots[-1].last if slots else 0)

    def _take_sent(self, held: OpenConversation, parsed: ParsedCall) -> None:
        """Keeps messages that reached the provider without the proxy. They were sent unchanged, so
        no result is moved out of them."""
        id = held.context.id
        held.context.close()
        sent = self._registry.open(parsed, id, held.native, offloads=False)
        try:
            messages = parsed.messages[: answered_upto(parsed.messages)]
            sent.mirror(messages, system=parsed.system, tools=parsed.tools)
            id = sent.id
        finally:
            sent.close()
        held.context, held.beside = self._registry.open(parsed, id, held.native), ()
        held.read_log()

    def _is_own(self, held: OpenConversation) -> bool:
        return not held.is_swapped and is_own(held.context.view, held.places)

    # --- rendering ---

    def _shown(self, held: OpenConversation, parsed: ParsedCall) -> ObservedCall:
        wires: Sequence[Wire] | None = None
        # If the client did not see some rounds, its list is not what the provider has seen.
        if self._folds(held) and (held.has_inside or not parsed.is_native):
            request = held.context.request(parsed.dialect)
            head = held.context.view.head  # read now: others may edit while the page is rendered
            wires = self._folded(held, parsed, request)
        else:
            head = held.context.view.head
        wires = None if wires is None else with_loops_taken(parsed, wires)
        sent = None if wires is None else held.encoded.encode(wires, parsed.marks)
        held.headers = headers_for(parsed.dialect, wires or ())
        if sent is None and (held.tools or held.deferred):
            sent = kept.own_list(parsed)
        context = held.context
        return ObservedCall(
            parsed=parsed,
            held=held,
            conversation=context.id,
            head=head,
            body=None if sent is None else parsed.with_list(sent),
            sent=sent if held.tools else None,
            headers=held.headers,
        )

    def _folded(
        self, held: OpenConversation, parsed: ParsedCall, request: Wire
    ) -> Sequence[Wire] | None:
        """The messages of the page; None as long as it is the client's own list."""
        for answer in held.native.answers:
            self._account_compaction(held, parsed, answer)
        if self._is_own(held):
            return None
        held.is_swapped = True
        own = held.own_wires(parsed)
        if own is not None:
            return own
        wires = request[LISTS[parsed.dialect]]
        page = as_the_client_has_them(wires, parsed.messages, parsed.dialect)
        return held.list_as_it_came(parsed, page)

    def _account_compaction(
        self, held: OpenConversation, parsed: ParsedCall, answer: dict[str, Any]
    ) -> None:
        """Adds the cost of the provider's own compaction to the account."""
        usage = read_usage(answer.get("usage"), parsed.dialect)
        line = held.account.spent(msgspec.structs.replace(usage, model=parsed.model))
        said = {**msgspec.to_builtins(line), "text": line_text(line)}
        held.context.note(NOTE, said, by="proxy")

    def recover(self, observed: ObservedCall, status: int, answer: bytes) -> ObservedCall | None:
        """The call to send after a refusal: shortened if it was too long, or without the thinking
        that the provider refused. None if the refusal is about something else, or nothing
        helps."""
        held = observed.held
        refusal: Refusal = {"status_code": status, "body": answer.decode("utf-8", "replace")}
        if observed.undeferred is not None and status == 400 and b"tool" in answer:
            # This provider does not search for tools.
            plain = observed.undeferred
            body = plain.with_list(kept.own_list(plain))
            plainly = {"parsed": plain, "body": body, "deferred": (), "undeferred": None}
            return msgspec.structs.replace(observed, **plainly)
        if held is None:
            return (
                self._shorten_first_words(observed, refusal)
                if self._registry.folding.folds
                else None
            )
        with held.guard:
            if not self._folds(held) or held.context.id != observed.conversation:
                return None
            if is_refused(status, answer):
                held.is_swapped = True
                end_thinking(held.context)
                return self._shown(held, observed.parsed)
            if not held.context.recover(refusal):
                return None
            return self._shown(held, observed.parsed)

    def _shorten_first_words(self, observed: ObservedCall, refusal: Refusal) -> ObservedCall | None:
        """Shortens first words in a separate registry, because they are not kept until they are
        answered; None if the refusal is about something else."""
        observed = msgspec.structs.replace(observed, refusal=refusal)
        with self._registry.aside() as aside:
            held = _begun_aside(aside, observed)
            if not take_refused(aside, held, observed.parsed, refusal):
                return None
            shown = self._shown(held, observed.parsed)
        return msgspec.structs.replace(observed, body=shown.body, sent=shown.sent)

    # --- our own tools ---

    def answers(self, observed: ObservedCall, calls: list[ToolCall]) -> list[str]:
        """The results of our tools for the model, read from the log as it was before this call."""
        held = observed.held
        if held is None:
            return kept.answers_of_nothing(calls)
        with held.guard:
            if held.context.id != observed.conversation:
                return [kept.FAILED] * len(calls)
            return kept.answers(held.context, calls)

    def keep_inside(self, observed: ObservedCall, inside: Inside) -> ObservedCall | None:
        """Keeps the answer to a first call, or an answer that the client sees only part of, so that
        it is recognized when it comes back; None if its conversation is unclear."""
        held = observed.held
        if held is None:
            return self._keep_first_words(observed, inside)
        if not inside.inner:
            return observed
        with held.guard:
            messages = observed.parsed.messages
            if held.context.id != observed.conversation or held.seen is not messages:
                return None
            kept.note(held.context, inside)
            held.inside.add(len(messages), inside)
            said = Unchanging([*messages, *inside.seen])
            mirrored = held.mirror(said)
            held.answered = held.context.view.head
            held.is_swapped = held.has_inside = True
            [*_, last] = mirrored.seqs[-1]
            return msgspec.structs.replace(observed, head=last - 1)

    # --- after the answer ---

    def finish(
        self, observed: ObservedCall, usage: Usage | None, copy: Copy | None
    ) -> Finished | None:
        """Keeps the usage of a call, and its answer if it may be the last; None if the call
        is not kept, or its conversation has since moved to another log."""
        reply = None if copy is None else reply_of(copy, observed.parsed.dialect)
        if observed.held is None:
            begun = (
                None
                if reply is None
                else self._keep_first_words(observed, Inside(reply.messages, {}))
            )
            if begun is None:
                return None
            observed = begun
        held = observed.held
        assert held is not None
        with held.guard:
            if held.context.id != observed.conversation:
                return None
            line = None if usage is None else self._accounted(held, observed, usage)
            if reply is not None and not reply.calls and held.seen is observed.parsed.messages:
                held.unkept = reply.messages
                if not self._folds(held):
                    held.keep_reply()
        lines = () if line is None else (line,)
        return Finished(conversation=observed.conversation, lines=lines)

    def _keep_first_words(self, observed: ObservedCall, inside: Inside) -> ObservedCall | None:
        """Keeps first words together with their answer."""
        parsed = msgspec.structs.replace(
            observed.parsed, messages=[*observed.parsed.messages, *inside.seen]
        )
        held = self._registry.begin(parsed, at=observed.at, anyway=observed.sent is not None)
        if held is None:
            return None
        with held.guard:
            if (held.is_unrepeated or not held.seen) and held.began_at <= observed.at:
                self._write_first_words(held, observed, parsed, inside)
            # The edits that shortened these words come after them, and before the answer.
            [first, *_] = held.places[len(observed.parsed.messages)] or (1,)
            id, body = held.context.id, observed.body if observed.refusal else None
            return ObservedCall(
                parsed=observed.parsed, held=held, conversation=id, head=first - 1, body=body
            )

    def _write_first_words(
        self, held: OpenConversation, observed: ObservedCall, parsed: ParsedCall, inside: Inside
    ) -> None:
        """Writes first words and their answer, which the client has not continued yet."""
        held.began_at, held.retries = observed.at, parsed.retries
        was_swapped = held.is_swapped
        _begin(held, observed)
        if observed.refusal is not None and not was_swapped:
            take_refused(self._registry, held, observed.parsed, observed.refusal)
        if inside.inner:
            kept.note(held.context, inside)
            held.inside.add(len(observed.parsed.messages), inside)
            held.is_swapped = held.has_inside = True
        mirror(held, parsed)
        held.takes_replies = True  # a second answer to the same words is not a reworded one
        held.take(parsed)
        held.answered = held.context.view.head

    def finish_rounds(
        self, observed: ObservedCall, kept: ObservedCall, usages: Sequence[Usage | None]
    ) -> Finished | None:
        """Keeps the usage of a call's rounds: the first as usual, the others without savings."""
        held = kept.held
        if held is None:
            return None
        with held.guard:
            if held.context.id != kept.conversation:
                return None
            first, *more = usages
            parsed = kept if observed.held is None else observed
            lines = [] if first is None else [self._accounted(held, parsed, first)]
            for usage in filter(None, more):
                lines.append(self._accounted(held, kept, usage, is_inside=True))
        return Finished(conversation=kept.conversation, lines=tuple(lines))

    def _accounted(
        self,
        held: OpenConversation,
        observed: ObservedCall,
        usage: Usage,
        *,
        is_inside: bool = False,
    ) -> CallLine:
        usage = msgspec.structs.replace(usage, model=usage.model or observed.parsed.model)
        held.context.record(usage=usage, upto=observed.head)
        line = held.account.spent(usage) if is_inside else self._line(held, observed, usage)
        said = {**msgspec.to_builtins(line), "text": line_text(line)}
        held.context.note(NOTE, said, by="proxy")
        return line

    def _line(self, held: OpenConversation, observed: ObservedCall, usage: Usage) -> CallLine:
        if self._folds(held):
            return held.account.folded(usage, observed.share, broke=held.encoded.broke)
        return held.account.observed(usage)


def _begun_aside(aside: ConversationRegistry, observed: ObservedCall) -> OpenConversation:
    """First words that were not answered yet, in a conversation of a registry aside."""
    held = aside.begin(observed.parsed, at=observed.at, anyway=True)
    assert held is not None
    _begin(held, observed)
    return held


def _begin(held: OpenConversation, observed: ObservedCall) -> None:
    """Brings the log to where the first words were sent: with our tools, and with an opening."""
    if observed.sent is not None and not held.tools:
        held.tools = kept.begin(held.context, observed.parsed.dialect)
    if observed.deferred and not held.deferred:
        held.deferred = observed.deferred
        note_deferred(held.context, observed.deferred)
    if observed.opening is not None:
        mirror(held, observed.parsed)
        held.show_opening(observed.opening)
