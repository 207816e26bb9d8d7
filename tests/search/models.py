"""Small made-up transformers: one with weights in files, and one that knows topics."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy
from safetensors.numpy import save_file
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from refold.search.embedders import Transformer
from tests.search.talks import Topics

CHANCE_NUMBERS = 32
WIDTH, WIDE, HEADS, LAYERS, PLACES = 12, 20, 3, 2, 64
VOCABULARY = [
    "[UNK]",
    "[CLS]",
    "[SEP]",
    *"abcdefghijklmnopqrstuvwxyz",
    *map("##{}".format, "abcde"),
    ".",
    ",",
]
SHAPE = {
    "model_type": "bert",
    "hidden_act": "gelu",
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "layer_norm_eps": 1e-12,
    "max_position_embeddings": PLACES,
}


def make_model(folder: Path, *, seed: int = 1, **shape: object) -> Path:
    """A folder with a model of two layers and an alphabet for a vocabulary."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(SHAPE | shape))
    save_file(weights(seed), str(folder / "model.safetensors"))
    ids = {token: at for at, token in enumerate(VOCABULARY)}
    tokenizer = Tokenizer(models.WordPiece(ids, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


def weights(seed: int) -> dict[str, numpy.ndarray]:
    chance = numpy.random.default_rng(seed)
    sizes = {
        "embeddings.word_embeddings.weight": (len(VOCABULARY), WIDTH),
        "embeddings.position_embeddings.weight": (PLACES, WIDTH),
        "embeddings.token_type_embeddings.weight": (2, WIDTH),
        **_norm("embeddings.LayerNorm"),
    }
    for number in range(LAYERS):
        layer = f"encoder.layer.{number}"
        for part in ("query", "key", "value"):
            sizes |= _linear(f"{layer}.attention.self.{part}", WIDTH, WIDTH)
        sizes |= _linear(f"{layer}.attention.output.dense", WIDTH, WIDTH)
        sizes |= _norm(f"{layer}.attention.output.LayerNorm")
        sizes |= _linear(f"{layer}.intermediate.dense", WIDE, WIDTH)
        sizes |= _linear(f"{layer}.output.dense", WIDTH, WIDE)
        sizes |= _norm(f"{layer}.output.LayerNorm")
    return {name: chance.normal(size=size).astype(numpy.float32) for name, size in sizes.items()}


def _linear(name: str, out: int, given: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}.weight": (out, given), f"{name}.bias": (out,)}


def _norm(name: str) -> dict[str, tuple[int, ...]]:
    return {f"{name}.weight": (WIDTH,), f"{name}.bias": (WIDTH,)}


class TopicWords(Transformer):
    """Knows the topics of `Topics`, word by word; any other word is near nothing."""

    name = "topic-words"

    def __init__(self) -> None:
        super().__init__(Path("nowhere"), threshold=0.6)
        self.read: list[str] = []

    def check(self) -> None:
        """There is nothing to miss."""

    def grouped(self, texts):
        self.read += texts
        return [self.words_of(text)[1] for text in texts]

    def words_of(self, text):
        words = text.lower().split() or [text]
        return words, numpy.array([self._row(word) for word in words], dtype=numpy.float32)

    def _row(self, word: str) -> list[float]:
        topics = [float(word in topic) for topic in Topics.WORDS]
        if any(topics):
            return topics + [0.0] * CHANCE_NUMBERS
        chance = random.Random(word)
        row = numpy.array([0.0] * len(topics) + [chance.gauss(0, 1) for _ in range(CHANCE_NUMBERS)])
        return list(row / numpy.linalg.norm(row))
