"""The page of a replay: whole, offline, and deaf to what a session says."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import refold
from refold.display import visible
from refold.replay.needs import MESSAGE_TOKENS, tokens_of_all
from refold.replay.page import page_of
from refold.replay.run import Kept, replay
from tests.replay.test_replay import turns

HOSTILE = ["</script><script>alert(1)</script>", "<img src=x onerror=alert(1)>", "<!--", "\x1b[2J",
           "\u202eevil", "&lt;b&gt;", "]]>", "'\"", "\u2028", "</title><svg onload=x>"]  # fmt: skip


class Tags(HTMLParser):
    """Every tag of a document, and the text of its scripts and styles."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open = ""
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.inside: dict[str, list[str]] = {"script": [], "style": []}
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.open = tag
        if tag in self.inside:
            self.inside[tag].append("")

    def handle_data(self, data: str) -> None:
        if self.open in self.inside:
            self.inside[self.open][-1] += data

    def handle_endtag(self, tag: str) -> None:
        self.open = ""


def made(said: list[dict[str, Any]], title: str = "x") -> tuple[str, Kept, Any]:
    kept = Kept()
    replayed = replay(said, 3_000, "claude-sonnet-4-5", kept=kept)
    return page_of(title, "x-1", replayed, kept, [("policy",), ("refold",)], str), kept, replayed


def test_every_page_can_be_put_together_again():
    page, kept, replayed = made(turns(60))
    texts = list(kept.texts)
    for outcome in replayed.outcomes:
        ids: list[int] = []
        for turn, (same, runs) in zip(outcome.turns, kept.pages[outcome.policy], strict=True):
            ids = ids[:same] + [id for first, count in runs for id in range(first, first + count)]
            said = [texts[id].partition("\0")[2] for id in ids]
            assert sum(len(text) // 4 + MESSAGE_TOKENS for text in said) == turn.tokens
    assert len(kept.seen) == 59 and kept.seen[-1] < len(kept.log)
    assert len(page) < 400_000


@settings(max_examples=20, deadline=None)
@given(st.lists(st.sampled_from(HOSTILE) | st.text(max_size=20), min_size=1, max_size=4))
def test_nothing_that_a_session_says_becomes_a_tag(texts: list[str]):
    hostile = "".join(text for text in texts if text.isprintable() or text in HOSTILE)
    said = turns(30)
    said[1]["content"] = f"{hostile} src/file_1.py tells of the login form\n" + said[1]["content"]
    plain, wild = Tags(made(turns(30))[0]), Tags(made(said, title=hostile)[0])
    names = {"script": 2, "style": 1, "meta": 4}
    for name, count in names.items():
        assert sum(tag == name for tag, _ in wild.tags) == count
    assert {tag for tag, _ in wild.tags} <= {tag for tag, _ in plain.tags} | {"pre", "li"}
    assert not any(key.startswith("on") for _, attributes in wild.tags for key in attributes)
    assert json.loads(wild.inside["script"][0])["turns"] == 29


@settings(max_examples=20, deadline=None)
@given(st.lists(st.sampled_from(HOSTILE) | st.text(max_size=20), min_size=1, max_size=4))
def test_no_character_of_a_page_is_invisible(texts: list[str]):
    hostile = "".join(texts).replace("\0", "")
    said = turns(30)
    said[1]["content"] = f"{hostile} src/file_1.py tells of the login form\n" + said[1]["content"]
    page, kept, _ = made(said, title=hostile)
    assert visible(page) == page
    shown = json.loads(Tags(page).inside["script"][0])["texts"]
    for text, (_, begin, more) in zip(kept.texts, shown, strict=True):
        whole = visible(text.partition("\0")[2])
        assert whole.startswith(begin) and len(begin) + more == len(whole)


def test_html_is_escaped_in_one_place():
    source = Path(refold.__file__).parent
    found = [
        str(path.relative_to(source))
        for path in source.rglob("*.py")
        if re.search(r"from html import|html\.escape|import html\b", path.read_text("utf-8"))
    ]
    assert found == ["replay/page.py"]


def test_the_policy_allows_the_one_script_and_style_and_no_request():
    page = made(turns(30))[0]
    tags = Tags(page)
    [policy] = [found["content"] for tag, found in tags.tags if found.get("http-equiv")]
    assert policy is not None and policy.startswith("default-src 'none'")
    for text in (tags.inside["script"][1], tags.inside["style"][0]):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy
    assert not any(found.get("src") or found.get("href") for _, found in tags.tags)
    assert not re.search(r"https?://|@import|url\(", page.split('id="told"')[0])


def test_a_curve_that_leaves_the_picture_is_told_and_others_stay_in_it():
    for count in (20, 60):
        page, _, replayed = made(turns(count))
        most = max(turn.tokens for turn in replayed.outcome("everything").turns)
        [top] = map(int, re.findall(r"height: ([\d,]+) tokens", page.replace(",", "")))
        told = f"; higher go everything to {most:,}</span>"
        assert (told in page) == (most > top) == ("higher go" in page)
        highs = [float(high) for high in re.findall(r"\d,(-?[\d.]+)[ \"]", _curves(page))]
        assert (min(highs) < 0) == (most > top)


def _curves(page: str) -> str:
    return " ".join(re.findall(r"points=\"[^\"]*\"", page))


def test_a_session_at_the_window_that_is_chosen_for_it_is_drawn_whole():
    said = turns(40)
    kept = Kept()
    replayed = replay(said, int(tokens_of_all(said) * 0.4), "claude-sonnet-4-5", kept=kept)
    assert "higher go" not in page_of("x", "x-1", replayed, kept, [("policy",), ("refold",)], str)


@pytest.mark.parametrize("window", [3_000, 20_000, 200_000])
def test_the_legend_names_the_lines_that_are_drawn(window: int):
    kept = Kept()
    replayed = replay(turns(20), window, "claude-sonnet-4-5", kept=kept)
    page = page_of("x", "x-1", replayed, kept, [("policy",), ("refold",)], str)
    named, drawn = lines_named_and_drawn(page)
    assert named == drawn
    assert ("cut" in drawn) == bool(replayed.receipts)


def lines_named_and_drawn(page: str) -> tuple[set[str], set[str]]:
    """The kinds of lines that the legend names, and those that are seen in the picture."""
    lines = re.findall(r'<line class="(cut|window)" x1="[\d.]+" x2="[\d.]+" y1="([\d.-]+)"', page)
    return (
        set(re.findall(r'<span class="is-(cut|window)">', page)),
        {kind for kind, high in lines if float(high) >= 0},
    )
