"""A small BERT in numpy: turns text into a vector for every token, word or group of words.

It computes the parts of the model that sentence encoders use, from the files in which they are
published: `config.json`, `model.safetensors` and `tokenizer.json`. The tokens of a batch are
concatenated without padding; only attention looks at one text at a time. Imported late, because
numpy is optional. Neighbours: `embedders.Transformer` loads it; docs/decisions/0028 says why it is
ours.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from importlib.util import find_spec
from math import sqrt
from pathlib import Path
from typing import Any

import numpy
from msgspec import Struct
from safetensors.numpy import load_file
from tokenizers import Tokenizer

from refold import decoding
from refold.errors import Unavailable
from refold.search.vector_arithmetic import units

GROUP_WORDS, GROUPS_MAX = 3, 24
TOKENS_MAX, CHARS_MAX = 256, 1_000
BATCH_TEXTS = 16
# The error function by five terms, good to 1.5e-7 (Abramowitz and Stegun, 7.1.26).
_ERF_SLOPE = numpy.float32(0.3275911)
_ERF_TERMS = tuple(
    map(numpy.float32, (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592))
)
_HALF, _ROOT_HALF = numpy.float32(0.5), numpy.float32(sqrt(0.5))


class Shape(Struct, frozen=True, kw_only=True):
    """The fields of `config.json` that decide how the weights are used."""

    model_type: str
    hidden_act: str
    num_hidden_layers: int
    num_attention_heads: int
    layer_norm_eps: float
    max_position_embeddings: int
    position_embedding_type: str = "absolute"


class Bert:
    """The model and the tokenizer in a folder. Reads at most the first 1,000 characters of each
    text."""

    def __init__(self, folder: Path) -> None:
        self.shape = _shape(folder / "config.json")
        weights = load_file(str(folder / "model.safetensors"))
        self._weights = {
            name.removeprefix("bert."): array.astype(numpy.float32, copy=False)
            for name, array in weights.items()
        }
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(min(TOKENS_MAX, self.shape.max_position_embeddings))

    # --- texts ---

    def text_vectors(self, texts: list[str]) -> list[Any]:
        """One vector for each text: the mean of its tokens' vectors."""
        return [vectors.mean(axis=0) for _, _, vectors in self._read(texts)]

    def group_rows(self, texts: list[str]) -> list[Any]:
        """For each text a row for every three words, or more words per row in a long text: their
        mean, of length one."""
        rows = []
        for _, words in self.word_rows(texts):
            size = max(GROUP_WORDS, -(-len(words) // GROUPS_MAX))
            starts = numpy.arange(0, len(words), size)
            rows.append(units(numpy.add.reduceat(words, starts, axis=0)))
        return rows

    def word_rows(self, texts: list[str]) -> list[tuple[list[str], Any]]:
        """The words of each text, and a row of length one for each word. A text without words
        counts as one word."""
        out = []
        for text, encoded, vectors in self._read(texts):
            tokens: dict[int, list[int]] = {}
            for at, number in enumerate(encoded.word_ids):
                if number is not None:
                    tokens.setdefault(number, []).append(at)
            words, rows = [], []
            for places in tokens.values():
                word = text[encoded.offsets[places[0]][0] : encoded.offsets[places[-1]][1]]
                if any(map(str.isalnum, word)):
                    words.append(word)
                    rows.append(vectors[places].sum(axis=0))
            if not words:
                words, rows = [text], [vectors.mean(axis=0)]
            out.append((words, units(numpy.array(rows))))
        return out

    def _read(self, texts: list[str]) -> list[tuple[str, Any, Any]]:
        """Each text with its tokens and their vectors. Texts of similar length share a batch."""
        texts = [text[:CHARS_MAX].encode("utf-8", "replace").decode() for text in texts]
        encoded = self._tokenizer.encode_batch(texts)
        order = sorted(range(len(encoded)), key=lambda at: len(encoded[at].ids))
        vectors: dict[int, Any] = {}
        with _one_thread():
            for start in range(0, len(order), BATCH_TEXTS):
                places = order[start : start + BATCH_TEXTS]
                batch = self.token_vectors([encoded[at].ids for at in places])
                vectors.update(zip(places, batch))
        return [(text, encoded[at], vectors[at]) for at, text in enumerate(texts)]

    # --- tokens ---

    def token_vectors(self, texts: Sequence[Sequence[int]]) -> list[Any]:
        """For each text, given as token ids, a row for every token."""
        cuts = numpy.cumsum([len(tokens) for tokens in texts])[:-1]
        tokens = numpy.concatenate([numpy.asarray(one, dtype=numpy.int64) for one in texts])
        positions = numpy.concatenate([numpy.arange(len(one)) for one in texts])
        vectors = self._weights["embeddings.word_embeddings.weight"][tokens]
        vectors += self._weights["embeddings.position_embeddings.weight"][positions]
        vectors += self._weights["embeddings.token_type_embeddings.weight"][0]
        vectors = self._normed("embeddings.LayerNorm", vectors)
        for number in range(self.shape.num_hidden_layers):
            layer = f"encoder.layer.{number}"
            mixed = self._attention(f"{layer}.attention.self", vectors, cuts)
            mixed = self._linear(f"{layer}.attention.output.dense", mixed)
            vectors = self._normed(f"{layer}.attention.output.LayerNorm", mixed + vectors)
            wide = gelu(self._linear(f"{layer}.intermediate.dense", vectors))
            narrow = self._linear(f"{layer}.output.dense", wide)
            vectors = self._normed(f"{layer}.output.LayerNorm", narrow + vectors)
        return numpy.split(vectors, cuts)

    def _attention(self, name: str, vectors: Any, cuts: Any) -> Any:
        """Mixes each token with the tokens of its own text, head by head."""
        heads = self.shape.num_attention_heads
        queries, keys, values = (
            self._linear(f"{name}.{kind}", vectors)
            .reshape(len(vectors), heads, -1)
            .transpose(1, 0, 2)
            for kind in ("query", "key", "value")
        )
        queries *= numpy.float32(1 / sqrt(queries.shape[-1]))
        mixed = []
        for query, key, value in zip(
            *(numpy.split(array, cuts, axis=1) for array in (queries, keys, values))
        ):
            scores = query @ key.transpose(0, 2, 1)
            scores -= scores.max(axis=-1, keepdims=True)
            numpy.exp(scores, out=scores)
            scores /= scores.sum(axis=-1, keepdims=True)
            mixed.append(scores @ value)
        return numpy.concatenate(mixed, axis=1).transpose(1, 0, 2).reshape(vectors.shape)

    def _linear(self, name: str, vectors: Any) -> Any:
        out = vectors @ self._weights[f"{name}.weight"].T
        out += self._weights[f"{name}.bias"]
        return out

    def _normed(self, name: str, vectors: Any) -> Any:
        """Rows of mean 0 and deviation 1, scaled and shifted by the learned weights."""
        out = vectors - vectors.mean(axis=1, keepdims=True)
        square = numpy.einsum("ij,ij->i", out, out) / out.shape[1]
        out /= numpy.sqrt(square + self.shape.layer_norm_eps, dtype=numpy.float32)[:, None]
        out *= self._weights[f"{name}.weight"]
        out += self._weights[f"{name}.bias"]
        return out


def _shape(path: Path) -> Shape:
    """The shape of a supported model; Unavailable for any other."""
    try:
        shape = decoding.convert(json.loads(path.read_bytes()), Shape)
    except (ValueError, OSError) as error:
        raise Unavailable(f"{path} does not describe a model: {error}") from error
    kind = (shape.model_type, shape.hidden_act, shape.position_embedding_type)
    if kind != ("bert", "gelu", "absolute"):
        raise Unavailable(f"{path}: {' '.join(kind)} is not a BERT", hint="such as all-MiniLM-L6")
    return shape


def gelu(given: Any) -> Any:
    """Each number times its share of the normal distribution."""
    size = numpy.abs(given)
    size *= _ROOT_HALF
    step = 1 / (1 + _ERF_SLOPE * size)
    tail = _ERF_TERMS[0] * step
    for term in _ERF_TERMS[1:]:
        tail += term
        tail *= step
    numpy.multiply(size, -size, out=size)
    tail *= numpy.exp(size, out=size)
    share = numpy.copysign(1 - tail, given)
    share += 1
    share *= given
    share *= _HALF
    return share


def _one_thread() -> AbstractContextManager[object]:
    """Keeps numpy to one thread: a text is too small for several, which would wait for each other
    and take three times as long on busy cores. Has no effect without the package threadpoolctl."""
    if find_spec("threadpoolctl") is None:
        return nullcontext()
    limits: AbstractContextManager[object] = import_module("threadpoolctl").threadpool_limits(1)
    return limits
