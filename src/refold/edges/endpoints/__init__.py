"""Models behind an address: the writer over the providers' wires, and the embedder that comes in
a package."""
