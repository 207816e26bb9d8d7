"""A compaction that the provider writes: an edit like any other, beside an upstream that signs and
refuses as the providers do."""

from __future__ import annotations

import threading
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import refold
from refold import dialects
from refold.compaction import native
from refold.core.model import ADOPTED
from refold.log.notes import body_redacted
from refold.types import NativeRequest
from tests.real.proxy.strict.anthropic_compaction import BETA
from tests.real.proxy.strict.server import Upstream
from tests.real.proxy.strict.settings import Settings
from tests.real.proxy.strict.talks import HEADERS, call, posted, text, thought
from tests.waiting import LONG_S

Json = dict[str, Any]
WINDOW = 24_000
CLAUDE, GPT = "claude-opus-5-5", "gpt-5"
KEY = {**HEADERS, "authorization": "Bearer key"}
LADDER = ("native", "dedup", "gist", "hide")
SUMMARY = "The user wants the login mended; three files were read."


class Refused(Exception):
    """The upstream refused a call."""


class Session:
    """A tool loop with an upstream, and a caller that asks it for compactions."""

    def __init__(self, model: str = CLAUDE, **given: Any) -> None:
        self.upstream = Upstream(Settings(window=WINDOW))
        self.asked: list[NativeRequest] = []
        self.notices: list[refold.Notice] = []
        self.model = model
        config = {"ladder": given.pop("ladder", LADDER)}
        given = {"native": self.compacted, "store": "memory:", "window": WINDOW, **given}
        self.context = refold.open("work", model=model, config=config, **given)
        self.context.on("*", self.notices.append)
        self.turns = 0

    def compacted(self, request: NativeRequest) -> Json:
        self.asked.append(request)
        if request.dialect == "anthropic":
            self.upstream.script.add(SUMMARY)
        path = "/v1/messages" if request.dialect == "anthropic" else "/v1/responses/compact"
        return self.post(path, request.call)

    def post(self, path: str, body: Json) -> Json:
        betas = ",".join(body.get("betas", []))
        headers = {**KEY, "anthropic-beta": betas}
        plain = {key: value for key, value in body.items() if key != "betas"}
        status, answer = posted(self.upstream, path, plain, headers)
        if status != 200:
            raise Refused(str(answer))
        return answer

    def send(self, said: Any) -> None:
        """One request, answered with this."""
        is_claude = self.model == CLAUDE
        dialect = "anthropic" if is_claude else "openai_responses"
        beside = {"thinking": {"type": "adaptive"}} if is_claude else {"store": False}
        request = self.context.request(dialect, **beside)
        self.upstream.script.add(said)
        answer = self.post("/v1/messages" if is_claude else "/v1/responses", request)
        self.context.record(answer)

    def work(self, turns: int, lines: int = 120) -> None:
        """A user's request and a tool loop that thinks before every call."""
        self.context.append({"role": "user", "content": "Mend the login. " * 3})
        for _ in range(turns):
            id = f"c{self.turns}"
            self.turns += 1
            self.send(says(self.model, id))
            self.context.append_result(id, f"{id}: a line of output\n" * lines)
        self.send(says(self.model, ""))

    def live(self, chance: Random) -> None:
        """Something that may happen in a session, and a turn of the model after it."""
        context = self.context
        match chance.randint(0, 7):
            case 0 if chance.random() < 0.5:
                context.undo()
            case 1:
                context.compact("native")
            case 2:
                context.compact()
            case 3:
                context.append({"role": "system", "content": "Mind the house rules."})
            case 4 if context.view.slots:
                slot = chance.choice(context.view.slots)
                if not slot.edits and slot.message.role == "user":
                    context.pin(slot.seq)
            case 5:
                context.redo()
        context.append({"role": "user", "content": "go on " * chance.randint(1, 200)})
        for _ in range(chance.randint(0, 12)):
            ids = [self.id(chance) for _ in range(chance.choice([1, 1, 1, 2]))]
            [thinks, *_] = says(self.model, "")
            self.send([thinks, *(says(self.model, id)[1] for id in dict.fromkeys(ids))])
            for id in dict.fromkeys(ids):
                if chance.random() < 0.95:
                    context.append_result(id, "a line of output\n" * chance.randint(1, 400))
            if chance.random() < 0.1:
                context.append({"role": "user", "content": "Wait, there is more."})
        self.send(says(self.model, ""))

    def id(self, chance: Random) -> str:
        """A new id, or one that was used long ago."""
        self.turns += 1
        return f"c{self.turns if chance.random() < 0.97 else chance.randint(0, self.turns)}"

    @property
    def failures(self) -> list[str]:
        return [one.reason for one in self.notices if one.name == "compaction-failed"]


