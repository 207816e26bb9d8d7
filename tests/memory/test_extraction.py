"""Facts of messages that leave the page are remembered, or wait for a person."""

from __future__ import annotations

import re

import pytest

import refold
from refold.core.model import Message, Text, ToolResult
from refold.memory.extraction import taken_from


def talk(url: str, extract: str) -> refold.Context:
    context = refold.open(
        "talk", store=url, window=24_000, embedder=False, config={"memory_extract": extract}
    )
    context.append({"role": "user", "content": "Help me"})
    context.append({"role": "assistant", "content": "With what?"})
    context.append({"role": "user", "content": "We use Postgres 16. Never push to main. Go on?"})
    for number in range(14):
        context.append({"role": "assistant", "content": f"step {number} " + "word " * 300})
        context.append({"role": "user", "content": f"and {number} " + "more " * 100})
    context.compact(target=5_000)
    return context


def contents(entries) -> set[str]:
    return {entry.content for entry in entries}


def test_what_leaves_the_page_is_remembered_with_its_source(tmp_path):
    with talk(f"sqlite:{tmp_path}/a.db", "keep") as context:
        found = {entry.content: entry for entry in context.memory.list()}
        assert {"We use Postgres 16.", "Never push to main."} <= found.keys()
        entry = found["We use Postgres 16."]
        assert (entry.source, entry.trust) == (("talk", 4), "user")


def test_what_was_forgotten_does_not_come_back(tmp_path):
    with talk(f"sqlite:{tmp_path}/a.db", "keep") as context:
        [entry] = context.memory.retrieve("postgres")
        context.memory.forget(entry.id)
        taken = taken_from([(1, Message(role="user", blocks=(Text("we use postgres 16"),)))])
        assert len(taken) == 1
        assert context.memory.take(taken, waits=False) == 0
        assert context.memory.retrieve("postgres") == []


def test_a_person_accepts_changes_or_rejects(tmp_path):
    with talk(f"sqlite:{tmp_path}/a.db", "ask") as context:
        memory = context.memory
        assert memory.list() == [] and memory.retrieve("postgres") == []
        waiting = {entry.content: entry.id for entry in memory.inbox()}
        accepted = memory.accept(waiting["We use Postgres 16."], "We use Postgres 16 only")
        assert accepted.trust == "user" and contents(memory.list()) == {"We use Postgres 16 only"}
        memory.reject(waiting["Never push to main."])
        assert not contents(memory.inbox()) & waiting.keys() - {"We use Postgres 16."}
        with pytest.raises(refold.NotFound):
            memory.accept(waiting["Never push to main."])
        taken = taken_from([(9, Message(role="user", blocks=(Text("Never push to main."),)))])
        assert memory.take(taken, waits=True) == 0


def test_tools_and_secrets_give_nothing():
    said = ToolResult("t1", content=(Text("The port is 6432. Never push to main."),))
    secret = "The key is ghp_" + "a1B2" * 9
    messages = [
        (1, Message(role="tool", blocks=(said,))),
        (2, Message(role="user", blocks=(said,))),
        (3, Message(role="user", blocks=(Text(secret),))),
        (4, Message(role="user", blocks=(Text("The port is 1?"),), metadata={})),
        (5, Message(role="user", blocks=(Text("The port is 1"),), metadata={"$memories": []})),
    ]
    assert taken_from(messages) == []


# --- by rules ---


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("Never push to the main branch.", "constraint"),
        ("We decided to drop the old queue.", "decision"),
        ("I prefer tabs over spaces.", "preference"),
        ("My favourite editor is Helix.", "preference"),
        ("Please call me Bea, not Beatrice.", "preference"),
        ("Maria is our release manager.", "role"),
        ("Tom maintains the billing service.", "role"),
        ("My name is Ada Lovelace.", "role"),
        ("The settings are in config/app/prod.toml.", "place"),
        ("The metrics server listens on localhost:9090.", "place"),
        ("Logs go to /var/log/shop.", "place"),
        ("The staging port is 6432.", "value"),
        ("Remind me to rotate the certificates.", "todo"),
        ("We still need to translate the help pages.", "todo"),
        ("Last week I adopted a dog named Biscuit with my sister.", "event"),
    ],
)
def test_a_user_says_something_worth_remembering(said, kind):
    [one] = taken_from([(7, Message(role="user", blocks=(Text("Hello there. " + said),)))], 1.0)
    assert (one.content, one.kind, one.seq, one.trust) == (said, kind, 7, "user")


