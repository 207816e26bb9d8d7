"""The proxy behind a base URL: any agent, with no change but its address.

Every request goes to its provider as it came, and the answer comes back byte for byte as it
streams. Conversations are mirrored into the log (`observer`); with folding, only the list of
messages is replaced, and only once an edit is on the page (`page`). If anything in refold fails,
the request is sent as it came. The README beside this file lists the modules.
"""
