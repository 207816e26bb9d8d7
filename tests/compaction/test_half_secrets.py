"""Whatever is shortened on the way to a summary, a stub or a name loses its secrets first: wherever
a cut falls, no half of one stays."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

import refold
from refold.artifacts import stub
from refold.artifacts.intake import origin_of
from refold.artifacts.stub import REDACTED_CHARS, stub_of
from refold.config import Config
from refold.core.codec import decode
from refold.core.model import Artifact, Block, Message, Origin, Span, ToolCall, ToolResult
from refold.core.shortened import text_of
from refold.display import failure, whole_words
from refold.ledger.facts import Cutter
from refold.ledger.failures import telling_line
from refold.ledger.ledger import facts_of, ledger_lines
from refold.redaction import redacted
from refold.stores.in_memory import MemoryStore
from refold.strategies.fit import fit
from refold.strategies.gist.draft import line_of
from tests.redaction.secret_kinds import PREFIXED, SURROUNDED
from tests.strategies.talks import brief_of, log_of, said, state_of, used

PLAIN = {
    f"{kind} {n}": ("".join(parts), "".join(parts)[len(parts[0]) :])
    for kind, examples in PREFIXED.items()
    for n, parts in enumerate(examples)
}
SECRETS = {**PLAIN, **SURROUNDED}
PART_CHARS = 10  # of a secret that tell something of it
kinds = st.sampled_from(sorted(SECRETS))
places = st.integers(0, 320)


def leaked(part: str, shown: str) -> str:
    """What is shown of the part that must go."""
    pieces = (part[at : at + PART_CHARS] for at in range(0, len(part) - PART_CHARS + 1))
    return next((piece for piece in pieces if piece in shown), "")


def placed(text: str, before: int, after: int) -> str:
    """A secret with so many characters of plain words on either side."""
    return ("make all " * 70)[:before] + " " + text + " " + ("and then on " * 400)[:after]


@given(kind=kinds, before=places, after=st.integers(0, 4_000))
@settings(max_examples=300, deadline=None)
def test_no_fact_has_half_a_secret(kind: str, before: int, after: int) -> None:
    text, part = SECRETS[kind]
    words = placed(text, before, after)
    todo = {"todos": [{"content": words, "status": "pending"}]}
    parts = [
        said("user", words),
        said("user", f"You must never do this: {words}"),
        *used("a", f"error: {words}\nexit code 1", command=words),
        *used("b", "ok", tool="TodoWrite", **todo),
        said("assistant", f"- [ ] {words}"),
    ]
    slots = state_of(log_of(parts)).view().slots
    facts = facts_of(slots, Config(), (), Cutter(redacted))
    shown = [redacted(fact.text) for fact in facts]
    shown += [redacted("\n".join(ledger_lines(facts, room))) for room in (300, 2_000, 12_000)]
    shown.append(redacted(line_of(Span(1, 9), facts)))
    assert len({fact.kind for fact in facts}) >= 4
    assert [text for text in shown if leaked(part, text)] == []


@given(kind=kinds, before=st.integers(0, 6_200), after=st.sampled_from([0, 100, 6_500, 20_000]))
@settings(max_examples=150, deadline=None)
def test_no_telling_line_is_half_a_secret(kind: str, before: int, after: int) -> None:
    text, part = SECRETS[kind]
    words = ("tried " * 1_100)[:before] + " " + text + "\n" + "more\n" * (after // 5)
    assert not leaked(part, redacted(telling_line(words, Cutter(redacted))))


@given(kind=kinds, before=st.integers(0, 6_000), target=st.integers(200, 1_400))
@settings(max_examples=150, deadline=None)
def test_no_cut_block_has_half_a_secret(kind: str, before: int, target: int) -> None:
    text, part = SECRETS[kind]
    words = ("data " * 1_200)[:before] + " " + text + " " + "data " * ((6_000 - before) // 5)
    log = log_of([said("user", words)])
    edits = fit(replace(brief_of(log, target, window=2_000), redact=redacted))
    assert edits
    assert [edit for edit in edits if leaked(part, str(edit))] == []


@pytest.mark.parametrize("kind", sorted(SECRETS))
def test_nothing_of_a_secret_is_in_a_stub_a_name_or_an_edit(kind: str) -> None:
    text, part = SECRETS[kind]
    store = MemoryStore()
    with refold.open("work", store=store, window=16_000, embedder=False) as context:
        for n in range(12):
            command = placed(text, 20 * n, 200)
            call = {"type": "tool_use", "id": f"t{n}", "name": "run", "input": {"command": command}}
            context.append({"role": "user", "content": f"step {n}"})
            context.append({"role": "assistant", "content": [call]})
            padding = "line of output\n" * (60 * n)
            output = f"{padding}{'x ' * (10 * n)}{text}\n{padding}"
            context.append_result(f"t{n}", output * (2 if n % 2 else 1))
        context.compact("gist", target=4_000)
    edits = [event.body.decode() for event in store.read("work") if event.kind == "edit"]
    bodies = [decode(event) for event in store.read("work")]
    names = [body.name for body in bodies if isinstance(body, Artifact)]
    messages = [body for body in bodies if isinstance(body, Message)]
    stubs = [text_of(block) for one in messages for block in one.blocks if is_stub(block)]
    assert edits and names and stubs
    assert [one for one in (*edits, *names, *stubs) if leaked(part, one)] == []


LINE = "line of output that says little\n"
WHERE = {"first": 3, "early": 500, "between": 4_000, "late": -500, "last": -3}


def shown_of(output: str) -> str:
    """What a page shows of an output."""
    made = stub_of(output, Origin(tool="run"), failing, tool="", redact=redacted)
    artifact = Artifact(id="art-a", digest="", name="run", size_bytes=len(output))
    return made.text(artifact, None)


@given(
    kind=kinds,
    before=st.integers(0, 330),
    after=st.sampled_from([0, 100, 9_000]),
    where=st.sampled_from(sorted(WHERE)),
    word=st.sampled_from(["", "ERROR: ", "password:\n"]),
)
@settings(max_examples=200, deadline=None)
def test_no_stub_of_many_lines_has_half_a_secret(
    kind: str, before: int, after: int, where: str, word: str
) -> None:
    text, part = SECRETS[kind]
    lines = [LINE] * 8_000
    lines[WHERE[where]] = word + placed(text, before, after) + "\n"
    output = "".join(lines)
    assert len(output) > 2 * REDACTED_CHARS
    assert not leaked(part, shown_of(output))


@given(
    kind=kinds,
    at=st.one_of(st.integers(0, 1_000), st.integers(95_000, 117_000)),
    size=st.sampled_from([101_000, 180_000, 231_000, 233_000, 400_000]),
    is_late=st.booleans(),
    times=st.sampled_from([1, 1, 400]),
)
@settings(max_examples=120, deadline=None)
def test_no_stub_of_one_long_line_has_half_a_secret(
    kind: str, at: int, size: int, is_late: bool, times: int
) -> None:
    text, part = SECRETS[kind]
    words = "some words of a long line " * (size // 26)
    at = len(words) - at if is_late else at
    output = words[:at] + f" {text} " * times + words[at:]
    assert not leaked(part, shown_of(output))


@pytest.mark.parametrize("kind", sorted(SECRETS))
def test_a_line_is_cut_only_after_its_secrets_are_gone(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A shorter limit, because every kind is tried at many places.
    monkeypatch.setattr(stub, "REDACTED_CHARS", 1_500)
    text, part = SECRETS[kind]
    for before in range(0, 240, 7):
        output = "ERROR " + "x" * before + " " + text + "\n" + LINE * 60
        assert len(output) > stub.REDACTED_CHARS
        assert not leaked(part, shown_of(output))


def is_stub(block: Block) -> bool:
    return isinstance(block, ToolResult) and bool(block.artifact)


@given(kind=kinds, before=st.integers(0, 560))
@settings(max_examples=150, deadline=None)
def test_no_origin_has_half_a_secret(kind: str, before: int) -> None:
    text, part = SECRETS[kind]
    call = ToolCall("t", "run", {"command": placed(text, 40, 600), "z": "y" * before + " " + text})
    origin = origin_of(call, failing, redact=redacted)
    assert len(origin.arguments) <= 512
    assert not leaked(part, origin.arguments) and not leaked(part, origin.description)


def failing(reason: str) -> None:
    raise AssertionError(reason)


@given(kind=kinds, before=st.integers(0, 520))
@settings(max_examples=150, deadline=None)
def test_no_reason_of_a_notice_has_half_a_secret(kind: str, before: int) -> None:
    text, part = SECRETS[kind]
    words = placed(text, before, 400)
    assert not leaked(part, redacted(failure(ValueError(words))))


@given(text=st.text("ab \n", max_size=60), length=st.integers(0, 60))
def test_whole_words_never_ends_in_half_a_word(text: str, length: int) -> None:
    short = whole_words(text, length)
    assert text.startswith(short) and len(short) <= length
    assert {*short.split()} <= {*text.split()}
