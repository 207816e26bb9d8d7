"""Where settings come from: files, the environment, and the Magenta block."""
