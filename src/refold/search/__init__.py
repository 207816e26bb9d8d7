"""Search: full text, and vectors where there is an embedder, over everything that was ever said.

An index is derived from logs and can be thrown away; hits name events by conversation and seq.
README.md in this folder says in which order to read the modules.
"""
