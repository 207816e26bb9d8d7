"""The team server: a store behind HTTP, for people and agents of an organization.

It keeps no state of its own: everything is in the store, so any number of servers can stand behind
one address. A route is a value (`route`), so that the table of routes, the rules of who may call
what, and the OpenAPI document cannot differ. What clients write is theirs, byte for byte: the
server checks that it continues the log, and never folds it on the way of an append.
"""
