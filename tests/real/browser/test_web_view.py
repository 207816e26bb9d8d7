"""`refold ui` in a real browser: stories with values that nobody has seen before.

Every test fails if the page complains in the console or asks another server for anything.
`REFOLD_WRITE_PICTURE=FILE` writes the picture of the README again, from a session of Claude Code or
Codex.
"""

from __future__ import annotations

import http.server
import json
import os
import random
import re
import secrets
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from bench.growth import grown
from playwright.sync_api import Browser

import refold
from refold.core.codec import decode
from refold.core.fold import fold
from refold.core.model import Message, Summarize
from refold.core.shortened import summary_text
from refold.display import visible
from refold.log.stored_logs import conversations
from refold.stores import open_store
from tests.billed_sessions import write_sessions
from tests.edges.ui.conftest import SECRET, Running
from tests.real.browser import sessions
from tests.real.browser.conftest import PANE, PROGRAM, UNREADABLE, View, inside_of

PICTURE = Path(__file__).resolve().parents[3] / "docs" / "pictures" / "ui.png"
SESSION = os.environ.get("REFOLD_WRITE_PICTURE", "")
SEED = secrets.randbits(32)
NODES_MAX = 800
LONG = 10_000
PLACES = 50
SIZES = (390, 820, 1_440)
SCREENS = ("", "usage", "s/talk", "s/talk/bill", "s/talk/window", "s/talk/ledger", "find?q=login")


@pytest.fixture(scope="module")
def chance() -> random.Random:
    print(f"seed {SEED}")
    return random.Random(SEED)


@pytest.fixture(scope="module")
def word(chance: random.Random) -> str:
    return "".join(chance.choices("bcdfghjklmnpqrstvwz", k=12))


@pytest.fixture(scope="module")
def server(
    tmp_path_factory: pytest.TempPathFactory, chance: random.Random, word: str
) -> Iterator[Running]:
    """A session of a few hundred messages with compactions, undos, a restore, pins and usage; and
    one that says what breaks pages."""
    store = tmp_path_factory.mktemp("view") / "refold.db"
    said = sessions.story(160, seed=SEED)
    results = [at for at, one in enumerate(said) if one["role"] == "tool"]
    said[results[5]]["content"] = (
        f"the {word} is here, token={SECRET}\n" + said[results[5]]["content"]
    )
    with refold.open("talk", store=f"sqlite:{store}") as context:
        context.update(title="Fix the login", model="claude-sonnet-4-5", window=24_000)
        for at, message in enumerate(said):
            if message["role"] != "assistant":
                context.append(message)
                continue
            context.request()
            size = context.stats().current
            usage = {"prompt_tokens": size, "completion_tokens": 30, "total_tokens": size + 30}
            reply = {"id": f"r{at}", "choices": [{"message": message}], "usage": usage}
            context.record(reply)
            if at > 150 and chance.random() < 0.03:
                chance.choice((context.undo, context.redo))()
            if at == 200:
                context.pin(context.view.slots[-2].seq)
            if at == 240:
                context.restore(context.view.head - 9)
    with refold.open("seven", store=f"sqlite:{store}") as context:
        context.update(title="Seven compactions", model="claude-sonnet-4-5", window=9_000)
        for message in sessions.story(400, seed=SEED + 1):
            context.append(message)
            if message["role"] == "tool" and len(context.log.batches()) < 7:
                context.request()
                if len(context.log.batches()) == 7:
                    context.update(window=200_000)
                    rest = context.view.head + 80
            elif len(context.log.batches()) == 7 and context.view.head > rest:
                break
    with refold.open("hostile", store=f"sqlite:{store}") as context:
        title = "</title><script>document.title='owned'</script>" + sessions.RIGHT_TO_LEFT
        context.update(title=title, model="claude-sonnet-4-5", window=6_000)
        context.update(metadata={"cwd": "/home/<img src=x onerror=alert(1)>/\u202egnp"})
        for message in sessions.hostile():
            context.append(message)
            if message["role"] == "tool":
                context.request()
    running = Running(store)
    yield running
    running.stop()


@pytest.fixture(scope="module")
def state(browser: Browser, server: Running) -> Any:
    """The cookie of the one browser that opened the address."""
    view = View(browser, server)
    view.enter(server.address)
    found = view.context.storage_state()
    view.context.close()
    return found


