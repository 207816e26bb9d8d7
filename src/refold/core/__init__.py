"""The pure core: values, codec, fold, laws, budget and plan. No clock, file, socket, randomness or
environment."""
