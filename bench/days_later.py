"""What a later session gets of what earlier ones settled, without a model.

Like things: many things of a kind, each with a value that changes twice, told in ways that never say what they
replace, in three languages; asked is the value now. Chains: the messages of real sessions of a project are played,
a conversation each, and the request of the next is searched for, `search(request, everywhere=True)`, five hits as
shown. Rules that change: a mentor's talks over many sessions are played, and a new session gets a task that
shares hardly a word with the rule; the page must have the rule's last version.

    python -m bench.days_later FOLDER [--like]
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import re
import tempfile
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import refold
from bench.tables import Table, text_of_tables

START = datetime(2026, 1, 5, 9, tzinfo=UTC)
SETTINGS = {"memory_extract": "keep"}
HITS, SESSIONS = 5, (10, 15, 20, 30)
PEOPLE = "Ines Tomas Ragna Bruno Yara Leif Mona Karim Sonja Abel Vera Hugo Lotte Emil Noor Silas".split()
PLACES = "Bergen Visby Turku Riga Kiel Aarhus Tallinn Oulu Narvik Odense".split()
TOOLS = "Redis Kafka Ceph Postgres MinIO Azure SQLite Dropbox Nexus Vault".split()
# For each kind: the things, the values, the first statement, changes, and the question.
KINDS: dict[str, list[tuple[list[str], list[str], list[str], str]]] = {
    "English": [
        (PEOPLE, PLACES, ["{s} lives in {v}.", "{s} moved to {v} last week.", "{s} has left for {v}, and is there now."], "Where does {s} live?"),
        ([f"crane {n}" for n in range(1, 21)], [], ["The inspection code of {s} is {v}.", "For {s} the inspection code is {v} from now on.", "{s} got a new inspection code: {v}."], "What is the inspection code of {s}?"),
        ("payroll customs radar fuel weather pilot berth rail ferry crew".split(), PEOPLE, ["{v} is responsible for the {s} desk.", "The {s} desk is with {v} since Monday.", "{v} took over the {s} desk."], "Who runs the {s} desk?"),
        ("invoices photos manifests backups maps tickets rosters keys".split(), TOOLS, ["We keep the {s} in {v}.", "The {s} are in {v} instead.", "We put the {s} into {v} now."], "Where do we keep the {s}?"),
    ],
    "German": [
        (PEOPLE, PLACES, ["{s} wohnt in {v}.", "{s} ist nach {v} gezogen.", "{s} wohnt inzwischen in {v}."], "Wo wohnt {s}?"),
        ([f"Kran {n}" for n in range(1, 21)], [], ["Der Prüfcode von {s} ist {v}.", "Ab jetzt gilt für {s} der Prüfcode {v}.", "{s} hat einen neuen Prüfcode bekommen: {v}."], "Wie lautet der Prüfcode von {s}?"),
        ("Lohn Zoll Radar Treibstoff Wetter Lotsen Bahn Fähren".split(), PEOPLE, ["{v} ist für das Büro {s} zuständig.", "Das Büro {s} leitet nun {v}.", "{v} hat das Büro {s} übernommen."], "Wer leitet das Büro {s}?"),
        ("Rechnungen Fotos Karten Protokolle Schlüssel Tickets".split(), TOOLS, ["Die {s} liegen in {v}.", "Die {s} liegen nicht mehr dort, sondern in {v}.", "Wir haben die {s} nach {v} verschoben."], "Wo liegen die {s}?"),
    ],
    "French": [
        (PEOPLE, PLACES, ["{s} habite à {v}.", "{s} a déménagé à {v}.", "Désormais, {s} habite à {v}."], "Où habite {s} ?"),
        ([f"grue {n}" for n in range(1, 21)], [], ["Le code d'inspection de la {s} est {v}.", "À partir de maintenant, la {s} a le code d'inspection {v}.", "La {s} a reçu un nouveau code d'inspection : {v}."], "Quel est le code d'inspection de la {s} ?"),
        ("paie douane radar carburant météo pilotage ferry rail".split(), PEOPLE, ["{v} est responsable du bureau {s}.", "Le bureau {s} est maintenant dirigé par {v}.", "{v} a repris le bureau {s}."], "Qui dirige le bureau {s} ?"),
        ("factures photos cartes sauvegardes billets clés".split(), TOOLS, ["Nous gardons les {s} dans {v}.", "Les {s} ne sont plus là mais dans {v}.", "Nous avons déplacé les {s} vers {v}."], "Où sont les {s} ?"),
    ],
}  # fmt: skip


class Like(NamedTuple):
    """The shares of questions with a first hit about the right thing, with the current value first, and with it
    among three."""

    thing: float
    first: float
    in_three: float


def like_things(language: str, *, seed: int = 3, embedder: bool | None = None) -> Like:
    """Stores the things of all kinds, their changes told out of order, and asks for each."""
    chance = random.Random(seed)
    told: list[tuple[datetime, str]] = []
    asked: list[tuple[str, str, str]] = []
    for things, values, said, question in KINDS[language]:
        for thing in things:
            known = values or [str(chance.randrange(1_000, 9_999)) for _ in said]
            for turn, (form, value) in enumerate(zip(said, chance.sample(known, len(said)))):
                day = START + timedelta(days=30 * turn, minutes=chance.randrange(20_000))
                text = form.format(s=thing, v=value)
                told.append((day, text[0].upper() + text[1:]))
            asked.append((question.format(s=thing), thing, value))
    chance.shuffle(told)
    right = Counter[str]()
    with refold.open_memory(store="memory:", embedder=embedder) as memory:
        for day, text in told:
            memory.store(text, at=day)
        for question, thing, value in asked:
            hits = [one.content.casefold() for one in memory.retrieve(question, 3)]
            is_thing = re.search(rf"\b{re.escape(thing.casefold())}\b", hits[0] if hits else "")
            right["thing"] += bool(is_thing)
            right["first"] += bool(hits) and value.casefold() in hits[0]
            right["three"] += any(value.casefold() in hit for hit in hits)
    return Like(*(right[one] / len(asked) for one in ("thing", "first", "three")))