def says(model: str, id: str) -> list[Json]:
    """Thinking, and a call of this id or the last words."""
    if model == CLAUDE:
        rest = [call(id, path="a.py")] if id else [text("Done.")]
        return [thought(f"I look at {id}."), *rest]
    said = [{"type": "output_text", "text": "Done.", "annotations": []}]
    last: Json = {"type": "message", "role": "assistant", "content": said}
    if id:
        last = {"type": "function_call", "call_id": id, "name": "read", "arguments": "{}"}
    return [{"type": "reasoning", "summary": []}, last]


def blocks(request: Json) -> list[Json]:
    return [block for message in request["messages"] for block in message["content"]
            if isinstance(block, dict)]  # fmt: skip


@pytest.mark.parametrize("model", [CLAUDE, GPT])
def test_a_long_loop_is_compacted_by_the_provider_and_nothing_is_refused(model: str) -> None:
    session = Session(model)
    session.work(70)
    assert session.failures == [] and session.upstream.refusals == []
    assert len(session.asked) >= 2
    strategies = {batch.strategy for batch in session.context.log.batches()}
    assert strategies == {"native"}


def last_request(session: Session) -> Json:
    return session.upstream.requests[-1].body


def test_the_kept_tail_keeps_its_thinking_and_the_block_stands_first() -> None:
    session = Session()
    session.work(25)
    request = last_request(session)
    [first, *rest] = blocks(request)
    assert first["type"] == "compaction" and first["content"] == SUMMARY
    assert sum(block["type"] == "compaction" for block in rest) == 0
    calls = [block for block in rest if block["type"] == "tool_use"]
    thoughts = [block for block in rest if block["type"] == "thinking"]
    assert len(calls) > 2 and len(thoughts) == len(calls)


def test_what_it_took_is_billed_and_in_the_receipt() -> None:
    session = Session(ladder=("gist",))
    session.work(10)
    before = session.context.view.totals
    receipt = session.context.compact("native")
    after = session.context.view.totals
    assert receipt.strategy == "native" and receipt.tokens_after < receipt.tokens_before
    assert after.calls == before.calls + 1 and after.input > before.input
    assert after.cost > before.cost
    assert [item.action for item in receipt.items] == ["summarized"]


@pytest.mark.parametrize("model", [CLAUDE, GPT])
def test_undo_brings_the_originals_back_and_the_session_goes_on(model: str) -> None:
    session = Session(model, ladder=("gist",))
    session.work(8)
    before = session.context.view.slots
    session.context.compact("native")
    assert len(session.context.view.slots) < len(before)
    session.context.undo()
    assert session.context.view.slots == before
    session.work(3)
    session.context.redo()
    session.work(3)
    assert session.upstream.refusals == []


@pytest.mark.parametrize("dialect", ["openai_chat", "openai_responses", "gemini"])
def test_another_wire_format_is_told_the_gist(dialect: str) -> None:
    session = Session(ladder=("gist",))
    session.work(10)
    session.context.compact("native")
    session.context.append({"role": "user", "content": "And now?"})
    request = session.context.request(dialect)
    assert "compaction" not in str(request) and "Mend the login" in str(request)
    assert dialects.dialect(dialect).check(request) == []


