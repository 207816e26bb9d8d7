"""An embedder that is a small transformer: a text becomes a vector for every few words.

A transformer gives a vector for every word as it is meant where it stands. Their mean is the vector
of the text (`embedder(texts)`). Search compares more finely: every word of a query with groups of
three words of a message (`grouped`, `words_of`). The folder holds `config.json`,
`model.safetensors` and `tokenizer.json`, as sentence encoders are published; nothing is imported
before the first text, and nothing downloaded. Neighbours: `bert` computes, `group_vectors` keeps
and compares, `embedders` chooses.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from hashlib import blake2b
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from refold.errors import Unavailable, install_hint

if TYPE_CHECKING:
    from refold.search.bert import Bert

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

            from refold.search.bert import Bert

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
