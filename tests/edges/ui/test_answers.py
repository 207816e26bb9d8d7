"""What the screens show: the values of one store, safe to draw, read without a trace."""

from __future__ import annotations

import base64
import gzip
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import refold
from refold.edges.ui import app
from refold.edges.ui.answers import Answers
from refold.errors import Invalid, NotFound
from tests.edges.ui.conftest import BAD, SECRET, write_session

STATIC = Path(app.__file__).parent / "static"
STATIC_BYTES_MAX = 120_000


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("answers") / "refold.db"
    write_session(place)
    write_session(place, "short", turns=1)
    return place


@pytest.fixture
def answers(store: Path) -> Iterator[Answers]:
    answers = Answers(f"sqlite:{store}")
    yield answers
    answers.close()
    answers.close_search()


def ask(answers: Answers, name: str, **given: Any) -> Any:
    """The value as a browser reads it."""
    query = {key.rstrip("_"): str(value) for key, value in given.items()}
    return msgspec.json.decode(msgspec.json.encode(getattr(answers, name)(query)))


def number_of(columns: Any, seq: int) -> int:
    at, steps = 0, columns["messages"]["seq"]
    for number, step in enumerate(steps):
        at += step
        if at == seq:
            return number
    raise AssertionError(seq)


def every_text(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case dict():
            for one in value.values():
                yield from every_text(one)
        case list():
            for one in value:
                yield from every_text(one)


def everything(answers: Answers) -> Iterator[Any]:
    """Every answer about the session."""
    columns = ask(answers, "conversation", id="talk")
    count = len(columns["messages"]["tokens"])
    yield columns
    yield ask(answers, "overview")
    yield ask(answers, "usage")
    yield ask(answers, "find", q="login")
    yield ask(answers, "lines", id="talk", from_=0, count=count)
    yield ask(answers, "ledger", id="talk")
    yield ask(answers, "window", id="talk")
    at = 0
    for step in columns["messages"]["seq"]:
        at += step
        yield ask(answers, "message", id="talk", seq=at)
        yield ask(answers, "why", id="talk", seq=at)
    for edit in {one[0] for one in columns["standins"]}:
        yield ask(answers, "standin", id="talk", seq=edit)


def test_no_answer_has_a_secret_or_a_character_that_steers(answers: Answers) -> None:
    seen = "".join(text for value in everything(answers) for text in every_text(value))
    assert SECRET not in seen and "[redacted" in seen
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\u2066-\u2069]", seen)
    assert "<img src=x onerror=alert(1)>" in seen  # as text, which the page never parses


def test_a_person_may_see_one_secret(answers: Answers) -> None:
    columns = ask(answers, "conversation", id="talk")
    found = [
        seq
        for seq in range(1, columns["head"] + 1)
        if seq in _seqs(columns) and ask(answers, "message", id="talk", seq=seq)["has_secrets"]
    ]
    assert len(found) == 1
    shown = ask(answers, "message", id="talk", seq=found[0], secrets=1)
    assert SECRET in "".join(every_text(shown)) and not shown["has_secrets"]


def _seqs(columns: Any) -> set[int]:
    at, found = 0, set()
    for step in columns["messages"]["seq"]:
        at += step
        found.add(at)
    return found


def test_looking_leaves_no_trace(answers: Answers, store: Path) -> None:
    def state() -> dict[str, tuple[int, bytes]]:
        files = (path for path in store.parent.iterdir() if "index" not in path.name)
        return {path.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in files}

    before = state()
    for _ in everything(answers):
        pass
    assert state() == before


def test_the_figures_are_those_of_the_commands(answers: Answers, store: Path) -> None:
    columns = ask(answers, "conversation", id="talk")
    with refold.open("talk", store=f"sqlite:{store}", read_only=True) as context:
        stats, batches = context.stats(), context.log.batches()
        first, seq = context.view.slots[0].seq, context.view.slots[-1].seq
        why = [trace.action for trace in context.log.why(first)]
    assert (columns["window"], columns["compact_at"]) == (stats.window, stats.compact_at)
    assert columns["current"] == stats.current == columns["sizes"][1][-1]
    shown = [
        (one["id"], one["tokens_before"], one["tokens_after"], one["live"])
        for one in columns["compactions"]
    ]
    assert shown == [(one.id, one.tokens_before, one.tokens_after, one.live) for one in batches]
    assert len(shown) > 2 and seq in _seqs(columns)
    assert [one["action"] for one in ask(answers, "why", id="talk", seq=first)] == why
    [row] = [one for one in ask(answers, "overview")["sessions"] if one["id"] == "talk"]
    assert (row["messages"], row["tokens"]) == (stats.messages, stats.current)
    assert row["window"] == stats.window


def test_what_is_new_is_asked_for_alone(answers: Answers, store: Path) -> None:
    whole = ask(answers, "conversation", id="short")
    write_session(store, "short", turns=2)
    more = ask(answers, "conversation", id="short", after=whole["head"])
    again = ask(answers, "conversation", id="short")
    for name in ("tokens", "tool", "pair"):
        assert whole["messages"][name] + more["messages"][name] == again["messages"][name]
    for part in range(3):
        assert whole["changes"][part] + more["changes"][part] == again["changes"][part]


