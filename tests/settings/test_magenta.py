"""The block of the Magenta design loads as it is, means what it says, and answers mistakes
(G-61, G-60)."""

from __future__ import annotations

import json

import pytest

import refold
from refold import dialects
from refold.errors import Invalid
from refold.settings.sources import loaded, remarks

# The block as the design has it.
SOURCE = """{"context_management": {"strategy": "importance_based", "max_messages": 50, "summarize_threshold": 40,
"importance_threshold": 0.6, "checkpoint_interval_messages": 10, "semantic_memory": {"enabled": true,
"embedding_model": "text-embedding-ada-002", "vector_store": "chroma", "similarity_threshold": 0.7}}}"""
WORDS = "nothing in particular, said at some length so that it counts for something on the page; "


def block(**changed) -> dict:
    return {"context_management": {**json.loads(SOURCE)["context_management"], **changed}}


def test_the_sources_block_loads_and_what_stands_beside_it_wins(tmp_path):
    config, origins = loaded(block(), folder=tmp_path, environ={})
    assert config.ladder == ("importance", "gist", "hide") and config.messages_cap == 50
    assert config.checkpoint_every == 10 and config.strategy["importance"] == {"threshold": 0.6}
    assert origins["messages_cap"] == "arguments"
    assert (
        loaded({**block(), "messages_cap": 70}, folder=tmp_path, environ={})[0].messages_cap == 70
    )
    (tmp_path / "refold.toml").write_text('[context_management]\nstrategy = "summarization"\n')
    config, origins = loaded(folder=tmp_path, environ={})
    assert (
        config.messages_cap == 40
        and config.ladder[0] == "summarize"
        and origins["ladder"] == "refold.toml"
    )


def test_what_is_done_otherwise_is_said(tmp_path):
    (tmp_path / "refold.toml").write_text(
        '[context_management.semantic_memory]\nenabled = true\nembedding_model = "text-embedding-3-small"\n'
        "similarity_threshold = 0.5\n"
    )
    said = remarks(folder=tmp_path)
    assert len(said) == 1 and "on this machine" in said[0]
    heard = []
    context = refold.open("work", store="memory:", config=block())
    context.on("setting-unused", lambda notice: heard.append(notice.reason))
    context.append({"role": "user", "content": "hi"})
    assert [line.partition(" = ")[0].rpartition(".")[2] for line in heard] == [
        "embedding_model",
        "similarity_threshold",
    ]


def memory_block(**changed) -> dict:
    return block(semantic_memory={"enabled": True, **changed})


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, ("keep", "", "", None)),
        ({"vector_store": "chroma"}, ("keep", "", "chroma", None)),
        ({"vector_store": "ChromaDB"}, ("keep", "", "chroma", None)),
        ({"vector_store": "sqlite", "similarity_threshold": 0.4}, ("keep", "", "", 0.4)),
        ({"embedding_model": "text-embedding-ada-002"}, ("keep", "", "", None)),
        ({"embedding_model": "all-MiniLM-L6-v2"}, ("keep", "semantic-large", "", None)),
        (
            {"embedding_model": "sentence-transformers/all-MiniLM-L6-v2"},
            ("keep", "semantic-large", "", None),
        ),
        ({"embedding_model": "bert:/models/x"}, ("keep", "bert:/models/x", "", None)),
        ({"embedding_model": "none"}, ("keep", "off", "", None)),
        ({"enabled": False, "embedding_model": "whatever"}, ("off", "", "", None)),
    ],
)
def test_semantic_memory_is_mapped_to_our_settings(changed, expected, tmp_path):
    config, _ = loaded(memory_block(**changed), folder=tmp_path, environ={})
    assert expected == (
        config.memory_extract,
        config.memory_embedder,
        config.memory_vectors,
        config.memory_threshold,
    )


@pytest.mark.parametrize("name", ["pinecone", "qdrant", "faiss", "Weaviate", "x" * 500])
def test_a_vector_store_that_nobody_made_known_is_refused(name):
    with pytest.raises(Invalid) as raised:
        refold.open("work", store="memory:", config=memory_block(vector_store=name))
    assert "register" in raised.value.hint


