"""What kind of text an output is, and which of its lines tell most: one module per kind."""
