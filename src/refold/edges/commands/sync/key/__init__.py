"""The commands of the keys by which what goes to a far store is encrypted."""
