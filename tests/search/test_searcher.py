"""Search over stores: what is found, what is never found again, and an index that can be lost at
any time (G-44, G-51, M-27, X-05)."""

from __future__ import annotations

import os
import random
import stat
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import apsw
import pytest

import refold
from refold.core.model import Erase, Message, Text
from refold.errors import Corrupt, Invalid, NotFound, Unavailable
from refold.log.log import Draft, Log
from refold.search.searcher import Searcher
from refold.stores import open_store
from tests.search.talks import DAY_MS, Topics, memory, talk


def seqs(hits) -> list[int]:
    return [hit.seq for hit in hits]


def full_text(store, **given) -> Searcher:
    return Searcher(store, embedder=False, **given)


@pytest.fixture
def place(tmp_path) -> str:
    return f"sqlite:{tmp_path / 'refold.db'}"


@pytest.fixture
def store(place):
    opened = open_store(place)
    yield opened
    opened.close()


# --- what is found ---


def test_an_identifier_is_found_first_and_a_filter_never_gives_another_conversation():
    """G-44"""
    store = memory()
    talk(store, "a", ["an error 42 came", "ERR 4242", "it raised ERR_42 again", "42 errors"])
    talk(store, "b", ["ERR_42 in b"])
    searcher = full_text(store)
    assert searcher.search("ERR_42", conversation="a")[0].seq == 3
    assert {hit.conversation for hit in searcher.search("ERR_42", conversation="b")} == {"b"}
    assert {hit.conversation for hit in searcher.search("ERR_42")} == {"a", "b"}


def test_a_message_that_no_page_shows_is_found_with_its_seq():
    """G-51"""
    context = refold.open("work", store="memory:", window=2_000)
    for number in range(30):
        context.append(
            {
                "role": "user",
                "content": f"the {number}th thing is a walrus{number} " + "filler " * 20,
            }
        )
        context.append({"role": "assistant", "content": "noted"})
    context.compact("hide", target=500)
    [hit, *_] = full_text(context._open.store).search("walrus3")
    assert (hit.seq, hit.hidden) == (7, True)
    [hit, *_] = full_text(context._open.store).search("walrus29")
    assert (hit.seq, hit.hidden) == (59, False)


def test_what_a_restore_took_back_is_found_and_marked_as_hidden():
    context = refold.open("work", store="memory:")
    context.append({"role": "user", "content": "first the zebra"})
    context.append({"role": "user", "content": "then the walrus"})
    context.restore(1)
    hits = full_text(context._open.store).search("walrus zebra")
    assert {hit.seq: hit.hidden for hit in hits} == {1: False, 2: True}


def test_words_are_found_in_other_forms_in_names_and_in_paths():
    """T-12, for whole conversations"""
    store = memory()
    talk(
        store,
        "a",
        [
            "he fixes things",
            "see updateScore()",
            "open src/auth/login_form.ts",
            "東京タワーに行った",
        ],
    )
    searcher = full_text(store)
    for query, seq in (
        ("fixing", 1),
        ("score", 2),
        ("login", 3),
        ("auth/login_form.ts", 3),
        ("東京", 4),
        ("塔 タワー", 4),
    ):
        assert searcher.search(query)[0].seq == seq, query


def test_a_phrase_alone_must_be_there():
    store = memory()
    talk(store, "a", ["the token has expired", "token expired", "expired token"])
    assert seqs(full_text(store).search('"token expired"')) == [2]


def test_an_answer_is_found_by_the_words_of_its_question():
    store = memory()
    talk(
        store,
        "a",
        [
            "how is the weather",
            "fine",
            "how long have you had the snakes?",
            "assistant|3 years now",
            "ok",
        ],
    )
    assert set(seqs(full_text(store).search("how long snakes", limit=3))) == {3, 4, 5}


def test_the_newest_come_first_when_that_is_asked_over_all_conversations():
    store = memory()
    talk(store, "old", ["login one", "login two"], at_ms=1_600_000_000_000)
    talk(store, "new", ["login three", "nothing", "login four"], at_ms=1_700_000_000_000)
    talk(store, "mid", ["login five"], at_ms=1_650_000_000_000)
    hits = full_text(store).search("login", newest=True, limit=4)
    assert [(hit.conversation, hit.seq) for hit in hits] == [
        ("new", 3),
        ("new", 1),
        ("mid", 1),
        ("old", 2),
    ]
    assert full_text(store).search("login nothing", newest=True) == []


