"""A far store that cannot read its own content: `hybrid:NEAR?far=FAR&key=FILE`.

`keys` has the key file and encrypts bytes, `encrypted_event` events and artifacts; `store` is the
store, `key_rotation` encrypts with a newer key. Needs the package cryptography
(`refold[encrypted]`), imported late.
"""
