"""The words by which `claim` reads a sentence. English; a sentence in another language claims only
itself, unless it has one of these signs: `=`, `:` and a number."""

from __future__ import annotations

_FILLERS = """
a an the that please note remember also just now currently today very really fyi back again
"""
_SELF = "i we me us my our you"
_IS = "is are was were equals"
# Verbs of which one thing at a time is true: with a preposition, or after `is`.
_SINGLE = """
live work run listen reside sit stay cost weigh report belong base locate host deploy name call own
maintain manage schedule plan
"""
# Verbs that say where something is, if a path or an address follows.
_PLACED = "go point write read store save mount lie"
# Verbs of what one person usually does; another may do it as well.
_AGENTS = "own lead maintain manage handle approve review"
_MANY = "use have prefer like want need require support contain keep set"
_PREPOSITIONS = "in at for on to by as from with"
# What has one value at a time: a subject that ends in one of these, or has one of those below.
_ATTRIBUTES = """
address age backend birthday branch budget capital city code color colour country currency database
date deadline default domain editor email employer endpoint extension folder format framework goal
headquarters height host hostname job key language level license licence limit locale location login
maximum minimum mode model name nickname number office password path phase phone platform port
price priority pronouns provider purpose rate region release repo repository role salary schedule
shell size stage state status street style theme threshold timeout timezone title url username value
vendor venue version wage website weight zone
"""
# What one person at a time is, if it is said of the one: "the lead", "our manager".
_ROLES = """
lead leader manager owner maintainer boss director president chair head admin contact reviewer
captain coach editor designer architect founder chief secretary treasurer ceo cto cfo coo
"""
_ONE_OF = "favourite favorite preferred default current main primary official latest next"
_DAYS_AND_MONTHS = """
monday tuesday wednesday thursday friday saturday sunday january february march april may june july
august september october november december
"""
# Words that stand for a value like a number does, besides those.
_STATES = """
true false on off yes no enabled disabled active inactive open closed public private allowed
forbidden optional mandatory green red up down online offline available unavailable
"""
_CURRENCIES = "euro dollar pound krona kronor franc yen rupee cent"
_NUMBER_WORDS = """
one two three four five six seven eight nine ten eleven twelve fifteen twenty thirty forty fifty
sixty seventy eighty ninety hundred thousand million
"""

# Words that tell of a change, and words of the phrases that do.
_CHANGE_WORDS = """
now nowadays anymore instead since again back today new newly off gone away replaced replaces
replacing switched switching swapped moved moving changed changes upgraded downgraded migrated
handed joined joins cancelled canceled retired retires sold left quit stopped dropped died ended
slipped postponed pushed rescheduled raised lowered reduced increased extended shortened cut started
promoted became become renamed lost broke traded abandoned discontinued resigned divorced
"""
_CHANGE_PHRASE_WORDS = "no any these as from starting beginning up down over"
# Words that say little of what a sentence is about.
_LITTLE = """
day time thing way kind sort lot bit get go take make give come put keep know tell think want look
find mean currently usually often again still right long exactly use have like need buy work do year
month week hour minute morning evening night today number name people good great big small percent
"""

FILLERS, SELF, IS = (frozenset(text.split()) for text in (_FILLERS, _SELF, _IS))
SINGLE, MANY = frozenset(_SINGLE.split()), frozenset(_MANY.split())
CURRENCIES = tuple(_CURRENCIES.split())
CHANGE_WORDS = frozenset(_CHANGE_WORDS.split())
CHANGE_PHRASE_WORDS = frozenset(_CHANGE_PHRASE_WORDS.split())
DAYS_AND_MONTHS, NUMBER_WORDS = tuple(_DAYS_AND_MONTHS.split()), tuple(_NUMBER_WORDS.split())
PREPOSITIONS, SHAPED = (
    frozenset(_PREPOSITIONS.split()),
    frozenset((_DAYS_AND_MONTHS + _STATES).split()),
)
PLACED, AGENTS = frozenset(_PLACED.split()), frozenset(_AGENTS.split())
ROLES, LITTLE = frozenset(_ROLES.split()), frozenset(_LITTLE.split())
ATTRIBUTES, ONE_OF = frozenset(_ATTRIBUTES.split()), frozenset(_ONE_OF.split())
IRREGULAR = {
    **dict.fromkeys(("has", "had", "have", "having"), "have"),
    **dict.fromkeys(("using", "used", "uses"), "use"),
    **dict.fromkeys(("running", "runs"), "run"),
    **dict.fromkeys(("goes", "going"), "go"),
    **dict.fromkeys(("colour", "colours"), "color"),
    "led": "lead",
    "favourite": "favorit",
    "licence": "licens",
    "grey": "gray",
    "centre": "center",
}
