"""A request that was too long is recognised by the words of the refusal, and no other error is."""

from __future__ import annotations

import pytest

from refold.dialects.overflow import Overflow, overflow_of
from tests.refusals import (
    APIStatusError,
    ClientError,
    ContextWindowExceededError,
    GoogleError,
    HTTPStatusError,
    anthropic,
    caused,
    openai,
    openrouter,
)

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
    "anthropic, 413 body": (
        anthropic("Request exceeds the maximum size", status=413, type="request_too_large"), None, None
    ),
    "tokens in prompt": ("400: tokens in prompt too large: 50000, maximum 32000", 32_000, 50_000),
    "message tokens": ("Total tokens of image and text exceed max message tokens", None, None),
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
    "bedrock, throttled, the bare text": "Too many tokens, please wait before trying again.",
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
