"""One conversation's log: reading, appending, undoing, and the originals behind a handle."""
