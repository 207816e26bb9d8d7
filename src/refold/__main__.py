"""`python -P -m refold`: the same as `refold`, for systems without that script on the path. Without
`-P`, Python itself imports from the current folder before it comes here."""

from refold.edges.cli import main

if __name__ == "__main__":
    main()
