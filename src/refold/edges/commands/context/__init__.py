"""`refold context` and `/context`: what a conversation holds, by the names that the chat programs
before us gave these commands.

Those that mean the same as another command are that command (`context stats` is `stats`); the
modules here are those that are more. Neighbours: `edges/displays` has the texts and pictures,
`edges/workspace` the folder that files are added from.
"""