def test_a_compaction_is_one_click_from_what_it_hid(answers: Answers) -> None:
    """Story 2: a word of a result that was folded away is found, and said not to be on the page."""
    found = ask(answers, "find", q="f3_7")
    hits = [hit for one in found["sessions"] if one["id"] == "talk" for hit in one["hits"]]
    assert hits[0]["hidden"] is True
    value = ask(answers, "message", id="talk", seq=hits[0]["seq"])
    assert "def f3_7(): return 7" in value["blocks"][0]["text"]
    columns = ask(answers, "conversation", id="talk")
    number = number_of(columns, hits[0]["seq"])
    states = [state for what, state in zip(*columns["changes"][1:]) if what == number]
    assert states


@pytest.mark.parametrize(
    "name, given, error",
    [
        ("message", {"id": "talk", "seq": 99_999}, NotFound),
        ("standin", {"id": "talk", "seq": 1}, NotFound),
        ("standin", {"id": "talk", "seq": 0}, NotFound),
        ("conversation", {"id": "none"}, NotFound),
        ("conversation", {"id": "memory.user"}, NotFound),
        ("conversation", {"id": "talk", "after": "-1"}, Invalid),
        ("find", {"q": " "}, Invalid),
        ("find", {"q": "x" * 2_000}, Invalid),
    ],
)
def test_a_question_without_an_answer_says_why(
    answers: Answers, name: str, given: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        ask(answers, name, **given)


def test_an_empty_store_has_no_sessions(tmp_path: Path) -> None:
    answers = Answers(f"sqlite:{tmp_path / 'none.db'}")
    assert ask(answers, "overview")["sessions"] == [] and answers.heads() == {}
    assert not list(tmp_path.iterdir())
    answers.close()


def test_the_title_is_safe(answers: Answers) -> None:
    title = ask(answers, "conversation", id="talk")["title"]
    assert "\\u202e" in title and BAD not in title


def test_a_saved_session_has_every_answer_and_no_secret(answers: Answers) -> None:
    """Of a session that would not fit, the longest texts are cut, and say by how much."""
    page = answers.save({"id": "talk"})
    assert page == answers.save({"id": "talk"})
    found = re.search(r'id="inside">([^<]+)<', page)
    assert found is not None
    inside = msgspec.json.decode(gzip.decompress(base64.b64decode(found[1])))
    text = "".join(every_text(inside))
    assert SECRET not in text and "[redacted" in text
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\u2066-\u2069]", text)
    columns = ask(answers, "conversation", id="talk")
    assert inside[""] == {**columns, "acts": False}
    count = len(columns["messages"]["tokens"])
    assert inside["lines"] == ask(answers, "lines", id="talk", from_=0, count=count)
    assert inside["ledger"] == ask(answers, "ledger", id="talk")
    for seq in _seqs(columns):
        whole = ask(answers, "message", id="talk", seq=seq)
        assert inside[f"message/{seq}"]["blocks"] == whole["blocks"]
        why = {one["seq"] for one in ask(answers, "why", id="talk", seq=seq)}
        told = [one for one in inside["traces"] if one["first"] <= seq <= one["last"]]
        assert {one["seq"] for one in told} == why
    for edit in {one[0] for one in columns["standins"]}:
        assert inside[f"standin/{edit}"] == ask(answers, "standin", id="talk", seq=edit)


def test_a_long_text_of_a_saved_session_is_cut(tmp_path: Path) -> None:
    store = tmp_path / "refold.db"
    with refold.open("long", store=f"sqlite:{store}") as context:
        for letter in "abc":
            context.append({"role": "user", "content": letter * 5_000_000})
    answers = Answers(f"sqlite:{store}")
    page = answers.save({"id": "long"})
    assert len(page) < 2 * STATIC_BYTES_MAX
    answers.close()


# --- the page itself ---


def test_every_file_of_the_page_is_served_and_nothing_else() -> None:
    assert {path.name for path in STATIC.iterdir()} == set(app.TYPES)


def test_the_page_is_small() -> None:
    assert sum(path.stat().st_size for path in STATIC.iterdir()) <= STATIC_BYTES_MAX


def test_modules_never_parse_content_and_load_nothing_from_elsewhere() -> None:
    """Content is text nodes: no property that parses HTML, no code from text."""
    parsing = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|srcdoc"
    for path in STATIC.iterdir():
        text = path.read_text(encoding="utf-8")
        assert not re.search(parsing, text), path.name
        outside = [url for url in re.findall(r"https?://[^\s\"')]+", text) if "w3.org" not in url]
        assert outside == [], path.name


def test_modules_import_only_each_other_and_only_what_there_is() -> None:
    exported: dict[str, set[str]] = {}
    sources = {path.name: path.read_text(encoding="utf-8") for path in STATIC.glob("*.js")}
    for name, source in sources.items():
        found = re.findall(r"^export (?:async )?(?:function|class) (\w+)", source, re.MULTILINE)
        for line in re.findall(r"^export const (.+);$", source, re.MULTILINE):
            found += re.findall(r"(\w+) = ", line)
        exported[name] = set(found)
    for name, source in sources.items():
        imports = re.findall(r"^import \{([^}]+)\} from \"\./([\w.]+)\";", source, re.MULTILINE)
        assert len(imports) == len(re.findall(r"^import ", source, re.MULTILINE)), name
        for names, module in imports:
            wanted = {one.strip() for one in names.split(",") if one.strip()}
            assert wanted <= exported[module], (name, module, wanted - exported[module])
            body = re.sub(r"^import \{[^}]+\} from .*$", "", source, flags=re.MULTILINE)
            unused = {one for one in wanted if not re.search(rf"\b{one}\b", body)}
            assert not unused, (name, unused)
