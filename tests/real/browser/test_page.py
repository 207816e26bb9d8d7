"""The page of a replay in a real browser: it draws, moves, unfolds, and obeys nothing it shows.

`REFOLD_WRITE_PICTURE=1` writes the picture of docs/guides/your-sessions.md again.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from tests.real.browser import sessions
from tests.real.browser.conftest import Open, written

ROOT = Path(__file__).resolve().parent.parent.parent.parent
PICTURE = ROOT / "docs" / "pictures" / "replay.png"
PAGE_BYTES_MAX = 5_000_000
READY_S_MAX = 1.0
HUGE_BYTES = 50_000_000


def test_curves_are_drawn_and_the_heading_is_the_title(opened: Open, long_page: Path) -> None:
    one = opened(long_page)
    assert one.text("h1") == "Fix the login of the shop"
    curves = one.page.locator("polyline.curve")
    assert curves.count() == 7
    for at in range(7):
        box = curves.nth(at).bounding_box()
        assert box is not None and box["width"] > 500 and box["height"] > 20
    assert one.page.locator("line.cut").count() > 2
    assert "500 turns" in (one.page.locator("svg").get_attribute("aria-label") or "")


def test_the_slider_moves_both_pages_and_the_line(opened: Open, long_page: Path) -> None:
    one = opened(long_page)
    assert one.text("#label") == "turn 500 of 500"
    before, place = one.text("#sides"), one.page.locator("#now").get_attribute("x1")
    one.page.locator("#turn").fill("100")
    assert one.text("#label") == "turn 101 of 500"
    assert one.text("#sides") != before
    assert one.page.locator("#now").get_attribute("x1") != place
    one.page.locator("#policy").select_option("window, cut to half")
    assert one.text("section:nth-child(2) h2").startswith("window, cut to half: ")
    assert one.text("#chosen") == "window, cut to half"


def test_what_is_folded_unfolds_by_a_click(opened: Open, long_page: Path) -> None:
    one = opened(long_page)
    folds = one.page.locator("section:first-child details.fold")
    assert folds.count() > 0
    said = int(re.sub(r"\D", "", folds.first.locator("summary").inner_text()))
    folds.first.locator("summary").click()
    # What is unfolded is drawn when the browser tells of the click, which may be later.
    folds.first.locator(".said").first.wait_for(state="attached")
    assert folds.first.locator(".said").count() == said > 0
    receipts = one.page.locator("body > details").first
    receipts.locator("summary").click()
    receipts.locator("button").first.click()
    assert one.text("#label") != "turn 500 of 500"


def test_it_is_used_by_the_keyboard_alone(opened: Open, long_page: Path) -> None:
    one = opened(long_page)
    names = []
    for _ in range(40):
        one.page.keyboard.press("Tab")
        names.append(one.page.evaluate("document.activeElement.id"))
        if names[-1] == "turn":
            break
    one.page.keyboard.press("Home")
    assert one.text("#label") == "turn 1 of 500"
    one.page.keyboard.press("ArrowRight")
    assert one.text("#label") == "turn 2 of 500"
    one.page.keyboard.press("Tab")
    one.page.keyboard.press("ArrowDown")
    assert one.text("section:nth-child(2) h2").startswith("window, cut to half")
    one.page.keyboard.press("Tab")
    focused = "document.activeElement.getAttribute('aria-label')"
    assert one.page.evaluate(focused) == "the page of refold"


def colours(one: Any) -> tuple[str, str]:
    look = "(name) => getComputedStyle(document.body)[name]"
    return one.page.evaluate(look, "color"), one.page.evaluate(look, "backgroundColor")


def test_a_phone_needs_no_scrolling_sideways_and_night_is_dark(
    opened: Open, long_page: Path
) -> None:
    day, night = opened(long_page, width=420), opened(long_page, width=420, scheme="dark")
    for one in (day, night):
        assert one.page.evaluate("document.documentElement.scrollWidth") <= 420
        sections = [one.page.locator("section").nth(at).bounding_box() for at in range(2)]
        assert sections[0] and sections[1] and sections[1]["y"] > sections[0]["y"]
    assert colours(day) == ("rgb(27, 27, 27)", "rgb(253, 253, 251)")
    assert colours(night) == ("rgb(232, 230, 227)", "rgb(23, 24, 26)")


def test_a_hostile_session_is_text(opened: Open, tmp_path: Path) -> None:
    title = "</title><script>document.title='owned'</script>"
    one = opened(written(tmp_path, sessions.hostile(), 6_000, title=title))
    assert one.text("h1") == title
    assert one.page.title() == f"{title}: replay"
    one.page.locator("#turn").fill("0")
    # The text nodes: what is below the fold is not laid out yet, and has no inner text.
    shown = one.page.locator("section:first-child pre").all_text_contents()
    joined = "\n".join(shown)
    for bad in ("</script><script>", "<img src=x", "<!--<script>", "]]>&lt;b&gt;&amp;"):
        assert bad in joined
    one.page.locator("section:nth-child(2) pre").first.wait_for()
    inside = one.page.locator("main").locator("script, img, iframe, svg, link, a, style")
    assert inside.count() == 0
    assert one.page.title() == f"{title}: replay"


def test_fifty_megabytes_are_a_page_that_answers(opened: Open, tmp_path: Path) -> None:
    file = written(tmp_path, sessions.large(HUGE_BYTES), 200_000)
    assert file.stat().st_size < PAGE_BYTES_MAX
    one = opened(file)
    one.page.locator("#turn").fill("10")
    assert one.text("#label") == "turn 11 of 400"
    assert one.page.title().endswith(": replay")


def test_five_hundred_turns_are_small_and_soon_there(browser: Browser, long_page: Path) -> None:
    """By the CPU of the page's thread, which a busy machine does not change."""
    assert long_page.stat().st_size < PAGE_BYTES_MAX
    page = browser.new_page()
    cdp = page.context.new_cdp_session(page)
    cdp.send("Performance.enable", {"timeDomain": "threadTicks"})
    page.goto(long_page.as_uri())
    page.locator("#turn").fill("100")
    figures = {one["name"]: one["value"] for one in cdp.send("Performance.getMetrics")["metrics"]}
    print(f"{long_page.stat().st_size:,} bytes, {figures['TaskDuration']:.2f} s of CPU")
    page.close()
    assert 0 < figures["TaskDuration"] < READY_S_MAX


@pytest.mark.skipif("REFOLD_WRITE_PICTURE" not in os.environ, reason="the picture is kept")
def test_the_picture_of_the_guide_is_written(opened: Open, long_page: Path) -> None:
    one = opened(long_page, width=1_000)
    one.page.set_viewport_size({"width": 1_000, "height": 1_080})
    one.page.locator("#turn").fill("320")
    one.page.evaluate("document.activeElement.blur(); scrollTo(0, 0)")
    one.page.screenshot(path=PICTURE)
