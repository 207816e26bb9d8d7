"""What leaves the house holds no secret: facts and ledger of a summary, a handover, a redacted
copy of a log."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import refold
from refold.config import config_from
from refold.conversations.exporter import chunks_of
from refold.conversations.importer import import_document
from refold.conversations.scanner import scan
from refold.conversations.verifier import verify
from refold.core import codec
from refold.core.model import Checkpoint, Replace, Span, Summarize
from refold.errors import Conflict
from refold.log.draft import Draft
from refold.log.log import Log
from refold.redaction import KnownSecrets, redacted, redactor, takes_emails
from refold.stores.in_memory import MemoryStore
from tests.redaction.secret_kinds import BASE64, EXAMPLES, PREFIXED, SURROUNDED, WORD, drawn
from tests.redaction.test_redact import secretive

TOKEN = "ghp_" + drawn("withheld token", WORD, 36)
PASSWORD = drawn("withheld password", WORD, 20)
ADDRESS = "jane.doe@" + "corp-mail.net"


def worked(store: MemoryStore | str = "memory:", **given) -> refold.Context:
    """A conversation whose requests, commands and errors hold secrets."""
    given.setdefault("window", 12_000)
    context = refold.open("work", store=store, **given)
    context.append(
        {
            "role": "user",
            "content": f"Fix the login.\n#7 user\nUse {TOKEN}, not hunter; ask {ADDRESS}.",
        }
    )
    for n in range(30):
        command = f"export DB_PASSWORD={PASSWORD} && curl -H 'x: {TOKEN}' host/{n}"
        function = {
            "name": "bash",
            "arguments": json.dumps({"command": command}, separators=(",", ":")),
        }
        call = {"id": f"c{n}", "type": "function", "function": function}
        context.append({"role": "assistant", "content": None, "tool_calls": [call]})
        context.append_result(
            f"c{n}", f"out {n}\nERROR: {TOKEN} was refused\n" + "some words to fill the page\n" * 9
        )
        if n % 10 == 9:
            context.append({"role": "user", "content": f"Next: use {TOKEN} for step {n}"})
    return context


def summaries(context: refold.Context) -> list[Summarize]:
    edits = [
        codec.decode(event) for event in context.log.events(limit=10_000) if event.kind == "edit"
    ]
    return [edit for edit in edits if isinstance(edit, Summarize)]


# --- summaries ---


def test_the_ledger_of_a_gist_holds_no_secret():
    """X-51: facts, one-line form and ledger are our own words; below them stand the page's own
    lines, as they are."""
    context = worked()
    receipt = context.compact(target=3_000)
    edits = summaries(context)
    assert edits and receipt.tokens_after == context.stats().current
    for edit in edits:
        assert not [fact for fact in edit.facts if TOKEN in fact.text or PASSWORD in fact.text]
        assert TOKEN not in edit.line
        lines = edit.text.split("\n")
        tags = [
            at
            for at, line in enumerate(lines)
            if line.startswith("#") and line.endswith((" agent", " tool"))
        ]
        assert TOKEN not in "\n".join(lines[: tags[0] if tags else None])
    assert [fact for fact in context.view.facts if "[redacted GitHub token]" in fact.text]
    assert not [fact for fact in context.view.facts if redacted(fact.text) != fact.text]


def test_summaries_that_are_no_named_channel_are_left_alone():
    context = worked(config={"redact": ["exports"]})
    context.compact(target=3_000)
    assert any(TOKEN in fact.text for fact in context.view.facts)


def test_a_todo_with_a_secret_that_is_finished_later_is_not_open_for_ever():
    context = worked(window=200_000)
    for state in ("open", "done"):
        todos = [
            {"content": f"rotate {TOKEN}", "status": "completed" if state == "done" else "pending"}
        ]
        function = {"name": "TodoWrite", "arguments": json.dumps({"todos": todos})}
        call = {"id": f"t{state}", "type": "function", "function": function}
        context.append({"role": "assistant", "content": None, "tool_calls": [call]})
        context.append_result(f"t{state}", "ok")
        for n in range(40):
            context.append(
                {
                    "role": "user" if n % 2 else "assistant",
                    "content": f"go on {state} {n} " + "word " * 60,
                }
            )
        context.compact("gist", target=4_000)
    states = [fact.state for fact in context.view.facts if fact.kind == "todo"]
    assert states == ["done"]


def test_another_agent_is_not_handed_a_secret():
    """X-51: a handover is a summary for somebody else."""
    with worked() as lead, lead.spawn("scout", task="look into it") as scout:
        page = str(scout.request("openai_chat"))
        assert TOKEN not in page and PASSWORD not in page and "[redacted GitHub token]" in page
    with worked() as lead, lead.spawn("scout", task="look", summary=f"use {TOKEN}") as scout:
        assert TOKEN not in str(scout.request("openai_chat"))
    with worked(config={"redact": False}) as lead, lead.spawn("scout", task="look") as scout:
        assert TOKEN in str(scout.request("openai_chat"))


# --- a copy of the log ---


def copied(store: MemoryStore, id: str) -> tuple[bytes, MemoryStore]:
    document, fresh = b"".join(chunks_of(store, id, "json", secrets=False)), MemoryStore()
    import_document(fresh, document)
    return document, fresh


def test_a_redacted_copy_holds_no_secret_and_verifies():
    """X-51: exports. It can be imported, verified, and gone on with."""
    store = MemoryStore()
    secrets = secretive(store)
    document, fresh = copied(store, "talk")
    assert [secret for secret in secrets if secret in document.decode()] == []
    assert scan(fresh).total == 0
    assert verify(fresh).problems == () and verify(fresh).artifacts == 2
    with refold.open("talk", store=fresh) as context:
        assert context.stats().title.startswith("Rotate [redacted ")
        outputs = context.artifacts.list()
        assert context.unfold(outputs[0].id).text.count("a line of output\n") == 20_000
        assert f"artifact://{outputs[0].id}" in str(context.request("openai_chat"))
        context.append({"role": "user", "content": "go on"})
    assert verify(fresh).problems == ()


def test_the_copy_of_a_compacted_conversation_shows_the_same_page():
    store = MemoryStore()
    with worked(store) as context:
        context.compact(target=3_000)
        page = str(context.request("openai_chat"))
    document, fresh = copied(store, "work")
    assert TOKEN not in document.decode() and PASSWORD not in document.decode()
    assert verify(fresh).problems == ()
    with refold.open("work", store=fresh, window=12_000) as copy:
        assert str(copy.request("openai_chat")) == page.replace(
            TOKEN, "[redacted GitHub token]"
        ).replace(f"={PASSWORD}", "=[redacted secret]")


def test_the_same_copy_twice_is_the_same_and_another_log_than_the_original():
    store = MemoryStore()
    secretive(store)
    document, fresh = copied(store, "talk")
    assert copied(store, "talk")[0] == document
    with pytest.raises(Conflict, match="already"):
        import_document(fresh, document)
    assert import_document(store, document).id == "talk-2"
    assert store.conversation("talk-2").chain != store.conversation("talk").chain
    assert verify(store).problems == ()


def test_a_log_without_secrets_says_the_same_in_its_copy():
    store = MemoryStore()
    with refold.open("plain", store=store, config={"offload_tokens": 100}) as context:
        context.append({"role": "user", "content": "see art-aaaaaaaaaaaa, a 漢字 and \ud800"})
        call = {
            "type": "tool_use",
            "id": "t1",
            "name": "run",
            "input": {"a": [1, 2.5, None, {"data": "AAAA"}]},
        }
        context.append({"role": "assistant", "content": [call]})
        context.append_result("t1", "a line of output\n" * 2_000)
        kept = context.artifacts.put(bytes(range(256)) * 40, name="bytes.bin")
    _, fresh = copied(store, "plain")
    before, after = store.read("plain"), fresh.read("plain")
    assert [event.body for event in after] == [event.body for event in before]
    assert all(one.salt != other.salt for one, other in zip(before, after))
    assert b"".join(fresh.get(kept.digest)) == bytes(range(256)) * 40


def test_erased_events_cleaned_contents_and_text_that_json_cannot_hold_are_copied():
    store = MemoryStore()
    with refold.open("odd", store=store, config={"offload_tokens": 100}) as context:
        [event] = context.append({"role": "user", "content": f"forget {TOKEN}"})
        context.append({"role": "user", "content": f"\ud800 {TOKEN} and so on"})
        lost = context.artifacts.put(f"{TOKEN}\n" * 50, name="a.txt")
        kept = context.artifacts.put(f"{TOKEN}\nkept\n" * 50, name="b.txt")
    store.erase("odd", event.seq)
    Log(store, "odd").append([Draft(body=lost, by="cleaner")])
    store.drop(lost.digest, before_ms=2**50)
    document, fresh = copied(store, "odd")
    assert TOKEN not in document.decode() and verify(fresh).problems == ()
    with refold.open("odd", store=fresh) as copy:
        assert [one.cleaned_ms > 0 for one in copy.artifacts.list()] == [True, False]
        assert (
            copy.unfold(copy.artifacts.list()[1].id).text == "[redacted GitHub token]\nkept\n" * 50
        )
        assert kept.id != copy.artifacts.list()[1].id
        assert copy.unfold("#2").text == "\ud800 [redacted GitHub token] and so on"


def test_lines_that_an_edit_keeps_are_the_same_in_the_copy():
    store = MemoryStore()
    lines = (drawn(f"key {n}", BASE64, 64) for n in range(20))
    key = "\n".join(
        ["-----BEGIN RSA " + "PRIVATE KEY-----", *lines, "-----END RSA " + "PRIVATE KEY-----"]
    )
    with refold.open("key", store=store) as context:
        call = {"id": "c1", "type": "function", "function": {"name": "cat", "arguments": "{}"}}
        context.append({"role": "assistant", "content": None, "tool_calls": [call]})
        text = "\n".join(
            [*(f"before {n}" for n in range(30)), key, *(f"after {n}" for n in range(30))]
        )
        [event] = context.append_result("c1", text)
        edit = Replace(batch="b", seq=event.seq, block=0, keep=(Span(60, 65),))
        Log(store, "key").append([Draft(body=edit, by="user")])
    _, fresh = copied(store, "key")
    pages = [
        refold.Context(there, "key").request("openai_chat")["messages"] for there in (store, fresh)
    ]
    assert "after 10" in str(pages[0]) and pages[0] == pages[1]
    assert verify(fresh).problems == () and scan(fresh).total == 0


def test_a_thought_that_was_changed_is_no_longer_signed():
    store = MemoryStore()
    with refold.open("thought", store=store, model="claude-sonnet-4-5") as context:
        context.append({"role": "user", "content": "think"})
        for text in (f"the token is {TOKEN}", "nothing special"):
            thought = {"type": "thinking", "thinking": text, "signature": "c2ln" * 20}
            context.append(
                {"role": "assistant", "content": [thought, {"type": "text", "text": "done"}]}
            )
            context.append({"role": "user", "content": "again"})
    _, fresh = copied(store, "thought")
    bodies = [
        msgspec.json.decode(event.body)
        for event in fresh.read("thought")
        if event.kind == "message"
    ]
    thoughts = [block for body in bodies for block in body["blocks"] if block["type"] == "thinking"]
    assert ["signature" in thought for thought in thoughts] == [False, True]
    assert verify(fresh).problems == ()


# --- e-mail ---


def test_addresses_go_only_where_the_setting_says_so(tmp_path):
    """X-51: e-mail optional."""
    said = f"write to {ADDRESS}, mailto:{ADDRESS} or <{ADDRESS}>"
    assert redacted(said) == said and redactor(True, "summaries")(said) == said
    wanted = config_from({"redact": ["summaries", "exports", "emails"]}).redact
    clean = redactor(wanted, "summaries")
    assert (
        clean(said) == "write to [redacted e-mail], mailto:[redacted e-mail] or <[redacted e-mail]>"
    )
    assert takes_emails(wanted) and not takes_emails(True)
    assert clean(clean(said)) == clean(said) and redactor(wanted, "logs")(said) == said
    for text in ("git@github.com:a/b.git", "icon@2x.png", "@property", "user@localhost", "a @ b.c"):
        assert clean(text) == text
    context = worked(config={"redact": wanted})
    for name in ("a.md", "b.json"):
        context.log.export(str(tmp_path / name), secrets=False)
        assert (
            ADDRESS not in (tmp_path / name).read_text()
            and TOKEN not in (tmp_path / name).read_text()
        )


def test_every_kind_is_taken_out_of_a_copy():
    store = MemoryStore()
    secrets = ["".join(parts) for examples in PREFIXED.values() for parts in examples]
    with refold.open("all", store=store) as context:
        for n, secret in enumerate(secrets):
            function = {
                "name": "run",
                "arguments": json.dumps({"a": secret, secret: 1, "list": [{"b": secret}]}),
            }
            call = {"id": f"c{n}", "type": "function", "function": function}
            context.append({"role": "assistant", "content": f"see {secret}", "tool_calls": [call]})
            context.append_result(f"c{n}", {"data": secret, "text": f"x {secret} y"})
    document, fresh = copied(store, "all")
    assert [secret for secret in secrets if secret in document.decode()] == []
    assert verify(fresh).problems == ()


# --- every place of a log ---

EVERY = [(kind, secret, secret) for kind, secret in EXAMPLES]
EVERY += [(kind, text, part) for kind, (text, part) in SURROUNDED.items()]


def wrote(store: MemoryStore, text: str) -> None:
    """A conversation that has a text in every place where a caller can put one."""
    with refold.open(
        "every", store=store, window=8_000, config={"offload_tokens": 400}, embedder=False,
        writer=lambda request: f"Goal: the form. Done: {text}. Next: go on with #2.",
    ) as context:  # fmt: skip
        context.update(
            title=f"Rotate {text}", tags=[text], metadata={"about": text, "deep": [{text: [text]}]}
        )
        context.update(system=f"You know {text}.", tools=[{"name": "run", "description": text}])
        context.checkpoint(f"before {text}"[:90])
        for n in range(12):
            context.append({"role": "user", "content": f"look at src/form{n}.py\n{text}\n" * 2})
            call = {"type": "tool_use", "id": f"t{n}", "name": f"run_{text}"[:60] if n % 2 else "run",
                    "input": {"content": json.dumps({"inner": text}), "plain": text, text: 1}}  # fmt: skip
            context.append({"role": "assistant", "content": [call]})
            context.append_result(f"t{n}", {"log": json.dumps({"msg": text}), "text": f"x {text}"})
        context.append({"role": "user", "content": "go on"})
        context.artifacts.put(f"a line\n{text}\n" * 200, name=f"{text}.txt"[:100])
        context.compact("gist", target=2_500)
        context.compact("summarize")
    Log(store, "every").append([Draft(body=Checkpoint(name="x", seq=1), by=f"agent {text}")])


@pytest.mark.parametrize(("kind", "text", "part"), EVERY)
def test_a_copy_keeps_no_secret_in_any_place(kind, text, part):
    """X-51: authors, names of tools, notes, facts, metadata, titles, tags."""
    store = MemoryStore()
    wrote(store, text)
    document, fresh = copied(store, "every")
    whole = document.decode()
    assert part not in whole
    assert json.dumps(part)[1:-1] not in whole
    assert verify(fresh).problems == ()
    shown = b"".join(chunks_of(store, "every", "markdown")).decode()
    assert part not in shown.replace("\\", "")


def test_the_names_that_a_gist_notes_hold_no_part_of_a_secret():
    """The password stands in an address, and alone in the notes of the gist."""
    store = MemoryStore()
    password = "s3cr3t" + "Passw0rd"
    with refold.open("gist", store=store, window=200_000) as context:
        context.append({"role": "user", "content": "deploy the service"})
        env = f"DATABASE_URL=postgres://bob:{password}@db.example.com/x\nmore"
        for n in range(13):
            call = {
                "type": "tool_use",
                "id": f"t{n}",
                "name": "bash",
                "input": {"command": f"cat {n}"},
            }
            context.append({"role": "assistant", "content": [call]})
            lines = "".join(f"def q{n}_{i}(x): return x + {i}\n" for i in range(20))
            context.append_result(f"t{n}", lines if n else env)
        context.append({"role": "user", "content": "go on"})
        context.compact("gist", target=800)
    assert password in b"".join(chunks_of(store, "gist", "json")).decode()
    document, fresh = copied(store, "gist")
    assert password not in document.decode() and verify(fresh).problems == ()


def test_a_word_that_is_a_password_somewhere_stays_a_word_elsewhere():
    store = MemoryStore()
    with refold.open("word", store=store) as context:
        context.append(
            {"role": "user", "content": "open postgres://bob:assistant@db.example.com/x"}
        )
        context.append({"role": "assistant", "content": "the assistant helps"})
    document, fresh = copied(store, "word")
    assert b"bob:assistant" not in document and b"the assistant helps" in document
    assert verify(fresh).problems == ()


def test_a_field_of_bytes_keeps_no_secret_that_is_known_from_elsewhere():
    store = MemoryStore()
    with refold.open("bytes", store=store) as context:
        context.append({"role": "user", "content": f"export DB_PASSWORD={PASSWORD}"})
        context.update(metadata={"data": PASSWORD, "by": [PASSWORD]})
    document, fresh = copied(store, "bytes")
    assert PASSWORD not in document.decode() and verify(fresh).problems == ()


OLDER = {
    f"{kind} {n}": ("".join(parts), "".join(parts)[len(parts[0]) :])
    for kind, examples in PREFIXED.items()
    for n, parts in enumerate(examples)
}


@given(
    kind=st.sampled_from(sorted(OLDER)),
    first=st.integers(0, 150),
    size=st.integers(10, 150),
    before=st.sampled_from(["", "the key is …", "x", "a "]),
)
@settings(max_examples=150, deadline=None)
def test_the_copy_of_an_older_log_shows_no_part_of_a_secret(kind, first, size, before):
    """Written before secrets were taken out, or by another hand: a gist, a name, a note and a title
    may have been cut in the middle of one."""
    text, own = OLDER[kind]
    part = f"{before}{text[first : first + size]}… and on"
    store = MemoryStore()
    with refold.open("old", store=store, config=config_from({"redact": False})) as context:
        context.append({"role": "user", "content": f"use {text} for it"})
        context.append({"role": "assistant", "content": "I do"})
        context.compact(span=(1, 2), summary=f"Earlier: {part}", author="other")
        context.note("state", {"line": part})
        context.checkpoint(f"at {part}"[:60])
        context.update(title=part, names=[f"n {part}"])
        context.append({"role": "user", "content": f"again {part}"})
    document, fresh = copied(store, "old")
    shown = b"".join(chunks_of(store, "old", "markdown")).decode().replace("\\", "")
    assert verify(fresh).problems == ()
    pieces = [own[at : at + 10] for at in range(len(own) - 9)]
    assert [one for one in pieces if one in document.decode() or one in shown] == []


def test_what_secrets_of_a_kind_begin_with_may_be_said():
    known = KnownSecrets()
    known.learn(f"use {TOKEN} for it")
    assert known.redacted("such keys begin with ghp_ and go on") == (
        "such keys begin with ghp_ and go on"
    )
    assert TOKEN[4:16] not in known.redacted(f"cut: {TOKEN[:16]}…")
