"""`python -m refold`: the same as `refold`, for systems without that script on the path."""

from refold.edges.cli import main

if __name__ == "__main__":
    main()
