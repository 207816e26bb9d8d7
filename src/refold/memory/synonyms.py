"""Everyday words that mean the same in a question and in a memory.

"Who is my boss?" should find "my manager is Helena". Vectors often know that, but not always, and
not every user has them. A whole group of synonyms is searched, at half the weight of the word
itself. In a small memory every word is rare, even one that says little (`day`): such a word counts
half as well. English; stems are compared, so a word includes all its forms. Neighbour: `ranking`
asks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec.structs import replace

from refold.memory.claim import LITTLE
from refold.patterns import regex
from refold.search.words import STOP, Query, Stems, Term

SYNONYM_WEIGHT = LITTLE_WEIGHT = 0.5
INITIALS = (2, 3, 4)  # words
# Phrases that mean one word.
_PHRASES = {
    "for a living": "job",
    "get up": "wake up",
    "gets up": "wakes up",
    "get to work": "commute",
    "look after": "maintain",
    "wedding day": "anniversary",
    "how old": "age",
    "how expensive": "price",
    "how heavy": "weight",
    "in charge": "responsible",
    "looks after": "maintain",
    "take care": "maintain",
    "takes care": "maintain",
    "runs the company": "ceo",
    "head of the company": "ceo",
}
_PHRASE = regex(rf"\b(?:{'|'.join(_PHRASES)})\b", re.IGNORECASE)
_WORD = regex(r"[^\W\d_]+")
_GROUPS = """
boss manager supervisor superior report; job work profession occupation employer career employed
position role; salary pay wage income earn; live home address reside city town moved; house home
apartment flat; phone telephone mobile cellphone; email mail; car vehicle drive automobile; wife
husband spouse partner married; girlfriend boyfriend partner dating; mother mom mum mama parent;
father dad papa parent; kid child children son daughter; brother sister sibling; grandmother grandma
granny; grandfather grandpa; dog puppy; cat kitten; doctor physician gp; birthday born birth; age
old born; allergy allergic intolerant intolerance; diet vegetarian vegan eat; favourite favorite
prefer like love best; hate dislike avoid allergic; hobby pastime play enjoy; holiday vacation trip
travel going; school university college degree study graduate; study learn course; teach teacher
lesson; loan mortgage interest; ceo director president; price cost fee; buy bought purchase;
appointment meeting; deadline due; server host hostname machine; password passphrase passcode code;
repo repository; deploy deployment release ship rollout; language speak; name called nickname; gym
exercise workout training; film movie; book novel read; instrument play; colour color; licence
license; neighbour neighbor; illness disease condition diagnosis ill; medicine medication pill drug;
bike bicycle cycle; commute train bus; weight weigh heavy kilo kilos kg; height tall cm measure;
meal breakfast lunch dinner eat; wear size; anniversary wedding; bank account savings; landlord rent
lease; start begin began started; finish end ended finished; own belong owner; lead maintain
maintainer owner responsible; team club squad; flight fly airline; hotel stay; shop store
supermarket; barber hairdresser haircut; glasses prescription; dba administrator; ci pipeline build;
prod production; db database; kubernetes k8s; qa tester test; gdpr privacy protection; vacation pto
leave; television tv; photo picture image; begin open; mortgage debt owe
"""
# Kinds and their members: a question about the car is answered by the Volvo, but not the reverse,
# and a Volvo is not an answer about a Fiat.
_KINDS = """
dog: beagle labrador retriever poodle collie terrier dachshund spaniel shepherd husky pug corgi
 bulldog hound whippet dalmatian
cat: shorthair siamese persian tabby ragdoll bengal tomcat
pet: dog cat rabbit hamster parrot budgie tortoise goldfish canary
car: volvo toyota skoda fiat ford audi bmw tesla honda renault peugeot citroen volkswagen golf kia
 hyundai mazda nissan opel mercedes subaru suzuki dacia jeep porsche polestar
