"""`refold show`, with `--page` and `--html` too, says what the model gets where its provider compacted."""

from __future__ import annotations

import re
from html import escape
from pathlib import Path

import pytest

import refold
from refold.core.model import Native
from refold.dialects.native import readable
from tests.compaction.test_native import CLAUDE, GPT, SUMMARY, Session
from tests.edges.cli.rooms import as_json, run

pytestmark = pytest.mark.usefixtures("alone")


def compacted(url: str, model: str) -> None:
    session = Session(model, store=url)
    session.work(30)
    assert session.asked and session.failures == []
    session.context.close()


@pytest.mark.parametrize("command", [("show", "--page"), ("show",)])
def test_what_anthropic_wrote_is_shown_as_what_the_model_gets(
    url: str, command: tuple[str, ...]
) -> None:
    compacted(url, CLAUDE)
    text = run(*command, "work").stdout
    said = f"compacted by anthropic, {len(SUMMARY)} characters"
    assert said in text and SUMMARY in text
    gist = text.index("models of other providers, and searches, get:")
    assert text.index(said) < text.index(SUMMARY) < gist < text.rindex("Mend the login")
    rows = as_json(*command, "work")["parts" if "--page" in command else "slots"]
    [native] = [row["native"] for row in rows if "native" in row]
    assert native == {
        "provider": "anthropic", "model": CLAUDE, "sent": True, "text": SUMMARY, "sealed_chars": 0
    }  # fmt: skip


def test_what_openai_sealed_is_said_to_be_sealed(url: str) -> None:
    compacted(url, GPT)
    text = run("show", "--page", "work").stdout
    assert re.search(r"compacted by openai, 48 characters and [0-9,]+ characters sealed", text)


def test_a_model_that_does_not_get_it_is_shown_with_the_text_that_it_gets(url: str) -> None:
    compacted(url, CLAUDE)
    with refold.open("work", store=url) as context:
        context.update(model="gemini-3-pro")
    text = run("show", "--page", "work").stdout
    assert "anthropic compacted this (55 characters) for its own models" in text
    assert SUMMARY not in text and "the model of this conversation gets:" in text


def browsed(url: str) -> str:
    assert run("show", "work", "--html", "work.html", "--format", "plain").exit_code == 0
    return Path("work.html").read_text()


def test_a_page_for_a_browser_shows_what_the_model_gets(url: str) -> None:
    compacted(url, CLAUDE)
    page = browsed(url)
    heading = page.index(f"compacted by anthropic, {len(SUMMARY)} characters")
    gist = page.index("models of other providers, and searches, get:")
    assert heading < page.index(escape(SUMMARY)) < gist < page.index("Mend the login", gist)
    assert page.count("compacted by anthropic") == 1
    with refold.open("work", store=url) as context:
        context.update(model="gemini-3-pro")
    other = browsed(url)
    assert "anthropic compacted this (55 characters) for its own models" in other
    assert escape(SUMMARY) not in other and "the model of this conversation gets:" in other


def test_a_page_for_a_browser_says_what_is_sealed(url: str) -> None:
    compacted(url, GPT)
    said = r"compacted by openai, 48 characters and [0-9,]+ characters sealed"
    assert re.search(said, browsed(url))


@pytest.mark.parametrize(
    "messages", [[], [None], ["x"], [{}], [{"content": None}], [{"content": [1, {"text": 2}]}]]
)
def test_what_cannot_be_read_of_it_is_nothing(messages: list[object]) -> None:
    assert readable(Native(dialect="anthropic", model="x", messages=messages)) == ("", 0)
