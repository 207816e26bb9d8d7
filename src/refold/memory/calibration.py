"""How near is near enough, measured: every embedder spreads its cosines in its own way.

Each question below asks for one of the facts, in other words. What it reaches with all the others
is noise: so much do sentences of an embedder resemble each other that have nothing in common. The
threshold stands so far above the noise that 19 of 20 questions without an answer find nothing among
some hundred facts. It is measured once for each embedder and kept in the index. Neighbours:
`finder` asks, `docs/guides/memory.md` has the table.
"""

from __future__ import annotations

from statistics import fmean, pstdev

from refold.search.embedders import Embedder
from refold.search.numbers import numbers

NOISE_DEVIATIONS = 3.3
LEAST, MOST = 0.05, 0.95
# What is near enough for an embedder that has one vector, or none, for all of these sentences: it
# knows other texts, and nothing can be measured.
USUAL, TOLD_APART = 0.7, 1e-6
PAIRS = (
    ("My manager is Helena Prata", "Who is my boss?"),
    ("We keep two ginger kittens", "Which pets do we have?"),
    ("The staging database listens on port 6432", "How do I connect to postgres?"),
    ("Walnuts give me a rash", "What must I not eat?"),
    ("The rent went up to 1,080 euros", "How expensive is our flat?"),
    ("Deployments are frozen over Christmas", "When may we not release?"),
    ("Tomas plays the cello on Thursdays", "Which instrument does he practise?"),
    ("Ana moved to Porto in September", "In which city does she live?"),
    ("Logs are kept for ninety days", "How long is the retention?"),
    ("The passport runs out in November", "When do I need new travel papers?"),
    ("Pull requests need two reviewers", "How many people must approve a change?"),
    ("I take the tram at seven", "How do I get to work?"),
    ("Grandma turns eighty in May", "When is her birthday?"),
    ("The garden gate sticks when it rains", "What needs to be repaired outside?"),
    ("Our mascot is a purple octopus", "What is the symbol of the team?"),
    ("He earned a degree in chemistry", "What did he study?"),
    ("Backups run every night at three", "When is the data copied?"),
    ("The spare key lies under the fern", "How can a guest get in?"),
    ("Tests are written before the code", "Which order do we work in?"),
    ("She swims a mile each morning", "What sport does she do?"),
)


def measured(embedder: Embedder) -> float:
    """The least cosine that means something, by the embedder itself; raises what it raises."""
    arithmetic = numbers()
    texts = [fact for fact, _ in PAIRS] + [question for _, question in PAIRS]
    rows = [
        arithmetic.unit_sum([row], [1.0]) for row in arithmetic.rows(embedder(texts), len(texts))
    ]
    facts, questions = rows[: len(PAIRS)], rows[len(PAIRS) :]
    noise = [
        sum(map(float.__mul__, map(float, one), map(float, other)))
        for at, one in enumerate(questions)
        for where, other in enumerate(facts)
        if at != where and one is not None and other is not None
    ]
    if not noise or max(noise) - min(noise) < TOLD_APART:
        return USUAL
    return min(MOST, max(LEAST, fmean(noise) + NOISE_DEVIATIONS * pstdev(noise)))
