"""The writer against a real model behind a real server (`server`). The model is far too
small to write well, so only the plumbing is judged: the page is valid whatever it says, and what
it says is on it or was refused for a reason.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import refold
from refold import dialects
from refold.core.laws import broken
from refold.edges.endpoints.writer import Endpoint, endpoint
from refold.writer.asker import Answer, Request, Writer
from tests.real.local_model.server import WINDOW, serving
from tests.scripted import heard_by, summaries

CALL_S_MAX = 100.0  # on a machine that is busy with other things
STORY = (
    "I read the parser, changed how it handles quotes in src/parser.py, and ran its tests, which passed. "
    "The next step is the writer of the reports, which has the same mistake in its header. "
)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving() as address:
        yield f"{address}/v1"


def writer_at(url: str) -> Endpoint:
    return endpoint(url, "smollm2", window=WINDOW, timeout_s=CALL_S_MAX, tries=1)


def talked(
    writer: Writer, window: int, times: int = 1, **config: object
) -> tuple[refold.Context, list[refold.Notice]]:
    given = {"writer_wait_s": CALL_S_MAX, "keep_recent": 4, **config}
    context = refold.open("work", store="memory:", window=window, writer=writer, config=given)
    notices = heard_by(context)
    for n in range(14):
        text = f"Part {n}. {STORY * times}"
        context.append(
            {"role": "user", "content": f"go on {n}"}
            if n % 2 == 0
            else {"role": "assistant", "content": text}
        )
    return context, notices


def test_a_real_server_answers(url: str) -> None:
    """Y-48, Y-49, Y-53"""
    ask = writer_at(url)
    answer = ask(Request(prompt="Say hello.", system="Be brief.", max_tokens=16))
    assert answer.text.strip()
    assert answer.finished in ("stop", "length")
    assert answer.usage.input > 0
    assert 0 < answer.usage.output <= 16
    assert ask(Request(prompt="Count from 1 to 100.", max_tokens=4)).finished == "length"


@pytest.mark.parametrize(
    ("strategy", "window", "times"), [("summarize", 8_000, 1), ("gist", 3_000, 3)]
)
def test_a_compaction_with_a_real_model_leaves_a_valid_page_whatever_it_says(
    url: str, strategy: str, window: int, times: int
) -> None:
    """Y-40, Y-49, Y-51"""
    context, notices = talked(writer_at(url), window, times)
    receipt = context.compact(strategy, target=300)
    assert receipt.batch
    [complete] = [notice for notice in notices if notice.name == "compaction-complete"]
    refused = [notice.reason for notice in notices if notice.name == "compaction-failed"]
    print(f"{strategy}: {complete.details}; refused: {refused}\n{summaries(context)[-1].text}")
    assert (
        complete.details["calls"] >= 1
        and complete.details["input"] > 0
        and complete.details["output"] > 0
    )
    assert bool(refused) == (complete.details["accepted"] < complete.details["asked"])
    told = "written by a model" in "\n".join(edit.text for edit in summaries(context))
    assert told == (complete.details["accepted"] > 0)
    assert broken(context.view) == []
    for name in dialects.DIALECTS:
        assert dialects.dialect(name).check(context.request(name)) == []


def test_what_a_real_model_says_in_time_stands_on_the_page(url: str) -> None:
    """Y-40, Y-53: a question that even this model can answer, behind a callable of the caller's
    own."""
    ask = writer_at(url)
    answers: list[Answer] = []

    def short(request: Request) -> Answer:
        assert "<history-" in request.prompt
        answers.append(
            ask(
                Request(
                    prompt="Say hello.", system="Be brief.", max_tokens=32, wait_s=request.wait_s
                )
            )
        )
        return answers[-1]

    context, _ = talked(short, 8_000)
    assert context.compact("summarize").batch
    [answer] = answers
    words = " ".join(answer.text.split())
    shown = " ".join(str(context.request("openai_chat")["messages"][0]["content"]).split())
    assert (words in shown) == (answer.finished == "stop")
    assert answer.finished == "stop", "in 32 tokens, greedily"


def test_a_real_model_that_is_too_slow_is_not_waited_for(url: str) -> None:
    """Y-49, X-35: the draft stands, and the answer that comes later changes nothing."""
    context, notices = talked(writer_at(url), 8_000, writer_wait_s=0.05)
    assert context.compact("summarize").batch
    [failed] = [notice for notice in notices if notice.name == "compaction-failed"]
    # Whichever clock ends first: that of the compaction, or that of the call.
    ended = ("no answer within", "the time for the call is over")
    assert any(words in failed.reason for words in ended)
    head = context.view.head
    assert writer_at(url)(Request(prompt="Say hello.", max_tokens=4)).text
    assert context.view.head == head
