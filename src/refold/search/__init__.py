"""Search over everything that was ever said: full text, and vectors if there is an embedder.

An index is derived from logs and can be thrown away; hits name events by conversation and seq.
README.md in this folder gives the order in which to read the modules.
"""