@pytest.fixture
def view(browser: Browser, server: Running, state: Any) -> Iterator[View]:
    one = View(browser, server, storage_state=state, viewport={"width": 1_440, "height": 900})
    one.enter(one.base)
    yield one
    one.context.close()
    assert one.complaints == []


@pytest.fixture
def started(browser: Browser) -> Iterator[Callable[..., View]]:
    """Starts a server of its own, and enters it."""
    views: list[View] = []

    def start(store: Path, **environ: str) -> View:
        views.append(View(browser, Running(store, **environ)))
        views[-1].enter(views[-1].server.address)
        return views[-1]

    yield start
    for one in views:
        one.context.close()
        one.server.stop()
        assert one.complaints == []


def test_the_first_minute(view: View, browser: Browser, server: Running) -> None:
    """Story 1: every session with its cost; the address shows no key, and works once."""
    assert view.page.locator("table.sessions tbody tr").count() == 3
    assert "key" not in view.page.url
    with refold.open("talk", store=f"sqlite:{server.store}", read_only=True) as context:
        cost = context.stats().cost
    assert f"${cost:,.2f}" in view.text("table.sessions")
    stranger = View(browser, server)
    stranger.page.goto(server.address)
    assert "not been admitted" in stranger.page.locator("main h2").inner_text()
    stranger.page.goto(f"{stranger.base}#/s/talk")
    assert "Fix the login" not in stranger.page.content()
    stranger.context.close()


def test_what_a_compaction_removed(view: View, word: str) -> None:
    """Story 2: a word that was folded away is found, with the compaction that took it."""
    view.page.keyboard.press("/")
    view.page.keyboard.type(word)
    view.page.keyboard.press("Enter")
    hit = view.page.locator(".found li").first
    hit.wait_for()
    assert "not on the page now" in hit.inner_text()
    hit.locator("a").click()
    original = view.page.locator(".panel .original pre")
    original.first.wait_for()
    assert word in original.first.inner_text()
    assert view.page.locator(".state-line .hidden, .state-line .quoted").count() == 1
    view.page.locator(".why button").first.click()
    view.page.locator(".panes.compared").wait_for()
    assert re.match(r"Compaction \d+ of \d+", view.text(".panel h2"))
    assert view.page.locator(".bars-of tr").count() > 0


def test_going_back_shows_the_search_before(view: View, word: str) -> None:
    for words in (word, "login"):
        view.go(f"find?q={words}")
        view.page.locator("h1", has_text=words).wait_for()
    view.page.go_back()
    view.page.locator("h1", has_text=word).wait_for()
    assert word in view.text(".found li .text")


def test_the_page_of_any_turn_is_the_fold(
    view: View, server: Running, chance: random.Random
) -> None:
    """Story 3: at random places, the pieces that the browser shows are those of the log cut there."""
    with refold.open("talk", store=f"sqlite:{server.store}", read_only=True) as context:
        log = list(context.log.events())
        edits = {event.seq for event in log if event.kind == "edit"}
    assert len(edits) > 3
    places = [at for at in chance.sample(range(1, len(log) + 1), PLACES) if at not in edits]
    shown = view.page.evaluate(
        """async (places) => {
             const { Session, Cursor } = await import("/static/states.js");
             const session = new Session(await (await fetch("/api/s/talk")).json());
             const cursor = new Cursor(session, session.head);
             return places.map((at) => {
               cursor.moveTo(at);
               return cursor.page().map(({ seq, standin }) => [seq, standin >= 0]);
             });
           }""",
        places,
    )
    for at, pieces in zip(places, shown, strict=True):
        assert pieces == [[slot.seq, slot.standin] for slot in fold(log[:at]).slots], at


