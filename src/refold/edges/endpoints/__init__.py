"""Models over HTTP: `writer` puts summaries in words, `embedder` makes vectors; `client` posts for
both, `wires` has the providers' formats."""
