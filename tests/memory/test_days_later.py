"""What one conversation settled is on the first page of the next: rules, corrections, files."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from bench.days_later import KINDS, like_things
from hypothesis import given
from hypothesis import strategies as st

import refold
from refold.core.model import Message, Text
from refold.engine import project_files
from refold.engine.project_files import FileNames
from refold.memory.extraction import WHOLE_CHARS_MAX, taken_from
from refold.memory.standing_rules import clauses_of, is_standing

KEEP = {"memory_extract": "keep"}


def said(
    url: str, id: str, *texts: str, at: str = "2026-03-01", config: dict | None = None
) -> None:
    """A conversation in which a user says this; it ends without a compaction."""
    with refold.open(id, store=url, embedder=False, config=config or KEEP) as context:
        for text in texts:
            context.append({"role": "user", "content": text}, at=at)
            context.append({"role": "assistant", "content": "Understood."}, at=at)


def first_page(url: str, request: str = "Draw a logo with seven blue whales") -> str:
    with refold.open(f"new-{abs(hash(request))}", store=url, embedder=False) as context:
        context.append({"role": "user", "content": request})
        return str(context.request()["messages"])


@pytest.fixture
def url(tmp_path) -> str:
    return f"sqlite:{tmp_path}/a.db"


RULES = [
    "From now on, every commit message starts with the ticket number.",
    "Always write dates as YYYY-MM-DD.",
    "Please never commit generated files.",
    "Going forward, end all variable names with '_v'.",
    "Every new command gets a --json option.",
    "Ab jetzt bekommt jeder Befehl eine Hilfe.",
    "Bitte immer zuerst die Tests schreiben.",
    "Désormais, chaque module a un test.",
    "A partir de ahora, los mensajes van en español.",
]


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_is_on_the_next_first_page_whatever_that_asks(url, rule):
    said(url, "first", f"Hello. {rule} What time is it?")
    page = first_page(url)
    assert rule.strip(".") in page.replace("\\'", "'") and "2026-03-01, user, first #" in page


@pytest.mark.parametrize(
    "words",
    [
        "Fix the failing test in src/app/main.py.",
        "The input should never lose its focus after a click.",
        "Is it always like that?",
        "It is always a good idea to rest.",
        "When continuing to type, the search always starts at the top.",
        "> From now on, use tabs.",
        "```\nFrom now on, use tabs.\n```",
    ],
)
def test_a_task_a_question_and_a_quotation_are_no_rules(url, words):
    said(url, "first", words)
    assert not clauses_of(words) and "[memory" not in first_page(url)


def test_rules_are_shown_once_and_the_page_stays_as_it_was(url):
    said(url, "first", RULES[0])
    with refold.open("new", store=url, embedder=False) as context:
        context.append({"role": "user", "content": "Draw a whale"})
        first = context.request()["messages"]
        context.append({"role": "assistant", "content": "Which?"})
        context.append({"role": "user", "content": "A blue one"})
        later = context.request()["messages"]
    assert later[: len(first)] == first and str(later).count("ticket number") == 1


def test_a_message_with_a_rule_is_one_entry_with_its_date(url):
    text = (
        "We bill by the quarter hour. " * 12 + "From now on, every entry is rounded up. Only that."
    )
    said(url, "first", text, at="2025-11-16T09:30+00:00")
    with refold.open_memory(store=url, embedder=False) as memory:
        [entry] = memory.list()
    assert (entry.content, entry.source, entry.trust) == (text, ("first", 1), "user")
    assert entry.valid_from_ms == datetime(2025, 11, 16, 9, 30, tzinfo=UTC).timestamp() * 1_000


def test_of_a_long_message_the_paragraphs_with_rules_are_taken():
    rule = "From now on, every entry is rounded up to the next quarter of an hour. " * 5
    text = f"{'The sky is grey today. ' * 100}\n\n{rule}\n\n{'So it is. ' * 50}"
    assert len(text) > WHOLE_CHARS_MAX
    taken = taken_from([(3, Message(role="user", blocks=(Text(text),)))], 0.0)
    assert [one.content for one in taken] == [rule.strip()]


def test_each_message_is_read_once_by_whichever_process_closes(url):
    said(url, "first", RULES[0])
    with refold.open_memory(store=url, embedder=False) as memory:
        memory.forget(memory.list()[0].id)
        memory.store("Another thing")
    said(url, "first", "Go on with that")
    with refold.open_memory(store=url, embedder=False) as memory:
        assert [one.content for one in memory.list()] == ["Another thing"]
        assert [change.what for change in memory.log()].count("stored") == 1


@pytest.mark.parametrize("is_later_first", [False, True])
def test_of_a_changed_rule_only_the_version_in_force_is_shown(url, is_later_first):
    told = [
        ("2026-03-01", "From now on, start all function names with 'fn_'."),
        ("2026-03-02", "From now on, start all function names with 'gn_'."),
    ]
    for day, rule in reversed(told) if is_later_first else told:
        said(url, f"on-{day}", rule, at=day)
    page = first_page(url)
    assert "gn_" in page and "fn_" not in page


def test_of_rules_that_differ_in_more_than_a_value_both_are_shown_the_newer_first(url):
    said(url, "a", "Always answer in short sentences.", at="2026-03-02")
    said(url, "b", "From now on, answer as long as you like about whales.", at="2026-03-03")
    page = first_page(url)
    assert page.index("as long as you like") < page.index("in short sentences")


def test_another_project_sees_nothing_of_it(url, tmp_path):
    said(url, "first", *RULES)
    assert "[memory" not in first_page(f"sqlite:{tmp_path}/other.db", RULES[0])


@pytest.mark.parametrize("words", [12, 50, 400])
def test_a_fact_is_found_however_long_the_request_is(url, words):
    with refold.open_memory(store=url, embedder=False) as memory:
        memory.store("The rounding unit of invoices is a quarter of an hour")
        memory.store("Lunch is at noon")
    text = "Which rounding unit do invoices have for an hour? " + " ".join(
        f"word{number}" for number in range(words)
    )
    page = first_page(url, text)
    assert "quarter of an hour" in page and "Lunch" not in page


@pytest.mark.parametrize(("kind", "other"), [("crane", "bay"), ("Kran", "Tor"), ("grue", "quai")])
def test_the_page_has_the_thing_that_was_asked_for_and_no_other_of_its_kind(url, kind, other):
    with refold.open_memory(store=url, embedder=False) as memory:
        for number in range(1, 13):
            for day, name in enumerate((kind, other), start=1):
                memory.store(f"{name} {number}: code {100 * day + number}", at=f"2026-01-0{day}")
            memory.store(f"{kind} {number}: code {900 + number}", at=f"2026-02-{number:02}")
    page = first_page(url, f"Code {kind} 5?")
    assert re.findall(r"- (\w+ \d+): code (\d+)", page) == [(f"{kind} 5", "905")]
    page = first_page(url, f"Code {kind} 5 and {kind} 7?")
    assert {"905", "907"} <= set(re.findall(r": code (\d+)", page))


GUIDE = Path(refold.__file__).parents[2] / "docs" / "guides" / "memory.md"


def test_the_three_days_of_the_guide_are_as_it_shows_them(tmp_path):
    story = GUIDE.read_text(encoding="utf-8").partition("### ")[0]
    [program], [shown] = (
        re.findall(rf"```{kind}\n(.*?)```", story, re.DOTALL) for kind in ("py", "text")
    )
    (tmp_path / "day.py").write_text(program)
    days = [shlex.split(line)[1:] for line in re.findall(r"^    (python day.py .*)$", story, re.M)]
    assert len(days) == 3
    pages = [
        subprocess.run(
            [sys.executable, *day], cwd=tmp_path, capture_output=True, text=True, check=True
        ).stdout
        for day in days
    ]
    assert pages[-1] == shown
    assert "15 minutes" in pages[1] and "15 minutes" not in pages[2]


# --- like things ---


@pytest.mark.parametrize("language", KINDS)
def test_an_answer_is_about_the_thing_asked_with_its_newest_value(language):
    found = like_things(language, seed=11, embedder=False)
    assert found.thing >= 0.98 and found.first >= 0.85 and found.in_three >= 0.95


# --- files ---


def test_files_of_a_request_come_before_files_that_were_changed_more():
    named = [
        FileNames(("src/app.py",), ("src/zoom/view.py", "src/menu.py")),
        FileNames(("src/app.py", "/home/ann/shop/src/menu.py"), ()),
    ]
    assert project_files.best(named, "The zoom of the view is wrong", 1) == ["src/zoom/view.py"]
    best = project_files.best(named, "Anything", 3)
    assert best == ["src/app.py", "src/menu.py", "src/zoom/view.py"]
    assert project_files.names_in(named[0].content()) == named[0]


@given(st.text(min_size=1, max_size=80))
def test_only_what_reads_as_a_path_is_a_file_name(text):
    names = project_files.names_of([text], ())
    assert all(" " not in name and "\n" not in name and ".." not in name for name in names.changed)


def test_a_rule_ends_no_sentence_that_asks():
    assert is_standing(RULES[0]) and not is_standing(RULES[0].rstrip(".") + "?")