def test_an_older_model_is_told_the_gist_and_a_newer_one_the_block_again() -> None:
    session = Session(ladder=("gist",))
    session.work(10)
    session.context.compact("native")
    session.context.append({"role": "user", "content": "And now?"})
    session.context.update(model="claude-opus-4-1")
    assert "compaction" not in str(session.context.request())
    session.context.update(model="claude-sonnet-5-5")
    assert blocks(session.context.request())[0]["type"] == "compaction"


def test_the_beta_is_named_beside_the_callers_own() -> None:
    session = Session(ladder=("gist",))
    session.work(10)
    session.context.append({"role": "user", "content": "And now?"})
    assert "betas" not in session.context.request()
    session.context.compact("native")
    assert session.context.request()["betas"] == [BETA]
    assert session.context.request(betas=["other"])["betas"] == ["other", BETA]


def test_a_conversation_that_is_opened_again_shows_the_same(tmp_path: Path) -> None:
    store = f"sqlite:{tmp_path}/refold.db"
    session = Session(ladder=("gist",), store=store)
    session.work(10)
    receipt = session.context.compact("native")
    session.context.append({"role": "user", "content": "And now?"})
    request = session.context.request()
    session.context.close()
    with refold.open("work", store=store) as context:
        assert context.request() == request
        twin = context.fork("twin")
        assert twin.request() == request
        shown = context.unfold(receipt.items[0].handle)
        assert "c0: a line of output" in str(shown)
        context.undo(receipt.batch)
        assert "compaction" not in str(context.request())
        assert twin.request() == request


# --- what goes wrong ---


NEVER = threading.Event()


def raises(request: NativeRequest) -> Any:
    raise RuntimeError("400: compaction_unavailable")


def is_late(request: NativeRequest) -> Any:
    NEVER.wait(LONG_S)


def says_too_much(request: NativeRequest) -> Any:
    return answered("so " * 40_000)


def says_a_secret(request: NativeRequest) -> Any:
    return answered("The key is ghp_" + "a1B2c3D4e5" * 4)


def answered(content: str | None, signature: str = "c2lnbmVk") -> Json:
    block = {"type": "compaction", "content": content, "signature": signature}
    return {"type": "message", "role": "assistant", "content": [block], "stop_reason": "compaction"}