@pytest.mark.parametrize("many", [1, 3, 80])
def test_the_newest_are_the_same_however_they_are_looked_for(many):
    """Walking the lanes, one look at the highest ids, and sorting by time are shortcuts to one
    answer."""
    chance, store = random.Random(many), memory()
    said = []
    times = iter(range(10**9))
    logs = [Log(store, f"c{number}", clock=lambda: next(times)) for number in range(many)]
    for _ in range(400):
        log = chance.choice(logs) if chance.random() < 0.5 else logs[0]
        text = " ".join(
            chance.choices(
                ["walrus", "carpenter", "oyster", "sand", "sea"], [1, 2, 20, 50, 50], k=4
            )
        )
        log.append([Draft(body=Message(role="user", blocks=(Text(text),)), by="test")])
        said.append((text, log.conversation, log.state.head))
    for word in ("walrus", "carpenter", "oyster", "walrus carpenter"):
        for limit in (1, 10, 60):
            hits = full_text(store).search(word, newest=True, limit=limit)
            holding = [
                one[1:] for one in reversed(said) if set(word.split()) <= set(one[0].split())
            ]
            assert [(hit.conversation, hit.seq) for hit in hits] == holding[:limit]


def test_the_newest_of_very_many_conversations_are_in_order():
    store = memory()
    for number in range(80):
        talk(
            store,
            f"c{number:02}",
            ["rare walrus" if number % 40 == 7 else "common"],
            at_ms=1_600_000_000_000 + number,
        )
    hits = full_text(store).search("walrus", newest=True, limit=5)
    assert [hit.conversation for hit in hits] == ["c47", "c07"]


def test_filters_narrow_the_search():
    """Role, tool, kind, time."""
    context = refold.open("work", store="memory:", config={"offload_tokens": 200})
    context.update(title="The walrus project")
    context.append({"role": "user", "content": "find the walrus"})
    call = {
        "id": "t1",
        "type": "function",
        "function": {"name": "grep", "arguments": '{"pattern": "walrus"}'},
    }
    context.append({"role": "assistant", "content": None, "tool_calls": [call]})
    context.append_result("t1", "walrus.py:1\n" + "walrus line\n" * 500)
    context.checkpoint("before the walrus")
    searcher = full_text(context._open.store)
    assert [hit.role for hit in searcher.search("walrus", role="user")] == ["user"]
    assert {hit.tool for hit in searcher.search("walrus", tool="grep")} == {"grep"}
    assert searcher.search("walrus", tool="gre") == []
    assert [hit.kind for hit in searcher.search("walrus", kind="meta")] == ["meta"]
    assert [hit.kind for hit in searcher.search("walrus", kind="checkpoint")] == ["checkpoint"]
    [artifact] = searcher.search("walrus line", kind="artifact")
    assert artifact.artifact.startswith("art-") and artifact.hidden and artifact.line == 1
    now = context.view.updated_ms
    assert searcher.search("walrus", since=now + DAY_MS) == []
    assert searcher.search("walrus", until=datetime.fromtimestamp(now / 1_000, UTC)) != []
    assert searcher.search("walrus", until=now - DAY_MS) == []


def test_a_filter_finds_what_is_not_among_the_best_of_very_many(monkeypatch):
    monkeypatch.setattr("refold.search.finding.SEEDS_MAX", 10)
    store = memory()
    talk(
        store,
        "a",
        [
            "assistant|one walrus among many other words that are said here",
            *["walrus walrus"] * 100,
        ],
    )
    assert seqs(full_text(store).search("walrus", role="assistant")) == [1]
    assert len(full_text(store).search("walrus", limit=50)) == 10


def test_very_common_terms_are_looked_for_in_the_newest_places_only(monkeypatch):
    monkeypatch.setattr("refold.search.finding.POSTINGS_MAX", 20)
    monkeypatch.setattr("refold.search.finding.POSTINGS_MIN", 20)
    store = memory()
    for id in ("a", "b"):
        talk(store, id, [f"walrus {'zebra' if number == 3 else 'again'}" for number in range(50)])
    hits = full_text(store).search("walrus zebra", limit=5)
    assert {(hit.conversation, hit.seq) for hit in hits[:2]} == {("a", 4), ("b", 4)}


