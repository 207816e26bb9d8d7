"""Pages that refold writes, opened in the system's browser."""

from __future__ import annotations

import base64
import gzip
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from tests.edges.ui.conftest import Running
from tests.real.browser import sessions

PROGRAM = (sys.executable, "-c", "from refold.edges.cli import main; main()")
BROWSER = shutil.which("chromium") or "/usr/bin/chromium"
REPLAY_S_MAX = 600
# Every piece of the right pane: its first seq, and the text of a stand-in.
PANE = """async () => {
  const list = document.querySelector(".pane.right .list");
  const found = new Map();
  for (let top = 0; top < list.scrollHeight; top += list.clientHeight / 2) {
    list.scrollTop = top;
    for (let tries = 0; tries < 100; tries++) {
      await new Promise(requestAnimationFrame);
      if (![...list.querySelectorAll(".quote")].some((one) => one.textContent === "…")) break;
    }
    for (const row of list.querySelectorAll("[data-key]:not([data-key=system])")) {
      const seq = Number(row.querySelector("header").innerText.match(/#([0-9,]+)/)[1]);
      found.set(Number(row.ariaPosInSet), [seq, row.querySelector(".quote")?.textContent ?? ""]);
    }
  }
  return [...found].sort(([one], [other]) => one - other).map(([, piece]) => piece);
}"""

# What a person may not be able to read: text with too little contrast, and controls without a name.
UNREADABLE = """() => {
  const rgb = (color) => color.match(/[\\d.]+/g).map(Number);
  const light = (color) => rgb(color).slice(0, 3).map((one) => one / 255)
    .map((one) => (one <= 0.03928 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4))
    .reduce((sum, one, at) => sum + one * [0.2126, 0.7152, 0.0722][at], 0);
  const found = [];
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let text = texts.nextNode(); text; text = texts.nextNode()) {
    const owner = text.parentElement;
    if (!text.data.trim() || !owner.checkVisibility()) continue;
    if (owner.closest("svg, [disabled], .unseen, dialog")) continue;
    let below = owner;
    while ((rgb(getComputedStyle(below).backgroundColor)[3] ?? 1) < 0.9) below = below.parentElement;
    const ink = light(getComputedStyle(owner).color);
    const paper = light(getComputedStyle(below).backgroundColor);
    const contrast = (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05);
    if (contrast < 4.5) found.push([contrast, owner.outerHTML.slice(0, 90)]);
  }
  for (const one of document.querySelectorAll("button, a, input")) {
    const name = one.textContent.trim() || one.ariaLabel || one.title;
    if (!name && one.checkVisibility()) found.push(["no name", one.outerHTML.slice(0, 90)]);
  }
  return found;
}"""


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        # As root the browser has no sandbox of its own; what is opened is our own page.
        started = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield started
        started.close()


def written(folder: Path, said: list[dict[str, Any]], window: int, **about: str) -> Path:
    """The page of a session."""
    file, page = folder / "session.json", folder / "page.html"
    given = {"model": "claude-sonnet-4-5", "messages": said, **about}
    file.write_text(json.dumps(given), encoding="utf-8")
    called(folder, "replay", str(file), "--window", str(window), "--html", str(page), "--json")
    return page


def called(folder: Path, *words: str) -> None:
    """Runs a command of refold in a folder."""
    command = (*PROGRAM, *words)
    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=REPLAY_S_MAX)


@pytest.fixture(scope="session")
def long_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a session of 500 turns."""
    folder = tmp_path_factory.mktemp("long")
    return written(folder, sessions.story(500), 24_000, title="Fix the login of the shop")


class Opened:
    """A page in the browser, with what it asked for and complained of."""

    def __init__(self, page: Page, file: Path) -> None:
        self.page, self.url = page, file.as_uri()
        self.errors: list[str] = []
        self.requests: list[str] = []
        page.on("console", lambda message: self.errors.append(message.text))
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("dialog", lambda dialog: self.errors.append(dialog.message))
        page.on("request", lambda request: self.requests.append(request.url))
        page.goto(self.url)

    def text(self, selector: str) -> str:
        return self.page.locator(selector).first.inner_text()


Open = Callable[..., Opened]


@pytest.fixture
def opened(browser: Browser) -> Iterator[Open]:
    """Opens a file, and says afterwards whether it stayed silent and alone."""
    pages: list[Opened] = []

    def open_it(file: Path, width: int = 1_200, scheme: Any = "light") -> Opened:
        page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        pages.append(Opened(page, file))
        return pages[-1]

    yield open_it
    for one in pages:
        one.page.close()
        assert one.errors == []
        assert one.requests == [one.url]


class View:
    """The view in one browser, with what it asked for and complained of."""

    def __init__(self, browser: Browser, server: Running, **options: Any) -> None:
        self.server, self.base = server, f"http://{server.host}/"
        self.context: BrowserContext = browser.new_context(**options)
        self.page: Page = self.context.new_page()
        self.complaints: list[str] = []
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", lambda dialog: self.complaints.append(dialog.message))
        self.page.on("request", lambda request: self._asked(request.url))

    def _asked(self, url: str) -> None:
        if not url.startswith((self.base, "blob:")):
            self.complaints.append(f"asked {url}")

    def enter(self, address: str) -> None:
        self.page.goto(address)
        self.page.locator("main > *:not(.waiting)").first.wait_for()

    def go(self, place: str) -> None:
        self.page.evaluate("(hash) => { location.hash = hash; }", f"/{place}")
        self.page.locator(f".{'session' if place.count('/') == 1 else 'home'}").first.wait_for()

    def text(self, selector: str) -> str:
        return self.page.locator(selector).first.inner_text()


def inside_of(file: Path) -> str:
    """The answers in a saved file."""
    found = re.search(r'id="inside">([^<]+)<', file.read_text(encoding="utf-8"))
    assert found is not None
    return gzip.decompress(base64.b64decode(found[1])).decode()
