"""What `refold memory` does at the command line."""

from __future__ import annotations

import pytest

from refold.edges.cli.app import outcome

pytestmark = pytest.mark.usefixtures("alone")


@pytest.mark.parametrize("scheme", ["sqlite:{}/new.db", "files:{}/new"])
def test_the_store_is_made_by_what_writes_and_missed_by_what_reads(scheme, tmp_path, capsys):
    url = scheme.format(tmp_path)
    assert outcome(["memory", "list", "--store", url]) == 3
    assert outcome(["memory", "add", "The port is 8443.", "--store", url]) == 0
    assert outcome(["memory", "list", "--store", url]) == 0
    assert "The port is 8443." in capsys.readouterr().out
