"""The web view of a store: `refold ui`.

`app` runs it on this machine and answers the calls that `access` admits, `answers` has the values
of each route: `overview` all sessions, `conversation` one of them, `transcript` what its messages
are, `readable` their texts; `acts` changes a page. `static` has the page, as plain ES modules.
"""
