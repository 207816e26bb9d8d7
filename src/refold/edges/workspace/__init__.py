"""The folder that a person works in: which of its files are looked at, and where it ends.

`place` says whether a path lies inside, `ignored` what git leaves out, `files` walks, and `match`
looks for a text. All of them are bounded, and none follows a link out of the folder.
"""
