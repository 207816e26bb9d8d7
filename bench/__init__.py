"""What refold is worth, measured: speed against a hand-written floor, fidelity against what people use today.

`python -m bench` prints the tables and writes them to `bench/RESULTS.md`. Every figure is a ratio or a share within one
run; absolute times are CPU times of the process. Data folders come from the command line or `REFOLD_BENCH_DATA`.
"""
