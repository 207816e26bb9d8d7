"""Other programs that refold is put into: where they are set up, and how that is changed.

Neighbours: `edges/mcp` is the server that they are told of, `edges/hooks` answers them.
"""
