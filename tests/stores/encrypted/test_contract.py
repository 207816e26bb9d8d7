"""An encrypted far store is a store: it keeps the contract, but for what nobody there can know."""

from __future__ import annotations

import secrets
from pathlib import Path

import pytest

from refold.stores import Store, contract, open_store
from refold.stores.encrypted.keys import Key, Keys
from refold.stores.encrypted.store import EncryptedStore
from refold.stores.in_memory import MemoryStore

# Titles are encrypted, logs are repaired near, and a content is found by whoever put it or read the
# event that names it; two clauses open the place by its URL, and are not told of the key.
LEFT_OUT = {
    "the_newest_meta_event_with_a_title_names_the_conversation",
    "a_fork_has_the_title_its_log_had",
    "a_title_and_bookmarks_go_with_the_event_they_were_taken_from",
    "a_log_is_rewritten_whole_or_not_at_all",
    "a_rewritten_log_is_as_old_as_its_first_event",
    "a_rewritten_fork_keeps_its_parent_or_goes_without",
    "what_was_written_is_there_when_the_store_is_opened_again",
    "another_store_on_the_same_data_finds_what_was_put",
    "another_store_on_the_same_data_misses_what_was_dropped",
    "two_processes_on_one_log_lose_nothing",
    "random_steps_leave_what_a_plain_dictionary_would_hold",
}
CLAUSES = [clause for clause in contract.CLAUSES if contract.name(clause) not in LEFT_OUT]
KEYS = Keys(path="acme.key", keys=(Key(b"k" * 32),))


class Place:
    """A store of a kind, encrypted."""

    def __init__(self, root: Path, kind: str) -> None:
        folder = root / secrets.token_hex(4)
        self.url = f"{kind}:{folder}.db" if kind == "sqlite" else f"{kind}:{folder}"
        self.near = MemoryStore()

    def open(self) -> Store:
        return EncryptedStore(open_store(self.url), lambda: KEYS, near=self.near)


@pytest.mark.parametrize("clause", CLAUSES, ids=contract.name)
@pytest.mark.parametrize("kind", ["sqlite", "files"])
def test_the_encrypted_store_keeps_the_contract(
    kind: str, clause: contract.Clause, tmp_path: Path
) -> None:
    clause(lambda: Place(tmp_path, kind))


def test_what_is_left_out_of_the_contract_is_in_it() -> None:
    assert {contract.name(clause) for clause in contract.CLAUSES} >= LEFT_OUT