WRONG: dict[str, tuple[Any, str]] = {
    "refused": (raises, "compaction_unavailable"),
    "late": (is_late, "no answer within"),
    "too much": (says_too_much, "no fewer than"),
    "secret": (says_a_secret, "secret"),
    "null": (lambda request: answered(None), "one signed compaction block"),
    "unsigned": (
        lambda request: answered("a summary", signature=""),
        "one signed compaction block",
    ),
    "blank": (lambda request: answered("  "), "one signed compaction block"),
    "nothing": (lambda request: None, "one signed compaction block"),
    "an answer": (lambda request: {"content": [text("Done.")]}, "one signed compaction block"),
    "no caller": (None, "there is no way to call the provider"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_the_provider_does_not_write_the_ladder_does(
    case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    caller, reason = WRONG[case]
    monkeypatch.setattr(native, "WAIT_S", 0.2 if case == "late" else LONG_S)
    session = Session(native=caller)
    session.work(30)
    assert session.failures and all(reason in one for one in session.failures[:1])
    strategies = {batch.strategy for batch in session.context.log.batches()}
    assert strategies and not any("native" in one for one in strategies)
    assert session.upstream.refusals == []


@pytest.mark.parametrize("model", [CLAUDE, GPT])
def test_what_the_provider_is_to_write_is_prepared_while_nobody_waits(model: str) -> None:
    now = ""
    asked_when: list[str] = []

    def compacted(request: NativeRequest) -> Json:
        asked_when.append(now)
        return session.compacted(request)

    session = Session(model, native=compacted)
    send = session.send

    def send_and_prepare(said: Any) -> None:
        nonlocal now
        now = "request"
        send(said)
        now = "prepare"
        session.context.plan(ahead=True)

    session.send = send_and_prepare  # type: ignore[method-assign]
    session.work(70)
    assert len(asked_when) >= 2 and set(asked_when) == {"prepare"}
    assert session.failures == [] and session.upstream.refusals == []
    assert {batch.strategy for batch in session.context.log.batches()} == {"native"}


def fill(context: refold.Context) -> None:
    """Says so much that a compaction may be prepared."""
    context.append({"role": "user", "content": "Mend the login."})
    while context.stats().current < context.budget.warn_at:
        context.append({"role": "assistant", "content": "I look. " * 100})
        context.append({"role": "user", "content": "Go on. " * 100})


@pytest.mark.parametrize("ladder", [LADDER, ("native",)])
def test_without_a_provider_the_rest_of_the_ladder_is_prepared(ladder: tuple[str, ...]) -> None:
    session = Session(native=None, ladder=ladder)
    fill(session.context)
    assert bool(session.context.plan(ahead=True).proposals) is (ladder == LADDER)


def test_a_provider_that_fails_to_prepare_is_left_alone_for_a_while() -> None:
    asked: list[NativeRequest] = []

    def fails(request: NativeRequest) -> Any:
        asked.append(request)
        raise RuntimeError("503")

    session = Session(native=fails)
    fill(session.context)
    assert (
        not session.context.plan(ahead=True).proposals
        and not session.context.plan(ahead=True).proposals
    )
    assert len(asked) == 1 and len(session.failures) == 1


def test_a_provider_that_failed_rests_and_by_hand_is_asked_again() -> None:
    asked: list[NativeRequest] = []

    def fails(request: NativeRequest) -> Any:
        asked.append(request)
        raise RuntimeError("503")

    session = Session(native=fails)
    session.work(70)
    assert len(asked) == 1
    receipt = session.context.compact("native")
    assert len(asked) == 2 and not receipt.batch and "503" in receipt.reason


@pytest.mark.parametrize(
    ("model", "reason"),
    [("gpt-4.1", "openai_chat offers no"), ("claude-opus-4-1", "writes no compactions")],
)
def test_who_cannot_is_not_asked(model: str, reason: str) -> None:
    session = Session(model, ladder=("gist",))
    for number in range(6):
        session.context.append({"role": "user", "content": f"Say {number}. " * 300})
        session.context.append({"role": "assistant", "content": "Yes. " * 300})
    assert reason in session.context.compact("native").reason
    assert session.asked == []


def test_a_secret_that_a_shared_log_may_not_hold_takes_the_block_with_it() -> None:
    native = {"dialect": "anthropic", "model": CLAUDE, "messages": answered("ghp_" + "a1B2" * 10)}
    native["messages"] = [{"role": "assistant", "content": native["messages"]["content"]}]
    span = {"first": 1, "last": 2}
    plain = {"type": "summarize", "batch": "b", "span": span, "text": "t", "native": native}
    clean = body_redacted("edit", plain)
    assert "native" not in clean and clean["purpose"] == ADOPTED
    native["messages"][0]["content"][0]["content"] = SUMMARY
    assert body_redacted("edit", plain) == plain


# --- stories ---


@settings(max_examples=25)
@given(seed=st.integers(0, 2**32), model=st.sampled_from([CLAUDE, GPT]))
def test_no_story_is_refused(seed: int, model: str) -> None:
    """Users who interrupt, system messages, pins, parallel and unanswered calls, undo, redo, ids
    that come twice, compactions by hand of both kinds."""
    chance = Random(seed)
    session = Session(model)
    for _ in range(chance.randint(4, 9)):
        session.live(chance)
    assert session.upstream.refusals == []
    for batch in reversed(list(session.context.log.batches())):
        if batch.live:
            session.context.undo(batch.id)
    assert not any(slot.standin for slot in session.context.view.slots)
