"""Sources of settings: files, the environment, and blocks of other designs."""
