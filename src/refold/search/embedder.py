"""A transformer of the BERT kind in numpy: the tokens of texts in, a vector for every token out.

It computes what sentence encoders use of such a model, from the files that they are published as:
`config.json` and `model.safetensors`. The tokens of a batch lie one text after another, without
padding; only attention looks at texts one by one. Neighbour: `transformer` makes texts into tokens
and is the only one that imports this, because numpy is optional.

An embedder that is a small transformer: a text becomes a vector for every few words.

A transformer gives a vector for every word as it is meant where it stands. Their mean is the vector
of the text (`embedder(texts)`). Search compares more finely: every word of a query with groups of
three words of a message (`grouped`, `words_of`). The folder holds `config.json`,
`model.safetensors` and `tokenizer.json`, as sentence encoders are published; nothing is imported
before the first text, and nothing downloaded. Neighbours: `bert` computes, `group_vectors` keeps
and compares, `embedders` chooses.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from hashlib import blake2b
from importlib import import_module
from importlib.util import find_spec
from math import sqrt
from pathlib import Path
from typing import Any

import numpy
from msgspec import Struct
from safetensors.numpy import load_file

from refold import decoding
from refold.errors import Unavailable, install_hint

# The error function by five terms, good to 1.5e-7 (Abramowitz and Stegun, 7.1.26).
_ERF_SLOPE = numpy.float32(0.3275911)
_ERF_TERMS = tuple(
    map(numpy.float32, (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592))
)
_HALF, _ROOT_HALF = numpy.float32(0.5), numpy.float32(sqrt(0.5))


class Shape(Struct, frozen=True, kw_only=True):
    """What of the file `config.json` decides how the weights are used."""

    model_type: str
    hidden_act: str
    num_hidden_layers: int
    num_attention_heads: int
    layer_norm_eps: float
    max_position_embeddings: int
    position_embedding_type: str = "absolute"


class Bert:
    """The model in a folder."""

    def __init__(self, folder: Path) -> None:
        self.shape = _shape(folder / "config.json")
        weights = load_file(str(folder / "model.safetensors"))
        self._weights = {
            name.removeprefix("bert."): one.astype(numpy.float32, copy=False)
            for name, one in weights.items()
        }
        self.tokens_max = self.shape.max_position_embeddings

    def token_vectors(self, texts: Sequence[Sequence[int]]) -> list[Any]:
        """For each text, which is a list of token ids, a row for every token."""
        ends = numpy.cumsum([len(tokens) for tokens in texts])
        vectors = self._embedded(texts)
        for layer in range(self.shape.num_hidden_layers):
            vectors = self._layer(f"encoder.layer.{layer}", vectors, ends[:-1])
        return numpy.split(vectors, ends[:-1])

    def _embedded(self, texts: Sequence[Sequence[int]]) -> Any:
        """The tokens by what they are and by where they stand, before any layer."""
        tokens = numpy.concatenate([numpy.asarray(one, dtype=numpy.int64) for one in texts])
        places = numpy.concatenate([numpy.arange(len(one)) for one in texts])
        vectors = self._weights["embeddings.word_embeddings.weight"][tokens]
        vectors += self._weights["embeddings.position_embeddings.weight"][places]
        vectors += self._weights["embeddings.token_type_embeddings.weight"][0]
        return self._normed("embeddings.LayerNorm", vectors)

    def _layer(self, name: str, vectors: Any, cuts: Any) -> Any:
        looked = self._attention(f"{name}.attention.self", vectors, cuts)
        looked = self._linear(f"{name}.attention.output.dense", looked)
        vectors = self._normed(f"{name}.attention.output.LayerNorm", looked + vectors)
        wide = gelu(self._linear(f"{name}.intermediate.dense", vectors))
        narrow = self._linear(f"{name}.output.dense", wide)
        return self._normed(f"{name}.output.LayerNorm", narrow + vectors)

    def _attention(self, name: str, vectors: Any, cuts: Any) -> Any:
        """What every token takes from the tokens of its own text, head by head."""
        asked, offered, told = (
            self._heads(self._linear(f"{name}.{part}", vectors))
            for part in ("query", "key", "value")
        )
        asked *= numpy.float32(1 / sqrt(asked.shape[-1]))
        parts = (numpy.split(one, cuts, axis=1) for one in (asked, offered, told))
        taken = [
            _softmax(queries @ keys.transpose(0, 2, 1)) @ values
            for queries, keys, values in zip(*parts)
        ]
        return numpy.concatenate(taken, axis=1).transpose(1, 0, 2).reshape(vectors.shape)

    def _heads(self, vectors: Any) -> Any:
        """Rows of all heads as an array for each head."""
        rows = vectors.reshape(len(vectors), self.shape.num_attention_heads, -1)
        return rows.transpose(1, 0, 2)

    def _linear(self, name: str, vectors: Any) -> Any:
        out = vectors @ self._weights[f"{name}.weight"].T
        out += self._weights[f"{name}.bias"]
        return out

    def _normed(self, name: str, vectors: Any) -> Any:
        """Rows of mean 0 and deviation 1, then stretched and moved as was learned."""
        out = vectors - vectors.mean(axis=1, keepdims=True)
        square = numpy.einsum("ij,ij->i", out, out) / out.shape[1]
        out /= numpy.sqrt(square + self.shape.layer_norm_eps, dtype=numpy.float32)[:, None]
        out *= self._weights[f"{name}.weight"]
        out += self._weights[f"{name}.bias"]
        return out


def _shape(path: Path) -> Shape:
    """The shape of a model that can be computed here; Unavailable for another."""
    try:
        shape = decoding.convert(json.loads(path.read_bytes()), Shape)
    except (ValueError, OSError) as error:
        raise Unavailable(f"{path} does not say the shape of a model: {error}") from error
    kind = (shape.model_type, shape.hidden_act, shape.position_embedding_type)
    if kind != ("bert", "gelu", "absolute"):
        raise Unavailable(f"{path}: {' '.join(kind)} is not a BERT", hint="such as all-MiniLM-L6")
    return shape


def _softmax(scores: Any) -> Any:
    scores -= scores.max(axis=-1, keepdims=True)
    numpy.exp(scores, out=scores)
    scores /= scores.sum(axis=-1, keepdims=True)
    return scores


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


PACKAGES = ("numpy", "safetensors", "tokenizers")
FILES = ("config.json", "model.safetensors", "tokenizer.json")
GROUP_WORDS, GROUPS_MAX = 3, 24
TOKENS_MAX, CHARS_MAX = 256, 1_000
BATCH_TEXTS = 16
NAMED_BYTES = 1_048_576  # of the weights, enough to tell one model from another


class Transformer:
    """The model in a folder. Reads at most 1,000 characters of a text."""

    def __init__(self, folder: Path, threshold: float | None = None) -> None:
        self.folder, self.threshold = folder, threshold
        self._loaded: tuple[Any, Bert] | None = None
        self._name = ""

    @property
    def name(self) -> str:
        """Other weights, or groups of another size, have another name."""
        if not self._name:
            self._name = f"groups-{GROUP_WORDS}-{self._digest()}"
        return self._name

    def __repr__(self) -> str:
        return f"Transformer({str(self.folder)!r})"

    def __call__(self, texts: list[str]) -> list[Any]:
        """The vectors of texts: the mean of their tokens'."""
        return [vectors.mean(axis=0) for _, _, vectors in self._read(texts)]

    def grouped(self, texts: list[str]) -> list[Any]:
        """For each text a row for every three words, of more words in a long text."""
        return [_groups(_word_rows(*one)[1]) for one in self._read(texts)]

    def words_of(self, text: str) -> tuple[list[str], Any]:
        """The words of one text, and a row for each."""
        return _word_rows(*self._read([text])[0])

    def _read(self, texts: list[str]) -> list[tuple[str, Any, Any]]:
        """Each text with its tokens and their vectors. Texts of like length are read together."""
        tokenizer, model = self._load()
        texts = [text[:CHARS_MAX].encode("utf-8", "replace").decode() for text in texts]
        encoded = tokenizer.encode_batch(texts)
        order = sorted(range(len(encoded)), key=lambda at: len(encoded[at].ids))
        vectors: dict[int, Any] = {}
        with one_thread():
            for start in range(0, len(order), BATCH_TEXTS):
                places = order[start : start + BATCH_TEXTS]
                read = model.token_vectors([encoded[at].ids for at in places])
                vectors.update(zip(places, read))
        return [(text, encoded[at], vectors[at]) for at, text in enumerate(texts)]

    def _digest(self) -> str:
        self.check()
        with open(self.folder / "model.safetensors", "rb") as weights:
            return blake2b(weights.read(NAMED_BYTES), digest_size=8).hexdigest()

    def check(self) -> None:
        """Unavailable if a file or a package is missing."""
        for package in PACKAGES:
            if find_spec(package) is None:
                raise Unavailable(
                    f"{self!r} needs the package {package}", hint=install_hint("semantic")
                )
        for file in FILES:
            if not (self.folder / file).is_file():
                raise Unavailable(
                    f"{self.folder} does not hold {file}",
                    hint="the folder of a sentence encoder has " + ", ".join(FILES),
                )

    def _load(self) -> tuple[Any, Bert]:
        if self._loaded is None:
            self.check()
            from tokenizers import Tokenizer

            model = Bert(self.folder)
            tokenizer = Tokenizer.from_file(str(self.folder / "tokenizer.json"))
            tokenizer.no_padding()
            tokenizer.enable_truncation(min(TOKENS_MAX, model.tokens_max))
            self._loaded = tokenizer, model
        return self._loaded


def one_thread() -> AbstractContextManager[object]:
    """A text is too little for several threads, which wait for each other: on busy cores they take
    three times as long. Without the package threadpoolctl, numpy does as it likes."""
    if find_spec("threadpoolctl") is None:
        return nullcontext()
    limits: AbstractContextManager[object] = import_module("threadpoolctl").threadpool_limits(1)
    return limits


def _word_rows(text: str, encoded: Any, vectors: Any) -> tuple[list[str], Any]:
    """The words of a text and a row of length one for each. A text without any is one word."""
    import numpy

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
    return words, units(numpy.array(rows))


def _groups(words: Any) -> Any:
    """Rows of words as rows of groups: the means of neighbours, of length one."""
    import numpy

    size = max(GROUP_WORDS, -(-len(words) // GROUPS_MAX))
    starts = numpy.arange(0, len(words), size)
    return units(numpy.add.reduceat(words, starts, axis=0))


def units(rows: Any) -> Any:
    """The rows, each of length one."""
    import numpy

    return rows / numpy.maximum(numpy.linalg.norm(rows, axis=1, keepdims=True), 1e-9)
