"""A request that was too long: recognised by its words, recovered from once, learnt from."""

from __future__ import annotations

import json
import threading

import pytest

import refold
from refold import dialects
from refold.compaction.hooks import Veto
from refold.core.model import Hide, Lesson
from refold.dialects.overflow import Overflow, overflow_of
from refold.errors import OverBudget
from refold.writer.asker import Answer

LINE = "a line of output that is long enough to count for something\n"


# --- errors as the SDKs raise them ---


class APIStatusError(Exception):
    """As `openai` and `anthropic` have it: a message, a status, the decoded body, its code."""

    def __init__(self, status: int, body: object, message: str = "") -> None:
        super().__init__(message or f"Error code: {status} - {body}")
        self.status_code, self.body = status, body
        error = body.get("error", body) if isinstance(body, dict) else {}
        self.code = error.get("code") if isinstance(error, dict) else None


class ClientError(Exception):
    """As `botocore` has it: everything in `response`, with headers that name a rate limit."""

    def __init__(self, code: str, message: str, status: int = 400) -> None:
        super().__init__(
            f"An error occurred ({code}) when calling the Converse operation: {message}"
        )
        headers = {"x-note": "rate limit: 5 tokens per minute", "status": "429"}
        self.response = {
            "Error": {"Code": code, "Message": message},
            "ResponseMetadata": {"HTTPStatusCode": status, "HTTPHeaders": headers},
        }


class GoogleError(Exception):
    """As `google.genai` has it: `code` is the status, `details` the body."""

    def __init__(self, code: int, status: str, message: str) -> None:
        super().__init__(f"{code} {status}. {message}")
        self.code, self.status, self.message = code, status, message
        self.details = {"error": {"code": code, "status": status, "message": message}}


class StreamedResponse:
    status_code = 400

    @property
    def text(self) -> str:
        raise RuntimeError("the response was not read")


