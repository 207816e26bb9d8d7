"""The web view of a store: `refold ui`.

`serve` runs it on this machine, `app` answers the calls that `access` admits, `answers` has the
values of each route: `overview` all sessions, `conversation` one of them, `transcript` what its
messages are, `readable` their texts. `static` has the page, as plain ES modules.
"""
