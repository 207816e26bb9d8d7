"""A far store that can read nothing of what it keeps: `hybrid:NEAR?far=FAR&key=FILE`.

`keys` is the key file, `cipher` encrypts bytes, `event` events, `content` artifacts; `store` is the
store that does both ways. Needs the package cryptography (`refold[encrypted]`), imported late.
"""
