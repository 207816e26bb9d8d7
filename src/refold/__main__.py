"""`python -E -P -m refold`: the same as `refold`, for systems without that script on the path.
Without `-P`, Python itself imports from the current folder before it comes here; without `-E`, from
`PYTHONPATH`."""

from refold.edges.cli import main

if __name__ == "__main__":
    main()
