"""The edges: where the world comes in. Nothing imports an edge.

`commands` is what can be asked for, `cli` offers it in a shell, `demo` is a session to watch, and
`endpoints` asks models over HTTP. `adapters` puts refold into agent frameworks, and `mcp` offers it
to other agents.
"""
