"""The team server: a store behind HTTP, for the people and agents of an organization.

It keeps no state of its own: everything is in the store, so any number of servers can share one
address. A route is a value (`route`), so that the table of routes, the permissions, and the OpenAPI
document always agree. Clients' events are stored byte for byte: the server verifies that they
continue the log, and never folds during an append.
"""
