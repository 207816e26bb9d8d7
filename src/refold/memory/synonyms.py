"""Words of everyday life that stand for each other in what is asked and what is remembered.

Who asks "who is my boss?" looks for "my manager is Helena". Vectors often know, but not always, and
not everybody has them. A group is looked for as a whole, at half the worth of the word itself.
English; stems are compared, so a word stands for all its forms. Neighbour: `finder` asks.
"""

from __future__ import annotations

from refold.search.words import Query, Stems, Term

SYNONYM_WEIGHT = 0.5
_GROUPS = """
boss manager supervisor superior
job work profession occupation employer career employed position role
salary pay wage income earn
live home address reside house apartment flat city town moved
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
weight weigh
height tall
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


class Synonyms:
    """The groups, by the stems that an index makes of words."""

    def __init__(self, stems: Stems) -> None:
        self._stems = stems
        self._others: dict[str, dict[str, None]] = {}
        for line in _GROUPS.split("\n"):
            group = {word: " ".join(stems(word)) for word in line.split()}
            for own in group.values():
                others = {word: None for word, stem in group.items() if stem != own}
                self._others.setdefault(own, {}).update(others)

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
