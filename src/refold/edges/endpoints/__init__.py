"""Models over HTTP: `chat` streams replies to an agent loop, `writer` puts summaries in words,
`embedder` computes vectors. `client` posts for all of them, `model_names` finds a model's
address."""
