"""A store in PostgreSQL, for a team: one database, many machines, one org per store.

`store` has the class, and is imported when a URL names it: it needs the extra `postgres`.
"""
