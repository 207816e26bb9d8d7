"""Search: full text, and vectors where there is an embedder, over everything that was ever said.

An index is derived from logs and can be thrown away: events and artifact texts are handed in, hits
name them by conversation and seq. `documents` says what of an event is searched, `words` how text
becomes terms, `database` keeps the file, `index` the rows, `finding` looks for matches, `rank`
orders them, `vectors` adds meaning, `snippets` shows why. Neighbours above: `refold.indexing`
brings the events, `refold.searching` asks.
"""