def test_any_turn_by_keys_alone_is_the_page_that_was_read(
    view: View, server: Running, chance: random.Random
) -> None:
    """Story 3: all pieces and the whole text of each stand-in, as the log cut there has them."""
    with refold.open("talk", store=f"sqlite:{server.store}", read_only=True) as context:
        log = list(context.log.events())
    view.go("s/talk")
    for turn in sorted(chance.sample(range(80), 12)):
        view.page.keyboard.press("Home")
        for key, times in (("Shift+ArrowRight", turn // 10), ("ArrowRight", turn % 10)):
            for _ in range(times):
                view.page.keyboard.press(key)
        assert view.text(".facts b").startswith(f"Turn {turn + 1} of")
        at = int(view.text(".facts span").split()[0].removeprefix("#"))
        shown = view.page.evaluate(PANE)
        slots = fold(log[:at]).slots
        assert [seq for seq, _ in shown] == [slot.seq for slot in slots], (SEED, turn)
        for slot, (_, text) in zip(slots, shown, strict=True):
            if slot.standin and isinstance(edit := decode(log[slot.edits[-1].seq - 1]), Summarize):
                assert text == visible(summary_text(edit)) + "\n", (SEED, turn)


def test_the_keyboard_is_enough(view: View) -> None:
    view.go("s/talk")
    facts = view.page.locator(".facts")
    view.page.keyboard.press("Home")
    assert "Turn 1 of" in facts.inner_text()
    view.page.keyboard.press("ArrowRight")
    assert "Turn 2 of" in facts.inner_text()
    view.page.keyboard.press("Shift+ArrowRight")
    assert "Turn 12 of" in facts.inner_text()
    slider = view.page.locator("input.slider")
    spoken = slider.get_attribute("aria-valuetext") or ""
    assert spoken.startswith("turn 12 of") and spoken.endswith("tokens")
    view.page.keyboard.press("]")
    view.page.locator(".panes.compared").wait_for()
    first = view.text(".panel h2")
    view.page.keyboard.press("]")
    assert view.text(".panel h2") != first
    view.page.keyboard.press("Escape")
    assert not view.page.locator(".panel").is_visible()
    view.page.keyboard.press("End")
    view.page.keyboard.press("u")
    assert view.page.locator(".row.user[aria-current]").count() >= 1
    assert "m=" in view.page.url
    view.page.go_back()
    assert "m=" not in view.page.url
    view.page.keyboard.press("?")
    assert view.page.locator("dialog").is_visible()


def test_hostile_words_are_text(view: View) -> None:
    """Story 7: nothing of what was said becomes an element, a request or another title."""
    assert "<img src=x onerror" in view.page.locator("table.sessions").inner_text()
    view.go("s/hostile")
    view.page.locator(".row").first.wait_for()
    for key in ("Home", "ArrowRight", "End", "j", "k", "u", "["):
        view.page.keyboard.press(key)
    for place in ("s/hostile/ledger", "s/hostile/window"):
        view.go(place)
    inside = view.page.locator("script, img, iframe, object, embed, form:not([role]):not([method])")
    assert inside.count() == 1  # the page's own module
    assert "\\u202e" in view.page.title() and "owned" in view.page.title()
    assert view.page.title() != "owned"


def test_the_document_stays_small(view: View) -> None:
    view.go("s/talk")
    for key in ("Home", "End", "ArrowLeft"):
        view.page.keyboard.press(key)
        view.page.locator(".row .text").first.wait_for()
        nodes = view.page.evaluate("document.getElementsByTagName('*').length")
        assert nodes <= NODES_MAX


@pytest.mark.parametrize("width", SIZES)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_screen_fits(view: View, width: int, scheme: Any) -> None:
    view.page.set_viewport_size({"width": width, "height": 844})
    view.page.emulate_media(color_scheme=scheme)
    for place in SCREENS:
        view.page.evaluate("(hash) => { location.hash = hash; }", f"/{place}")
        view.page.locator("main > :is(.home, .session)").wait_for()
        assert view.page.evaluate("document.documentElement.scrollWidth") <= width, place
        assert view.page.locator("h1").count() <= 1
        assert view.page.evaluate(UNREADABLE) == [], (place, scheme)
    dark = view.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (dark == "rgb(23, 22, 20)") == (scheme == "dark")


def test_what_somebody_else_writes_appears(view: View, server: Running) -> None:
    """Story 6: a past turn stays, and counts what is new; now follows."""
    view.go("s/talk")
    view.page.keyboard.press("Home")
    before = view.text(".facts b")
    with refold.open("talk", store=f"sqlite:{server.store}") as context:
        context.append({"role": "user", "content": f"and {secrets.token_hex(4)}?"})
    view.page.locator(".chip.new").wait_for()
    assert view.text(".facts b") == before
    view.page.keyboard.press("End")
    assert view.text(".facts b") == "Now"
    with refold.open("talk", store=f"sqlite:{server.store}") as context:
        context.compact()
    view.page.locator(".facts .done", has_text="just now").wait_for()


def test_a_page_of_another_origin_gets_nothing(
    browser: Browser, server: Running, state: Any, tmp_path: Path
) -> None:
    """Story 8: with the cookie in the very same browser."""
    (tmp_path / "index.html").write_text("<h1>elsewhere</h1>", encoding="utf-8")

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given, directory=str(tmp_path))

        def log_message(self, format: str, *args: Any) -> None:
            return

    elsewhere = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet)
    threading.Thread(target=elsewhere.serve_forever, daemon=True).start()
    context = browser.new_context(storage_state=state)
    page = context.new_page()
    page.goto(f"http://127.0.0.1:{elsewhere.server_port}/")
    outcomes = page.evaluate(
        """async (base) => {
             const tried = async (options) => {
               try {
                 const answer = await fetch(`${base}api/s/talk`, options);
                 return [answer.type, answer.status, (await answer.text()).length];
               } catch { return "refused"; }
             };
             const loaded = (tag, attribute) => new Promise((done) => {
               const node = document.createElement(tag);
               node.onload = () => done("loaded");
               node.onerror = () => done("refused");
               node.setAttribute(attribute, `${base}static/app.js`);
               document.body.append(node);
             });
             return [await tried({}), await tried({ credentials: "include" }),
                     await tried({ mode: "no-cors", credentials: "include" }),
                     await loaded("script", "src"), await loaded("img", "src")];
           }""",
        f"http://{server.host}/",
    )
    assert outcomes[0] == outcomes[1] == "refused"
    assert outcomes[2] in ("refused", ["opaque", 0, 0])
    assert outcomes[3:] == ["refused", "refused"]
    page.set_content(f"<iframe src='http://{server.host}/'></iframe>")
    page.wait_for_timeout(500)
    assert all("refold" not in (frame.title() or "") for frame in page.frames[1:])
    context.close()
    elsewhere.shutdown()
    elsewhere.server_close()


