"""Replay: plays a session again, turn by turn, through refold and through other policies in use
today.

All policies see the same messages in step and return a prompt before each turn of the assistant;
requests, cost, and names kept and lost are counted in the same way for all. `bench.fidelity` runs
the same measure over many sessions. Neighbours: `engine` plays refold's part, `edges` shows the
result.
"""
