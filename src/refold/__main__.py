"""`python -m refold`: the same as `refold`, where no script of that name is on the path."""

from refold.edges.cli import main

if __name__ == "__main__":
    main()
