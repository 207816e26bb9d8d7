"""Acts: nothing is written before a yes, the price is that of the act, and an old head is refused."""

from __future__ import annotations

import json
import random
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import refold
from refold.edges.ui.answers import Answers
from refold.errors import Conflict, Denied, Invalid, RefoldError
from tests.edges.ui.conftest import Running, write_session
from tests.edges.ui.test_answers import ask

SEED = secrets.randbits(32)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    place = tmp_path / "refold.db"
    write_session(place)
    return place


@pytest.fixture
def answers(store: Path) -> Iterator[Answers]:
    answers = Answers(f"sqlite:{store}")
    yield answers
    answers.close()


def call(answers: Answers, name: str, **act: Any) -> Any:
    return getattr(answers, name)({"id": "talk"}, json.dumps(act).encode())


def page(store: Path) -> tuple[int, list[tuple[int, int, int]]]:
    """The head, and the page as it is in the store."""
    with refold.open("talk", store=f"sqlite:{store}", read_only=True) as context:
        slots = [(slot.seq, slot.last, slot.tokens) for slot in context.view.slots]
        return context.view.head, slots


def test_every_act_costs_what_was_shown_and_can_be_undone(answers: Answers, store: Path) -> None:
    """Random acts: the rehearsal writes nothing, the act leads to the very page that it promised."""
    chance = random.Random(SEED)
    for _ in range(12):
        head, slots = page(store)
        columns = ask(answers, "conversation", id="talk")
        seqs = [slot[0] for slot in slots] or [1]
        live = [one["id"] for one in columns["compactions"] if one["live"]]
        act = chance.choice(
            [
                {"act": "pin", "seq": chance.choice(seqs)},
                {"act": "unpin", "seq": chance.choice(columns["pins"] or seqs)},
                {"act": "hide", "seq": chance.choice(seqs)},
                {"act": "undo"},
                {"act": "redo"},
                {"act": "compact"},
                {"act": "clear"},
                {"act": "restore", "seq": chance.choice(seqs)},
                {"act": "undo", "batches": [chance.choice(live)] if live else []},
            ]
        )
        try:
            tried = call(answers, "rehearse", **act)
        except RefoldError as error:  # such as the latest request, or nothing to redo
            assert error.hint or error.message
            assert page(store) == (head, slots), (SEED, act)
            continue
        assert page(store) == (head, slots) and tried["head"] == head, (SEED, act)
        call(answers, "do", **act, head=tried["head"])
        columns = ask(answers, "conversation", id="talk")
        assert columns["current"] == tried["after"], (SEED, act)
        assert len(page(store)[1]) == tried["pieces"][1], (SEED, act)
        assert tried["nothing"] == (page(store)[1] == slots), (SEED, act)


def test_an_act_at_an_old_head_is_refused(answers: Answers, store: Path) -> None:
    """Story 6: somebody else writes between the price and the yes."""
    seq = page(store)[1][-2][0]
    tried = call(answers, "rehearse", act="hide", seq=seq)
    with refold.open("talk", store=f"sqlite:{store}") as context:
        context.append({"role": "assistant", "content": "Meanwhile."})
    before = page(store)
    with pytest.raises(Conflict):
        call(answers, "do", act="hide", seq=seq, head=tried["head"])
    assert page(store) == before
    again = call(answers, "rehearse", act="hide", seq=seq)
    call(answers, "do", act="hide", seq=seq, head=again["head"])
    assert page(store)[0] > before[0]


def test_undoing_an_older_compaction_names_those_that_cover_it(
    answers: Answers, store: Path
) -> None:
    """Story 5: undone together, the messages come back; redone, the page is as before."""
    before = page(store)
    columns = ask(answers, "conversation", id="talk")
    live = [one["id"] for one in columns["compactions"] if one["live"]]
    assert len(live) > 2
    alone = call(answers, "rehearse", act="undo", batches=[live[0]])
    assert alone["covered_by"]
    together = [*reversed(alone["covered_by"]), live[0]]
    tried = call(answers, "rehearse", act="undo", batches=together)
    assert not tried["covered_by"] and tried["pieces"][1] > alone["pieces"][1]
    call(answers, "do", act="undo", batches=together, head=tried["head"])
    assert len(page(store)[1]) == tried["pieces"][1]
    for _ in together:
        head = ask(answers, "conversation", id="talk")["head"]
        call(answers, "do", act="redo", head=head)
    assert page(store)[1] == before[1] and page(store)[0] > before[0]


def test_a_view_that_only_reads_offers_no_acts(store: Path) -> None:
    answers = Answers(f"sqlite:{store}", read_only=True)
    assert ask(answers, "conversation", id="talk")["acts"] is False
    for name in ("rehearse", "do"):
        with pytest.raises(Denied):
            call(answers, name, act="undo", head=page(store)[0])
    answers.close()


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b'{"act":"erase","seq":1}', b'{"act":"pin","seq":"x"}', b'{"act":"pin","x":1}'],
)
def test_what_is_no_act_is_refused(answers: Answers, store: Path, body: bytes) -> None:
    before = page(store)
    for name in ("rehearse", "do"):
        with pytest.raises(Invalid):
            getattr(answers, name)({"id": "talk"}, body)
    assert page(store) == before


def test_only_the_page_may_act(tmp_path: Path) -> None:
    """By raw bytes: without Origin, cookie or content type nothing is done."""
    place = tmp_path / "refold.db"
    write_session(place, turns=3)
    server = Running(place)
    _, headers, _ = server.enter(server.key)
    cookie = f"Cookie: {headers['set-cookie'].split(';')[0]}"
    own = [cookie, f"Origin: http://{server.host}", "Content-Type: application/json"]
    before = page(place)
    body = json.dumps({"act": "compact", "head": before[0]}).encode()
    for left_out in range(3):
        given = [line for at, line in enumerate(own) if at != left_out]
        status, _, _ = server.call("/api/s/talk/do", *given, method="POST", body=body)
        assert status in (400, 401, 403)
    assert server.call("/api/s/talk/do", cookie)[0] == 405
    assert page(place) == before
    status, _, answer = server.call("/api/s/talk/rehearse", *own, method="POST", body=body)
    assert status == 200 and json.loads(answer)["head"] == before[0]
    server.stop()
