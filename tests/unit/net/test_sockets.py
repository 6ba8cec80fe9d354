"""Options whose defaults would hurt: what a connection does in a network that swallows everything, and after it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import zmq

from famulus.net import sockets


@pytest.fixture
def context() -> Iterator[sockets.Context]:
    context = sockets.new_context()
    yield context
    context.destroy(linger=0)


@pytest.mark.parametrize(
    "make",
    [
        lambda context: sockets.outside_dealer(context, heartbeats=False),
        sockets.peer_dealer,
        lambda context: sockets.outside_sub(context, 1000),
    ],
)
def test_a_connection_into_nothing_is_soon_begun_anew(
    context: sockets.Context, make: Callable[[sockets.Context], sockets.Socket]
) -> None:
    """The system would ask again after 1, 3, 7, 15 and more seconds, however soon the network has healed."""
    with make(context) as socket:
        assert socket.getsockopt(zmq.CONNECT_TIMEOUT) == sockets.CONNECT_TIMEOUT_MS == 1000


@pytest.mark.parametrize("make", [sockets.peer_dealer, lambda context: sockets.outside_sub(context, 1000)])
def test_a_peer_that_says_nothing_is_given_up_when_it_counts_as_lost_and_then_tried_often(
    context: sockets.Context, make: Callable[[sockets.Context], sockets.Socket]
) -> None:
    with make(context) as socket:
        assert socket.getsockopt(zmq.HEARTBEAT_TIMEOUT) == 3000
        assert socket.getsockopt(zmq.RECONNECT_IVL_MAX) == 500
