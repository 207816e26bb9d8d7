"""The proxy behind a base URL: any agent, no change but where it calls.

Everything that comes goes to its provider as it came, and the answer comes back byte for byte as it
streams. What is a conversation is mirrored into the log (`observer`); with folding, only the list
of messages is swapped, and only once an edit is on the page (`page`). If anything of refold fails,
the request goes on as it came. The README beside this file says which module is which idea.
"""
