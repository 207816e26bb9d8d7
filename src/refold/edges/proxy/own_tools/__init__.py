"""refold's own tools, answered inside the proxy: the model calls them, and the client never sees
it.

They are in every request of a conversation from its first on (`tools`). An answer that calls only
them is followed by another request with their results (`rounds`); the client gets one answer for
all rounds (`events`, and a module for each dialect), and the log keeps all of them. So the next
request, made from the log, begins with the very messages that the provider has seen. Neighbours:
`observer` keeps and answers, `app` relays.
"""
