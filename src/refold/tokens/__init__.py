"""Text → tokens, models → limits and prices. Nothing here reads a file or a package before it is asked.

`estimate` is the counter without dependencies, `counter` counts messages, media, system prompts and tools with any
counter, `models` is the table of windows and prices.
"""
