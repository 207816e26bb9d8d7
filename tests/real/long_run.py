"""Forty turns of a model that reasons and calls tools in parallel, against the strict upstream.

Every framework plays them: `with long_run(api) as upstream:` serves the answers in one provider's
format, the agent is asked `QUESTIONS` with the tool `weigh`, and `check_long_run` says whether
anything was refused, lost, or too large, and whether the page was folded often enough.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

import refold
from tests.real.proxy.strict.server import Upstream, serving
from tests.real.proxy.strict.wire import Json

QUESTIONS = [f"Weigh crate {crate}. Its code is Z{crate * 77}." for crate in range(40)]
WINDOW = 14_000
FOLDS_MIN = 3


def weigh(crate: int) -> str:
    """Weighs a crate."""
    parts = (f"part {part}: {part * crate % 997} kg, seal {part * 31 % 89}" for part in range(60))
    return f"crate {crate}\n" + "\n".join(parts)


def long_run(api: str) -> AbstractContextManager[Upstream]:
    """The upstream with all answers. `api` is a dialect."""
    return serving(*_answers(api))


def check_long_run(upstream: Upstream, store: str) -> None:
    """Every answer was asked for, no request was refused, and there were folds."""
    assert upstream.refusals == []
    assert len(upstream.requests) == len(list(_answers("openai_chat")))
    assert max(len(one.raw) for one in upstream.requests) < 4 * WINDOW
    last = upstream.requests[-1].raw.decode()
    assert QUESTIONS[-1] in last
    folds = 0
    for about in refold.conversations.list(store):
        with refold.open(about.id, store=store, read_only=True) as context:
            folds = max(folds, len(context.view.undoable))
    assert folds >= FOLDS_MIN, folds


def _answers(api: str) -> Iterator[Any]:
    """For each question parallel calls, in every third one call more, and the answer."""
    for crate in range(len(QUESTIONS)):
        yield _said(api, crate, [crate, crate + 100])
        if crate % 3 == 0:
            yield _said(api, crate, [crate + 200])
        yield _said(api, crate, [])


def _said(api: str, crate: int, calls: list[int]) -> Any:
    """An answer in the form of the upstream's script: thinking, and calls or words."""
    thought, text = f"Crate {crate}, then.", f"Crate {crate} weighs {crate * 37} kg."
    named = [(f"call_{called}", {"crate": called}) for called in calls]
    match api:
        case "anthropic":
            uses: list[Json] = [
                {"type": "tool_use", "id": id, "name": "weigh", "input": given}
                for id, given in named
            ]
            said = uses or [{"type": "text", "text": text}]
            return [{"type": "thinking", "thinking": thought}, *said]
        case "openai_responses":
            made: list[Json] = [
                {
                    "type": "function_call",
                    "call_id": id,
                    "name": "weigh",
                    "arguments": json.dumps(given),
                }
                for id, given in named
            ]
            content = [{"type": "output_text", "text": text, "annotations": []}]
            message = {"type": "message", "role": "assistant", "content": content}
            summary = [{"type": "summary_text", "text": thought}]
            return [{"type": "reasoning", "summary": summary}, *(made or [message])]
        case "openai_chat":
            functions = [
                {
                    "id": id,
                    "type": "function",
                    "function": {"name": "weigh", "arguments": json.dumps(given)},
                }
                for id, given in named
            ]
            words = {"tool_calls": functions} if named else {"content": text}
            return {"reasoning_content": thought, **words}
        case _:
            parts = [{"functionCall": {"name": "weigh", "args": given}} for _, given in named]
            return [{"text": thought, "thought": True}, *(parts or [{"text": text}])]