def test_summaries_are_found_only_when_they_are_asked_for():
    context = refold.open("work", store="memory:")
    for number in range(20):
        context.append(
            {"role": "user", "content": f"the walrus number {number} " + "is heavy " * 40}
        )
    context.compact("gist", target=400)
    searcher = full_text(context._open.store)
    assert {hit.kind for hit in searcher.search("walrus", limit=50)} == {"message"}
    assert {hit.kind for hit in searcher.search("walrus", kind="edit")} == {"edit"}


def test_an_artifact_is_found_at_its_line():
    context = refold.open("work", store="memory:")
    lines = [f"line {number} of many, nothing to see" for number in range(1, 2_001)]
    lines[1_499] = "here stands the walrus"
    context.artifacts.put("\n".join(lines), name="log.txt", type="file")
    [hit] = full_text(context._open.store).search("walrus")
    shown = str(context.unfold(hit.artifact, lines=(hit.line, hit.line + 3)))
    assert "walrus" in shown and "walrus" in hit.snippet


# --- forks, deletions, erasures ---


def test_a_fork_finds_what_it_shares_once_and_under_its_own_name(store):
    talk(store, "a", ["one walrus", "two walrus", "three walrus"])
    store.fork("a", 2, "b")
    talk(store, "b", ["four walrus"])
    searcher = full_text(store)
    assert {(hit.conversation, hit.seq) for hit in searcher.search("walrus", conversation="b")} == {
        ("b", 1),
        ("b", 2),
        ("b", 3),
    }
    everywhere = {(hit.conversation, hit.seq) for hit in searcher.search("walrus")}
    assert everywhere == {("a", 1), ("a", 2), ("a", 3), ("b", 3)}
    assert "three" not in " ".join(
        hit.snippet for hit in searcher.search("walrus", conversation="b")
    )
    assert len(searcher.search("walrus", conversation="b", newest=True)) == 3


def test_a_deleted_conversation_is_found_no_more_and_its_name_can_be_used_again(store):
    talk(store, "a", ["one walrus"])
    searcher = full_text(store)
    assert len(searcher.search("walrus")) == 1
    store.delete("a")
    assert searcher.search("walrus") == []
    talk(store, "a", ["a zebra", "another zebra"])
    assert searcher.search("walrus") == [] and len(searcher.search("zebra")) == 2
    with pytest.raises(NotFound):
        searcher.search("zebra", conversation="b")


def test_an_erased_event_leaves_the_index_and_its_words_leave_the_file(store):
    log = talk(store, "a", ["the password is walrusique", "harmless zebra"])
    searcher = full_text(store)
    assert seqs(searcher.search("walrusique")) == [1]
    store.erase("a", 1)
    log.append([Draft(body=Erase(seq=1), by="test")])
    assert searcher.search("walrusique") == [] and seqs(searcher.search("zebra"))[0] == 2
    searcher.close()
    assert b"walrusiqu" not in Path(searcher.path).read_bytes()


def test_an_erasure_that_the_log_does_not_speak_of_is_noticed_at_the_hit(store):
    talk(store, "a", ["the password is walrusique"])
    searcher = full_text(store)
    searcher.catch_up()
    store.erase("a", 1)
    assert searcher.search("walrusique") == []
    searcher.close()
    assert b"walrusiqu" not in Path(searcher.path).read_bytes()


# --- an index that can be lost ---


def test_what_comes_later_is_found_and_nothing_is_written_by_an_append(store, tmp_path):
    log = talk(store, "a", ["one walrus"])
    assert os.listdir(tmp_path) == ["refold.db"] or "index.db" not in os.listdir(tmp_path)
    searcher = full_text(store)
    assert len(searcher.search("walrus")) == 1
    before = os.stat(searcher.path).st_mtime_ns
    talk(store, "a", ["two walrus"])
    assert os.stat(searcher.path).st_mtime_ns == before
    assert len(searcher.search("walrus")) == 2
    assert stat.S_IMODE(os.stat(searcher.path).st_mode) == 0o600
    assert log.state.head == 1


