"""Whether a sentence can be the answer to a question, by its form: who asks `when` wants a time.

A question that begins with a question word asks for a kind of value: a person, a time, a number, a
reason. A sentence that holds one is the likelier answer, and so is one of the speaker's own
(`my`, `we`) if the question is about the speaker. Both only raise the rank of what was found
anyway, by a little. English; a question in another language raises nothing. Neighbour: `recall`.
"""

from __future__ import annotations

import re

from refold.memory.vocabulary import DAYS_AND_MONTHS, NUMBER_WORDS

KIND_BONUS, OWN_BONUS = 0.15, 0.1
_TIMES = (
    r"\d{1,2}:\d\d|(?:19|20)\d\d|noon|midnight|weekends?|every (?:day|week|month|year)|daily|weekly"
    r"|monthly|yearly|spring|summer|autumn|winter|mornings?|evenings?|afternoons?|nights?"
)
# What a question asks for, and what holds it. The first that fits counts.
_KINDS = (
    (
        re.compile(r"\bwho(?:m|se)?\b", re.IGNORECASE),
        # A name: a capital inside the sentence, or two words with one at its beginning.
        re.compile(r"(?<=[\w,;] )(?!I\b)[A-ZÀ-Þ]\w*|^[A-ZÀ-Þ]\w+ [A-ZÀ-Þ]\w+|\b(?:Mr|Mrs|Ms|Dr)\b"),
    ),
    (
        re.compile(
            r"\b(?:when|what time"
            r"|(?:which|what) (?:weekday|day|evening|morning|month|year|date))\b",
            re.IGNORECASE,
        ),
        re.compile(rf"\b(?:(?:{'|'.join(DAYS_AND_MONTHS)})s?|{_TIMES})\b", re.IGNORECASE),
    ),
    (
        re.compile(r"\bwhy\b", re.IGNORECASE),
        re.compile(r"\b(?:because|since|so that|due to|reason)\b", re.IGNORECASE),
    ),
    (
        re.compile(
            r"\bhow (?:much|many|long|tall|heavy|old|deep|big|high|far|fast|often|expensive)\b"
            r"|\b(?:number|port|size|version|temperature|cost|price|pay)\b",
            re.IGNORECASE,
        ),
        re.compile(rf"\d|\b(?:{'|'.join(NUMBER_WORDS)})\b", re.IGNORECASE),
    ),
)
_ASKS = re.compile(
    r"^\s*(?:who|what|when|where|why|which|how|do|does|did|is|are|was|were|am|can|could|should|will"
    r"|would|have|has|had|may|must)(?:m|se|['’]s)?\b|\?\s*$",
    re.IGNORECASE,
)
_MINE = re.compile(r"\b(?:i|my|me|mine)\b", re.IGNORECASE)
_OURS = re.compile(r"\b(?:we|our|us|ours)\b", re.IGNORECASE)


class Fitness:
    """What a question wants of its answer."""

    def __init__(self, question: str) -> None:
        held = (held for asked, held in _KINDS if asked.search(question))
        self._held = next(held, None)
        self.is_question = bool(_ASKS.search(question))
        self._is_mine = bool(_MINE.search(question))
        self._is_ours = bool(_OURS.search(question))

    def is_kind(self, content: str) -> bool:
        """Whether a sentence holds what is asked for, if that is known."""
        return bool(self._held and self._held.search(content))

    def of(self, content: str) -> float:
        """By what factor the rank of a sentence counts."""
        return 1.0 + KIND_BONUS * self.is_kind(content) + OWN_BONUS * self._is_own(content)

    def _is_own(self, content: str) -> bool:
        """Whether the speaker is spoken of, as in the question; one of us is me."""
        if self._is_mine:
            return bool(_MINE.search(content))
        return self._is_ours and bool(_OURS.search(content) or _MINE.search(content))
