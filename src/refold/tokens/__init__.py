"""Text → tokens, models → limits and prices. Nothing here reads a file or a package before it is
asked.

`estimate` is the counter without dependencies, `exact` the one with a model's own vocabulary,
`choice` decides between them. `counter` counts messages, media, system prompts and tools with any
counter; `framing`, `media`, `images` and `schemas` know how each provider counts what is not text.
`models` is the table of windows and prices.
"""
