"""refold's own tools, answered inside the proxy: the model calls them, the client never sees it.

They stand in every request of a conversation from its first on (`tools`). An answer that calls only
them is followed by another request with what they gave (`rounds`); the client is handed one answer
out of all of these (`seen`, and a module for each dialect), and the log keeps what was really said
in the place of that one answer. So the next request, made from the log, begins with the very
messages that the provider has seen. Neighbours: `observer` keeps and asks, `app` relays.
"""
