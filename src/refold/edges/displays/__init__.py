"""A conversation for a person: sentences, boxes and pictures of the window.

Every module turns a value into lines of text and prints nothing, so the shell, a chat, a status
line and the guide have the same lines. `phrases` and `overview` are plain text, `panel` is for a
terminal that draws, `browser` is an HTML page, `wrap` breaks lines between words. Neighbours:
`edges/commands` prints the lines on its screen, which makes all content harmless.
"""
