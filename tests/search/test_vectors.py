"""What an embedder adds to the full text, and that one that fails takes nothing away."""

from __future__ import annotations

import random
import subprocess
import sys

import numpy
import pytest

from refold.errors import Invalid
from refold.search.rank import NEIGHBOURS
from refold.search.searcher import Searcher
from refold.search.vector_arithmetic import Numbers
from tests.search.talks import Topics, full_text, memory, seqs, talk


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
            searcher.said[-1][0] == "embedder-changed"
            and "have 5 numbers now, not 4" in searcher.said[-1][1]
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
    code = (
        "import sys, refold; from refold.search.searcher import Searcher\n"
        "store = refold.open_store('memory:')\n"
        "refold.open('a', store=store).append({'role': 'user', 'content': 'walrus'})\n"
        "assert Searcher(store, embedder=False).search('walrus'); print('numpy' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_completing_ends_where_no_vector_can_be_written(store, monkeypatch):
    talk(store, "a", ["a vehicle", "a supper"])
    full_text(store).complete()
    monkeypatch.setattr("refold.search.index.Index.is_writable", False)
    assert Searcher(store, embedder=Topics()).complete() == 0


WITHOUT_NUMPY = """
import sys
sys.modules.update(dict.fromkeys(["numpy", "wordllama", "tokenizers", "safetensors"]))
import refold

def embed(texts):
    return [[float("car" in text or "engine" in text), float("soup" in text), 0.1] for text in texts]

context = refold.open("a", store="memory:", embedder=embed)
for text in ("the engine is broken", "soup for all", "who knows"):
    context.append({"role": "user", "content": text})
notices = []
context.on("embedder-failed", notices.append)
print([hit.seq for hit in context.search("engine")], context.search("car"))
print(notices)
memory = context.memory
entry = memory.store("soup for all")
print([found.content for found in memory.retrieve("soup")], memory.near(entry.id))
print(memory.forget(entry.id).events, memory.retrieve("soup"))
plain = refold.open_memory(store="memory:")
plain.store("soup for all")
print([found.content for found in plain.retrieve("soup")], plain.said)
"""


def test_without_numpy_an_embedder_is_reported_and_everything_else_works():
    code = [sys.executable, "-c", WITHOUT_NUMPY]
    done = subprocess.run(code, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    found, notice, remembered, forgotten, plain = done.stdout.splitlines()
    assert found == "[1] []"
    assert "embedder-failed" in notice and "install the extra semantic" in notice
    assert remembered == "['soup for all'] []"
    assert forgotten == "1 []"
    assert plain == "['soup for all'] []"


CHANCE = random.Random(1)
ROWS = [[CHANCE.gauss(0, 1) for _ in range(12)] for _ in range(40)]


def test_a_short_entry_counts_with_its_short_neighbours():
    """By the definition: the best piece, or the first piece with shares of those beside it."""
    ids = [n if n < 10 else n + 5 for n in range(20)]
    short = [n % 5 != 4 for n in range(20)]
    numbers = Numbers()
    rows = numbers.rows(ROWS, 40)
    query = numbers.unit_sum(rows, [float(n % 3) for n in range(40)])
    near = numbers.pieces(ids, numbers.blobs(rows, [2] * 20), 12, short).nearness(query)

    units = rows / numpy.linalg.norm(rows, axis=1, keepdims=True)
    expected = []
    for at, id in enumerate(ids):
        blend = units[2 * at].copy()
        for step, share in NEIGHBOURS:
            if short[at] and id + step in ids and short[ids.index(id + step)]:
                blend += share * units[2 * ids.index(id + step)]
        cosines = units[2 * at] @ query, units[2 * at + 1] @ query
        expected.append(max(*cosines, blend @ query / numpy.linalg.norm(blend)))
    assert near.values == pytest.approx(expected, abs=2e-3)
    assert near.mean == pytest.approx(numpy.mean(expected), abs=2e-3)
    assert near.deviation == pytest.approx(numpy.std(expected), abs=2e-3)


@pytest.mark.parametrize(
    "given",
    [[], [[1.0]], [[1.0], [1.0, 2.0]], [[1.0], [float("nan")]], [["a"], ["b"]], None, 7, [[], []],
     [[float("inf")], [1.0]], "ab", [None, None]],
)  # fmt: skip
def test_what_is_no_vectors_costs_the_vectors_only(given):
    store = memory()
    talk(store, "a", ["the engine is broken", "we had noodles"])
    searcher = Searcher(store, embedder=lambda texts: given)
    assert seqs(searcher.search("engine"))[0] == 1
    assert [name for name, _ in searcher.said] == ["embedder-failed"]


def test_a_threshold_that_is_no_number_is_refused_when_it_is_given():
    class Odd(Topics):
        threshold = "high"

    with pytest.raises(Invalid, match="threshold"):
        Searcher(memory(), embedder=Odd())
