"""Everything that the OpenAPI document describes, tried with generated values: no answer says that
the server is at fault."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from refold.settings import logins
from refold.stores import batch_of, open_store
from refold.stores.contract.kit import sealed
from tests.real.server.process import running

SEED = "20261117"


def test_no_generated_call_finds_a_fault(team, tmp_path):
    place = team.place("document")
    secret = logins.token_for(place, os.environ)
    described = httpx.get(f"{team.url}/openapi.json").json()
    document = tmp_path / "document.json"
    document.write_text(json.dumps(with_things_that_are_there(described, place)))
    run(document, team.url, secret, 28, "--checks", "not_a_server_error", "--max-examples", "30")


@pytest.fixture(scope="module")
def patient(tmp_path_factory):
    """A server that is told wrong tokens all the time."""
    options = ["--limit", "wrong_tokens_per_minute=1000000"]
    with running(tmp_path_factory.mktemp("patient"), options=options) as started:
        yield started


def test_the_document_refuses_what_the_server_refuses(patient, tmp_path):
    place = patient.place("refusals")
    secret = logins.token_for(place, os.environ)
    document = tmp_path / "document.json"
    described = httpx.get(f"{patient.url}/openapi.json").json()
    for operations in described["paths"].values():
        for operation in operations.values():
            for parameter in operation["parameters"]:
                if parameter["name"] == "org":
                    parameter["schema"] = {"type": "string", "enum": ["refusals"]}
            # The tool cannot write lines of JSON.
            content = operation.get("requestBody", {}).get("content", {})
            if "application/x-ndjson" in content:
                content["text/plain"] = content.pop("application/x-ndjson")
    document.write_text(json.dumps(described))
    without_waiting = ("--exclude-path-regex", "feed")
    run(document, patient.url, secret, 27, "--checks", "negative_data_rejection", *without_waiting)
    # Without a token, every check there is.
    run(document, patient.url, "", 28)


def test_the_server_accepts_what_the_document_allows(patient, tmp_path):
    """Except where only the log or the content of a message decides, or a number like 1.0 is sent."""
    place = patient.place("document-2")
    secret = logins.token_for(place, os.environ)
    described = httpx.get(f"{patient.url}/openapi.json").json()
    document = tmp_path / "document.json"
    names = with_things_that_are_there(described, place, org="document-2", only_valid=True)
    document.write_text(json.dumps(names))
    options = ["--exclude-checks", "negative_data_rejection"]
    options += ["--exclude-path-regex", "(fork|rewrite|events|messages|erase)$"]
    run(document, patient.url, secret, 21, *options)


def run(document: Path, url: str, secret: str, tested: int, *options: str) -> None:
    """Tries the operations in the document, and fails if one of the checks does."""
    command = [
        *(sys.executable, "-m", "schemathesis.cli", "run", str(document), "--url", url),
        *("--max-examples", "8", "--seed", SEED, "--phases", "coverage,fuzzing", "--no-color"),
        *("--generation-database", "none", *options),
    ]
    if secret:
        command += ["--header", f"Authorization: Bearer {secret}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, cwd=document.parent)
    assert done.returncode == 0, done.stdout[-6_000:] + done.stderr[-2_000:]
    assert f"Tested: {tested}" in done.stdout and "🚫" not in done.stdout


def with_things_that_are_there(
    document: dict[str, Any], place: str, *, org: str = "document", only_valid: bool = False
) -> dict[str, Any]:
    """The document, where names are often those of things in this organization: a generated name
    is never that of anything."""
    store = open_store(place)
    events = sealed(None, [b'{"kind":"n","data":1}'] * 3, kind="note")
    for id in ("c", "d"):
        store.append(id, events, expect=0)
    names = {
        "org": [org],
        "id": ["c", "d", "new", *([] if only_valid else ["no such", "..", "é"])],
        "digest": [store.put([b"bytes"]), "0" * 64, *([] if only_valid else ["x"])],
        "entry": ["mem-0", "e"],
    }
    lines = {"enum": [batch_of(events).decode(), batch_of(events[:1]).decode(), "{}", "[" * 9_000]}
    for operations in document["paths"].values():
        for operation in operations.values():
            for parameter in operation["parameters"]:
                if parameter["in"] == "path":
                    parameter["schema"] = {"type": "string", "enum": names[parameter["name"]]}
                elif parameter["name"] == "wait":
                    parameter["schema"] = {
                        "type": "number",
                        "minimum": 0 if only_valid else -1,
                        "maximum": 0.1,
                    }
            content = operation.get("requestBody", {}).get("content", {})
            if "application/x-ndjson" in content:
                content["text/plain"] = {"schema": {"type": "string", **lines}}
                del content["application/x-ndjson"]
    return document
