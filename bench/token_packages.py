"""Packages that count o200k tokens, side by side: those that can be imported, each in a process of
its own.

A package is tried on texts (its counts beside those of ours), on a fresh start, and on input that
breaks some: a million spaces, a million equal letters, a special token's name, a lone surrogate.
tiktoken holds no ranks; it is left out unless TIKTOKEN_CACHE_DIR names a folder with them, because
it would download them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from bench import environment
from bench.tables import Table
from refold.tokens.exact import vocabulary

WAIT_S = 120
PACKAGES = {
    "splintr-rs": "import splintr; t = splintr.Tokenizer.from_pretrained('o200k_base'); f = t.encode_ordinary",
    "rs-bpe": "from rs_bpe.bpe import openai; t = openai.o200k_base(); f = t.encode",
    "bpe-openai": "import bpe_openai; t = bpe_openai.get_encoding('o200k_base'); f = t.encode",
    "tiktoken": "import tiktoken; t = tiktoken.get_encoding('o200k_base'); f = t.encode_ordinary",
}
HARD = {
    "spaces": " " * 1_000_000,
    "letters": "A" * 1_000_000,
    "special": "<|endoftext|>",
    "surrogate": "a\ud800",
}

# Run in the other process: reads the texts, prints what it found. A panic of Rust is not an
# Exception.
_SCRIPT = """
import json, sys, time
now = time.process_time
began = now(); {load}; f("antidisestablishmentarianism"); load_ms = (now() - began) * 1e3
texts, hard = json.load(open(sys.argv[1]))
counts, began = [], now()
for text in texts:
    try: counts.append(len(f(text)))
    except BaseException as error: counts.append(repr(error)[:60])
spent, outcomes = now() - began, {{}}
for name, text in hard.items():
    began = now()
    try: outcomes[name] = [len(f(text)), (now() - began) * 1e3]
    except BaseException as error: outcomes[name] = [type(error).__name__, 0]
print(json.dumps({{"load": load_ms, "counts": counts, "seconds": spent, "outcomes": outcomes}}))
"""


def table(texts: list[str]) -> Table:
    head = ["package", "version", "load ms", "MB/s, first pass", "differs", *HARD]
    shown = Table("Packages that count o200k", head)
    ours = [vocabulary("o200k").count(text) for text in texts]
    for name, load in PACKAGES.items():
        found = _measured(name, load, texts)
        if isinstance(found, str):
            shown.add(name, found, *[""] * (len(head) - 2))
            continue
        size = sum(map(len, texts))
        differs = sum(count != own for count, own in zip(found["counts"], ours))
        outcomes = [_outcome(*found["outcomes"][name]) for name in HARD]
        shown.add(
            name, version(name), found["load"], size / found["seconds"] / 1e6, differs, *outcomes
        )
    shown.note(
        f"{len(texts):,} messages of code; differs: counts unlike those of refold's exact counter. Spaces and letters: "
        "a million of them, in ms. Special: the name of a special token in a text has 7 tokens as text. An error's "
        "name stands where the package refused."
    )
    return shown


def _measured(name: str, load: str, texts: list[str]) -> dict[str, Any] | str:
    try:
        version(name)
    except PackageNotFoundError:
        return "not installed"
    if name == "tiktoken" and not os.environ.get("TIKTOKEN_CACHE_DIR"):
        return "no ranks"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "texts.json"
        path.write_text(json.dumps([texts, HARD]), encoding="utf-8")
        command = [sys.executable, "-c", _SCRIPT.format(load=load), str(path)]
        done = subprocess.run(
            command, env=environment(), capture_output=True, text=True, timeout=WAIT_S
        )
    found: dict[str, Any] = json.loads(done.stdout) if done.returncode == 0 else {}
    return found or f"failed: {done.stderr.strip().splitlines()[-1:]}"


def _outcome(result: object, milliseconds: float) -> str:
    return result if isinstance(result, str) else f"{result:,} ({milliseconds:,.0f} ms)"
