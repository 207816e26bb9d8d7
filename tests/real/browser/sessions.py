"""Sessions that nobody had: one as an agent's day is, one that wants to break the page, one that is
as large as they come. All of it is made up here, the same every time."""

from __future__ import annotations

import random
from typing import Any

Message = dict[str, Any]

AREAS = ("login", "checkout", "invoice", "stock", "search", "shipping", "refund", "profile")
PARTS = ("form", "handler", "schema", "test", "client", "cache", "view", "job")
ANSI = "\x1b[2J\x1b]0;owned\x07\x1b[31m"
RIGHT_TO_LEFT = "\u202egpj.exe \u2066x\u2069"
HOSTILE = (
    "</script><script>document.title='owned'</script>",
    "<img src=x onerror=\"document.title='owned'\">",
    "<iframe src='http://192.0.2.1/'></iframe><link rel=stylesheet href='//192.0.2.1/x.css'>",
    "<!--<script>",
    "]]>&lt;b&gt;&amp;",
    "javascript:document.title='owned'",
    "{{constructor.constructor('document.title=1')()}}",
    ANSI,
    RIGHT_TO_LEFT,
    "\u2028\u2029\0\ufffe",
    "<svg onload=document.title='owned'>",
)


def story(turns: int, seed: int = 7) -> list[Message]:
    """An agent at work in a shop's code: it reads, changes, tests, and comes back to old files."""
    chance = random.Random(seed)
    asked = "The login of the shop fails for customers with an old password. Find out why, and fix"
    said: list[Message] = [
        {"role": "system", "content": "You are a careful engineer. Run the tests."},
        {"role": "user", "content": f"{asked} it. Do not touch shop/billing.py."},
    ]
    known: list[str] = []
    for at in range(turns):
        path = f"shop/{chance.choice(AREAS)}/{chance.choice(PARTS)}_{at // 3}.py"
        if known and at % 4 == 3:
            path = chance.choice(known)
        known.append(path)
        said += _turn(at, path, chance)
        if at % 60 == 59:
            said.append({"role": "user", "content": f"And {path}: does it still hash with rounds?"})
    return said


def _turn(at: int, path: str, chance: random.Random) -> list[Message]:
    name = path.rpartition("/")[2].removesuffix(".py")
    call = {"id": f"call_{at}", "name": "read_file", "arguments": {"path": path}}
    port = 8_000 + chance.randrange(900)
    text = f"{name} opens port {port} before it checks the password. I read {path}."
    lines = [f"def {name}_{line}(customer, rounds={chance.randrange(4, 40)}):"
             f"\n    return verify_{name}(customer, rounds)  # slow with {line} rounds"
             for line in range(chance.randrange(3, 18))]  # fmt: skip
    body = f"# listens on {port}\n" + "\n".join(lines)
    return [
        {"role": "assistant", "content": text, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": call["id"], "content": body},
    ]


def hostile() -> list[Message]:
    """A story in which everybody says what could break a page or a terminal."""
    said = story(60)
    for at, message in enumerate(said):
        bad = HOSTILE[at % len(HOSTILE)]
        message["content"] = f"{bad} shop/evil_{at}.py tells of the login\n" + message["content"]
    said[1]["content"] = "".join(HOSTILE)
    return said


def large(size_bytes: int) -> list[Message]:
    """So many bytes in one session: long outputs, short outputs, one line without an end."""
    said = story(400)
    results = [message for message in said if message["role"] == "tool"]
    each = size_bytes // len(results)
    for at, message in enumerate(results):
        bad = HOSTILE[at % len(HOSTILE)]
        end = "" if at % 7 == 0 else "\n"
        message["content"] += (f"{bad} shop/evil_{at}.py{end}" * (each // 30 + 1))[:each]
    return said
