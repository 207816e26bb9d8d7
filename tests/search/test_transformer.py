"""A transformer in numpy says what the formulas say; its word groups are found by their meaning,
and where it cannot be had the full text answers."""

from __future__ import annotations

import contextlib
import sys
from math import erf, sqrt

import apsw
import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import refold
from refold.errors import Invalid, Unavailable
from refold.search import embedders, group_vectors, index_query, rank, upkeep, words
from refold.search.bert import GROUPS_MAX, Bert, gelu
from refold.search.database import MEMORY
from refold.search.embedders import Transformer
from refold.search.group_vectors import distinctive_text
from refold.search.index import EVERYWHERE
from refold.search.searcher import Searcher
from tests.search import models
from tests.search.talks import Topics, memory, seqs, talk


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return models.make_model(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def bert(folder):
    return Bert(folder)


# --- the model ---


def slowly(tokens: list[int], seed: int = 1) -> numpy.ndarray:
    """The same model by the book: one text, one head, one token at a time."""
    given = {name: one.astype(numpy.float64) for name, one in models.weights(seed).items()}

    def linear(name, row):
        return given[f"{name}.weight"] @ row + given[f"{name}.bias"]

    def norm(name, row):
        row = (row - row.mean()) / sqrt(row.var() + models.SHAPE["layer_norm_eps"])
        return row * given[f"{name}.weight"] + given[f"{name}.bias"]

    def looking(rows, layer):
        size = models.WIDTH // models.HEADS
        asked, offered, told = (
            [linear(f"{layer}.attention.self.{part}", row) for row in rows]
            for part in ("query", "key", "value")
        )
        for at in range(len(rows)):
            heads = []
            for head in range(models.HEADS):
                part = slice(head * size, (head + 1) * size)
                scores = numpy.array([asked[at][part] @ one[part] / sqrt(size) for one in offered])
                shares = numpy.exp(scores - scores.max())
                heads.append(
                    sum(share * one[part] for share, one in zip(shares / shares.sum(), told))
                )
            yield numpy.concatenate(heads)

    rows = [
        norm(
            "embeddings.LayerNorm",
            given["embeddings.word_embeddings.weight"][token]
            + given["embeddings.position_embeddings.weight"][at]
            + given["embeddings.token_type_embeddings.weight"][0],
        )
        for at, token in enumerate(tokens)
    ]
    for number in range(models.LAYERS):
        layer = f"encoder.layer.{number}"
        looked = [linear(f"{layer}.attention.output.dense", row) for row in looking(rows, layer)]
        rows = [
            norm(f"{layer}.attention.output.LayerNorm", one + row) for one, row in zip(looked, rows)
        ]
        wide = [linear(f"{layer}.intermediate.dense", row) for row in rows]
        bent = [row * 0.5 * (1 + numpy.array([erf(one / sqrt(2)) for one in row])) for row in wide]
        rows = [
            norm(f"{layer}.output.LayerNorm", linear(f"{layer}.output.dense", one) + row)
            for one, row in zip(bent, rows)
        ]
    return numpy.array(rows)


TOKENS = st.lists(st.integers(0, len(models.VOCABULARY) - 1), min_size=1, max_size=12)


@settings(max_examples=30, deadline=None)
@given(st.lists(TOKENS, min_size=1, max_size=5))
def test_the_vectors_of_tokens_are_those_of_the_formulas_alone_or_together(bert, texts):
    for tokens, rows in zip(texts, bert.token_vectors(texts)):
        assert rows == pytest.approx(slowly(tokens), abs=1e-3)


def test_gelu_is_exact_enough():
    numbers = numpy.linspace(-8, 8, 2_001, dtype=numpy.float32)
    exact = [0.5 * one * (1 + erf(one / sqrt(2))) for one in numbers.tolist()]
    assert gelu(numbers) == pytest.approx(exact, abs=2e-6)


@pytest.mark.parametrize(
    "shape", [{"model_type": "gpt2"}, {"hidden_act": "relu"}, {"num_hidden_layers": "many"}]
)
def test_another_kind_of_model_is_refused(tmp_path, shape):
    with pytest.raises(Unavailable, match=r"config\.json"):
        Bert(models.make_model(tmp_path, **shape))


# --- words and groups ---


def test_words_come_whole_and_without_punctuation(folder):
    words, rows = Transformer(folder).words_of("Abc, d. x")
    assert words == ["Abc", "d", "x"]
    assert numpy.linalg.norm(rows, axis=1) == pytest.approx([1, 1, 1], abs=1e-5)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.text(max_size=300) | st.sampled_from(["", "...", "\ud800", "\0", "a b c d " * 2_000]),
        max_size=6,
    )
)
def test_every_text_has_groups(folder, texts):
    grouped = Transformer(folder).grouped(texts)
    assert [1 <= len(rows) <= GROUPS_MAX for rows in grouped] == [True] * len(texts)
    assert all(numpy.isfinite(rows).all() for rows in grouped)


