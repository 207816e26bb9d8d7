"""What a person sees of a conversation: sentences, boxes and pictures of the window.

Every module turns a value into lines of text and prints nothing, so the same lines stand in the
shell, in a chat, in a status line and in the guide. `phrases`, `box`, `overview`, `usage` and
`happening` are plain texts; `bar`, `sparkline` and `panel` are for a terminal that draws; `wrap`,
`flow` and `styled` break lines between words. Neighbours: `edges/commands` asks for them and prints
them on its screen, which makes all content harmless.
"""
