"""Replay: a session played again, turn by turn, through refold and through other policies in use
today.

All policies see the same messages in step and give a prompt before each turn of the assistant;
requests, cost, kept and lost names are counted in the same way for all. `bench.fidelity` runs the
same measure over many sessions. Neighbours: `engine` is played through, `edges` shows the result.
"""