def test_a_memory_store_has_no_file_and_a_store_that_is_not_there_yet_gets_none(tmp_path):
    assert Searcher(memory(), embedder=False).path == ":memory:"
    never = open_store(f"sqlite:{tmp_path / 'never' / 'refold.db'}")
    assert full_text(never).search("walrus") == []
    assert not (tmp_path / "never").exists()


def test_two_stores_in_one_folder_have_their_own_index(tmp_path):
    one, other = (open_store(f"sqlite:{tmp_path / name}") for name in ("refold.db", "other.db"))
    talk(one, "a", ["one walrus"])
    talk(other, "a", ["two zebras"])
    assert full_text(one).search("zebra") == [] and len(full_text(other).search("zebra")) == 1


def truncate(path):
    os.truncate(path, 5_000)


def overwrite(path):
    with open(path, "r+b") as file:
        file.seek(0)
        file.write(b"not a database at all " * 300)


def drop_table(path):
    connection = apsw.Connection(path)
    connection.execute("DROP TABLE documents")
    connection.close()


def older_version(path):
    connection = apsw.Connection(path)
    connection.pragma("user_version", 99)
    connection.close()


@pytest.mark.parametrize("harm", [os.unlink, truncate, overwrite, drop_table, older_version])
def test_a_lost_or_damaged_index_is_built_anew_and_said(store, harm):
    talk(store, "a", [f"walrus number {number}" for number in range(200)])
    first = full_text(store)
    assert len(first.search("walrus", limit=50)) == 50
    first.close()
    harm(first.path)
    again = full_text(store)
    assert len(again.search("walrus", limit=50)) == 50
    assert [name for name, _ in again.said] == ([] if harm is os.unlink else ["index-rebuilt"])


def test_damage_that_shows_in_the_middle_of_a_search_is_survived(store):
    talk(store, "a", [f"walrus number {number} " + "x" * 200 for number in range(300)])
    searcher = full_text(store)
    searcher.search("walrus")
    index = searcher._keeper.opened()
    index.connection.execute(
        "PRAGMA trusted_schema=ON; DELETE FROM documents_data WHERE id > 10"
    ).fetchall()
    assert len(searcher.search("walrus", limit=50)) == 50
    assert searcher.said[-1][0] == "index-rebuilt"


def test_a_database_of_another_program_is_left_alone(store):
    talk(store, "a", ["one walrus"])
    path = full_text(store).path
    other = apsw.Connection(path)
    other.execute("CREATE TABLE theirs(x); INSERT INTO theirs VALUES (1)")
    other.close()
    searcher = full_text(store)
    assert len(searcher.search("walrus")) == 1
    assert searcher.said[0][0] == "index-in-memory" and "another program" in searcher.said[0][1]
    with pytest.raises(Invalid):
        searcher.rebuild()
    searcher.close()
    assert apsw.Connection(path).execute("SELECT x FROM theirs").get == 1


def test_a_locked_index_answers_with_what_it_has(store, monkeypatch):
    monkeypatch.setattr("refold.search.database.BUSY_MS", 1)
    talk(store, "a", ["one walrus"])
    searcher = full_text(store)
    assert len(searcher.search("walrus")) == 1
    other = apsw.Connection(searcher.path)
    other.execute("BEGIN IMMEDIATE")
    talk(store, "a", ["two walrus"])
    assert seqs(searcher.search("walrus")) == [1]
    assert searcher.said[-1][0] == "index-behind" and "busy" in searcher.said[-1][1]
    other.execute("ROLLBACK")
    assert len(searcher.search("walrus")) == 2


def test_a_read_only_index_answers_with_what_it_has(store, monkeypatch):
    talk(store, "a", ["one walrus"])
    first = full_text(store)
    first.search("walrus")
    first.close()
    talk(store, "a", ["two walrus"])
    searcher = full_text(store)
    # Root may write any file, so the mode of the file shows nothing; what counts is what SQLite
    # says of it.
    monkeypatch.setattr("refold.search.index.Index.is_writable", False)
    assert seqs(searcher.search("walrus")) == [1]
    assert searcher.said[-1] == (
        "index-behind",
        f"{searcher.path} is read-only; the newest messages may be missing",
    )