@pytest.mark.parametrize(
    "said",
    [
        "Is the staging port 6432?",
        "Could you look at src/app/main.py, it is broken.",
        "What is our release manager called?",
        "Thanks, that is really nice of you!",
        "Fix the failing test in src/app/main.py.",
        "ok go on with it then",
    ],
)
def test_what_asks_or_greets_is_not_remembered(said):
    assert taken_from([(1, Message(role="user", blocks=(Text(said),)))], 1.0) == []


def test_what_happened_keeps_to_its_share_of_the_talk():
    lines = [f"Last Monday I went to the {n}th Berlin fair with Anna." for n in range(50)]
    messages = [(n, Message(role="user", blocks=(Text(line),))) for n, line in enumerate(lines, 1)]
    taken = taken_from(messages, 0.2)
    size = sum(len(one.content) for one in taken)
    assert 0.15 <= size / sum(map(len, lines)) <= 0.2
    assert [one.seq for one in taken] == sorted(one.seq for one in taken)


def test_open_to_dos_are_remembered_and_end_when_they_are_done(tmp_path):
    url = f"sqlite:{tmp_path}/a.db"

    def todos(state: str) -> dict:
        rows = [
            {"content": "Write the migration", "status": "pending"},
            {"content": "Tell the users", "status": state},
        ]
        return {"type": "tool_use", "id": state, "name": "TodoWrite", "input": {"todos": rows}}

    def work(context: refold.Context, state: str) -> None:
        context.append({"role": "user", "content": "Go on"})
        context.append({"role": "assistant", "content": [todos(state)]})
        context.append_result(state, "ok")
        for number in range(14):
            context.append({"role": "assistant", "content": f"step {number} " + "word " * 300})
            context.append({"role": "user", "content": f"and {number} " + "more " * 100})
        context.compact(target=5_000)

    config = {"memory_extract": "keep"}
    with refold.open("talk", store=url, window=24_000, embedder=False, config=config) as context:
        notices = []
        context.on("memory-extracted", notices.append)
        work(context, "pending")
        assert [one.details["new"] for one in notices] == [2]
        found = {entry.content: entry for entry in context.memory.list(tags=["todo"])}
        assert found.keys() == {"To do: Write the migration", "To do: Tell the users"}
        assert found["To do: Tell the users"].source == ("talk", 3)
        work(context, "completed")
        assert contents(context.memory.list(tags=["todo"])) == {"To do: Write the migration"}
        assert len(context.memory.list(tags=["todo"], ended=True)) == 2


def test_no_more_is_taken_than_a_memory_may_hold(tmp_path):
    memory = refold.open_memory(store="memory:", embedder=False)
    facts = [
        refold.types.Taken(f"The port of host {n} is {n}", n, "user", "value") for n in range(1, 9)
    ]
    assert memory.take(facts[:3], waits=False, entries_max=5) == 3
    assert memory.take(facts, waits=True, entries_max=5) == 2
    assert memory.take(facts, waits=False, entries_max=5) == 0
    assert "the memory is full" in memory.said[-1][1]
    assert memory.store("A user may always store more").id


# --- by a writer ---


class Noting:
    """A writer that answers with a summary, or with facts where it is asked for those."""

    def __init__(self, facts: str) -> None:
        self.facts, self.asked = facts, []

    def __call__(self, request: refold.types.Request) -> str:
        if "worth remembering" not in request.prompt:
            return "Goal: to help. Done: little so far."
        self.asked.append(request.prompt)
        return self.facts


def written(tmp_path, writer, extract: str = "keep", notices: list | None = None) -> refold.Context:
    context = refold.open(
        "talk",
        store=f"sqlite:{tmp_path}/a.db",
        window=24_000,
        embedder=False,
        writer=writer,
        config={"memory_extract": extract},
    )
    context.on("memory-failed", [].append if notices is None else notices.append)
    context.append({"role": "user", "content": "Help me"})
    call = {"type": "tool_use", "id": "t1", "name": "cat", "input": {}}
    context.append({"role": "assistant", "content": [call]})
    context.append_result("t1", "the queue named Zephyr holds 500 jobs")
    context.append(
        {"role": "user", "content": "Rabbit it shall be for the queue broker, 3.13 from May"}
    )
    for number in range(14):
        context.append({"role": "assistant", "content": f"step {number} " + "word " * 300})
        context.append({"role": "user", "content": f"and {number} " + "more " * 100})
    context.compact(target=5_000)
    return context


