"""One conversation's log, open: read, appended to, gone back in."""
