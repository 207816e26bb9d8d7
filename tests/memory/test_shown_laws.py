"""The laws of the block of memories: dates decide and not the order of telling, of two that may both be true the newer
comes first and the older never alone, the block stays as it is from call to call, and forgetting erases every copy."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random

import pytest

import refold

KEEP = {"memory_extract": "keep"}
SUBJECTS = ["function names", "test files", "log messages", "commit titles", "table columns"]
FORMS = [
    "From now on, start all {s} with '{v}'.",
    "Going forward, all {s} must start with '{v}'.",
    "From now on, I want all {s} to begin with '{v}'.",
    "Always prefix the {s} with '{v}'.",
    "Ab jetzt beginnen alle {s} mit '{v}'.",
]
FACTS = ["I prefer {v} for {s}.", "We prefer {v} for {s}.", "The {s} are {v}."]


def page_of(store: refold.types.Store, request: str, **config: object) -> str:
    with refold.open("new", store=store, embedder=False, config=config) as context:
        context.append({"role": "user", "content": request}, at="2026-12-01")
        return str(context.request()["messages"][1:]).replace("\\'", "'")


def told(chance: Random) -> list[tuple[str, str, str]]:
    """Rules with their day and value: some about one thing in the same words, some in other words."""
    found = []
    for day in range(1, chance.randint(3, 8)):
        subject = chance.choice(SUBJECTS[: chance.randint(1, 5)])
        value = f"v{day}{chance.choice('abc')}_"
        found.append((f"2026-03-{day:02}", chance.choice(FORMS).format(s=subject, v=value), value))
    return found


@pytest.mark.parametrize("seed", range(40))
def test_dates_decide_whatever_the_order_of_telling_and_the_newer_comes_first(seed: int) -> None:
    chance = Random(seed)
    rules = told(chance)
    pages = []
    for order in (rules, rules[::-1], chance.sample(rules, len(rules))):
        store = refold.open_store("memory:")
        for number, (day, rule, _) in enumerate(order):
            with refold.open(f"on-{number}", store=store, embedder=False, config=KEEP) as context:
                context.append({"role": "user", "content": rule}, at=day)
        request = f"Rename the {chance.choice(SUBJECTS)}" if seed % 2 else "Draw a whale"
        pages.append(page_of(store, request))
    shown = [re.findall(r"v\d+[abc]_", page) for page in pages]
    assert shown[0] == shown[1] == shown[2]
    newest: dict[str, str] = {}  # by the words beside the value, and by the thing
    for _, rule, value in rules:
        newest[rule.replace(value, "")] = value
    last = {next(one for one in SUBJECTS if one in rule): value for _, rule, value in rules}
    assert {*last.values()} <= {*shown[0]} <= {*newest.values()}
    days = [int(value[1:-2]) for value in shown[0]]
    if not seed % 2:
        assert days == sorted(days, reverse=True)


@pytest.mark.parametrize("seed", range(40))
def test_of_rivals_the_older_is_never_shown_alone_however_little_room_there_is(seed: int) -> None:
    chance = Random(seed)
    subject, form = chance.choice(SUBJECTS), chance.choice(FACTS)
    store = refold.open_store("memory:")
    with refold.open_memory(store=store, embedder=False) as memory:
        for day in chance.sample(range(1, 6), 4):
            text = form.format(s=subject, v=f"v{day}a_ {'so ' * chance.randint(0, 20)}tea")
            memory.store(text, at=f"2026-03-{day:02}")
        true = [one for one in memory.list() if one.is_current]
    page = page_of(store, f"What about the {subject}?", memory_tokens=chance.randint(60, 300))
    shown = re.findall(r"v\d+a_", page)
    newest = max(true, key=lambda one: one.valid_from_ms)
    assert not shown or shown[0] in newest.content
    assert [int(one[1:-2]) for one in shown] == sorted(
        (int(one[1:-2]) for one in shown), reverse=True
    )


@pytest.mark.parametrize("seed", range(30))
def test_each_request_begins_with_the_one_before_whatever_is_remembered_meanwhile(
    seed: int,
) -> None:
    chance = Random(seed)
    store = refold.open_store("memory:")
    with (
        refold.open("new", store=store, embedder=False, config=KEEP) as context,
        refold.open_memory(store=store, embedder=False) as memory,
    ):
        before: list[object] = []
        for day, rule, value in told(chance):
            memory.store(rule, at=day)
            if chance.random() < 0.4:
                memory.update(memory.list()[0].id, f"{rule} Since {value}.")
            text = chance.choice([f"Rename the {chance.choice(SUBJECTS)}", "Draw a whale"])
            context.append({"role": "user", "content": text})
            now = context.request()["messages"]
            assert now[: len(before)] == before and context.request()["messages"] == now
            context.append({"role": "assistant", "content": "Done."})
            before = now


WAYS = ("page", "hand-over", "recall", "search", "project search", "fork", "compaction", "remember")


@pytest.mark.parametrize("seed", range(24))
def test_forgetting_with_its_source_leaves_no_copy_anywhere(seed: int, tmp_path: Path) -> None:
    chance = Random(seed)
    url = f"sqlite:{tmp_path}/a.db"
    secret = f"ochre{chance.randrange(10**6):06}"
    text = f"From now on, write {secret} on every crate."
    with refold.open("first", store=url, embedder=False, config=KEEP) as context:
        context.append({"role": "user", "content": text})
    ways = chance.sample(WAYS, chance.randint(1, 4))
    with refold.open("second", store=url, embedder=False, window=8_000) as context:
        context.append(
            {"role": "user", "content": "Which crates? " + "so " * chance.randint(0, 50)}
        )
        if "page" in ways:
            context.request()
        if "hand-over" in ways:
            context.handover(show=True)
        for number, (way, name, given) in enumerate(
            (
                ("recall", "recall", {"query": "crates"}),
                ("search", "refold_search", {"query": "crate"}),
                ("project search", "refold_search", {"query": "crate", "scope": "project"}),
                ("remember", "remember", {"content": text}),
            )
        ):
            if way not in ways:
                continue
            context.toolbox.tools(also=["recall", "remember"])
            answer = context.toolbox.call(name, given)
            call = {"type": "tool_use", "id": f"t{number}", "name": name, "input": given}
            context.append({"role": "assistant", "content": [call]})
            context.append_result(f"t{number}", answer, name=name)
        if "compaction" in ways:
            for number in range(12):
                context.append({"role": "user", "content": f"step {number} " + "word " * 300})
                context.append({"role": "assistant", "content": "Done. " + "word " * 200})
            context.compact(target=2_000)
        if "fork" in ways:
            context.fork("third").close()
    with refold.open_memory(store=url, embedder=False) as memory:
        found = [one for one in memory.list() if secret in one.content]
        memory.forget([one.id for one in found], source=True)
    for id in ("first", "second", *(["third"] if "fork" in ways else [])):
        with refold.open(id, store=url, embedder=False, read_only=True) as context:
            shown = str(context.page()) + str([*context.log.events()])
            assert secret not in shown, (id, ways)
    left = [
        path.name
        for path in tmp_path.iterdir()
        if path.is_file() and secret.encode() in path.read_bytes()
    ]
    assert left == [], ways
