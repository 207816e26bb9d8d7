"""`refold hook`: refold in the hooks of other agents."""