def test_a_price_then_an_act_and_its_undo(
    view: View, server: Running, chance: random.Random
) -> None:
    """Story 4: nothing is in the log before the yes; undone, the page is as before."""

    def page() -> tuple[int, list[tuple[int, int, int]]]:
        with refold.open("talk", store=f"sqlite:{server.store}", read_only=True) as context:
            slots = [(slot.seq, slot.last, slot.tokens) for slot in context.view.slots]
            return context.view.head, slots

    head, slots = page()
    hidden = chance.choice([seq for seq, last, _ in slots if seq == last][1:-1])
    view.go(f"s/talk?m={hidden}")
    view.page.locator(".panel [data-act=Hide]").wait_for()
    view.page.keyboard.press("h")
    view.page.locator(".price .primary").wait_for()
    shown = view.text(".price dl")
    assert "tokens are written again" in shown and page() == (head, slots)
    view.page.locator(".price .primary").click()
    view.page.locator(".facts .done").wait_for()
    after = page()
    sizes = re.search(r"(\S+) to (\S+) of", shown)
    assert sizes is not None and after[0] > head and after[1] != slots
    view.page.locator(".facts", has_text=sizes[2]).wait_for()
    view.page.keyboard.press("Escape")
    view.page.keyboard.press("z")
    view.page.locator(".price .primary").click()
    view.page.locator(".facts .done").wait_for()
    assert page()[1] == slots and page()[0] > after[0]


