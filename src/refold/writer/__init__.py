"""A model that writes summaries: its questions, its input, and the rules for its answers."""
