"""Context: one conversation held open, where the rooms meet."""