def test_an_old_compaction_comes_back_with_those_that_cover_it(view: View, server: Running) -> None:
    """Story 5: the third of seven, forty turns later; redone, the page is as before."""

    def page() -> list[tuple[int, int, int]]:
        with refold.open("seven", store=f"sqlite:{server.store}", read_only=True) as context:
            return [(slot.seq, slot.last, slot.tokens) for slot in context.view.slots]

    def confirmed() -> None:
        view.page.locator(".price .primary").click()
        view.page.locator(".panel .price").wait_for(state="detached")

    with refold.open("seven", store=f"sqlite:{server.store}", read_only=True) as context:
        batches = [one.id for one in context.log.batches()]
        covering = context.log.rehearse("undo", batches[2]).undone.covered_by
        head = context.view.head
        shown = context.log.rehearse("undo", *reversed(covering), batches[2])
    assert len(batches) == 7 and covering
    before = page()
    view.go(f"s/seven?c={batches[2]}")
    view.page.locator("[data-act=Undo]").click()
    box = view.page.locator(".price")
    box.wait_for()
    numbers = ", ".join(str(batches.index(one) + 1) for one in covering)
    assert f"Later compactions ({numbers}) cover" in box.inner_text()
    box.locator("button.plain").click()
    view.page.locator(".price", has_text=f"Undo {1 + len(covering)}?").wait_for()
    assert f"to {shown.tokens_after:,} of" in box.inner_text() and page() == before
    confirmed()
    after = page()
    assert len(after) == shown.slots_after > len(before)
    for _ in range(1 + len(covering)):
        view.go("s/seven")
        view.page.keyboard.press("Escape")
        view.page.locator(".facts .chip", has_text="Change it").click()
        view.page.locator("[data-act=Redo]").click()
        confirmed()
    assert page() == before
    with refold.open("seven", store=f"sqlite:{server.store}", read_only=True) as context:
        assert context.view.head > head


def test_an_act_waits_for_a_yes_to_the_price_of_now(view: View, server: Running) -> None:
    """Story 6: somebody writes between the price and the yes; the new price is asked for."""
    with refold.open("seven", store=f"sqlite:{server.store}") as context:
        seq = context.view.slots[-2].seq
        view.go(f"s/seven?m={seq}")
        view.page.locator("[data-act=Hide]").click()
        view.page.locator(".price .primary").wait_for()
        context.append({"role": "assistant", "content": f"Meanwhile {secrets.token_hex(4)}."})
    view.page.locator(".price .primary").click()
    view.page.locator(".price", has_text="went on meanwhile").wait_for()
    with refold.open("seven", store=f"sqlite:{server.store}", read_only=True) as context:
        assert seq in {slot.seq for slot in context.view.slots}
    view.page.locator(".price .primary").click()
    view.page.locator(".facts .done").wait_for()
    with refold.open("seven", store=f"sqlite:{server.store}", read_only=True) as context:
        assert seq not in {slot.seq for slot in context.view.slots if not slot.standin}
    [refused] = view.complaints
    assert "409" in refused
    view.complaints.clear()


def test_an_empty_store_names_what_was_found_and_then_lists_it(
    started: Callable[..., View], tmp_path: Path
) -> None:
    """Story 1: a home with the sessions of two agents; the sum is that of `refold stats --cost`."""
    home, store = tmp_path / "home", tmp_path / "refold.db"
    files = write_sessions(home, SEED)
    environ = {"HOME": str(home), "REFOLD_STORE": f"sqlite:{store}"}
    view = started(store, **environ)
    for agent, folder in (("claude-code", ".claude"), ("codex", ".codex")):
        count = sum(folder in file.parts for file in files)
        assert re.search(rf"\b{count} files? of {agent}", view.text(".empty"))
    command = view.text(".empty .command").split()[1:]
    subprocess.run([*PROGRAM, *command], env={**os.environ, **environ}, check=True, cwd=tmp_path)
    with closing(open_store(f"sqlite:{store}", read_only=True)) as written:
        count = len(list(conversations(written)))
    assert count > len(files) // 2
    view.page.locator("table.sessions tbody tr").nth(count - 1).wait_for()
    assert view.page.locator("table.sessions tbody tr").count() == count
    options = ("stats", "--cost", "--json", "--store", f"sqlite:{store}")
    told = subprocess.run([*PROGRAM, *options], capture_output=True, check=True, cwd=tmp_path)
    cost = sum(one["cost"] or 0 for one in json.loads(told.stdout)["groups"])
    view.go("usage")
    assert f"${cost:,.{2 if cost >= 1 else 3}f}" in view.text(".figures")


