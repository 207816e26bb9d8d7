"""The server of tools for other agents, over the Model Context Protocol: `refold mcp`.

`answers` has the questions that a store can answer, each with text of bounded size; `server` offers
them through the official SDK and guards the port. Stores are opened for reading; only changes of a
memory open one for writing. Needs the extra `mcp`, which nothing else imports.
"""
