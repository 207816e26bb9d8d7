"""One conversation in a real browser, on a page without a script: it draws, unfolds by click and key, and obeys nothing it
shows.

`REFOLD_WRITE_PICTURE=1` writes the picture of docs/guides/terminal.md again.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

import refold
from tests.real.browser import sessions
from tests.real.browser.conftest import Open, called
from tests.real.browser.test_page import colours

ROOT = Path(__file__).resolve().parent.parent.parent.parent
PICTURE = ROOT / "docs" / "pictures" / "conversation.png"
PAGE_BYTES_MAX = 5_000_000
READY_S_MAX = 1.0


def page_of(folder: Path, said: list[dict[str, Any]], title: str, window: int = 24_000) -> Path:
    """The page of a conversation that an agent held with refold."""
    with refold.open("talk", store=f"sqlite:{folder / 'talk.db'}") as context:
        context.update(title=title, model="claude-sonnet-4-5", window=window)
        for message in said:
            context.append(message)
            if message["role"] == "tool":
                context.request()
        context.pin(context.view.slots[-3].seq)
    called(
        folder,
        "show",
        "talk",
        "--store",
        "sqlite:talk.db",
        "--html",
        "talk.html",
        "--format",
        "plain",
    )
    return folder / "talk.html"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("conversation")
    return page_of(folder, sessions.story(300), "Fix the login of the shop")


def test_the_window_the_curve_and_every_compaction_are_drawn(opened: Open, page: Path) -> None:
    """X-46"""
    one = opened(page)
    assert one.text("h1") == "Fix the login of the shop"
    assert one.page.locator("svg.parts rect").count() >= 4
    box = one.page.locator("polyline.curve").bounding_box()
    assert box is not None and box["width"] > 500 and box["height"] > 20
    cuts = one.page.locator("line.cut").count()
    assert cuts > 2 and one.page.locator("svg.size").count() > 300
    assert one.text("body > details:last-of-type summary") == f"{cuts} compactions"


def test_what_is_folded_unfolds_by_a_click_and_a_link_leads_there(opened: Open, page: Path) -> None:
    """X-46"""
    one = opened(page)
    fold = one.page.locator("main .fold details").first
    inside = fold.locator(".said").first
    assert not inside.is_visible()
    fold.locator("summary").first.click()
    assert inside.is_visible()
    one.page.locator("body > details summary").first.click()
    link = one.page.locator("body > details a").first
    name = link.get_attribute("href")
    link.click()
    assert one.page.evaluate("location.hash") == name
    assert one.page.locator(f"main {name}").is_visible()


def test_it_is_used_by_the_keyboard_alone(opened: Open, page: Path) -> None:
    one = opened(page)
    one.page.keyboard.press("Tab")
    assert one.page.evaluate("document.activeElement.tagName") == "SUMMARY"
    one.page.keyboard.press("Enter")
    assert one.page.locator("body > details").first.get_attribute("open") is not None
    one.page.keyboard.press("Tab")
    assert one.page.evaluate("document.activeElement.tagName") == "A"
    one.page.keyboard.press("Enter")
    assert one.page.evaluate("location.hash").startswith("#m")


def test_a_phone_needs_no_scrolling_sideways_and_night_is_dark(opened: Open, page: Path) -> None:
    day, night = opened(page, width=420), opened(page, width=420, scheme="dark")
    for one in (day, night):
        for at in range(one.page.locator("details").count()):
            one.page.locator("details").nth(at).evaluate("it => { it.open = true; }")
        assert one.page.evaluate("document.documentElement.scrollWidth") <= 420
    assert colours(day) == ("rgb(27, 27, 27)", "rgb(253, 253, 251)")
    assert colours(night) == ("rgb(232, 230, 227)", "rgb(23, 24, 26)")


def test_a_hostile_conversation_is_text(opened: Open, tmp_path: Path) -> None:
    title = "</title><script>document.title='owned'</script>"
    one = opened(page_of(tmp_path, sessions.hostile(), title, 6_000))
    assert one.text("h1") == title and one.page.title() == title
    joined = "\n".join(one.page.locator("pre").all_text_contents())
    for bad in ("</script><script>", "<img src=x", "<!--<script>", "]]>&lt;b&gt;&amp;", "\\x1b[2J"):
        assert bad in joined
    inside = one.page.locator("main").locator("script, img, iframe, link, style, object, form")
    assert inside.count() == 0


def test_it_is_small_and_soon_there(browser: Browser, page: Path) -> None:
    """By the CPU of the page's thread, which a busy machine does not change."""
    assert page.stat().st_size < PAGE_BYTES_MAX
    opened = browser.new_page()
    cdp = opened.context.new_cdp_session(opened)
    cdp.send("Performance.enable", {"timeDomain": "threadTicks"})
    opened.goto(page.as_uri())
    figures = {one["name"]: one["value"] for one in cdp.send("Performance.getMetrics")["metrics"]}
    print(f"{page.stat().st_size:,} bytes, {figures['TaskDuration']:.2f} s of CPU")
    opened.close()
    assert 0 < figures["TaskDuration"] < READY_S_MAX


@pytest.mark.skipif("REFOLD_WRITE_PICTURE" not in os.environ, reason="the picture is kept")
def test_the_picture_of_the_guide_is_written(opened: Open, page: Path) -> None:
    one = opened(page, width=1_000)
    one.page.set_viewport_size({"width": 1_000, "height": 1_080})
    one.page.screenshot(path=PICTURE)
