"""Words of everyday life that stand for each other in what is asked and what is remembered.

Who asks "who is my boss?" looks for "my manager is Helena". Vectors often know, but not always, and
not everybody has them. A group is looked for as a whole, at half the worth of the word itself. In a
small memory every word is rare, also one that says little (`day`): those count half as well.
English; stems are compared, so a word stands for all its forms. Neighbour: `finder` asks.
"""

from __future__ import annotations

import re

from msgspec.structs import replace

from refold.memory.vocabulary import LITTLE
from refold.search.words import Query, Stems, Term

SYNONYM_WEIGHT = LITTLE_WEIGHT = 0.5
# What is said in several words, and means one.
_PHRASES = {
    "for a living": "job",
    "get up": "wake up",
    "gets up": "wakes up",
    "get to work": "commute",
    "look after": "care for",
    "wedding day": "anniversary",
    "how old": "age",
    "how expensive": "price",
    "how heavy": "weight",
}
_PHRASE = re.compile(rf"\b(?:{'|'.join(_PHRASES)})\b", re.IGNORECASE)
_GROUPS = """
boss manager supervisor superior report
job work profession occupation employer career employed position role
salary pay wage income earn
live home address reside city town moved
house home apartment flat
phone telephone mobile cellphone
email mail
car vehicle drive automobile
wife husband spouse partner married
girlfriend boyfriend partner dating
mother mom mum mama parent
father dad papa parent
kid child children son daughter
brother sister sibling
grandmother grandma granny
grandfather grandpa
dog puppy
cat kitten
doctor physician gp
birthday born birth
age old born
allergy allergic intolerant intolerance
diet vegetarian vegan eat
favourite favorite prefer like love best
hate dislike avoid allergic
hobby pastime play enjoy
holiday vacation trip travel going
school university college degree study graduate
study learn course
teach teacher lesson
loan mortgage interest
ceo director president
price cost fee
buy bought purchase
appointment meeting
deadline due
server host hostname machine
password passphrase passcode code
repo repository
deploy deployment release ship rollout
language speak
name called nickname
gym exercise workout training
film movie
book novel read
instrument play
colour color
licence license
neighbour neighbor
illness disease condition diagnosis ill
medicine medication pill drug
bike bicycle cycle
commute train bus
weight weigh heavy kilo kilos kg
height tall cm measure
meal breakfast lunch dinner eat
wear size
anniversary wedding
bank account savings
landlord rent lease
start begin began started
finish end ended finished
own belong owner
lead maintain maintainer owner responsible
team club squad
flight fly airline
hotel stay
shop store supermarket
barber hairdresser haircut
glasses prescription
"""


def reworded(query: str) -> str:
    """A query with one word for what it says in several."""
    return _PHRASE.sub(lambda found: _PHRASES[found[0].lower()], query)


class Synonyms:
    """The groups, by the stems that an index makes of words."""

    def __init__(self, stems: Stems) -> None:
        self._stems = stems
        self._little = {" ".join(stems(word)) for word in LITTLE}
        self._others: dict[str, dict[str, None]] = {}
        for line in _GROUPS.split("\n"):
            group = {word: " ".join(stems(word)) for word in line.split()}
            for own in group.values():
                others = {word: None for word, stem in group.items() if stem != own}
                self._others.setdefault(own, {}).update(others)

    def weighed(self, query: Query) -> Query:
        """The query, in which words that say little count less, if others say more."""
        terms = [self._weighed(term) for term in query.terms]
        if all(term.weight == LITTLE_WEIGHT for term in terms):
            return query
        return replace(query, terms=tuple(terms))

    def _weighed(self, term: Term) -> Term:
        says_little = " ".join(self._stems(term.text)) in self._little
        return replace(term, weight=LITTLE_WEIGHT) if says_little else term

    def of(self, query: Query) -> dict[str, Term]:
        """What to look for besides the single words of a query, by word."""
        asked = {" ".join(self._stems(term.text)): term.text for term in query.terms}
        found: dict[str, Term] = {}
        for stem, text in asked.items():
            others = [word for word in self._others.get(stem, ()) if word not in asked]
            if others:
                match = f"({' OR '.join(others)})"
                found[text] = Term(match, f"{text}, or what means the same", SYNONYM_WEIGHT)
        return found
