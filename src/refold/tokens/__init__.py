"""Text → tokens, models → limits and prices. No file or package is read before its first use.

`estimate` is the counter without dependencies, `exact` has a model's own vocabulary; `counter`
counts messages, system prompts and tools with either, and chooses between them; `media` has the
rules for images, documents and sound; `models` is the table of windows and prices.
"""