@pytest.mark.parametrize("name", ["word2vec", "ada", "gpt-4o", "embedder"])
def test_an_embedding_model_that_is_not_known_says_what_to_install(name, tmp_path):
    with pytest.raises(Invalid) as raised:
        loaded(memory_block(embedding_model=name), folder=tmp_path, environ={})
    assert "pip install" in raised.value.hint and name in raised.value.message


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"summarize_threshold": 60}, "above max_messages"),
        ({"max_mesages": 5}, "max_messages"),
        ({"semantic_memory": {"enabeld": True}}, "enabled"),
        ({"max_messages": "fifty"}, "context_management.max_messages"),
        ({"semantic_memory": {"enabled": "yes"}}, "context_management.semantic_memory.enabled"),
        ({"strategy": "magic"}, "importance_based"),
        ({"importance_threshold": 1.5}, "between 0 and 1"),
        ({"checkpoint_interval_messages": 0}, "positive"),
    ],
)
def test_a_mistake_names_its_place(changed, words, tmp_path):
    with pytest.raises(Invalid) as raised:
        loaded(block(**changed), folder=tmp_path, environ={})
    assert words in f"{raised.value} {raised.value.hint}"
    with pytest.raises(Invalid):
        loaded({"context_management": 7}, folder=tmp_path, environ={})


@pytest.mark.parametrize(
    "strategy", ["sliding_window", "summarization", "importance_based", "hierarchical"]
)
def test_a_session_of_100_messages_stays_below_its_number_and_has_its_checkpoints(strategy):
    """G-60: compressed when over, a checkpoint every ten messages, every request valid."""
    compacted = []
    context = refold.open("work", store="memory:", model="gpt-4o", config=block(strategy=strategy))
    context.on("compaction-complete", compacted.append)
    most = 0
    for n in range(100):
        context.append(
            {"role": "user" if n % 2 == 0 else "assistant", "content": f"message {n}: " + WORDS * 3}
        )
        request = context.request("openai_chat")
        assert dialects.dialect("openai_chat").check(request) == []
        most = max(most, len(request["messages"]))
    assert most <= 51 and 1 <= len(compacted) <= 10
    assert len(context.view.checkpoints) == 10 and context.view.checkpoints["message-50"] > 0
    context.close()


RULE = "IMPORTANT: we decided that payments must never touch the legacy ledger; use gateway v2."


def _talk(context: refold.Context, words: str, count: int = 60) -> None:
    texts = ["Build the shop front end", "Starting.", RULE, "Understood."]
    texts += [f"message {n}: the cart page and its button {n}. {words}" for n in range(count)]
    for n, text in enumerate(texts):
        context.append({"role": "assistant" if n % 2 else "user", "content": text})
        context.request("openai_chat")


STRATEGIES = ["sliding_window", "summarization", "importance_based", "hierarchical"]


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("model", ["gpt-4o", "claude-sonnet-5-5"])
def test_a_nearly_empty_window_is_left_alone(strategy: str, model: str) -> None:
    """G-10, G-11, G-12."""
    context = refold.open("work", store="memory:", model=model, config=block(strategy=strategy))
    _talk(context, "")
    assert len(context.view.slots) == 64 and not any(slot.standin for slot in context.view.slots)


@pytest.mark.parametrize(
    ("strategy", "least", "most"),
    [
        ("sliding_window", 40, 42),
        ("summarization", 10, 12),
        ("importance_based", 12, 50),
        ("hierarchical", 12, 20),
    ],
)
def test_a_strategy_does_to_the_messages_what_its_source_says(
    strategy: str, least: int, most: int
) -> None:
    """G-10, G-11, G-12: the last 40 stay, all but the last 10 are summarized, what matters stays,
    and a page is never halved because it has a message too many."""
    context = refold.open("work", store="memory:", model="gpt-4o", config=block(strategy=strategy))
    done: list[refold.Receipt] = []
    context.on("compaction-complete", lambda notice: done.append(notice.receipt))
    _talk(context, WORDS * 4)
    assert least <= done[0].messages_after <= most
    if strategy != "sliding_window":
        assert "never touch the legacy" in str(context.request("openai_chat"))


@pytest.mark.parametrize("name", ["strategy", "max_messages", "\ud800"])
def test_text_that_utf_8_cannot_represent_is_refused_in_our_words(name: str) -> None:
    with pytest.raises(refold.Invalid) as error:
        refold.open("x", store="memory:", config={"context_management": {name: "\ud800"}})
    assert "codec" not in error.value.message
