"""The edges: refold's interfaces to users, agents, models and networks. No other room imports them.

`cli` runs the `commands` in a shell, `chat` is an agent, `demo` a session to watch; `displays`
formats output. `proxy`, `hooks`, `mcp` and `adapters` serve other agents, `importers` reads their
sessions. `server` is the team server, and `endpoints` calls models over HTTP.
"""
