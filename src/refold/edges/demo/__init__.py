"""A scripted agent's session, played through the usual strategies and through refold.

`session` makes the messages, `comparison` plays and asks; measured and billed by `refold.replay`.
"""
