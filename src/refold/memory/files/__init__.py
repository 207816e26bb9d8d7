"""The memory tool: text files under a virtual `/memories`, for a model that must not leave it.

`files` is the tool. A path is parsed by `path`, walked by `descriptors`, changed by `tree` in a
`place`; `history` keeps every change and `versions` goes back to them. `command` has the arguments
and the definition, `text` the words.
"""
