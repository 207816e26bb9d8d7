"""The memory tool: text files under a virtual `/memories`, for a model that must not leave it.

`files` is the tool. `commands` has arguments, the definition, paths and text; `descriptors` walks a
path on the disk, `tree` makes changes and keeps their history, `versions` goes back in it.
"""
