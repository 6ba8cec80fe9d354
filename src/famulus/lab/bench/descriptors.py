"""File descriptors: how many a process of a crowd may have, and how many connections fit into them."""

from __future__ import annotations

import resource

#: A DEALER needs one for its connection, and one through which libzmq signals events.
PER_SOCKET = 2
#: Standard streams, epoll, libraries, the inner sockets of a broker.
RESERVE = 200
#: More are never asked for, even where the system sets no limit.
FILES_MAX = 1_048_576


def raise_limit() -> None:
    """Ask for all that the system lets us have without more privileges."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard_limit(), resource.getrlimit(resource.RLIMIT_NOFILE)[1]))


def hard_limit() -> int:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return FILES_MAX if hard == resource.RLIM_INFINITY else min(hard, FILES_MAX)


def sockets_that_fit(limit: int) -> int:
    """In one process of a crowd."""
    return max(1, (limit - RESERVE) // PER_SOCKET)


def connections_that_fit(limit: int) -> int:
    """At one broker, where a connection is one descriptor."""
    return max(1, limit - RESERVE)
