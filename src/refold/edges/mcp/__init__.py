"""The server of tools for agents of others, over the Model Context Protocol: `refold mcp`.

`answers` is what can be asked of a store, each answer a text of bounded size; `server` offers it by
the official SDK; `http` guards the port. Stores are opened for reading; only what changes a memory
opens one for writing. Needs the extra `mcp`, which nothing else imports.
"""