class HTTPStatusError(Exception):
    """As `httpx` has it, for a response whose body was not read."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.response = StreamedResponse()


class ContextWindowExceededError(Exception):
    """As `litellm` has it: the class says it."""


def openai(
    message: str, *, status: int = 400, code: str | None = None, type: str = "invalid_request_error"
):
    return APIStatusError(
        status, {"error": {"message": message, "type": type, "param": None, "code": code}}
    )


def anthropic(message: str, *, status: int = 400, type: str = "invalid_request_error"):
    return APIStatusError(status, {"type": "error", "error": {"type": type, "message": message}})


def openrouter(message: str, status: int = 400) -> str:
    raw = json.dumps({"error": {"message": message, "code": status}})
    body = {
        "error": {"message": "Provider returned error", "code": status, "metadata": {"raw": raw}}
    }
    return "OpenRouter said: " + json.dumps(body)


def caused(message: str) -> Exception:
    error = RuntimeError("the model call failed")
    error.__cause__ = openai(message)
    return error


POSITIVES = {
    "openai chat": (
        openai(
            "This model's maximum context length is 128000 tokens. However, your messages resulted in 130,500 tokens "
            "(130000 in the messages, 500 in the functions). Please reduce the length of the messages or functions.",
            code="context_length_exceeded",
        ), 128_000, 130_500,
    ),
    "openai, with the completion": (
        openai("This model's maximum context length is 8191 tokens, however you requested 10346 tokens (10000 in your "
               "prompt; 346 for the completion). Please reduce your prompt; or completion length."), 8_191, 10_000,
    ),
    "openai responses": (
        openai("Your input exceeds the context window of this model. Please adjust your input and try again.",
               code="context_length_exceeded"), None, None,
    ),
    "openai, the code alone": (openai("Bad request", code="context_length_exceeded"), None, None),
    "openai, a configured limit": (
        openai("Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 280001 tokens. "
               "Please reduce the length of the messages."), 272_000, 280_001,
    ),
    "anthropic": (anthropic("prompt is too long: 213,000 tokens > 200,000 maximum"), 200_000, 213_000),
    "anthropic, with max_tokens": (
        anthropic("input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000, decrease input length "
                  "or `max_tokens` and try again"), 200_000, 188_240,
    ),
    "anthropic on vertex": (anthropic("Prompt is too long", status=413), None, None),
    "openrouter, status in JSON text": (
        openrouter("This endpoint's maximum context length is 65536 tokens. However, you requested about 70,123 tokens "
                   "(65000 of text input, 1027 of tool input, 4096 in the output)."), 65_536, 66_027,
    ),
    "bedrock": (ClientError("ValidationException", "Input is too long for requested model."), None, None),
    "bedrock, counted": (
        ClientError("ValidationException", "400 Bad Request: Too many input tokens. Max input tokens: 8192, request "
                    "input token count: 9279"), 8_192, 9_279,
    ),
    "bedrock, claude": (
        ClientError("ValidationException", "The model returned the following errors: prompt is too long: 204000 tokens "
                    "> 200000 maximum"), 200_000, 204_000,
    ),
    "gemini": (
        GoogleError(400, "INVALID_ARGUMENT", "The input token count (1200000) exceeds the maximum number of tokens "
                    "allowed (1048576)."), 1_048_576, 1_200_000,
    ),
    "vertex": (
        GoogleError(400, "INVALID_ARGUMENT", "Unable to submit request because the input token count is 33000 but "
                    "model only supports up to 32768. Reduce the input token count and try again."), 32_768, 33_000,
    ),
    "cerebras": (
        APIStatusError(400, {"message": "Please reduce the length of the messages or completion. Current length is "
                             "70123 while limit is 65536", "type": "invalid_request_error", "param": "messages",
                             "code": "context_length_exceeded"}), 65_536, 70_123,
    ),
    "mistral": (
        APIStatusError(400, {"object": "error", "message": "Prompt contains 40000 tokens and 0 draft tokens, too large "
                             "for model with 32768 maximum context length", "code": 3051}), 32_768, 40_000,
    ),
    "deepseek": (
        openai("This model's maximum context length is 65536 tokens. However, you requested 70,123 tokens (66027 in "
               "the messages, 4096 in the completion). Please reduce the length of the messages or completion."),
        65_536, 66_027,
    ),
    "groq": (
        openai("Please reduce the length of the messages or completion.", code="context_length_exceeded"), None, None,
    ),
    "xai": (
        openai("This model's maximum prompt length is 131072 but the request contains 140000 tokens."),
        131_072, 140_000,
    ),
    "llama.cpp": (
        APIStatusError(400, {"error": {"code": 400, "type": "exceed_context_size_error", "n_prompt_tokens": 10_000,
                             "message": "the request exceeds the available context size, try increasing it",
                             "n_ctx": 4_096}}), 4_096, 10_000,
    ),
    "llama.cpp, in its words": (
        {"error": {"code": 500, "message": "request (10000 tokens) exceeds the available context size (4096 tokens)"}},
        4_096, 10_000,
    ),
    "vllm": (
        APIStatusError(400, {"object": "error", "code": 400, "message": "The decoder prompt (length 5000) is longer "
                             "than the maximum model length of 4096."}), 4_096, 5_000,
    ),
    "vllm, with max_tokens": (
        openai("'max_tokens' or 'max_completion_tokens' is too large: 2000. This model's maximum context length is "
               "4096 tokens and your request has 2104 input tokens (2000 > 4096 - 2104)."), 4_096, 2_104,
    ),
    "ollama": ({"error": "the input length exceeds the context length"}, None, None),
    "lm studio": (
        "Trying to keep the first 10000 tokens when context the overflows. However, the model is loaded with context "
        "length of only 4096 tokens, which is not enough.", 4_096, 10_000,
    ),
    "tgi": (
        openai("Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000 `inputs` "
               "tokens and 100 `max_new_tokens`", status=422), 4_096, 5_000,
    ),
    "copilot": (openai("prompt token count of 70000 exceeds the limit of 64000"), 64_000, 70_000),
    "kimi": (
        openai("Invalid request: Your request exceeded model token limit: 131072 (requested: 140000)"),
        131_072, 140_000,
    ),
    "qwen": (openai("Range of input length should be [1, 129024]"), 129_024, None),
    "fireworks": (
        openai("The prompt is too long: 140000, model maximum context length: 131071"), 131_071, 140_000,
    ),
    "langchain": (type("ContextOverflowError", (Exception,), {})("the call failed"), None, None),
    "litellm": (ContextWindowExceededError("litellm.BadRequestError: the request was refused"), None, None),
    "an unread stream": (HTTPStatusError("400: prompt is too long: 9000 tokens > 8000 maximum"), 8_000, 9_000),
    "a cause": (caused("This model's maximum context length is 65536 tokens."), 65_536, None),
    "bytes": (b'{"error": {"message": "maximum context length is 65536 tokens"}}', 65_536, None),
}  # fmt: skip

NEGATIVES = {
    "anthropic, a broken tool pair": anthropic(
        "messages.4: `tool_use` ids were found without `tool_result` blocks immediately after: toolu_01"
    ),
    "anthropic, an empty block": anthropic("messages: text content blocks must be non-empty"),
    "anthropic, max_tokens": anthropic(
        "max_tokens: 100000 > 64000, which is the maximum allowed number of output tokens for claude-sonnet-4-5"
    ),
    "anthropic, 413 body": anthropic("Request exceeds the maximum size", status=413, type="request_too_large"),
    "anthropic, overloaded": anthropic("Overloaded", status=529, type="overloaded_error"),
    "anthropic, rate": anthropic(
        "This request would exceed your organization's rate limit of 40,000 input tokens per minute", status=429,
        type="rate_limit_error",
    ),
    "openai, 401": openai("Incorrect API key provided", status=401, code="invalid_api_key"),
    "openai, token rate": openai(
        "Request too large for gpt-4o in organization org-1 on tokens per min (TPM): Limit 30000, Requested 50000. The "
        "input or output tokens must be reduced in order to run successfully.", status=429, code="rate_limit_exceeded",
    ),
    "groq, token rate as 413": openai(
        "Request too large for model on tokens per minute (TPM): Limit 6000, Requested 7000, please reduce the length "
        "of the messages", status=413, code="rate_limit_exceeded",
    ),
    "openai, max_tokens": openai(
        "max_tokens is too large: 100000. This model supports at most 16384 completion tokens, whereas you provided "
        "100000."
    ),
    "vllm, max_tokens above the window": openai(
        "'max_tokens' is too large: 20000. This model's maximum context length is 4096 tokens and your request has 10 "
        "input tokens."
    ),
    "openai, an orphan result": openai("messages with role 'tool' must be a response to a preceding 'tool_calls'"),
    "openai, no such model": openai("The model `gpt-9` does not exist", status=404, code="model_not_found"),
    "openrouter, credits": openrouter(
        "This request requires more credits, or fewer max_tokens. You requested up to 65536 tokens, but can only "
        "afford 3000", 402,
    ),
    "openrouter, 429 in JSON text": openrouter("too many tokens", 429),
    "bedrock, throttled": ClientError(
        "ThrottlingException", "Too many tokens, please wait before trying again.", status=429
    ),
    "bedrock, throttled, no status": "ThrottlingException: Too many tokens, please wait before trying again.",
    "gemini, quota": GoogleError(429, "RESOURCE_EXHAUSTED", "Quota exceeded for input token count per minute"),
    "gemini, schema": GoogleError(400, "INVALID_ARGUMENT", "Please ensure that function call turn comes after a user"),
    "nginx, 413": APIStatusError(413, "<html><h1>413 Request Entity Too Large</h1></html>"),
    "a timeout": TimeoutError("timed out"),
    "nothing": None,
    "a number": 400,
}  # fmt: skip


@pytest.mark.parametrize("name", POSITIVES)
def test_a_refusal_for_size_is_recognised_with_the_numbers_it_states(name):
    """C-80, C-82."""
    error, limit, tokens = POSITIVES[name]
    found = overflow_of(error)
    assert isinstance(found, Overflow)
    assert (found.limit, found.tokens) == (limit, tokens)
    assert found.text


@pytest.mark.parametrize("name", NEGATIVES)
def test_any_other_error_is_not_taken_for_one(name):
    """C-80: above all not every invalid_request_error."""
    assert overflow_of(NEGATIVES[name]) is None


def test_the_table_is_as_long_as_the_row_asks():
    assert len(POSITIVES) + len(NEGATIVES) >= 30


def test_an_error_that_quotes_a_huge_request_is_read_quickly():
    """C-80: nothing in the patterns may run away."""
    assert overflow_of("prompt is too long " + "input tokens " * 200_000) is not None
    assert overflow_of("exceeds the the the " * 100_000 + "1 " * 100_000) is None


# --- recovery ---


class Provider:
    """Refuses what is above its limit, in the words of a gateway, and counts in its own way."""

    def __init__(
        self, limit: int, *, per_sign: float = 0.25, states: bool = True, stubborn: bool = False
    ) -> None:
        self.limit, self.per_sign, self.states, self.stubborn = limit, per_sign, states, stubborn
        self.calls: list[int] = []

    def complete(self, request: dict) -> dict:
        assert dialects.dialect("openai_chat").check(request) == []
        size = int(len(json.dumps(request, ensure_ascii=False)) * self.per_sign)
        self.calls.append(size)
        if size > self.limit or self.stubborn:
            said = f"maximum context length is {self.limit} tokens. However, you requested {size:,} tokens"
            raise openai(
                f"This model's {said}" if self.states else "Input is too long for requested model."
            )
        message = {"role": "assistant", "content": "done"}
        usage = {"prompt_tokens": size, "completion_tokens": 5, "total_tokens": size + 5}
        choices = [{"index": 0, "finish_reason": "stop", "message": message}]
        reply = {"id": f"r{len(self.calls)}", "object": "chat.completion", "model": "m"}
        return {**reply, "choices": choices, "usage": usage}


def turn(context, provider: Provider) -> None:
    """The loop of an agent: call, and call again for as long as the context says so."""
    while True:
        try:
            context.record(provider.complete(context.request("openai_chat")))
            return
        except APIStatusError as error:
            if not context.recover(error):
                raise


def talked(turns: int = 60, size: int = 40, **given):
    context = refold.open("work", **{"store": "memory:", "window": 128_000, **given})
    context.append({"role": "user", "content": "Fix the login test. The port is 8443."})
    for n in range(turns):
        function = {"name": "bash", "arguments": json.dumps({"command": f"step {n}"})}
        calls = [{"id": f"c{n}", "type": "function", "function": function}]
        context.append({"role": "assistant", "content": None, "tool_calls": calls})
        context.append_result(
            f"c{n}", f"turn {n}\n" + "".join(f"{n}.{i} {LINE}" for i in range(size))
        )
    return context


def heard(context) -> list[refold.Notice]:
    notices: list[refold.Notice] = []
    context.on("*", notices.append)
    return notices


def named(notices, name: str) -> list[refold.Notice]:
    return [notice for notice in notices if notice.name == name]


@pytest.mark.parametrize("states", [True, False])
def test_an_overflow_is_recovered_once_and_the_retry_fits(states):
    """C-81: a quarter of what can go is kept, as one batch that can be undone."""
    context, provider = talked(), Provider(20_000, states=states)
    notices, before = heard(context), context.stats().current
    turn(context, provider)
    assert len(provider.calls) == 2
    [told] = named(notices, "overflow-recovered")
    assert told.receipt.batch and told.before > told.after
    assert told.after <= before * 0.3
    assert "8443" in json.dumps(context.request("openai_chat"))
    context.revert(told.receipt.batch)
    assert len(context.view.slots) == 122


def test_a_provider_that_refuses_twice_is_called_twice_and_the_error_gives_advice():
    """C-81."""
    context, provider = talked(), Provider(20_000, stubborn=True)
    notices = heard(context)
    with pytest.raises(OverBudget, match="refused again") as raised:
        turn(context, provider)
    assert len(provider.calls) == 2
    assert len(named(notices, "overflow-recovered")) == 1
    assert "larger window" in raised.value.hint


def test_after_something_new_was_appended_an_overflow_is_recovered_again():
    """C-81: one try per page, not per conversation."""
    context = talked()
    error = openai("This model's maximum context length is 20000 tokens.")
    context.request("openai_chat")
    assert context.recover(error)
    context.append({"role": "user", "content": LINE * 2_000})
    assert context.recover(openai("This model's maximum context length is 10000 tokens."))
    assert context.budget.window == 10_000


def test_a_recovery_is_deterministic():
    """C-81: two contexts with the same log are reduced alike."""
    pages = []
    for _ in range(2):
        context = talked()
        assert context.recover("maximum context length is 20000 tokens")
        pages.append(json.dumps(context.request("openai_chat")))
    assert pages[0] == pages[1]


def test_neither_a_writer_nor_a_veto_stands_in_the_way_of_a_recovery():
    """C-81: no model is asked; hooks that listen are told."""
    asked: list[object] = []
    receipts: list[refold.Receipt] = []

    def writer(request: object) -> Answer:
        asked.append(request)
        return Answer(text="prose")

    context = talked(writer=writer)
    context.before_compaction(lambda plan: Veto("not now"))
    context.on("compaction-complete", lambda notice: receipts.append(notice.receipt))
    assert context.recover("maximum context length is 20000 tokens")
    assert asked == []
    assert len(receipts) == 1 and receipts[0].batch


def test_a_recovery_does_not_wait_for_a_compaction_in_flight():
    """C-81: and the other one finds the page edited, and does nothing that breaks it."""
    asked, answered = threading.Event(), threading.Event()

    def writer(request: object) -> Answer:
        asked.set()
        answered.wait(20)
        return Answer(text="prose")

    context = talked(writer=writer)
    other = threading.Thread(target=context.compact, kwargs={"target": 8_000})
    other.start()
    assert asked.wait(20)
    assert context.recover("maximum context length is 20000 tokens")
    assert not answered.is_set()
    answered.set()
    other.join(20)
    assert dialects.dialect("openai_chat").check(context.request("openai_chat")) == []
    assert context.stats().current <= context.budget.input_max


def test_a_fork_knows_what_was_learnt():
    """C-82."""
    context = talked()
    assert context.recover("maximum context length is 20000 tokens")
    assert context.fork("twin").budget.window == 20_000


def test_another_error_changes_nothing():
    """C-80."""
    context = talked(3)
    head = context.view.head
    assert not context.recover(NEGATIVES["anthropic, a broken tool pair"])
    assert context.view.head == head
    assert context.budget.window == 128_000


def test_the_limit_in_the_error_holds_from_now_on():
    """C-82: maximum context length is 65536 → limit 65,536."""
    context = talked(model="gpt-4o", window=None)
    assert context.budget.window == 128_000
    assert context.recover("This model's maximum context length is 65536 tokens.")
    assert context.budget.window == 65_536
    assert context.budget.compact_at < 65_536
    context.update(model="gpt-4o", window=200_000)
    assert context.budget.window == 65_536


def test_a_limit_belongs_to_the_model_that_stated_it():
    """C-82, Y-84."""
    context = talked(model="gpt-4o", window=None)
    assert context.recover("This model's maximum context length is 65536 tokens.")
    context.update(model="claude-sonnet-4-5")
    assert context.budget.window > 65_536
    context.update(model="gpt-4o")
    assert context.budget.window == 65_536


@pytest.mark.parametrize("killed", [False, True])
def test_what_was_learnt_is_known_after_a_reopen_until_its_batch_is_reverted(tmp_path, killed):
    """C-82: by the bookmark or by the log."""
    url = f"sqlite:{tmp_path / 'x.db'}"
    context = talked(model="gpt-4o", window=None, store=url)
    for limit in (65_536, 70_000, 60_000):
        assert context.recover(f"This model's maximum context length is {limit} tokens.")
        for n in range(40):
            context.append({"role": "user", "content": f"more {n} " + "words and words " * 40})
    if not killed:
        context.close()
    again = refold.open("work", store=url, model="gpt-4o")
    assert again.budget.window == 60_000
    again.update(model="claude-sonnet-4-5")
    assert again.budget.window == 200_000
    again.update(model="gpt-4o")
    assert again.budget.window == 60_000
    again.revert(again.view.undoable[-1][1])
    assert again.budget.window == 65_536


def test_an_ordinary_compaction_teaches_nothing():
    context = talked()
    context.compact(target=2_000)
    assert context.view.lessons == {}


@pytest.mark.parametrize("limit", [-5, 0, 1, 255])
def test_a_log_that_teaches_an_absurd_limit_leaves_a_usable_one(limit):
    context = talked(model="gpt-4o")
    slot = context.view.slots[2]
    lesson = Lesson(model="gpt-4o", limit=limit)
    edit = Hide(batch="b", span=slot.span, lesson=lesson)
    context._open.append([context._open.draft(edit)])
    assert context.budget.window == 256


def test_a_larger_limit_than_the_window_teaches_nothing_about_it():
    context = talked(window=40_000)
    assert context.recover("maximum context length is 65536 tokens")
    assert context.budget.window == 40_000


def test_a_reserve_for_a_larger_window_leaves_room_in_the_learnt_one():
    context = talked(config={"reserve_tokens": 30_000})
    assert context.recover("maximum context length is 16384 tokens")
    assert 0 < context.budget.input_max < 16_384
    assert context.stats().current <= context.budget.input_max


def test_the_size_in_the_error_corrects_the_estimate_until_usage_is_reported():
    """C-82: the provider counts twice what we do."""
    context = talked()
    context.request("openai_chat")
    estimate = context.view.tokens
    stated = f"maximum context length is 30000 tokens. However, you requested {estimate * 2} tokens"
    assert context.recover(stated)
    assert context.budget.factor == pytest.approx(2.0)
    assert context.view.tokens * 2 <= context.budget.input_max
    context.record(Provider(100_000, per_sign=0.25).complete(context.request("openai_chat")))
    assert context.budget.factor < 1.5


def test_a_size_that_is_far_beyond_the_last_usage_still_fits_after_one_recovery():
    """C-82: the anchor of an older report must not hide what the error said."""
    context = talked(5)
    provider = Provider(24_000, per_sign=0.75)
    turn(context, provider)
    context.append({"role": "user", "content": "".join(f"{n} {LINE}" for n in range(900))})
    calls = len(provider.calls)
    turn(context, provider)
    assert len(provider.calls) <= calls + 2


def test_a_refusal_just_above_the_limit_still_leaves_about_a_quarter():
    """C-81: strong, so that the retry does not fail by a hair."""
    context = talked()
    current = context.stats().current
    assert context.recover(f"maximum context length is {current - 1_000} tokens")
    assert context.stats().current <= current * 0.3


def test_a_stated_size_counts_for_more_than_the_last_report():
    """C-82: the report was of 100 tokens for a page of thousands, the refusal is of 2.4 per
    token of our estimate."""
    context = refold.open("work", store="memory:", window=128_000)
    context.append({"role": "user", "content": LINE * 400})
    reply = Provider(100_000).complete(context.request("openai_chat"))
    context.record(
        {**reply, "usage": {"prompt_tokens": 100, "completion_tokens": 5, "total_tokens": 105}}
    )
    context.append({"role": "user", "content": "".join(f"{n} {LINE}" for n in range(1_500))})
    context.request("openai_chat")
    size = round(context.view.tokens * 2.4)
    assert context.recover(
        f"maximum context length is 30000 tokens. However, you requested {size} tokens"
    )
    assert context.view.tokens * 2.4 <= 30_000


def test_a_page_on_which_nothing_can_go_is_an_error_at_once():
    """C-81: no second call that must fail."""
    context = refold.open("work", store="memory:", window=128_000, system="s" * 4_000)
    context.append({"role": "user", "content": "hello"})
    context.request("openai_chat")
    with pytest.raises(OverBudget) as raised:
        context.recover("prompt is too long")
    assert "system prompt" in raised.value.hint


# --- no dead end ---


def test_one_message_larger_than_the_window_is_cut_with_a_note_and_unfolds_whole():
    """C-83: a single message of 300k tokens in a window of 128k."""
    context = refold.open("work", store="memory:", window=128_000)
    text = "".join(f"{n} {LINE}" for n in range(24_000))
    [event] = context.append({"role": "user", "content": text})
    assert context.view.tokens > 300_000
    request = context.request("openai_chat")
    assert dialects.dialect("openai_chat").check(request) == []
    assert context.stats().current <= context.budget.input_max
    assert f"unfold #{event.seq}" in json.dumps(request)
    assert context.unfold(f"#{event.seq}").text == text


def test_one_message_larger_than_a_learnt_limit_is_cut_to_it():
    """C-82, C-83."""
    context, provider = (
        refold.open("work", store="memory:", window=400_000),
        Provider(60_000, per_sign=0.4),
    )
    text = "".join(f"{n} {LINE}" for n in range(12_000))
    context.append({"role": "user", "content": text})
    turn(context, provider)
    assert len(provider.calls) == 2
    assert context.unfold("#1").text == text


def test_switching_to_a_smaller_model_makes_room_before_the_next_call():
    """Y-84: 150k in a window of 200k, then a window of 64k."""
    context = talked(235, model="claude-sonnet-4-5", window=200_000)
    notices, before = heard(context), context.stats().current
    assert 130_000 < before < 180_000
    context.request("anthropic")
    assert not named(notices, "compaction-complete")
    context.update(window=64_000)
    assert dialects.dialect("anthropic").check(context.request("anthropic")) == []
    assert len(named(notices, "compaction-complete")) == 1
    assert context.stats().current <= context.budget.input_max < 64_000


# --- why ---


def test_every_hidden_or_changed_message_can_be_traced():
    """X-36: to the operation, the time and the reason."""
    context = talked()
    assert context.recover("maximum context length is 20000 tokens")
    shown = {slot.seq for slot in context.view.slots if not slot.edits}
    for seq in range(1, 122):
        chain = context.log.why(seq)
        assert bool([trace for trace in chain if trace.live]) == (seq not in shown), seq
        for trace in chain:
            assert trace.at_ms > 0 and trace.action and trace.by and trace.reason and trace.batch
            assert context.unfold(trace.handle).text


def test_the_chain_tells_of_undo_pins_and_restores():
    """X-36."""
    context = talked(20)
    context.compact("hide", target=2_000)
    assert [trace.action for trace in context.log.why(4)] == ["hidden"]
    context.pin(4)
    assert [trace.live for trace in context.log.why(4)] == [False, True]
    assert any(slot.seq == 4 for slot in context.view.slots)
    context.unpin(4)
    assert context.log.why(4)[0].live
    context.undo()
    hidden, *_, reverted = context.log.why(4)
    assert (hidden.live, reverted.live) == (False, True)
    assert reverted.action.startswith("reverted batch")
    context.pin(4)
    assert context.log.why(4)[-1].action == "pinned"
    context.restore(1)
    assert context.log.why(4)[-1].action == "restored to #1"
    with pytest.raises(refold.NotFound):
        context.log.why(10_000)
    with pytest.raises(refold.NotFound):
        context.log.why(0)