def test_an_index_that_cannot_be_made_is_kept_in_memory(tmp_path):
    store = open_store(f"sqlite:{tmp_path / 'refold.db'}")
    talk(store, "a", ["one walrus"])
    os.mkdir(tmp_path / "index.db")
    searcher = full_text(store)
    assert len(searcher.search("walrus")) == 1
    assert "in memory" in searcher.said[0][1]


def test_catching_up_is_bounded_and_goes_on_where_it_was(store):
    talk(store, "a", [f"walrus number {number}" for number in range(50)])
    searcher = full_text(store)
    assert searcher.catch_up(20) == 30
    assert searcher.catch_up(20) == 10
    assert searcher.catch_up(20) == 0
    assert len(searcher.search("walrus", limit=100)) == 50


def test_a_search_that_could_not_take_in_everything_says_so(store, monkeypatch):
    monkeypatch.setattr("refold.search.searcher.SEARCH_EVENTS", 10)
    talk(store, "a", [f"walrus number {number}" for number in range(25)])
    searcher = full_text(store)
    assert len(searcher.search("walrus", limit=100)) == 10
    assert searcher.said[-1][0] == "index-behind" and "15 events" in searcher.said[-1][1]


def test_a_rebuild_tells_how_far_it_is(store, monkeypatch):
    monkeypatch.setattr("refold.search.searcher.BATCH_EVENTS", 500)
    talk(store, "a", [f"walrus number {number}" for number in range(1_200)])
    steps: list[tuple[int, int]] = []
    searcher = full_text(store)
    assert searcher.rebuild(lambda done, total: steps.append((done, total))) == 1_200
    assert steps == [(500, 1_200), (1_000, 1_200), (1_200, 1_200)]
    assert searcher.rebuild() == 1_200


def test_two_searchers_on_one_index_take_every_event_in_once(place):
    stores = [open_store(place), open_store(place)]
    talk(stores[0], "a", [f"walrus number {number}" for number in range(40)])
    one, other = (full_text(store) for store in stores)
    one.catch_up(15)
    other.catch_up(15)
    one.catch_up(100)
    assert other.catch_up(100) == 0
    assert len(other.search("walrus", limit=100)) == len(one.search("walrus", limit=100)) == 40


