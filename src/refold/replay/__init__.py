"""Replay: a session played again, turn by turn, through refold and through what people use today.

All policies see the same messages in step and give a prompt before each turn of the assistant; what
was sent, billed, kept and lost is counted for all of them in the same way. `bench.fidelity` runs
the same measure over many sessions. Neighbours: `engine` is what is played through, `edges` shows
it.
"""
