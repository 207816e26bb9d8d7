"""Everything that the OpenAPI document describes, tried with generated values: no answer says that
the server is at fault."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import httpx

from refold.settings import logins
from refold.stores import batch_of, open_store
from refold.stores.contract.kit import sealed

SEED = "20261117"


def test_no_generated_call_finds_a_fault(team, tmp_path):
    place = team.place("document")
    secret = logins.token_for(place, os.environ)
    described = httpx.get(f"{team.url}/openapi.json").json()
    document = tmp_path / "document.json"
    document.write_text(json.dumps(with_things_that_are_there(described, place)))
    command = [
        *(sys.executable, "-m", "schemathesis.cli", "run", str(document)),
        *("--url", team.url, "--header", f"Authorization: Bearer {secret}"),
        *("--checks", "not_a_server_error", "--max-examples", "30", "--seed", SEED),
        *("--phases", "coverage,fuzzing", "--no-color", "--generation-database", "none"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, cwd=tmp_path)
    assert done.returncode == 0, done.stdout[-6_000:] + done.stderr[-2_000:]
    assert "Tested: 28" in done.stdout and "🚫" not in done.stdout


def with_things_that_are_there(document: dict[str, Any], place: str) -> dict[str, Any]:
    """The document, where names are often those of things in this organization: a generated name
    is never that of anything."""
    store = open_store(place)
    events = sealed(None, [b'{"kind":"n","data":1}'] * 3, kind="note")
    for id in ("c", "d"):
        store.append(id, events, expect=0)
    names = {
        "org": ["document"],
        "id": ["c", "d", "new", "no such", "..", "é"],
        "digest": [store.put([b"bytes"]), "0" * 64, "x"],
        "entry": ["mem-0", "e"],
    }
    lines = {"enum": [batch_of(events).decode(), batch_of(events[:1]).decode(), "{}", "[" * 9_000]}
    for operations in document["paths"].values():
        for operation in operations.values():
            for parameter in operation["parameters"]:
                if parameter["in"] == "path":
                    parameter["schema"] = {"enum": names[parameter["name"]]}
                elif parameter["name"] == "wait":
                    parameter["schema"] = {"type": "number", "minimum": -1, "maximum": 0.1}
            content = operation.get("requestBody", {}).get("content", {})
            if "application/x-ndjson" in content:
                content["text/plain"] = {"schema": {"type": "string", **lines}}
                del content["application/x-ndjson"]
    return document
