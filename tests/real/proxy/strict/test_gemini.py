"""What the upstream refuses about generateContent."""

from __future__ import annotations

import pytest

from tests.real.proxy.strict.server import Upstream
from tests.real.proxy.strict.settings import Settings
from tests.real.proxy.strict.talks import posted

NEW, OLD = "gemini-3-pro", "gemini-2.5-pro"
ASK = {"role": "user", "parts": [{"text": "go on"}]}
SAID = {"role": "model", "parts": [{"text": "yes"}]}


def call(name="read", **more):
    return {"functionCall": {"name": name, "args": {"path": "a"}}, **more}


def result(name="read"):
    return {"functionResponse": {"name": name, "response": {"output": "fine"}}}


def model(*parts):
    return {"role": "model", "parts": list(parts)}


def user(*parts):
    return {"role": "user", "parts": list(parts)}


@pytest.fixture
def upstream():
    return Upstream(Settings())


def post(upstream, contents, name=OLD, method="generateContent"):
    path = f"/v1beta/models/{name}:{method}"
    return posted(upstream, path, {"contents": contents}, {"x-goog-api-key": "key"})


def refused(upstream, contents, name=OLD):
    status, body = post(upstream, contents, name)
    assert status == 400, body
    assert body["error"]["status"] == "INVALID_ARGUMENT"
    return body["error"]["message"]


RULES = {
    "no response (P8)": ([ASK, model(call()), ASK], "number of function response parts"),
    "at the end (P8)": ([ASK, model(call())], "number of function response parts"),
    "one of two (P8)": ([ASK, model(call(), call("grep")), user(result())], "number of"),
    "an orphan (P8)": ([ASK, SAID, user(result())], "number of"),
    "another name (P8)": ([ASK, model(call()), user(result("grep"))], "names of their calls"),
    "a call after the model (P8)": (
        [ASK, SAID, model(call()), user(result())],
        "immediately after a user turn",
    ),
    "model first": ([SAID, ASK], "start with a user turn"),
    "no parts (A2)": ([{"role": "user", "parts": []}], "must not be empty"),
    "an empty part (A2)": ([user({})], "must have one initialized field"),
    "an empty text (A2)": ([user({"text": ""})], "must not be empty"),
    "another role": ([{"role": "assistant", "parts": [{"text": "x"}]}], "valid role"),
}


@pytest.mark.parametrize("name", RULES)
def test_rules(name, upstream):
    contents, words = RULES[name]
    assert words in refused(upstream, contents)


def step(upstream, contents, *parts, name=NEW):
    """The contents with what the upstream says next."""
    upstream.script.add(list(parts))
    status, body = post(upstream, contents, name)
    assert status == 200, body
    return [*contents, body["candidates"][0]["content"]]


def test_steps_of_a_turn_keep_their_signatures(upstream):
    contents = step(upstream, [ASK], call(), call("grep"))
    assert "thoughtSignature" in contents[1]["parts"][0]
    assert "thoughtSignature" not in contents[1]["parts"][1]
    contents = step(upstream, [*contents, user(result(), result("grep"))], call())
    contents = step(upstream, [*contents, user(result())], {"text": "done"})
    assert upstream.refusals == []


def test_a_missing_or_changed_signature_is_refused_in_the_turn_under_way(upstream):
    """P9."""
    contents = [*step(upstream, [ASK], call()), user(result())]
    signed = contents[1]["parts"][0]
    without = [ASK, model(call()), user(result())]
    assert "missing a thought_signature" in refused(upstream, without, NEW)
    broken = [ASK, model({**signed, "thoughtSignature": "AAAA"}), user(result())]
    assert "Corrupted" in refused(upstream, broken, NEW)
    assert "Corrupted" in refused(upstream, contents, "gemini-3-flash")
    assert post(upstream, [*without, SAID, ASK], NEW)[0] == 200
    assert post(upstream, without, OLD)[0] == 200


def test_the_documented_stand_in_is_taken(upstream):
    foreign = call(thoughtSignature="skip_thought_signature_validator")
    assert post(upstream, [ASK, model(foreign), user(result())], NEW)[0] == 200


def test_counting_and_overflow(upstream):
    long = [user({"text": "word " * 1_000})]
    tokens = post(upstream, long, method="countTokens")[1]["totalTokens"]
    upstream.settings.window = 100
    assert f"({tokens}) exceeds the maximum number of tokens allowed (100)" in refused(
        upstream, long
    )