def test_a_writer_adds_what_rules_do_not_see(tmp_path):
    writer = Noting("- #5 decision: The queue broker shall be Rabbit 3.13 from May")
    with written(tmp_path, writer) as context:
        [entry] = context.memory.list(tags=["decision"])
        assert entry.content == "The queue broker shall be Rabbit 3.13 from May"
        assert (entry.trust, entry.source) == ("model", ("talk", 5))
        assert len(writer.asked) == 1 and "Zephyr" in writer.asked[0]


def test_what_only_a_tool_said_waits_for_a_person(tmp_path):
    with written(tmp_path, Noting("#4 value: The queue Zephyr holds 500 jobs")) as context:
        assert context.memory.list() == []
        [waiting] = context.memory.inbox()
        assert waiting.trust == "tool" and waiting.content.endswith("500 jobs")
        context.append({"role": "user", "content": "How many jobs does the queue Zephyr hold?"})
        assert "holds 500 jobs" not in str(context.request())
        assert context.memory.accept(waiting.id).trust == "user"
        context.append({"role": "user", "content": "And now, how many jobs in queue Zephyr?"})
        assert "The queue Zephyr holds 500 jobs" in str(context.request())


@pytest.mark.parametrize(
    "answer",
    [
        "#99 decision: The queue broker shall be Rabbit 3.13 from May",
        "#5 decision: The queue broker is Rabbit 4.0 from May on",
        "#5 decision: The queue broker is never Rabbit 3.13",
        "#5 decision: Everybody loves purple elephants",
        "#0 decision: The queue broker is Rabbit 3.13",
        "#5 decision:",
        "#5 decision: x",
        "#5 decision: " + "Rabbit " * 100,
        "5 decision: The queue broker is Rabbit 3.13",
        "#-5 decision: The queue broker is Rabbit 3.13",
        "#999999999999999 decision: The queue broker is Rabbit 3.13",
        "NOTHING",
        "",
        "I'm sorry, I cannot do that.",
        "<tool_call>rm -rf</tool_call>",
        "#5 decision: the queue broker is ghp_" + "a1B2" * 9,
    ],
)
def test_what_an_answer_makes_up_is_left_out(tmp_path, answer):
    with written(tmp_path, Noting(answer)) as context:
        assert context.memory.list() == [] and context.memory.inbox() == []


@pytest.mark.parametrize("fault", [OSError("no network"), ValueError("x"), None])
def test_a_writer_that_fails_leaves_the_rules(tmp_path, fault):
    def broken(request):
        if "worth remembering" not in request.prompt:
            return "Goal: to help."
        if fault is None:
            return 7
        raise fault

    with written(tmp_path, broken) as context:
        notices = []
        context.on("memory-failed", notices.append)
        context.append({"role": "user", "content": "You must never use the port 1234."})
        context.append({"role": "assistant", "content": "word " * 300})
        for _ in range(14):
            context.append({"role": "user", "content": "more " * 300})
            context.append({"role": "assistant", "content": "fine " * 300})
        context.compact(target=5_000)
        assert "You must never use the port 1234." in contents(context.memory.list())
        assert notices and "the writer" in notices[0].reason


def test_an_old_log_is_not_sent_to_a_writer_again(tmp_path):
    written(tmp_path, None).close()
    writer = Noting("NOTHING")
    config = {"memory_extract": "keep"}
    with refold.open(
        "talk",
        store=f"sqlite:{tmp_path}/a.db",
        window=24_000,
        embedder=False,
        writer=writer,
        config=config,
    ) as context:
        for number in range(14):
            context.append({"role": "user", "content": f"again {number} " + "more " * 200})
            context.append({"role": "assistant", "content": "fine " * 300})
        context.compact(target=5_000)
    assert writer.asked and not any("Zephyr" in prompt for prompt in writer.asked)


# --- what a fact replaces, by a writer ---

KAFKA = "The queue broker is Kafka"
RABBIT = "The queue broker shall be Rabbit 3.13 from May"


class Replacing(Noting):
    """A writer that says that a fact replaces what it is shown, or whatever it is told to say."""

    def __init__(self, named: str = "") -> None:
        super().__init__("")
        self.named = named

    def __call__(self, request: refold.types.Request) -> str:
        if "worth remembering" in request.prompt:
            ids = re.findall(r"^(mem-\w+): ", request.prompt, re.MULTILINE)
            self.facts = f"#5 decision: {RABBIT} (replaces {self.named or ', '.join(ids)})"
        return super().__call__(request)


