"""Arrays in binary come back as they were sent, whatever they hold, also behind a pooler."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from refold.stores.postgres import connections
from refold.stores.postgres.connections import byte_array, number_array
from tests.real.postgres.cluster import Bouncer, Server

NUMBERS = st.integers(-(2**63), 2**63 - 1)
ASK = "SELECT %(bytes)s::bytea[], %(numbers)s::bigint[]"
QUIET = settings(
    max_examples=50,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@pytest.fixture(scope="module", params=["direct", "behind a pooler"])
def connection(request, server: Server, bouncer: Bouncer):
    url = (server if request.param == "direct" else bouncer).url
    with connections.connected(url, "acme") as one:
        yield one


@given(texts=st.lists(st.binary(max_size=300)), numbers=st.lists(NUMBERS))
@QUIET
def test_what_is_sent_comes_back(connection, texts: list[bytes], numbers: list[int]) -> None:
    values = {"bytes": byte_array(texts), "numbers": number_array(numbers)}
    assert connection.execute(ASK, values, binary=True).fetchone() == (texts, numbers)


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 2**200])
def test_a_number_of_more_bits_is_refused(number: int) -> None:
    with pytest.raises(OverflowError):
        number_array([1, number])


def test_a_large_array_comes_back(connection) -> None:
    texts = [bytes([n % 256]) * n for n in range(2_000)]
    values = {"bytes": byte_array(texts), "numbers": number_array(range(10_000))}
    assert connection.execute(ASK, values).fetchone() == (texts, list(range(10_000)))