def test_a_process_that_was_forked_opens_an_index_of_its_own(store):
    talk(store, "a", ["one walrus"])
    searcher = full_text(store)
    searcher.search("walrus")
    child = os.fork()
    if child == 0:
        found = len(searcher.search("walrus")) == 1
        os._exit(0 if found else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert len(searcher.search("walrus")) == 1


def test_threads_share_a_searcher(store):
    talk(store, "a", [f"walrus number {number}" for number in range(300)])
    searcher = full_text(store)
    with ThreadPoolExecutor(4) as pool:
        found = list(
            pool.map(lambda number: searcher.search(f'"walrus number {number}"')[0].seq, range(40))
        )
    assert found == list(range(1, 41))


def test_closing_catches_up_where_somebody_has_searched_before(store):
    talk(store, "a", ["one walrus"])
    never = full_text(store)
    never.close()
    assert not os.path.exists(never.path)
    first = full_text(store)
    first.search("walrus")
    first.close()
    talk(store, "a", ["two walrus"])
    full_text(store).close(conversation="a")
    reader = apsw.Connection(first.path, flags=apsw.SQLITE_OPEN_READONLY)
    assert reader.execute("SELECT head FROM conversations").get == 2


def test_a_fork_that_erases_what_it_shares_takes_it_from_the_index(store):
    talk(store, "a", ["the password is walrusique", "more"])
    store.fork("a", 2, "b")
    searcher = full_text(store)
    assert len(searcher.search("walrusique")) == 1
    store.erase("b", 1)
    talk(store, "b", []).append([Draft(body=Erase(seq=1), by="test")])
    searcher.catch_up()
    searcher.close()
    assert b"walrusiqu" not in Path(searcher.path).read_bytes()


def test_a_damaged_log_does_not_keep_the_others_from_being_found(store, monkeypatch):
    talk(store, "a", ["one walrus"])
    talk(store, "b", ["two walrus"])
    read = store.read

    def damaged(conversation, **given):
        if conversation == "a":
            raise Corrupt("a: event 1 is not a message", hint="refold verify")
        return read(conversation, **given)

    monkeypatch.setattr(store, "read", damaged)
    searcher = full_text(store)
    assert [hit.conversation for hit in searcher.search("walrus")] == ["b"]
    assert searcher.said == [("index-behind", "a cannot be read: a: event 1 is not a message")]


# --- what is asked wrongly ---


@pytest.mark.parametrize(
    ("query", "given"),
    [
        ("", {}),
        ("  \n", {}),
        (None, {}),
        ("x", {"limit": -1}),
        ("x", {"limit": 5_000}),
        ("x", {"role": "boss"}),
        ("x", {"kind": "usage"}),
        ("x", {"since": "yesterday"}),
        ("x", {"conversations": "a"}),
    ],
)
def test_bad_input_is_refused_with_a_hint(query, given):
    with pytest.raises(Invalid) as error:
        full_text(memory()).search(query, **given)
    assert error.value.hint


@pytest.mark.parametrize(
    "query",
    [
        '"',
        '""',
        '"unbalanced',
        "*",
        "a*",
        "NEAR(a b)",
        "-a",
        "a AND",
        "text:a",
        "^a",
        "(",
        "\0",
        "a\0b",
        "\ud800",
        "'; DROP",
        "a" * 100_000,
        "word " * 20_000,
        "{text parts}: a",
        "a OR NOT b",
        "🙂",
        "…",
    ],
)
def test_no_query_breaks_the_search(query):
    store = memory()
    talk(store, "a", ["a plain walrus", "text near a b or not"])
    searcher = full_text(store)
    for newest in (False, True):
        assert isinstance(searcher.search(query, newest=newest), list)
    assert searcher.said == []


def test_content_that_sqlite_could_misread_is_indexed_as_text():
    store = memory()
    talk(
        store,
        "a",
        [
            "nul\0nul walrus",
            "'; DROP TABLE documents; --",
            "\u202egnp.exe",
            "x" * 300_000 + " walrus",
        ],
    )
    assert set(seqs(full_text(store).search("walrus"))) == {1, 4}
    assert seqs(full_text(store).search("drop documents"))[0] == 2


# --- vectors ---


def test_an_embedder_finds_what_was_said_in_other_words():
    store = memory()
    talk(store, "a", ["the engine is broken", "we had noodles", "who knows", "the token is gone"])
    searcher = Searcher(store, embedder=Topics())
    assert searcher.search("vehicle")[0].seq == 1
    assert searcher.search("supper")[0].seq == 2
    assert searcher.said == []


def test_something_that_is_near_nothing_finds_nothing():
    store = memory()
    talk(store, "a", ["the engine is broken", "we had noodles"])
    assert Searcher(store, embedder=Topics()).search("zzzz") == []


class Anagrams:
    """An embedder without a threshold: texts of the same letters are one, all others are near
    only by chance."""

    def __call__(self, texts: list[str]) -> list[list[float]]:
        letters = [random.Random("".join(sorted(text))) for text in texts]
        return [[one.gauss(0, 1) for _ in range(64)] for one in letters]


def test_without_a_threshold_only_what_stands_out_from_chance_is_near():
    """Something is always nearest; that is no answer to nonsense."""
    store = memory()
    names = [
        first + second + third for first in "bcdfgh" for second in "aeiou" for third in "klmnprs"
    ]
    talk(store, "a", [*names, "listen"])
    searcher = Searcher(store, embedder=Anagrams())
    assert seqs(searcher.search("silent")) == [len(names) + 1]
    answered = [name for name in names if searcher.search(f"x{name}x")]
    assert len(answered) <= len(names) // 10


def test_an_embedder_that_fails_leaves_the_full_text():
    def broken(texts):
        raise RuntimeError("no model today")

    store = memory()
    talk(store, "a", ["the engine is broken", "we had noodles"])
    searcher = Searcher(store, embedder=broken)
    assert seqs(searcher.search("engine"))[0] == 1
    assert searcher.said[0][0] == "embedder-failed" and "no model today" in searcher.said[0][1]
    searcher.search("engine")
    assert len(searcher.said) == 1  # it is left alone for a while


@pytest.mark.parametrize(
    "vectors", [[[1.0]], [], [[float("nan")], [1.0]], "text", [[1.0], [1.0, 2.0]]]
)
def test_an_embedder_that_gives_nonsense_leaves_the_full_text(vectors):
    store = memory()
    talk(store, "a", ["the engine is broken", "we had noodles"])
    searcher = Searcher(store, embedder=lambda texts: vectors)
    assert seqs(searcher.search("engine"))[0] == 1
    assert searcher.said[0][0] == "embedder-failed"


def test_another_embedder_makes_the_vectors_anew(store):
    """G-45, for conversations"""
    talk(store, "a", ["the engine is broken", "we had noodles"])
    first = Searcher(store, embedder=Topics())
    first.search("vehicle")
    first.close()
    other = Topics()
    other.name = "topics-2"
    again = Searcher(store, embedder=other)
    assert again.search("vehicle")[0].seq == 1
    assert again.said[0][0] == "embedder-changed" and "the engine is broken" in other.asked


def test_an_embedder_whose_vectors_change_their_length_is_noticed_and_they_are_made_anew(
    store, monkeypatch
):
    monkeypatch.setattr("refold.search.upkeep.EMBEDDER_PAUSE_S", 0.0)
    talk(store, "a", ["the engine is broken", "we had noodles"])
    embedder = Topics()
    searcher = Searcher(store, embedder=embedder)
    searcher.search("vehicle")
    Topics.WORDS, kept = (*Topics.WORDS, ("walrus",)), Topics.WORDS
    try:
        assert isinstance(searcher.search("vehicle"), list)
        assert (
            searcher.said[-1][0] == "embedder-failed"
            and "of 5 numbers, before of 4" in searcher.said[-1][1]
        )
        talk(store, "a", ["a new engine"])
        assert set(seqs(searcher.search("vehicle", limit=2))) == {1, 3}
        assert len(searcher.said) == 1
    finally:
        Topics.WORDS = kept


def test_vectors_are_kept_and_not_made_twice(store):
    talk(store, "a", ["the engine is broken", "we had noodles"])
    first = Searcher(store, embedder=Topics())
    first.search("vehicle")
    first.close()
    embedder = Topics()
    assert Searcher(store, embedder=embedder).search("vehicle")[0].seq == 1
    assert embedder.asked == ["vehicle"]


def test_the_installed_embedder_answers_without_a_network(monkeypatch):
    """The extra `semantic`: its weights lie in the package."""
    import socket

    def refused(*_, **__):
        raise AssertionError("nothing may be downloaded")

    monkeypatch.setattr(socket, "create_connection", refused)
    monkeypatch.setattr(socket.socket, "connect", refused)
    store = memory()
    talk(
        store, "a", ["My automobile needs new brakes.", "We cooked pasta.", "The tests are green."]
    )
    searcher = Searcher(store)
    assert searcher.search("car repair")[0].seq == 1
    assert searcher.said == []


def test_what_is_no_embedder_is_refused():
    with pytest.raises(Invalid):
        Searcher(memory(), embedder="text-embedding-ada-002")  # type: ignore[arg-type]


def test_numpy_is_not_imported_without_an_embedder():
    import subprocess
    import sys

    code = (
        "import sys, refold; from refold.search.searcher import Searcher\n"
        "c = refold.open('a', store='memory:'); c.append({'role': 'user', 'content': 'walrus'})\n"
        "assert Searcher(c._open.store, embedder=False).search('walrus'); print('numpy' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_a_rebuild_that_cannot_remove_the_file_says_why(store, monkeypatch):
    talk(store, "a", ["one walrus"])
    searcher = full_text(store)
    searcher.search("walrus")

    def refused(path):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("refold.search.database.os.unlink", refused)
    with pytest.raises(Unavailable) as error:
        searcher.rebuild()
    assert "Permission denied" in str(error.value)


def test_a_long_log_without_a_bookmark_is_not_read_to_say_whether_a_message_is_hidden(monkeypatch):
    store = memory()
    talk(store, "a", ["walrus", *["more"] * 10])
    assert full_text(store).search("walrus")[0].hidden is False
    monkeypatch.setattr("refold.search.searcher.TAIL_EVENTS", 5)
    assert full_text(store).search("walrus")[0].hidden is None