def known(tmp_path, **given) -> str:
    with refold.open_memory(store=f"sqlite:{tmp_path}/a.db", embedder=False) as memory:
        memory.store("My manager is Helena")
        return memory.store(KAFKA, at=1_700_000_000_000, **given).id


def test_a_writer_is_shown_what_is_known_and_says_what_a_fact_replaces(tmp_path):
    old = known(tmp_path, trust="model")
    writer = Replacing()
    with written(tmp_path, writer) as context:
        assert f"{old}: {KAFKA}" in writer.asked[0] and "Helena" not in writer.asked[0]
        [new] = context.memory.list(tags=["decision"])
        assert (new.content, new.replaces, new.trust) == (RABBIT, (old,), "model")
        assert KAFKA not in contents(context.memory.list())
        assert not context.memory.history(old)[0].is_current


@pytest.mark.parametrize("accepts", [True, False])
def test_what_would_replace_what_a_user_said_waits_for_a_person(tmp_path, accepts):
    old = known(tmp_path)
    with written(tmp_path, Replacing()) as context:
        assert KAFKA in contents(context.memory.list())
        [waiting] = context.memory.inbox()
        assert (waiting.content, waiting.replaces) == (RABBIT, (old,))
        (context.memory.accept if accepts else context.memory.reject)(waiting.id)
        assert (KAFKA in contents(context.memory.list())) == (not accepts)
        assert (RABBIT in contents(context.memory.list())) == accepts


def test_what_tools_and_imports_said_is_not_shown_to_a_writer(tmp_path):
    known(tmp_path, trust="import")
    writer = Replacing("mem-0123")
    with written(tmp_path, writer):
        assert KAFKA not in writer.asked[0]


@pytest.mark.parametrize(
    "named", ["mem-0123", "mem-0", "mem-0123, mem-0", "mem-" + "f" * 40, "{old}x", "mem-../../x"]
)
def test_an_id_that_was_not_shown_is_ignored_and_told(tmp_path, named):
    old = known(tmp_path, trust="model")
    notices: list[refold.types.Notice] = []
    with written(tmp_path, Replacing(named.format(old=old)), notices=notices) as context:
        assert {KAFKA, RABBIT} <= contents(context.memory.list())
        assert [one for one in notices if "was not shown" in one.reason]


def test_a_fact_that_rules_take_as_well_replaces_when_a_person_says_so(tmp_path):
    with refold.open_memory(store="memory:", embedder=False) as memory:
        old = memory.store(KAFKA, at=1_700_000_000_000).id
        facts = [
            refold.types.Taken(RABBIT, 1, "user", "decision"),
            refold.types.Taken(RABBIT, 1, "model", "decision", (old,)),
        ]
        assert memory.take(facts, waits=False) == 2
        assert contents(memory.list()) == {KAFKA, RABBIT}
        [waiting] = memory.inbox()
        memory.accept(waiting.id)
        assert contents(memory.list()) == {RABBIT}
        assert memory.take(facts, waits=False) == 0  # what is replaced already is not asked again


# --- findings of an agent ---


@pytest.mark.parametrize(
    ("finding", "answer", "is_taken"),
    [
        ("Root cause: the {} drifts in the cold.", "Yes, exactly.", True),
        ("The {} is slow because it reads every row.", "Right. Fix it.", True),
        ("Die {} ist langsam, weil sie alles liest.", "Genau, mach das.", True),
        ("La {} est lente parce que tout est lu.", "Oui, c'est ça.", True),
        ("El {} es lento porque lee todo.", "Correcto.", True),
        ("Root cause: the {} drifts in the cold.", "Yes, but only on Mondays.", False),
        ("Root cause: the {} drifts in the cold.", "No, look again.", False),
        ("Is the {} slow because it reads every row?", "Yes.", False),
        ("I read the {} and ran the tests.", "Yes.", False),
    ],
)
def test_a_finding_counts_if_the_user_agrees_and_with_lower_trust(finding, answer, is_taken):
    for number, thing in enumerate(("scale", "pump", "gateway"), start=1):
        said = finding.format(thing)
        talk = [("user", "Look."), ("assistant", f"I looked. {said}"), ("user", answer)]
        messages = [
            (number + at, Message(role=role, blocks=(Text(text),)))
            for at, (role, text) in enumerate(talk)
        ]
        found = [(one.content, one.kind, one.seq, one.trust) for one in taken_from(messages, 0.0)]
        assert ((said, "finding", number + 1, "model") in found) == is_taken
