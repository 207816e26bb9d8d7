"""`python -m refold`: the command `refold`, by the interpreter that is named. Neighbour:
`edges.cli`."""

from refold.edges.cli import main

main()