def test_a_group_is_three_words_and_more_in_a_long_text(folder):
    three, seven, long = Transformer(folder).grouped(["a b c", "a b c d e f g", "a " * 60])
    assert (len(three), len(seven), len(long)) == (1, 3, 20)
    model = Transformer(folder)
    assert len(model.grouped(["a " * 400])[0]) <= GROUPS_MAX


def test_a_text_has_one_vector_as_well(folder):
    [one, other] = Transformer(folder)(["a b", "c"])
    assert one.shape == other.shape == (models.WIDTH,)


def test_other_weights_have_another_name(folder, tmp_path):
    again, other = models.make_model(tmp_path / "a"), models.make_model(tmp_path / "b", seed=2)
    assert Transformer(folder).name == Transformer(again).name != Transformer(other).name


# --- search ---


def test_a_word_finds_what_means_the_same_in_a_long_message():
    store = memory()
    filler = "so then they went on and on about nothing at all"
    talk(
        store,
        "a",
        [f"{filler} noodles {filler}", "who knows", f"{filler} engine {filler}", *["hm"] * 20],
    )
    searcher = Searcher(store, embedder=models.TopicWords())
    assert searcher.search("vehicle")[0].seq == 3
    assert searcher.search("supper")[0].seq == 1
    assert searcher.said == []


def test_what_means_nothing_finds_nothing():
    store = memory()
    talk(store, "a", ["the engine is broken", "we had noodles", *["hm"] * 20])
    assert Searcher(store, embedder=models.TopicWords()).search("zzzz") == []


def test_groups_take_a_byte_a_number_and_are_made_once(store):
    talk(store, "a", ["the engine is broken", "we had noodles"])
    model = models.TopicWords()
    first = Searcher(store, embedder=model)
    first.search("vehicle")
    first.close()
    with contextlib.closing(apsw.Connection(first.path)) as index:
        rows = index.execute("SELECT pieces FROM vectors ORDER BY id").fetchall()
    sizes = [len(blob) for (blob,) in rows]
    assert sizes == [4 * 35, 3 * 35]
    Searcher(store, embedder=model).search("supper")
    assert model.read == ["the engine is broken", "we had noodles"]


def test_single_vectors_make_way_for_groups_and_back(store):
    talk(store, "a", ["the engine is broken", "we had noodles", *["hm"] * 20])
    for embedder in (Topics(), models.TopicWords(), Topics()):
        searcher = Searcher(store, embedder=embedder)
        assert searcher.search("vehicle")[0].seq == 1
        searcher.close()
        assert [name for name, _ in searcher.said] in ([], ["embedder-changed"])


def test_a_search_spends_a_while_on_vectors_and_says_what_is_left(monkeypatch):
    monkeypatch.setattr(upkeep, "SEARCH_VECTORS_S", 0.0)
    store = memory()
    talk(store, "a", ["the engine is broken", "we had noodles", *["hm"] * 20])
    searcher = Searcher(store, embedder=models.TopicWords())
    assert seqs(searcher.search("noodles"))[0] == 2
    assert (
        searcher.said[0][0] == "index-behind"
        and "22 entries have no vectors" in searcher.said[0][1]
    )
    monkeypatch.undo()
    searcher.complete()
    assert searcher.search("vehicle")[0].seq == 1 and len(searcher.said) == 1


def test_a_model_that_cannot_be_read_leaves_the_full_text(tmp_path):
    store = memory()
    talk(store, "a", ["the engine is broken", "we had noodles"])
    models.make_model(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"\0" * 100)
    for place in (tmp_path, tmp_path / "none"):
        searcher = Searcher(store, embedder=f"bert:{place}")
        assert seqs(searcher.search("engine"))[0] == 1
        assert [name for name, _ in searcher.said] == ["embedder-failed"]


