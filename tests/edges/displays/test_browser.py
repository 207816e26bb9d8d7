"""One conversation as a page for a browser: whole, offline, and deaf to what was said in it."""

from __future__ import annotations

import base64
import hashlib
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import refold
from refold.display import visible
from refold.edges.commands.page import page_file
from refold.edges.displays.browser import Browsed, Entry, Folded, Written, browser_page, timeline
from refold.log.message_history import history_of
from refold.redaction import redactor
from refold.replay.page import TEXTS_BYTES_MAX
from refold.stores import open_store
from refold.stores.protocol import Store
from tests.replay.test_page import HOSTILE, Tags, lines_named_and_drawn

ALLOWED = {
    "html", "head", "meta", "title", "style", "body", "h1", "p", "svg", "rect", "line", "polyline",
    "div", "span", "i", "table", "thead", "tbody", "tr", "th", "td", "details", "summary", "ul", "li",
    "a", "main", "pre",
}  # fmt: skip
SECRET = "sk-ant-api03-" + "Zq8" * 20
TEXTS = st.sampled_from([*HOSTILE, "\ud800", "\0"]) | st.text(max_size=30)
DOINGS = ("half", "lastTwo", "gist", "undo", "pin", "restore", "clear", "hide")


def filled(store: Store, turns: int, words: str = "") -> refold.Context:
    context = refold.open("talk", store=store)
    context.update(
        title=words.replace("\ud800", "?") or "A talk", model="claude-sonnet-4-5", window=24_000
    )
    for n in range(turns):
        role = "assistant" if n % 2 else "user"
        context.append({"role": role, "content": f"{words}{role} says {n} in src/a_{n}.py " * 9})
    context.flush()
    return context


def do(context: refold.Context, doing: str) -> None:
    """Something that may happen to a page, where it can."""
    try:
        match doing:
            case "half" | "lastTwo":
                context.compact("hide", preset=doing)
            case "gist":
                context.compact("gist", target=max(1, context.stats().current // 2))
            case "undo":
                context.undo()
            case "pin":
                context.pin(context.view.slots[len(context.view.slots) // 2].seq)
            case "restore":
                context.restore(context.view.slots[len(context.view.slots) // 2].seq)
            case "clear":
                context.clear()
            case "hide":
                context.hide(context.view.slots[1].seq, context.view.slots[2].seq)
    except (refold.RefoldError, IndexError):
        pass


@settings(deadline=None, max_examples=60)
@given(turns=st.integers(0, 16), doings=st.lists(st.sampled_from(DOINGS), max_size=5))
def test_every_message_stands_there_once_as_the_page_has_it(turns: int, doings: list[str]) -> None:
    """X-46"""
    context = filled(open_store("memory:"), turns)
    for doing in doings:
        do(context, doing)
    events = [*context.log.events()]
    items = timeline(events, context.view, history_of(events))
    entries = [
        one for item in items for one in ((item,) if isinstance(item, Entry) else item.entries)
    ]
    said = [event.seq for event in events if event.kind == "message"]
    assert [entry.seq for entry in entries] == said
    whole = {slot.seq: slot for slot in context.view.slots if not slot.standin}
    assert [item.seq for item in items if isinstance(item, Entry)] == sorted(whole)
    for item in items:
        if isinstance(item, Entry):
            assert (item.shown is not None) == bool(whole[item.seq].edits)
    stands = [item.handle for item in items if isinstance(item, Folded) and item.text]
    assert stands == [str(slot.span) for slot in context.view.slots if slot.standin]
    assert all(item.why for item in items if isinstance(item, Folded))


@settings(deadline=None, max_examples=40)
@given(st.lists(TEXTS, min_size=1, max_size=4))
def test_nothing_that_was_said_becomes_a_tag(texts: list[str]) -> None:
    store = open_store("memory:")
    context = filled(store, 8, "".join(texts))
    context.compact("hide", preset="half")
    page = page_file(store, context)
    tags = Tags(page)
    assert visible(page) == page
    assert {tag for tag, _ in tags.tags} <= ALLOWED
    assert not any(key.startswith("on") for _, found in tags.tags for key in found)
    links = [found["href"] for _, found in tags.tags if found.get("href")]
    assert links and all(re.fullmatch(r"#m\d+", link or "") for link in links)


def test_the_policy_allows_the_one_style_and_nothing_else() -> None:
    store = open_store("memory:")
    page = page_file(store, filled(store, 6))
    tags = Tags(page)
    [policy] = [found["content"] for tag, found in tags.tags if found.get("http-equiv")]
    digest = base64.b64encode(hashlib.sha256(tags.inside["style"][0].encode()).digest()).decode()
    assert policy == (
        f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    )
    assert not re.search(r"https?://|@import|url\(|<script| style=| src=", page)


def test_an_empty_conversation_is_a_page() -> None:
    store = open_store("memory:")
    with refold.open("empty", store=store) as context:
        context.update(title="Nothing yet")
        context.flush()
        assert "<h1>Nothing yet</h1>" in page_file(store, context)


@settings(deadline=None, max_examples=40)
@given(TEXTS)
def test_what_a_provider_wrote_becomes_no_tag_and_has_no_secrets(text: str) -> None:
    said = Written(heading=text, text=f"{text} {SECRET}", rest=text)
    entry = Entry(seq=1, at_ms=0, role="user", tokens=1, text="")
    fold = Folded(handle="#1", text="gist", tokens=1, why="", entries=[entry], written=said)
    shown = Browsed(
        conversation="c",
        title=text,
        facts=(),
        window=1,
        parts=(),
        sizes=(),
        batches=(),
        items=[fold],
    )
    page = browser_page(shown, redactor(refold.Config().redact, "exports"))
    assert visible(page) == page
    assert {tag for tag, _ in Tags(page).tags} <= ALLOWED
    assert SECRET not in page and "gist" in page


def test_secrets_are_taken_out_and_long_texts_are_cut() -> None:
    store = open_store("memory:")
    context = filled(store, 4, f"{SECRET} ")
    for n in range(40):
        context.append({"role": "user", "content": f"{n} " + "<&> line of text\n" * 40_000})
    page = page_file(store, context)
    assert SECRET not in page and SECRET[20:50] not in page
    assert len(page) < 2 * TEXTS_BYTES_MAX and "more characters" in page


@pytest.mark.parametrize("window", [24_000, 2_000, 400_000])
@pytest.mark.parametrize("is_compacted", [False, True])
def test_the_legend_names_the_lines_that_are_drawn(window: int, is_compacted: bool) -> None:
    store = open_store("memory:")
    context = filled(store, 16)
    context.update(window=window)
    if is_compacted:
        context.compact("hide", preset="half")
    named, drawn = lines_named_and_drawn(page_file(store, context))
    assert named == drawn
    assert ("cut" in drawn) is is_compacted
