"""What connections are called: each by a name of its own, for as long as there is anybody to confuse it with."""

from __future__ import annotations

from famulus.core.dispatch.bounds import Bounds
from famulus.core.dispatch.decisions import _token_of
from famulus.core.dispatch.dispatcher import Dispatcher
from famulus.core.dispatch.strangers import name_of_connection, readable, unique_part
from famulus.wire.limits import TOKEN_CHARS_MAX

#: As long as an address gets.
FAR_AWAY = "[2001:0db8:1234:5678:9abc:def0:1234:5678]:65535"


def test_people_read_where_a_stranger_comes_from_and_who_a_worker_says_it_is() -> None:
    assert readable(name_of_connection(1, bytes(8), FAR_AWAY)) == FAR_AWAY
    assert readable(b"worker-1") == "worker-1"


def test_the_same_place_and_the_same_chance_make_no_name_again() -> None:
    names = [name_of_connection(number, bytes(8), "10.0.0.7:5001") for number in (1, 2, 256, 1 << 40)]
    assert len({unique_part(name) for name in names}) == 4


def test_what_a_client_without_a_token_is_known_by_fits_into_a_header_however_long_its_address_is() -> None:
    """It goes to other brokers with its tasks, and they would refuse a longer one."""
    core = Dispatcher(Bounds(), 0, [], secret="5" * 32)
    near, far = (_token_of(core, name_of_connection(7, bytes(8), place)) for place in ("10.0.0.7:1", FAR_AWAY))
    assert near == far
    assert len(far) <= TOKEN_CHARS_MAX
