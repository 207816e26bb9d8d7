"""What a later session gets of what earlier ones settled, without a model.

Like things: many things of a kind, each with a value that changes twice, told in ways that never say what they
replace, in three languages; asked is the value now. Chains: the messages of real sessions of a project are played,
a conversation each, and the request of the next is searched for, `search(request, everywhere=True)`, five hits as
shown. Rules that change: a mentor's talks over many sessions are played, and a new session gets a task that
shares hardly a word with the rule; the page must have the rule's last version.

    python -m bench.days_later [FOLDER]
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


def listed(names: str) -> list[str]:
    return names.split()


PEOPLE = listed(
    "Ines Tomas Ragna Bruno Yara Leif Mona Karim Sonja Abel Vera Hugo Lotte Emil Noor Silas"
)
PLACES = listed("Bergen Visby Turku Riga Kiel Aarhus Tallinn Oulu Narvik Odense")
TOOLS = listed("Redis Kafka Ceph Postgres MinIO Azure SQLite Dropbox Nexus Vault")
# For each kind: the things, the values, the first statement, changes, and the question.
KINDS: dict[str, list[tuple[list[str], list[str], list[str], str]]] = {
    "English": [
        (PEOPLE, PLACES, ["{s} lives in {v}.", "{s} moved to {v} last week.", "{s} has left for {v}, and is there now."], "Where does {s} live?"),
        ([f"crane {n}" for n in range(1, 21)], [], ["The inspection code of {s} is {v}.", "For {s} the inspection code is {v} from now on.", "{s} got a new inspection code: {v}."], "What is the inspection code of {s}?"),
        (listed("payroll customs radar fuel weather pilot berth rail ferry crew"), PEOPLE, ["{v} is responsible for the {s} desk.", "The {s} desk is with {v} since Monday.", "{v} took over the {s} desk."], "Who runs the {s} desk?"),
        (listed("invoices photos manifests backups maps tickets rosters keys"), TOOLS, ["We keep the {s} in {v}.", "The {s} are in {v} instead.", "We put the {s} into {v} now."], "Where do we keep the {s}?"),
    ],
    "German": [
        (PEOPLE, PLACES, ["{s} wohnt in {v}.", "{s} ist nach {v} gezogen.", "{s} wohnt inzwischen in {v}."], "Wo wohnt {s}?"),
        ([f"Kran {n}" for n in range(1, 21)], [], ["Der Prüfcode von {s} ist {v}.", "Ab jetzt gilt für {s} der Prüfcode {v}.", "{s} hat einen neuen Prüfcode bekommen: {v}."], "Wie lautet der Prüfcode von {s}?"),
        (listed("Lohn Zoll Radar Treibstoff Wetter Lotsen Bahn Fähren"), PEOPLE, ["{v} ist für das Büro {s} zuständig.", "Das Büro {s} leitet nun {v}.", "{v} hat das Büro {s} übernommen."], "Wer leitet das Büro {s}?"),
        (listed("Rechnungen Fotos Karten Protokolle Schlüssel Tickets"), TOOLS, ["Die {s} liegen in {v}.", "Die {s} liegen nicht mehr dort, sondern in {v}.", "Wir haben die {s} nach {v} verschoben."], "Wo liegen die {s}?"),
    ],
    "French": [
        (PEOPLE, PLACES, ["{s} habite à {v}.", "{s} a déménagé à {v}.", "Désormais, {s} habite à {v}."], "Où habite {s} ?"),
        ([f"grue {n}" for n in range(1, 21)], [], ["Le code d'inspection de la {s} est {v}.", "À partir de maintenant, la {s} a le code d'inspection {v}.", "La {s} a reçu un nouveau code d'inspection : {v}."], "Quel est le code d'inspection de la {s} ?"),
        (listed("paie douane radar carburant météo pilotage ferry rail"), PEOPLE, ["{v} est responsable du bureau {s}.", "Le bureau {s} est maintenant dirigé par {v}.", "{v} a repris le bureau {s}."], "Qui dirige le bureau {s} ?"),
        (listed("factures photos cartes sauvegardes billets clés"), TOOLS, ["Nous gardons les {s} dans {v}.", "Les {s} ne sont plus là mais dans {v}.", "Nous avons déplacé les {s} vers {v}."], "Où sont les {s} ?"),
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


def lines_of(path: Path) -> Iterator[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        yield from map(json.loads, file)


def played(store: str, name: str, messages: list[dict[str, Any]], day: datetime) -> None:
    """A stored session as a conversation of its own, with the one documented setting."""
    with refold.open(name, store=store, window=200_000, config=SETTINGS) as context:
        for one in messages:
            calls = [
                {"id": call["id"], "type": "function", "function": {"name": call["name"], "arguments": json.dumps(call["arguments"])}}
                for call in one.get("tool_calls") or ()
            ]  # fmt: skip
            message = {
                "role": one["role"],
                "content": one["content"] or None if calls else one["content"],
            }
            if calls:
                message["tool_calls"] = calls
            if one["role"] == "tool":
                message["tool_call_id"] = one["tool_call_id"]
            context.append(message, at=day)


class Chains(NamedTuple):
    """The shares of facts of each kind in the first five hits and in a hand-over, and their mean tokens."""

    search: dict[str, float]
    search_tokens: float
    handover: dict[str, float]
    handover_tokens: float


def chains(folder: Path) -> Chains:
    """Searches for the first request of each later session, and hands over all earlier ones."""
    found: dict[str, list[bool]] = {}
    handed: dict[str, list[bool]] = {}
    sizes: list[tuple[int, int]] = []
    for chain in lines_of(folder / "chains.jsonl.gz"):
        with tempfile.TemporaryDirectory() as place:
            store = f"sqlite:{place}/store.db"
            for number, session in enumerate(chain["sessions"]):
                if number and session["needs"]:
                    request = next(
                        one["content"] for one in session["messages"] if one["role"] == "user"
                    )
                    with refold.open(f"asked-{number}", store=store) as context:
                        hits = context.search(
                            " ".join(request.split()), limit=HITS, everywhere=True
                        )
                        seen = "\n".join(hit.snippet for hit in hits)
                        whole = context.handover()
                    sizes.append((len(seen) // 4, len(whole) // 4))
                    for need in session["needs"]:
                        flags = re.IGNORECASE if "i" in str(need.get("flags", "")).lower() else 0
                        pattern = re.compile(need["pattern"], flags)
                        found.setdefault(need["kind"], []).append(bool(pattern.search(seen)))
                        handed.setdefault(need["kind"], []).append(bool(pattern.search(whole)))
                played(
                    store, f"session-{number}", session["messages"], START + timedelta(days=number)
                )
    means = [{kind: sum(hits) / len(hits) for kind, hits in one.items()} for one in (found, handed)]
    searched, shown = (sum(one) / max(1, len(sizes)) for one in zip(*sizes))
    return Chains(means[0], searched, means[1], shown)


class Rules(NamedTuple):
    """Of rules with a literal: the shares whose last version, and whose earlier version alone, is on the page, and
    the mean tokens of the page beside the request."""

    current: float
    outdated: float
    tokens: float


def rules(folder: Path, *, half: int | None = None) -> Rules:
    """Plays the talks of a mentor, and looks for each rule on the page of a new session with its task."""
    topics = {
        one["id"]: one for one in json.loads((folder / "topics.json").read_text())["instructions"]
    }
    shown: list[tuple[bool, bool]] = []
    sizes: list[int] = []
    talks = [
        one for one in lines_of(folder / "dialogues.jsonl.gz") if len(one["sessions"]) in SESSIONS
    ]
    for talk in talks if half is None else talks[half::2]:
        with tempfile.TemporaryDirectory() as place:
            store = f"sqlite:{place}/store.db"
            names = talk["context"]["mentor"], talk["context"]["mentee"]
            for number, session in enumerate(talk["sessions"]):
                parts = re.split(rf"(?m)^({'|'.join(map(re.escape, names))}): ?", session["text"])[
                    1:
                ]
                messages = [
                    {"role": "user" if who == names[0] else "assistant", "content": text.strip()}
                    for who, text in zip(parts[::2], parts[1::2])
                    if text.strip()
                ]
                played(store, f"session-{number:02}", messages, START + timedelta(days=number))
            now: dict[int, int] = {}
            before: dict[int, set[int]] = {}
            for topic, version in (
                one for row in talk["instructions"] for one in row if isinstance(one, list)
            ):
                if topic in now and now[topic] != version:
                    before.setdefault(topic, set()).add(now[topic])
                now[topic] = version
            for topic, version in now.items():
                if topic not in topics or not _literal(topics[topic]["text"][version]):
                    continue
                task = f"Write a {topics[topic]['eval_query']}."
                with refold.open(
                    f"new-{topic}", store=store, window=200_000, config=SETTINGS
                ) as context:
                    context.append({"role": "user", "content": task}, at=START + timedelta(days=90))
                    page = str(context.request(dialect="openai_chat")["messages"][1:]).replace(
                        "\\'", "'"
                    )
                sizes.append(len(page) // 4)
                there = _is_told(topics[topic], version, page)
                is_old = any(
                    _is_told(topics[topic], one, page)
                    for one in before.get(topic, set()) - {version}
                )
                shown.append((there, is_old and not there))
    share = [sum(column) / len(shown) for column in zip(*shown)]
    return Rules(share[0], share[1], sum(sizes) / len(sizes))


def _literal(rule: str) -> str:
    found = re.search(r"'([^']+)'", rule)
    return found[1] if found else ""


def _is_told(topic: dict[str, Any], version: int, page: str) -> bool:
    """Whether the literal of a rule stands near the kind of name that it is about."""
    kind = topic["regex"][version][0]
    noun = "argument" if kind == "function argument" else kind.split()[0]
    literal = rf"(?<!\w){re.escape(_literal(topic['text'][version]))}(?!\w)"
    pattern = rf"{literal}[\s\S]{{0,160}}{noun}|{noun}[\s\S]{{0,160}}{literal}"
    return bool(_literal(topic["text"][version]) and re.search(pattern, page, re.IGNORECASE))


def run(folder: Path | None) -> list[Table]:
    """All tables; those of stored sessions only with their folder."""
    table = Table("Days later, goals", ["what", "refold", "goal", "met"])
    for language, embedder in product(KINDS, (False, None)):
        found = like_things(language, embedder=embedder)
        name = f"like things, {language}, {'text' if embedder is False else 'text and vectors'}"
        table.at_least(f"{name}: about the right thing", found.thing, 0.98)
        table.at_least(f"{name}: current value first", found.first, 0.85)
        table.at_least(f"{name}: current value in three", found.in_three, 0.95)
    if folder is not None and (folder / "chains").is_dir():
        got = chains(folder / "chains")
        table.at_least("chains, search, five hits: facts checked", got.search["checked"], 0.85)
        table.at_most("chains, search, five hits: tokens", got.search_tokens, 1_200)
        for kind, goal in (("checked", 0.95), ("standing", 0.90), ("file", 0.52)):
            table.at_least(f"chains, hand-over: {kind}", got.handover[kind], goal)
        table.at_most("chains, hand-over: tokens", got.handover_tokens, 2_000)
    if folder is not None and (folder / "memorycode").is_dir():
        said = rules(folder / "memorycode")
        table.at_least("rules that change: current on the page", said.current, 0.75)
        table.at_most("rules that change: only an outdated one", said.outdated, 0.02)
        table.at_most("rules that change: tokens", said.tokens, 1_500)
    return [table]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path)
    print(text_of_tables(run(parser.parse_args().folder)))


if __name__ == "__main__":
    main()