def test_without_its_packages_it_says_what_to_install(folder, monkeypatch):
    monkeypatch.setattr("refold.search.embedders.find_spec", lambda name: None)
    with pytest.raises(Unavailable, match="needs the package numpy"):
        Transformer(folder).check()


def test_a_real_folder_is_searched_from_the_front_door(folder):
    context = refold.open("talk", store="memory:", embedder=f"bert:{folder}")
    for text in ("a b c", "d e f", "g h i"):
        context.append({"role": "user", "content": text})
    assert context.search("d e f")[0].seq == 2


@pytest.mark.parametrize("given", ["bert", "onnx:folder", "", 7, [1]])
def test_what_names_no_embedder_is_refused(given):
    with pytest.raises(Invalid, match=r"^embedder is "):
        embedders.chosen(given)


def test_the_large_extra_is_taken_where_it_is_installed(tmp_path, monkeypatch):
    models.make_model(tmp_path / embedders.LARGE / "model")
    (tmp_path / embedders.LARGE / "__init__.py").write_text("raise ImportError('never imported')")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    chosen = embedders.chosen(None)
    assert isinstance(chosen, Transformer) and chosen.folder == tmp_path / embedders.LARGE / "model"


# --- the arithmetic ---


def test_the_words_that_are_common_leave_the_sentence_they_are_in():
    counts = {"caroline": 300, "adopt": 2}
    assert distinctive_text("What did Caroline adopt?", counts, 600) == "What did  adopt?"
    assert distinctive_text("Caroline", counts, 600) == "Caroline"
    assert (
        distinctive_text("What did Caroline adopt?", {"caroline": 4}, 6)
        == "What did Caroline adopt?"
    )


def test_a_neighbour_counts_less_and_only_beside_and_short():
    word = numpy.array([[1.0, 0.0]], dtype=numpy.float32)
    stored = group_vectors.blobs(
        [numpy.array([[1.0, 0.0]] if at == 5 else [[0.1, 1.0]]) for at in range(12)]
    )
    ids = [at if at < 9 else at + 3 for at in range(12)]
    near = (
        group_vectors.Groups(ids, stored, 2, [at != 7 for at in range(12)])
        .near_words(word, [2.0])
        .values
    )
    assert max(near) == near[5] > near[4] == near[3] > near[0]
    assert near[6] > near[4] and near[7] == near[0] == near[8]


def test_in_talk_groups_weigh_more_than_among_long_messages():
    long = "so then they went on and on about nothing at all " * 12
    weights = []
    for texts in (["the engine is broken", "hm"] * 6, [long, long] * 6, ["hm", long] * 6):
        store = memory()
        talk(store, "a", texts)
        searcher = Searcher(store, embedder=models.TopicWords())
        searcher.search("vehicle")
        vectors = searcher._vectors._vectors
        weights.append(vectors._weight(vectors._cached[1]))
    assert weights == pytest.approx(
        [
            rank.GROUP_WEIGHT_TALK,
            rank.GROUP_WEIGHT_WORK,
            (rank.GROUP_WEIGHT_TALK + rank.GROUP_WEIGHT_WORK) / 2,
        ]
    )


def test_who_is_named_counts_more_and_a_question_less():
    store = memory()
    talk(
        store,
        "a",
        ["Ann: noodles", "Bob: noodles", "Ann: who likes noodles?", *["Bob: hm", "Ann: hm"] * 3],
    )
    index_upkeep = upkeep.Upkeep(store, MEMORY, tell=lambda name, reason: None)
    index_upkeep.catch_up(100)
    for query, expected in (
        ("what did Bob have for supper", [0.0, rank.AUTHOR_LEANING, rank.QUESTION_LEANING]),
        ("what did Ann and Bob have", [0.0, 0.0, rank.QUESTION_LEANING]),
        ("noodles", [0.0, 0.0, 0.0]),
    ):
        with index_upkeep.index() as index:
            ids = [id for (id,) in index.rows("SELECT id FROM entries ORDER BY id")]
            asked = words.query_of(query, index.stems)
            leanings = index_query.leanings(index, asked, EVERYWHERE, ids)
        assert [leanings.get(id, 0.0) for id in ids[:3]] == expected