phone: iphone pixel galaxy fairphone oneplus nokia android
laptop: thinkpad macbook framework xps chromebook
computer: thinkpad macbook laptop desktop
editor: vim neovim emacs vscode helix sublime zed intellij pycharm
browser: firefox chrome safari brave edge vivaldi
database: postgres postgresql mysql mariadb sqlite mongodb oracle dynamodb cassandra
system: linux ubuntu debian fedora windows macos nixos
cloud: aws azure gcp hetzner heroku
tracker: jira youtrack linear trello asana redmine bugzilla tickets
broker: kafka rabbitmq nats
queue: kafka rabbitmq nats
monitoring: prometheus grafana zabbix datadog nagios
chat: slack teams mattermost discord zulip whatsapp signal telegram
payment: stripe paypal mollie adyen klarna
language: english german french spanish italian portuguese swedish danish norwegian dutch japanese
 chinese mandarin arabic russian turkish greek polish finnish hindi python rust java kotlin
 javascript typescript ruby php elixir scala swift
instrument: piano guitar violin viola cello flute trumpet drums clarinet saxophone harp euphonium
 trombone oboe ukulele accordion organ
sport: running swimming tennis football soccer hockey climbing skiing cycling yoga badminton
 basketball volleyball rowing judo karate hiking padel squash fencing
drink: coffee tea beer wine juice espresso cocoa
allergy: pollen penicillin nuts peanuts lactose gluten fever rash
allergic: pollen penicillin nuts peanuts lactose gluten fever rash
spring: march april may
summer: june july august
autumn: september october november
winter: december january february
relative: mother father brother sister aunt uncle cousin nephew niece
doctor: dr cardiologist dermatologist gynaecologist pediatrician surgeon
school: preschool kindergarten teacher class
"""


def reworded(query: str) -> str:
    """A query with its phrases replaced by single words."""
    return _PHRASE.sub(lambda found: _PHRASES[found[0].lower()], query)


def _synonyms_by_word() -> Iterator[tuple[str, tuple[str, ...]]]:
    """Each word with its synonyms."""
    for line in _GROUPS.split(";"):
        group = tuple(line.split())
        yield from ((word, group) for word in group)
    for line in _KINDS.strip().replace("\n ", " ").split("\n"):
        kind, _, members = line.partition(":")
        yield kind, tuple(members.split())


class Synonyms:
    """The groups, by the stems of the index."""

    def __init__(self, stems: Stems) -> None:
        self._stems = stems
        self._little = {" ".join(stems(word)) for word in LITTLE}
        self._others: dict[str, dict[str, None]] = {}
        for word, group in _synonyms_by_word():
            own = " ".join(stems(word))
            others = {one: None for one in group if " ".join(stems(one)) != own}
            self._others.setdefault(own, {}).update(others)

    def weighed(self, query: Query) -> Query:
        """The query with a lower weight for words that say little, unless all do."""
        terms = [
            replace(term, weight=LITTLE_WEIGHT)
            if " ".join(self._stems(term.text)) in self._little
            else term
            for term in query.terms
        ]
        if all(term.weight == LITTLE_WEIGHT for term in terms):
            return query
        return replace(query, terms=tuple(terms))

    def of(self, query: Query) -> dict[str, Term]:
        """Additional terms for the individual words of a query, by word."""
        asked = {" ".join(self._stems(term.text)): term.text for term in query.terms}
        found: dict[str, Term] = {}
        short = _initials(query.text)
        for stem, text in asked.items():
            others = [word for word in self._others.get(stem, ()) if word not in asked]
            others += short.get(text.lower(), ())
            if others:
                match = f"({' OR '.join(others)})"
                found[text] = Term(match, f"{text}, or what means the same", SYNONYM_WEIGHT)
        return found


def _initials(text: str) -> dict[str, list[str]]:
    """Abbreviations of adjacent words, by word: CI for continuous integration; none that is a
    common word itself."""
    short: dict[str, list[str]] = {}
    words = _WORD.findall(text.lower())
    for size in INITIALS:
        for at in range(len(words) - size + 1):
            some = words[at : at + size]
            name = "".join(word[0] for word in some)
            if STOP.isdisjoint((*some, name)) and name not in LITTLE:
                for word in some:
                    short.setdefault(word, []).append(name)
    return short