def test_ten_thousand_messages_are_few_nodes_and_each_is_drawn_once(
    started: Callable[..., View], tmp_path: Path
) -> None:
    """Story 9"""
    store = tmp_path / "refold.db"
    grown(f"sqlite:{store}", LONG).close()
    view = started(store)
    sent: list[int] = []
    view.page.on("response", lambda one: sent.append(int(one.headers.get("content-length", 0))))
    view.go("s/long")
    view.page.locator(".row .text").first.wait_for()
    assert sum(sent) <= 300_000
    seen = view.page.evaluate(
        """async () => {
             const list = document.querySelector(".pane.left .list");
             const order = [];
             let nodes = 0;
             for (let top = 0; top < list.scrollHeight; top += list.clientHeight) {
               list.scrollTop = top;
               await new Promise(requestAnimationFrame);
               const rows = [...list.querySelectorAll("[data-key^=m]")];
               order.push(...rows.map((row) => [row.ariaPosInSet, row.dataset.key.slice(1)].map(Number)));
               nodes = Math.max(nodes, document.getElementsByTagName("*").length);
             }
             return { order, nodes, memory: performance.memory.usedJSHeapSize };
           }"""
    )
    assert seen["nodes"] <= NODES_MAX and seen["memory"] <= 120e6
    drawn = dict(sorted(seen["order"]))
    assert list(drawn.values()) == list(range(LONG)), "every message, in order"


@pytest.mark.parametrize("id", ["talk", "hostile", "seven"])
def test_a_saved_session_is_the_same_view_without_a_network(
    browser: Browser, view: View, server: Running, id: str, word: str, tmp_path: Path
) -> None:
    """Story 10: no secret is in it, nothing can be changed, and it fits a phone in the dark."""
    view.go(f"s/{id}")
    with view.page.expect_download() as waiting:
        view.page.locator(".facts a[download]").click()
    file = tmp_path / "saved.html"
    waiting.value.save_as(file)
    assert SECRET not in inside_of(file) and SECRET not in file.read_text(encoding="utf-8")
    alone = browser.new_context(offline=True, viewport={"width": 390, "height": 844})
    page, complaints = alone.new_page(), list[str]()
    page.emulate_media(color_scheme="dark")
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: complaints.append(request.url))
    page.goto(file.as_uri())
    page.locator(".row .text:visible").first.wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.keyboard.press("Home")
    assert "Turn 1 of" in page.locator(".facts").inner_text()
    page.keyboard.press("[")
    page.keyboard.press("End")
    page.keyboard.press("[")
    page.locator(".panes.compared").wait_for()
    assert page.locator(".bars-of tr").count() > 0
    page.keyboard.press("Escape")
    page.keyboard.press("u")
    page.locator(".panel .original pre").first.wait_for()
    assert page.locator("[data-act], a[download]").count() == 0
    if id == "talk":
        page.keyboard.press("/")
        page.keyboard.type(word)
        page.keyboard.press("Enter")
        hit = page.locator(".found li").first
        hit.wait_for()
        assert "not on the page now" in hit.inner_text()
        hit.locator("a").click()
        page.locator(".why li").first.wait_for()
    for place in ("bill", "window", "ledger"):
        page.evaluate("(hash) => { location.hash = hash; }", f"/s/{id}/{place}")
        page.locator("main > :is(.home, .empty)").wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.locator("img, iframe, object, embed").count() == 0
    assert page.title() != "owned" and complaints == [file.as_uri()]
    alone.close()


@pytest.mark.skipif(not os.path.isfile(SESSION), reason="the picture is kept")
def test_the_picture_of_a_real_session_is_written(
    started: Callable[..., View], tmp_path: Path
) -> None:
    """Its messages, played again in a smaller window."""
    url = f"sqlite:{tmp_path / 'refold.db'}"
    subprocess.run([*PROGRAM, "import", SESSION, "--store", url, "--yes"], check=True, cwd=tmp_path)
    with closing(open_store(url, read_only=True)) as store:
        [about] = conversations(store)
    with (
        refold.open(about.id, store=url, read_only=True) as was,
        refold.open("again", store=url) as context,
    ):
        context.update(model=was.view.model, window=60_000)
        for event in was.log.events():
            message = decode(event) if event.kind == "message" else None
            if isinstance(message, Message):
                if message.role == "assistant":
                    context.request()
                context.append(message)
        one = context.log.batches()[-2].id
    view = started(tmp_path / "refold.db")
    view.page.set_viewport_size({"width": 1_280, "height": 800})
    view.go(f"s/again?c={one}")
    view.page.locator(".panel h2").wait_for()
    view.page.wait_for_timeout(2_000)
    view.page.screenshot(path=PICTURE)
