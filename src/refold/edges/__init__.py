"""The edges: where the world comes in. Each room here turns something outside (a terminal, a
file of another tool, a request) into calls of the engine, and what the engine says into
something outside. Nothing imports an edge.
"""
