"""Models over HTTP: `chat` streams replies to an agent loop, `writer` puts summaries in words,
`embedder` makes vectors. `client` posts for all of them, `wires` has the providers' formats,
`model_names` says where a model is."""
