"""Adapters: refold as the context manager of agent frameworks.

One module per framework, named after it, each small because `Context.mirror`, `page` and `note` do
the work. A module imports its framework; nothing else here does, and no adapter knows another.
Neighbour: `guest` has the parts shared by adapters whose framework owns the history.
"""
