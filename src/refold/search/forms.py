"""Forms of a word that no stemmer brings together: `meet` and `met`, `child` and `children`.

A question is asked in one tense and answered in another, so a query looks for all forms at once.
Forms that are more often another word (`bit`, `wound`) and verbs that say nothing (`have`, `do`)
are left out. A capital may be a name (`Rose`), so only words in small letters have forms.
Neighbours: `words` asks.
"""

from __future__ import annotations

_IRREGULAR = """
become became, begin began begun, bend bent, blow blew blown, break broke broken, bring brought,
build built, burn burnt, buy bought, catch caught, choose chose chosen, come came, creep crept, deal
dealt, dig dug, draw drew drawn, dream dreamt, drink drank drunk, drive drove driven, eat ate eaten,
fall fell fallen, feed fed, feel felt, fight fought, find found, fly flew flown, forget forgot
forgotten, forgive forgave forgiven, freeze froze frozen, get got gotten, give gave given, go went
gone, grow grew grown, hang hung, hear heard, hide hid hidden, hold held, keep kept, know knew
known, lay laid, lead led, learn learnt, leave left, lend lent, light lit, lose lost, make made,
mean meant, meet met, pay paid, ride rode ridden, ring rang rung, rise rose risen, run ran, say
said, see saw seen, seek sought, sell sold, send sent, shake shook shaken, shine shone, shoot shot,
show shown, sing sang sung, sink sank sunk, sit sat, sleep slept, speak spoke spoken, spend spent,
spin spun, stand stood, steal stole stolen, stick stuck, strike struck, swim swam swum, swing swung,
take took taken, teach taught, tear tore torn, tell told, think thought, throw threw thrown,
understand understood, wake woke woken, wear wore worn, weave wove woven, win won, write wrote
written, child children, foot feet, man men, mouse mice, tooth teeth, woman women
"""
_FORMS = {form: tuple(group.split()) for group in _IRREGULAR.split(",") for form in group.split()}


def forms_of(word: str) -> tuple[str, ...]:
    """All forms of a word, the plain one first; a word that has no others alone."""
    return _FORMS.get(word, (word,))
